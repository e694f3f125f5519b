//! Runs every recorded case with every supported release and compares the failures with the list of
//! expected ones (docs/expected-differences.md): an unexpected failure or an unexpected success
//! fails the test. It reads recordings beside the repository if they exist, and reports if they do
//! not.
//!
//! `QUARRY_FAILURES` names a folder that receives one file of failing cases per folder of
//! recordings and release; the tests then do not fail. `QUARRY_AREA` selects the areas with this
//! prefix.

use crate::behaviour::{run_case, run_case_of_set};
use crate::recorded::{STACK_BYTES, Verdict, cases, folder};
use commands::Profile;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Numbers = BTreeMap<String, BTreeSet<i64>>;

/// Folders of recordings: their names in the document, and whether they were recorded on a member
/// of a replica set.
const FOLDERS: [(&str, bool); 5] = [
    ("cases", false),
    ("more", false),
    ("third", false),
    ("replica-set", true),
    ("replica-set-more", true),
];

/// Prefix of the headings of parts for a single release; its name follows.
const OF_RELEASE: &str = "## What MongoDB ";

/// Reads the rows `| folder | area | 1, 4-6, ~9 | reason |` of the document: the cases that are
/// expected to fail, and those that may fail (`~`).
fn read_expected(folder: &str, profile: Profile) -> (Numbers, Numbers) {
    let text = include_str!("../../../../docs/expected-differences.md");
    let (mut fails, mut may) = (Numbers::new(), Numbers::new());
    let mut is_meant = true;
    for line in text.lines() {
        if line.starts_with("## ") {
            let release = line.strip_prefix(OF_RELEASE);
            is_meant = release.is_none_or(|r| r.starts_with(profile.name()));
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, area, numbers, reason] = cells.as_slice() else {
            continue;
        };
        if !FOLDERS.iter().any(|(known, _)| known == name) {
            continue;
        }
        assert!(!reason.is_empty(), "{area} has no reason");
        if *name != folder || !is_meant {
            continue;
        }
        for part in numbers.split(',').map(str::trim) {
            let (out, part) = part
                .strip_prefix('~')
                .map_or((&mut fails, part), |rest| (&mut may, rest));
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (i64, i64) = (first.parse().expect(line), last.parse().expect(line));
            for n in first..=last {
                assert!(
                    out.entry((*area).to_owned()).or_default().insert(n),
                    "{area} {n} is listed twice"
                );
            }
        }
    }
    (fails, may)
}

