//! Runs recorded cases (what a client sent, what MongoDB answered) on the expression core, without
//! a server.
//!
//! `QUARRY_BEHAVIOUR` names the folder of `*.jsonl.gz` files; without it the test says so and
//! passes. `QUARRY_AREA` limits it to areas with that prefix, `QUARRY_SHOW` prints that many
//! failures of each area.

use crate::pipeline;
use model::extjson::{self, Mode};
use model::{DocBuf, Value};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::io::BufRead;

/// The share of the cases that must pass; the rest is for records that are wrong.
const FLOOR: f64 = 0.999;

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    /// Cases that need more than expressions: stores, other commands, other stages.
    skipped: usize,
}

/// Outcome of one case.
enum Outcome {
    Passed,
    Failed(String),
    Skipped,
}

#[test]
fn expressions_answer_as_recorded() {
    let Some(folder) = std::env::var_os("QUARRY_BEHAVIOUR") else {
        eprintln!("QUARRY_BEHAVIOUR is not set: recorded cases are not run");
        return;
    };
    let wanted =
        std::env::var("QUARRY_AREA").unwrap_or_else(|_| "core/operator/expressions".to_owned());
    let show: usize = std::env::var("QUARRY_SHOW")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("the folder of recorded cases is readable") {
        let path = entry.expect("its entries are readable").path();
        let file_area = path
            .file_name()
            .map(|n| n.to_string_lossy().replace("__", "/"))
            .unwrap_or_default();
        let stem = file_area.trim_end_matches(".jsonl.gz");
        if !(stem.starts_with(&wanted) || wanted.starts_with(stem)) {
            continue;
        }
        let unzipped =
            flate2::read::GzDecoder::new(std::fs::File::open(&path).expect("a case file opens"));
        for line in std::io::BufReader::new(unzipped).lines() {
            // A few cases of other areas nest deeper than the JSON reader goes.
            let Ok(case) = serde_json::from_str::<Json>(&line.expect("gzip is intact")) else {
                continue;
            };
            let area = case["area"].as_str().unwrap_or_default();
            if !area.starts_with(&wanted) {
                continue;
            }
            let tally = tallies.entry(area.to_owned()).or_default();
            match run_case(&case) {
                Outcome::Passed => tally.passed += 1,
                Outcome::Skipped => tally.skipped += 1,
                Outcome::Failed(why) => {
                    tally.failed += 1;
                    if tally.failed <= show {
                        println!("FAIL {area} {}: {why}\n     {}", case["n"], brief(&case));
                    }
                }
            }
        }
    }
    report(&tallies);
}

fn report(tallies: &BTreeMap<String, Tally>) {
    let (mut passed, mut run) = (0, 0);
    for (area, t) in tallies {
        println!(
            "{area:60} {:5} of {:5} passed, {} skipped",
            t.passed,
            t.passed + t.failed,
            t.skipped
        );
        passed += t.passed;
        run += t.passed + t.failed;
    }
    println!("{:60} {passed:5} of {run:5} passed", "all");
    assert!(
        run == 0 || passed as f64 >= run as f64 * FLOOR,
        "{passed} of {run} recorded cases passed"
    );
}

fn brief(case: &Json) -> String {
    let steps = case["steps"].as_array().map_or(&[][..], Vec::as_slice);
    let sent: Vec<String> = steps
        .iter()
        .map(
            |s| match s["run"].as_object().and_then(|r| r.iter().next()) {
                Some((name, _)) if name == "insert" => s["run"]["documents"].to_string(),
                Some((name, _)) if name == "aggregate" => s["run"]["pipeline"].to_string(),
                _ => s.to_string(),
            },
        )
        .map(|s| s.chars().take(700).collect())
        .collect();
    sent.join(" ; ")
}

fn run_case(case: &Json) -> Outcome {
    let Some(steps) = case["steps"].as_array() else {
        return Outcome::Skipped;
    };
    let mut inserted: Vec<DocBuf> = Vec::new();
    // Outcome of each step; only aggregations have one worth judging.
    let mut answers: Vec<Option<Result<Vec<DocBuf>, model::MongoError>>> = Vec::new();
    for step in steps {
        let mut answer = None;
        if let Some(run) = step.get("run") {
            let Ok(command) = extjson::document(run) else {
                return Outcome::Skipped;
            };
            match command.doc().first() {
                Some(("insert", _)) => {
                    let Value::Array(docs) = command.doc().field("documents") else {
                        return Outcome::Skipped;
                    };
                    inserted.extend(docs.iter().filter_map(|d| d.as_doc()).map(DocBuf::from_doc));
                }
                Some(("create", _)) if command.doc().count() == 1 => {}
                Some(("aggregate", _)) => match pipeline::run(command.doc(), &inserted) {
                    Some(outcome) => answer = Some(outcome),
                    None => return Outcome::Skipped,
                },
                _ => return Outcome::Skipped,
            }
        }
        if let Some(expect) = step.get("expect") {
            let of = integer(&expect["of"])
                .and_then(|n| usize::try_from(n).ok())
                .unwrap_or(0);
            let Some(Some(outcome)) = answers.get(of) else {
                return Outcome::Skipped;
            };
            match judge(outcome, expect) {
                None => return Outcome::Skipped,
                Some(Err(why)) => return Outcome::Failed(why),
                Some(Ok(())) => {}
            }
        }
        answers.push(answer);
    }
    Outcome::Passed
}

