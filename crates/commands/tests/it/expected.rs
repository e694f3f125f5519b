//! Every recorded case, against the list of those that are expected to differ
//! (docs/expected-differences.md): an unexpected failure and an unexpected success both fail. Reads
//! recordings beside the repository where they are there, and says so where they are not.
//!
//! `QUARRY_FAILURES` names a folder that receives a file of failing cases for each folder of
//! recordings; the tests then judge nothing. `QUARRY_AREA` narrows to areas that begin with it.

use crate::behaviour::{run_case, run_case_of_set};
use crate::recorded::{STACK_BYTES, Verdict, cases, folder};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Numbers = BTreeMap<String, BTreeSet<i64>>;

/// Rows `| area | 1, 4-6, ~9 | reason |` of the document: those expected to fail, and those that
/// may (`~`).
fn expected() -> (Numbers, Numbers) {
    let text = include_str!("../../../../docs/expected-differences.md");
    let (mut fails, mut may) = (Numbers::new(), Numbers::new());
    for line in text.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [area, numbers, reason] = cells.as_slice() else {
            continue;
        };
        if !(area.starts_with("core/") || area.starts_with("system/")) {
            continue;
        }
        assert!(!reason.is_empty(), "{area} has no reason");
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

fn shown(numbers: &BTreeSet<i64>) -> String {
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for n in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *n => *last = *n,
            _ => runs.push((*n, *n)),
        }
    }
    runs.iter()
        .map(|(a, b)| {
            if a == b {
                a.to_string()
            } else {
                format!("{a}-{b}")
            }
        })
        .collect::<Vec<_>>()
        .join(", ")
}

/// Runs every case of a folder: how many there are, and area, number and reason of those that fail.
fn run_all(
    dir: &Path,
    run_case: &(dyn Fn(&Json) -> Verdict + Sync),
) -> (usize, Vec<(String, i64, String)>) {
    let only = std::env::var("QUARRY_AREA").unwrap_or_default();
    let all = cases(dir, &|area| area.starts_with(&only));
    let half = all.len() / 2;
    // Some cases wait for data that never comes, so more threads than processors pay.
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
                        let judged = part.iter().filter_map(|(area, case)| match run_case(case) {
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
        "{} of {} cases of {} answered as recorded",
        all.len() - failed.len(),
        all.len(),
        dir.display()
    );
    write_failures(dir, &all, &failed);
    (all.len(), failed)
}

/// True when failures are only written down, not judged.
fn only_lists() -> bool {
    std::env::var_os("QUARRY_FAILURES").is_some()
}

/// Writes failing cases into the folder that `QUARRY_FAILURES` names, one JSON document a line.
fn write_failures(dir: &Path, all: &[(String, Json)], failed: &[(String, i64, String)]) {
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
    std::fs::write(out.join(format!("{name}.jsonl")), text).expect("a folder to write to");
}

/// Prints the failures as rows of the document.
fn print_rows(found: &Numbers, why: &BTreeMap<(String, i64), String>) {
    for (area, numbers) in found {
        println!("| {area} | {} | |", shown(numbers));
        for n in numbers {
            println!(
                "    {n}: {:.300}",
                why[&(area.clone(), *n)].replace('\n', " ")
            );
        }
    }
}

fn by_area(failed: Vec<(String, i64, String)>) -> (Numbers, BTreeMap<(String, i64), String>) {
    let mut found = Numbers::new();
    let mut why: BTreeMap<(String, i64), String> = BTreeMap::new();
    for (area, n, reason) in failed {
        why.insert((area.clone(), n), reason);
        found.entry(area).or_default().insert(n);
    }
    (found, why)
}

fn judge_all(dir: &Path) {
    let (_, failed) = run_all(dir, &run_case);
    let (found, why) = by_area(failed);
    if only_lists() {
        return;
    }
    let (expected, may) = expected();
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
        "{} differences from docs/expected-differences.md:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn recorded_behaviour_is_as_expected() {
    match folder("cases") {
        Some(dir) => judge_all(&dir),
        None => println!("skipped: QUARRY_BEHAVIOUR names no folder with `cases`"),
    }
}

/// Judges a folder of cases that were recorded later by how many in ten thousand pass: what passed
/// before, and may only rise.
fn judge_rate(name: &str, floor: usize, run_case: &(dyn Fn(&Json) -> Verdict + Sync)) {
    let Some(dir) = folder(name) else {
        return println!("skipped: QUARRY_BEHAVIOUR names no folder with `{name}`");
    };
    let (all, failed) = run_all(&dir, run_case);
    let passed = all - failed.len();
    assert!(
        only_lists() || passed * 10_000 >= all * floor,
        "{passed} of {all} of {name}"
    );
}

#[test]
fn behaviour_recorded_later_is_met() {
    judge_rate("more", 9991, &run_case);
}

#[test]
fn behaviour_recorded_third_is_met() {
    judge_rate("third", 9990, &run_case);
}

#[test]
fn behaviour_of_a_replica_set_recorded_later_is_met() {
    judge_rate("replica-set-more", 9858, &run_case_of_set);
}

/// Cases of the replica-set profile that differ, and why.
const OF_SET: &[(&str, &[i64], &str)] = &[
    (
        "core/operator/expressions/variable/system_variables/cluster_time",
        &[0, 1, 18, 19],
        "values of replies before went into the last command and were lost in the recording",
    ),
    (
        "core/query_planning/commands/setQuerySettings",
        &[84, 85],
        "the hash of another reply was lost in the recording",
    ),
    (
        "core/sessions/commands/commitTransaction",
        &[1, 14, 16],
        "the number of the session's transaction was lost in the recording",
    ),
    (
        "system/replication/commands/hello",
        &[3],
        "a moment at which the recording was made",
    ),
];

#[test]
fn recorded_behaviour_of_a_replica_set_is_as_expected() {
    let Some(dir) = folder("replica-set") else {
        return println!("skipped: QUARRY_BEHAVIOUR names no folder with `replica-set`");
    };
    let (_, failed) = run_all(&dir, &run_case_of_set);
    if only_lists() {
        return;
    }
    let (found, why) = by_area(failed);
    let expected: Numbers = OF_SET
        .iter()
        .map(|(area, numbers, _)| ((*area).to_owned(), numbers.iter().copied().collect()))
        .collect();
    if found != expected {
        print_rows(&found, &why);
    }
    assert_eq!(found, expected);
}