/// Runs every case of a folder: returns the area, number and reason of each failure.
fn run_all(
    dir: &Path,
    profile: Profile,
    run_case: &(dyn Fn(&Json, Profile) -> Verdict + Sync),
) -> Vec<(String, i64, String)> {
    let only = std::env::var("QUARRY_AREA").unwrap_or_default();
    let all = cases(dir, &|area| area.starts_with(&only));
    let half = all.len() / 2;
    // Some cases wait for data that never arrives, so more threads than processors help.
    let parts: Vec<_> = [&all[..half], &all[half..]]
        .into_iter()
        .flat_map(|h| h.chunks(h.len() / 3 + 1))
        .collect();
    let failed: Vec<(String, i64, String)> = std::thread::scope(|scope| {
        let threads: Vec<_> = parts
            .iter()
            .map(|part| {
                std::thread::Builder::new()
                    .stack_size(STACK_BYTES)
                    .spawn_scoped(scope, || {
                        let judged =
                            part.iter()
                                .filter_map(|(area, case)| match run_case(case, profile) {
                                    Verdict::Failed(why) => {
                                        Some((area.clone(), case["n"].as_i64().unwrap_or(-1), why))
                                    }
                                    Verdict::Passed | Verdict::Skipped => None,
                                });
                        judged.collect::<Vec<_>>()
                    })
                    .expect("a thread")
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|t| t.join().expect("no panic"))
            .collect()
    });
    println!(
        "{} of {} cases of {} answered as recorded by {}",
        all.len() - failed.len(),
        all.len(),
        dir.display(),
        profile.name()
    );
    write_failures(dir, profile, &all, &failed);
    failed
}

/// True when failures are only written to files.
fn is_list_only() -> bool {
    std::env::var_os("QUARRY_FAILURES").is_some()
}

/// Writes failing cases into the folder of `QUARRY_FAILURES`, one JSON document per line.
fn write_failures(
    dir: &Path,
    profile: Profile,
    all: &[(String, Json)],
    failed: &[(String, i64, String)],
) {
    let Some(out) = std::env::var_os("QUARRY_FAILURES").map(PathBuf::from) else {
        return;
    };
    let why: BTreeMap<(&str, i64), &str> = failed
        .iter()
        .map(|(area, n, why)| ((area.as_str(), *n), why.as_str()))
        .collect();
    let mut text = String::new();
    for (area, case) in all {
        let n = case["n"].as_i64().unwrap_or(-1);
        if let Some(why) = why.get(&(area.as_str(), n)) {
            let row = serde_json::json!({ "area": area, "n": n, "why": why, "case": case });
            text.push_str(&format!("{row}\n"));
        }
    }
    let name = dir.file_name().expect("a folder").to_string_lossy();
    let path = out.join(format!("{name}.{}.jsonl", profile.name()));
    std::fs::write(path, text).expect("a folder to write to");
}

fn group_by_area(failed: Vec<(String, i64, String)>) -> (Numbers, BTreeMap<(String, i64), String>) {
    let mut found = Numbers::new();
    let mut why: BTreeMap<(String, i64), String> = BTreeMap::new();
    for (area, n, reason) in failed {
        why.insert((area.clone(), n), reason);
        found.entry(area).or_default().insert(n);
    }
    (found, why)
}

/// Runs a folder with a release and compares the failures with the document.
fn judge(name: &str, profile: Profile) {
    let Some(dir) = folder(name) else {
        return println!("skipped: QUARRY_BEHAVIOUR names no folder with `{name}`");
    };
    let is_of_set = FOLDERS.contains(&(name, true));
    let failed = if is_of_set {
        run_all(&dir, profile, &run_case_of_set)
    } else {
        run_all(&dir, profile, &run_case)
    };
    if is_list_only() {
        return;
    }
    let (found, why) = group_by_area(failed);
    let (expected, may) = read_expected(name, profile);
    let mut wrong = Vec::new();
    for area in found.keys().chain(expected.keys()).collect::<BTreeSet<_>>() {
        let (none, has, wants) = (BTreeSet::new(), found.get(area), expected.get(area));
        let (has, wants) = (has.unwrap_or(&none), wants.unwrap_or(&none));
        for n in has
            .difference(wants)
            .filter(|n| !may.get(area).is_some_and(|m| m.contains(*n)))
        {
            wrong.push(format!(
                "{area} {n} fails and is not listed: {:.300}",
                why[&(area.clone(), *n)]
            ));
        }
        for n in wants.difference(has) {
            wrong.push(format!("{area} {n} is listed and passes"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differences of {name} by {} from docs/expected-differences.md:\n{}",
        wrong.len(),
        profile.name(),
        wrong.join("\n")
    );
}

#[test]
fn recorded_behaviour_is_as_expected() {
    judge("cases", Profile::V8_2);
}

#[test]
fn behaviour_recorded_later_is_as_expected() {
    judge("more", Profile::V8_2);
}

#[test]
fn behaviour_recorded_third_is_as_expected() {
    judge("third", Profile::V8_2);
}

#[test]
fn behaviour_of_a_replica_set_is_as_expected() {
    judge("replica-set", Profile::V8_2);
}

#[test]
fn behaviour_of_a_replica_set_recorded_later_is_as_expected() {
    judge("replica-set-more", Profile::V8_2);
}

#[test]
fn recorded_behaviour_is_as_expected_by_9_0() {
    judge("cases", Profile::V9_0);
}

#[test]
fn behaviour_recorded_later_is_as_expected_by_9_0() {
    judge("more", Profile::V9_0);
}

#[test]
fn behaviour_recorded_third_is_as_expected_by_9_0() {
    judge("third", Profile::V9_0);
}

#[test]
fn behaviour_of_a_replica_set_is_as_expected_by_9_0() {
    judge("replica-set", Profile::V9_0);
}

#[test]
fn behaviour_of_a_replica_set_recorded_later_is_as_expected_by_9_0() {
    judge("replica-set-more", Profile::V9_0);
}
