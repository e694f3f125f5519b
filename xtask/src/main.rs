//! Chores of the repository. `tidy` checks what the compiler cannot: imports between rooms, file
//! heads, sizes, forbidden words.
//!
//! Knows the repository's layout and nothing of what the crates do.

mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- tidy";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["tidy"] => run_tidy(),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run_tidy() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."));
    match tidy::check(root) {
        Ok(summary) if summary.findings.is_empty() => {
            println!(
                "tidy: {} crates, {} files: nothing to complain about",
                summary.crates, summary.files
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