pub(crate) fn integer(json: &Json) -> Option<i64> {
    extjson::value(json).ok()?.get().as_i64_exact()
}

/// `None` when the kind of expectation is not for this harness.
pub(crate) fn judge(
    outcome: &Result<Vec<DocBuf>, model::MongoError>,
    expect: &Json,
) -> Option<Result<(), String>> {
    if let Some(code) = expect.get("code").and_then(integer) {
        return Some(match outcome {
            Err(e) if i64::from(e.code()) == code => Ok(()),
            Err(e) => Err(format!("expected error {code}, got {e:?}")),
            Ok(docs) => Err(format!("expected error {code}, got {docs:?}")),
        });
    }
    if expect.get("anyOk").is_some() {
        return Some(
            outcome
                .as_ref()
                .map(|_| ())
                .map_err(|e| format!("expected success, got {e:?}")),
        );
    }
    if expect.get("raw").is_some() {
        return None;
    }
    let wanted = expect.get("ok")?.get(0)?.as_array()?;
    let docs = match outcome {
        Ok(docs) => docs,
        Err(e) => return Some(Err(format!("expected {}, got {e:?}", expect["ok"][0]))),
    };
    let free: Vec<&str> = expect["anyOrderIn"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
        .collect();
    let any_order = expect["anyOrder"].as_bool() == Some(true);
    let mut left: Vec<&Json> = wanted.iter().collect();
    for doc in docs {
        let candidates = if any_order {
            left.len()
        } else {
            left.len().min(1)
        };
        match (0..candidates).find(|&i| same_json(&Value::Document(doc.doc()), left[i], &free)) {
            Some(i) => {
                left.remove(i);
            }
            None => {
                let got = extjson::from_document(doc.doc(), Mode::Canonical);
                return Some(Err(format!("expected {}, got {got}", expect["ok"][0])));
            }
        }
    }
    Some(if left.is_empty() {
        Ok(())
    } else {
        Err(format!("missing from the answer: {left:?}"))
    })
}

pub(crate) fn same_json(actual: &Value<'_>, wanted: &Json, free: &[&str]) -> bool {
    let Ok(wanted) = extjson::value(wanted) else {
        return false;
    };
    same(actual, &wanted.get(), free, "")
}

/// Strict equality: BSON types, the sign of zero and the exponent of decimals count; NaN equals
/// NaN.
pub(crate) fn same(a: &Value<'_>, e: &Value<'_>, free: &[&str], field: &str) -> bool {
    match (a, e) {
        (_, Value::Document(d)) if d.count() == 1 && d.contains("$$approx") => {
            close(a, &d.field("$$approx"))
        }
        (Value::Document(x), Value::Document(y)) => {
            x.count() == y.count()
                && y.iter()
                    .all(|(name, v)| x.get(name).is_some_and(|w| same(&w, &v, free, name)))
        }
        (Value::Array(x), Value::Array(y)) => {
            let mut left: Vec<Value<'_>> = y.iter().collect();
            if x.len() != left.len() {
                return false;
            }
            let any_order = free.contains(&field);
            x.iter().all(|v| {
                let candidates = if any_order { left.len() } else { 1 };
                match (0..candidates).find(|&i| same(&v, &left[i], free, "")) {
                    Some(i) => {
                        left.remove(i);
                        true
                    }
                    None => false,
                }
            })
        }
        (Value::Double(x), Value::Double(y)) => {
            x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan()
        }
        (Value::Decimal128(x), Value::Decimal128(y)) => x == y || x.is_nan() && y.is_nan(),
        _ => a.to_owned_value() == e.to_owned_value(),
    }
}

/// Equal to six digits.
fn close(a: &Value<'_>, e: &Value<'_>) -> bool {
    let decimal = |v: &Value<'_>| matches!(v, Value::Decimal128(_));
    if decimal(a) != decimal(e) {
        return false;
    }
    match (a.as_f64(), e.as_f64()) {
        (Some(x), Some(y)) if x.is_nan() || y.is_nan() => x.is_nan() && y.is_nan(),
        (Some(x), Some(y)) => x == y || (x - y).abs() <= (x.abs().max(y.abs()) * 1e-6).max(1e-12),
        _ => false,
    }
}
