//! The commands of the documents, exactly as written: a shell parses each, and the lab accepts all
//! of its words. Commands that read results are run on the results of two runs.

use std::path::Path;
use std::process::{Command, Output};

use crate::fake::{FakeServer, Faults};
use crate::run_into;

/// The documents of the lab, and others that mention it.
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

/// The command lines in a page's blocks of code that call the lab, without comments.
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

/// Runs a shell line in a directory, with the lab in the search path.
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

/// A directory with everything that the documents assume: the user's files, and servers for `A` and
/// `B`.
fn workplace() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let example = include_str!("../../../examples/01-orders.toml");
    std::fs::write(directory.path().join("mine.toml"), example).unwrap();
    std::fs::write(directory.path().join("token"), "a token of the test\n").unwrap();
    directory
}

fn fill_command(command: &str) -> String {
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
            // `--plan` parses all words and starts nothing; `--help` parses the words before it.
            let end = if kind == "run" { "--plan" } else { "--help" };
            let output = shell(
                &format!("{} {end}", fill_command(&command)),
                directory.path(),
            );
            let complaint = String::from_utf8_lossy(&output.stderr);
            let status = output.status.code();
            assert_eq!(status, Some(0), "{name}: {command}: {complaint}");
            assert!(!output.stdout.is_empty(), "{name}: {command}");
        }
    }
    assert!(count >= 50, "{count} commands");
}

/// Commands of measured runs: a reader who repeats them uses today's lab. Lines with placeholders
/// (`HOST`, `...`, `a|b`) are not commands.
#[test]
fn the_lab_takes_the_commands_of_measured_runs() {
    let runs = std::path::absolute("../runs").unwrap();
    let (mut count, mut refused) = (0, Vec::new());
    for folder in std::fs::read_dir(runs).unwrap().flatten() {
        let Ok(page) = std::fs::read_to_string(folder.path().join("README.md")) else {
            continue;
        };
        for command in commands(&page) {
            let stands_for_others = |word: &str| {
                let is_name = word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase());
                is_name
                    || ["...", "|", "HOST:PORT"]
                        .iter()
                        .any(|part| word.contains(part))
            };
            let is_run = command.starts_with("quarry-lab run ");
            if !is_run || command.split(' ').any(stands_for_others) {
                continue;
            }
            count += 1;
            let output = shell(&format!("{command} --plan"), &folder.path());
            if output.status.code() != Some(0) || output.stdout.is_empty() {
                let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
                refused.push(format!("{command}: {complaint}"));
            }
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(count >= 10, "{count} commands");
}

/// Runs the commands that read results, as written, on results of the smallest size.
#[test]
fn commands_that_read_results_do_so() {
    let fake = FakeServer::start(Faults::default());
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

/// Names of the functions in files below a folder.
fn functions_below(folder: &Path, out: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            functions_below(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let names = text.split("fn ").skip(1);
            out.extend(names.filter_map(|rest| Some(rest.split_once('(')?.0.to_owned())));
        }
    }
}

/// Whether a name contains these pieces, the first at its beginning and the last at its end.
fn is_meant(name: &str, pieces: &[&str]) -> bool {
    let [first, .., last] = pieces else {
        return pieces == [name];
    };
    let middle = pieces.iter().all(|piece| name.contains(piece));
    middle && name.starts_with(first) && name.ends_with(last)
}

/// Checks that each test and script that the page on honesty names exists.
#[test]
fn what_keeps_the_lab_honest_exists() {
    let root = std::path::absolute("../..").unwrap();
    let page = std::fs::read_to_string(root.join("docs/lab/honest.md")).unwrap();
    let mut known = Vec::new();
    for folder in ["lab/cli/src", "lab/cli/tests", "lab/kit/src"] {
        functions_below(&root.join(folder), &mut known);
    }
    let (mut count, mut missing) = (0, Vec::new());
    for word in page.split('`').skip(1).step_by(2) {
        let path = word.split(' ').next().unwrap();
        if path.ends_with(".sh") {
            count += 1;
            if !root.join(path).exists() {
                missing.push(word);
            }
        }
        let name = word.rsplit("::").next().unwrap();
        let is_test = name.matches('_').count() >= 3 && !name.contains(['.', '/', ' ']);
        if is_test {
            count += 1;
            let pieces: Vec<&str> = name.split('…').collect();
            if !known.iter().any(|one| is_meant(one, &pieces)) {
                missing.push(word);
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
    assert!(count >= 50, "{count} tests and scripts");
}
