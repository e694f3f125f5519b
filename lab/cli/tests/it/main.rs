//! Tests of the lab as its users see it: the binary, its exit status, its one-line errors and its
//! folder, against a small fake server.
//!
//! The fake (test code only) answers the few commands that the lab sends and can lose documents,
//! refuse or die on purpose.

// Tests print for readers of their output.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod agent;
mod complaints;
mod disk;
mod documented;
mod fake;
mod features;
mod frozen;
mod history;
mod interrupted;
mod lies;
mod load;
mod map;
mod pages;
mod proxy;
mod reading;
mod replay;
mod runs;
mod searches;
mod servers;
mod smoke;
mod stopped;
mod sweeps;
mod watched;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lab_kit::result::RunResult;

/// One finished run of the binary.
struct FinishedRun {
    output: Output,
    out: tempfile::TempDir,
}

impl FinishedRun {
    fn status(&self) -> Option<i32> {
        self.output.status.code()
    }

    fn complaint(&self) -> String {
        let text = String::from_utf8_lossy(&self.output.stderr);
        text.lines()
            .filter(|line| line.starts_with("quarry-lab: "))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn folder(&self) -> PathBuf {
        let mut folders: Vec<PathBuf> = std::fs::read_dir(self.out.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(
            folders.len(),
            1,
            "{folders:?} {}",
            String::from_utf8_lossy(&self.output.stderr)
        );
        folders.remove(0)
    }

    fn result(&self) -> RunResult {
        lab_kit::folder::read_result(&self.folder()).unwrap()
    }
}

fn lab(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quarry-lab"))
        .args(words)
        .output()
        .unwrap()
}

fn run(workload: &str, target: &str, more: &[&str]) -> FinishedRun {
    let out = tempfile::tempdir().unwrap();
    let output = run_into(out.path(), workload, target, more);
    FinishedRun { output, out }
}

fn run_into(out: &Path, workload: &str, target: &str, more: &[&str]) -> Output {
    let mut words = vec![
        "run",
        workload,
        "--target",
        target,
        "--out",
        out.to_str().unwrap(),
    ];
    words.extend(more);
    lab(&words)
}
