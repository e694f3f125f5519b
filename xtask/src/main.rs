//! Chores of the repository. `tidy` checks rules that the compiler does not: imports between
//! crates, file heads, sizes, forbidden words.
//!
//! Knows the repository's layout, but not what the crates do.

mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- tidy | limits | cycles | tuples

tidy    checks the repository; status 1 when something is to be mended
limits  prints what xtask/limits.txt would be, were all there is allowed
cycles  prints the files and folders that import each other, and what each imports of the others
tuples  prints the functions that take tuples";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["tidy"] => run_tidy(),
        ["limits"] => print(|measured| measured.as_limits()),
        ["cycles"] => print(|measured| measured.cycles()),
        ["tuples"] => print(|measured| measured.tuple_takers()),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The checkout in which `cargo run` was called: build output may be shared with other clones.
fn root() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    Path::new(&own).parent().unwrap_or(Path::new(".")).into()
}

fn print(what: impl Fn(&tidy::Measured) -> String) -> ExitCode {
    match tidy::check(&root()) {
        Ok(summary) => {
            print!("{}", what(&summary.measured));
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("tidy: could not look: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run_tidy() -> ExitCode {
    match tidy::check(&root()) {
        Ok(summary) if summary.findings.is_empty() => {
            println!(
                "tidy: {} crates, {} files: nothing to complain about; {}",
                summary.crates, summary.files, summary.measured
            );
            ExitCode::SUCCESS
        }
        Ok(summary) => {
            for finding in &summary.findings {
                println!("{finding}");
            }
            println!("tidy: {} findings", summary.findings.len());
            ExitCode::FAILURE
        }
        Err(reason) => {
            eprintln!("tidy: could not look: {reason}");
            ExitCode::FAILURE
        }
    }
}
