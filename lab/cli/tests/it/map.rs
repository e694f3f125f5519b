//! Every command of `docs/lab/map.md` runs at smoke size: on engines in the process, with
//! the first values of each list, a few hundred rows, a second for each timed step.

use std::path::Path;

/// The commands of the map, as words after `quarry-lab`.
fn commands() -> Vec<Vec<String>> {
    let text = include_str!("../../../../docs/lab/map.md");
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("quarry-lab "));
    lines
        .map(|line| line.split(' ').map(str::to_owned).collect())
        .collect()
}

/// A command with small sizes, on engines.
fn shrink_command(words: &[String], dir: &Path) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut servers = 0;
    let is_short = words.iter().any(|word| word == "point" || word == "hot");
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap().clone();
        match word.as_str() {
            // Engines have only one database; features.rs tests several on a server.
            "--preset" | "--databases" | "--times-memory" | "--memory-mb" | "--repeats"
            | "--out" => {
                value();
            }
            "--rounds" => {
                value();
                out.extend(["--rounds", "2"].map(str::to_owned));
            }
            "--extra-tables" => {
                value();
                out.extend(["--extra-tables", "3"].map(str::to_owned));
            }
            "--target" => {
                value();
                servers += 1;
            }
            "--own" => servers += value().split(',').count(),
            "--clients" | "--payload" | "--hot-rows" => {
                let list: Vec<String> = value().split(',').map(str::to_owned).collect();
                // More clients than the few rows would be refused.
                let small = list.iter().filter(|one| one.parse::<u32>().unwrap() <= 20);
                // Lists are tested only with short runs.
                let count = if is_short { 2 } else { 1 };
                let first = small.take(count).cloned().collect::<Vec<_>>();
                out.extend([word.clone(), first.join(",")]);
            }
            _ => out.push(word.clone()),
        }
    }
    let most = if is_short { 2 } else { 1 };
    for (engine, number) in ["redb", "fjall"].iter().zip(0..servers.min(most)) {
        let path = dir.join(format!("{engine}{number}"));
        out.extend([
            "--target".to_owned(),
            format!("{engine}:{}", path.display()),
        ]);
    }
    out
}

fn make(part: usize, parts: usize) {
    let commands = commands();
    assert!(commands.len() >= 16, "{}", commands.len());
    let runs = commands.iter().filter(|words| words[0] == "run");
    for words in runs.skip(part).step_by(parts) {
        let dir = tempfile::tempdir().unwrap();
        let mut small = shrink_command(words, dir.path());
        let out = dir.path().join("results");
        small.extend(["--out".to_owned(), out.display().to_string()]);
        let timed = ["--rows", "400", "--settle-seconds", "5"];
        small.extend(timed.map(str::to_owned));
        let is_load = |name: &str| {
            ["insert", "change-log", "db-bench"]
                .iter()
                .any(|one| name.starts_with(one))
        };
        if !is_load(&words[1]) {
            small.extend(["--seconds", "1", "--warmup-seconds", "0"].map(str::to_owned));
        }
        let small: Vec<&str> = small.iter().map(String::as_str).collect();
        let output = crate::lab(&small);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{small:?}: {told}");
        let folder = std::fs::read_dir(&out).unwrap().flatten().next().unwrap();
        let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
        assert!(page.contains("<h1>"), "{small:?}");
    }
}

#[test]
fn one_half_of_the_commands_of_the_map() {
    make(0, 2);
}

#[test]
fn the_other_half() {
    make(1, 2);
}

/// The commands exactly as in the documents: none is refused, whatever the size of its runs.
#[test]
fn commands_are_taken_as_they_stand() {
    let dir = tempfile::tempdir().unwrap();
    for words in commands().iter().filter(|words| words[0] == "run") {
        let target = |word: &String| match word.as_str() {
            "A" => format!("redb:{}", dir.path().join("a").display()),
            "B" => format!("fjall:{}", dir.path().join("b").display()),
            _ => word.clone(),
        };
        let mut literal: Vec<String> = words.iter().map(target).collect();
        literal.push("--plan".to_owned());
        let literal: Vec<&str> = literal.iter().map(String::as_str).collect();
        let output = crate::lab(&literal);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {told}");
        let planned = String::from_utf8_lossy(&output.stdout);
        let runs = planned.lines().filter(|line| line.starts_with("run "));
        let values = |name: &str| {
            let at = words.iter().position(|word| word == name);
            at.map_or(1, |at| words[at + 1].split(',').count())
        };
        let targets = words.iter().filter(|word| *word == "--target").count();
        let repeats = words.iter().position(|word| word == "--repeats");
        let repeats = repeats.map_or(1, |at| words[at + 1].parse().unwrap());
        let lists = ["--clients", "--payload", "--hot-rows", "--databases"];
        let expected = targets.max(values("--own"))
            * repeats
            * lists.iter().map(|name| values(name)).product::<usize>();
        assert_eq!(runs.count(), expected, "{words:?}: {planned}");
        assert!(!dir.path().join("a").exists() && !dir.path().join("b").exists());
    }
}
