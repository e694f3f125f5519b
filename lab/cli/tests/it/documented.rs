//! The commands of the documents, as they stand there: a shell takes each, and the lab takes all of
//! its words. Commands that read results are run on results that two runs left.

use std::path::Path;
use std::process::{Command, Output};

use crate::fake::{Fake, Faults};
use crate::run_into;

/// The documents of the lab, and others that name it.
const PAGES: [(&str, &str); 10] = [
    ("lab.md", include_str!("../../../../docs/lab.md")),
    ("files.md", include_str!("../../../../docs/lab/files.md")),
    ("how-to.md", include_str!("../../../../docs/lab/how-to.md")),
    (
        "judging.md",
        include_str!("../../../../docs/lab/judging.md"),
    ),
    ("map.md", include_str!("../../../../docs/lab/map.md")),
    ("method.md", include_str!("../../../../docs/lab/method.md")),
    (
        "recordings.md",
        include_str!("../../../../docs/lab/recordings.md"),
    ),
    (
        "targets.md",
        include_str!("../../../../docs/lab/targets.md"),
    ),
    (
        "workloads.md",
        include_str!("../../../../docs/lab/workloads.md"),
    ),
    ("README.md", include_str!("../../../../README.md")),
];

/// The lines of a page's blocks of code that call the lab, each whole and without its comment.
fn commands(page: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let (mut is_code, mut goes_on) = (false, false);
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
            continue;
        }
        let indented = line.starts_with("    ");
        if !is_code && !indented {
            continue;
        }
        let line = line.trim();
        let line = line.strip_prefix("target/release/").unwrap_or(line);
        let is_begun = line.starts_with("quarry-lab ");
        if !is_begun && !goes_on {
            continue;
        }
        let line = line.split(" #").next().unwrap_or_default();
        let line = line.trim().trim_end_matches('&').trim();
        let part = line.trim_end_matches('\\').trim();
        match out.last_mut().filter(|_| goes_on) {
            Some(last) => *last = format!("{last} {part}"),
            None => out.push(part.to_owned()),
        }
        goes_on = line.ends_with('\\');
    }
    out
}

/// Runs a line of a shell in a directory where the lab is found.
fn shell(line: &str, directory: &Path) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_quarry-lab"));
    let folder = program.parent().unwrap().display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    Command::new("sh")
        .args(["-c", line])
        .env("PATH", format!("{folder}:{path}"))
        .current_dir(directory)
        .output()
        .unwrap()
}

/// What the documents take for granted: files of the user's, and servers for `A` and `B`.
fn workplace() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let example = include_str!("../../../examples/01-orders.toml");
    std::fs::write(directory.path().join("mine.toml"), example).unwrap();
    std::fs::write(directory.path().join("token"), "a token of the test\n").unwrap();
    directory
}

fn filled_in(command: &str) -> String {
    let words = command.split(' ').map(|word| match word {
        "A" => "redb:data/a".to_owned(),
        "B" => "fjall:data/b".to_owned(),
        other => other.replace(":PORT", ":3306"),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_lab_takes_each_command_as_it_stands() {
    let mut count = 0;
    for (name, page) in PAGES {
        for command in commands(page) {
            count += 1;
            let directory = workplace();
            let kind = command.split(' ').nth(1).unwrap_or_default();
            // A plan reads all words and begins nothing; the help reads them as far as they are.
            let end = if kind == "run" { "--plan" } else { "--help" };
            let output = shell(&format!("{} {end}", filled_in(&command)), directory.path());
            let complaint = String::from_utf8_lossy(&output.stderr);
            let status = output.status.code();
            assert_eq!(status, Some(0), "{name}: {command}: {complaint}");
            assert!(!output.stdout.is_empty(), "{name}: {command}");
        }
    }
    assert!(count >= 50, "{count} commands");
}

/// The commands that read results, run as they stand on results at the smallest size.
#[test]
fn commands_that_read_results_do_so() {
    let fake = Fake::start(Faults::default());
    let directory = workplace();
    let results = directory.path().join("results");
    let more = ["--rows", "100", "--warmup-seconds", "0", "--seconds", "1"];
    for name in ["A", "B", "old", "new"] {
        let ended = run_into(&results.join("made"), "hot", &fake.uri(), &more);
        let complaint = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(0), "{complaint}");
        let made = std::fs::read_dir(results.join("made")).unwrap();
        let folder = made.flatten().next().unwrap().path();
        std::fs::rename(folder, results.join(name)).unwrap();
    }
    std::fs::remove_dir(results.join("made")).unwrap();
    let mut done = Vec::new();
    for (name, page) in PAGES {
        for command in commands(page) {
            let words: Vec<&str> = command.split(' ').collect();
            let reads = ["list", "report", "compare", "history"].contains(&words[1])
                || words.contains(&"--list");
            if !reads || words[1] == "replay" {
                continue;
            }
            let command = command.replace("results/RUN", "results/A");
            let output = shell(&command, directory.path());
            let complaint = String::from_utf8_lossy(&output.stderr);
            let status = output.status.code();
            assert_eq!(status, Some(0), "{name}: {command}: {complaint}");
            done.push(words[1].to_owned());
        }
    }
    for kind in ["list", "report", "compare", "history", "claims"] {
        assert!(done.iter().any(|one| one == kind), "{kind}: {done:?}");
    }
}
