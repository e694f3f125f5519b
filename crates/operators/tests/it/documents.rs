//! Runs recorded cases of filters, updates and projections on a shop of documents in memory
//! ([`crate::shop`]).
//!
//! `QUARRY_BEHAVIOUR` names the folder of cases; without it the test says so and passes.
//! `QUARRY_AREA` limits it to a prefix, `QUARRY_SHOW` prints that many failures of each area.

use crate::recorded::{integer, judge, same};
use crate::shop::{Reply, Shop};
use model::extjson::{self, Mode};
use model::{DocBuf, MongoError, Value};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::io::BufRead;

const AREAS: &[&str] = &[
    "core/operator/query",
    "core/operator/update",
    "core/operator/projection",
    "core/query_and_write",
    "core/data-types",
    "core/operator/stages/match",
    "core/operator/stages/project",
    "core/operator/stages/set",
    "core/operator/stages/unset",
];

enum Outcome {
    Passed,
    Failed(String),
    /// Needs a command or an option that this harness lacks.
    Skipped,
}

#[test]
fn documents_answer_as_recorded() {
    let Some(folder) = std::env::var_os("QUARRY_BEHAVIOUR") else {
        eprintln!("QUARRY_BEHAVIOUR is not set: recorded cases are not run");
        return;
    };
    let wanted = std::env::var("QUARRY_AREA").ok().filter(|a| !a.is_empty());
    let show: usize = std::env::var("QUARRY_SHOW")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    let mut tallies: BTreeMap<String, (usize, usize, usize)> = BTreeMap::new();
    let chosen = |area: &str| match &wanted {
        Some(w) => area.starts_with(w.as_str()),
        None => AREAS
            .iter()
            .any(|a| area == *a || area.starts_with(&format!("{a}/"))),
    };
    for entry in std::fs::read_dir(folder).expect("the folder of recorded cases is readable") {
        let path = entry.expect("its entries are readable").path();
        if path.extension().is_none_or(|e| e != "gz") {
            continue;
        }
        let unzipped =
            flate2::read::GzDecoder::new(std::fs::File::open(&path).expect("a case file opens"));
        for line in std::io::BufReader::new(unzipped).lines() {
            // A few cases nest deeper than the JSON reader goes.
            let Ok(case) = serde_json::from_str::<Json>(&line.expect("gzip is intact")) else {
                continue;
            };
            let area = case["area"].as_str().unwrap_or_default();
            if !chosen(area) {
                break;
            }
            let tally = tallies.entry(area.to_owned()).or_default();
            match run_case(&case) {
                Outcome::Passed => tally.0 += 1,
                Outcome::Skipped => tally.2 += 1,
                Outcome::Failed(why) => {
                    tally.1 += 1;
                    if tally.1 <= show {
                        println!(
                            "FAIL {area} {}: {}\n     {}",
                            case["n"],
                            cut(why),
                            brief(&case)
                        );
                    }
                }
            }
        }
    }
    let (mut passed, mut run) = (0, 0);
    for (area, (p, f, s)) in &tallies {
        println!("{area:50} {p:5} of {:5} passed, {s} skipped", p + f);
        passed += p;
        run += p + f;
    }
    println!("{:50} {passed:5} of {run:5} passed", "all");
    // What fails wants the server (names of collections, text indexes) or contradicts other cases.
    assert!(
        wanted.is_some() || passed * 100 >= run * 97,
        "{passed} of {run} recorded cases passed"
    );
}

fn cut(s: String) -> String {
    s.chars().take(900).collect()
}

fn brief(case: &Json) -> String {
    let steps = case["steps"].as_array().map_or(&[][..], Vec::as_slice);
    steps
        .iter()
        .filter_map(|s| s.get("run"))
        .map(|r| cut(r.to_string()))
        .collect::<Vec<_>>()
        .join(" ; ")
}

fn run_case(case: &Json) -> Outcome {
    let Some(steps) = case["steps"].as_array() else {
        return Outcome::Skipped;
    };
    let mut shop = Shop::default();
    let mut answers: Vec<Option<Result<Reply, MongoError>>> = Vec::new();
    for step in steps {
        let mut answer = None;
        if let Some(run) = step.get("run") {
            let Ok(command) = extjson::document(run) else {
                return Outcome::Skipped;
            };
            answer = shop.run(command.doc());
            if answer.is_none() {
                return Outcome::Skipped;
            }
        }
        if let Some(expect) = step.get("expect") {
            let of = integer(&expect["of"])
                .and_then(|n| usize::try_from(n).ok())
                .unwrap_or(0);
            let Some(Some(outcome)) = answers.get(of) else {
                return Outcome::Skipped;
            };
            match judge_reply(outcome, expect) {
                None => return Outcome::Skipped,
                Some(Err(why)) => return Outcome::Failed(why),
                Some(Ok(())) => {}
            }
        }
        answers.push(answer);
    }
    Outcome::Passed
}

fn judge_reply(outcome: &Result<Reply, MongoError>, expect: &Json) -> Option<Result<(), String>> {
    let docs = match outcome {
        Ok(Reply::Docs(docs)) => Ok(docs.clone()),
        Ok(Reply::Fields(d)) => Ok(vec![d.clone()]),
        Err(e) => Err(e.clone()),
    };
    if let Some(partial) = expect.get("okPartial") {
        return match outcome {
            Err(e) => Some(Err(format!("expected success, got {e:?}"))),
            Ok(Reply::Fields(d)) => {
                let ok = partial_match(&Value::Document(d.doc()), partial);
                Some(if ok {
                    Ok(())
                } else {
                    Err(format!("expected {partial}, got {d:?}"))
                })
            }
            Ok(Reply::Docs(_)) => None,
        };
    }
    if let Some(props) = expect.get("props") {
        let docs = match docs {
            Ok(d) => d,
            Err(e) => return Some(Err(format!("expected success, got {e:?}"))),
        };
        return props_hold(&docs, props);
    }
    judge(&docs, expect)
}

fn partial_match(actual: &Value<'_>, wanted: &Json) -> bool {
    match (actual, wanted) {
        (Value::Document(d), Json::Object(fields))
            if !fields.keys().any(|k| k.starts_with('$')) =>
        {
            fields
                .iter()
                .all(|(k, v)| d.get(k).is_some_and(|a| partial_match(&a, v)))
        }
        (Value::Array(a), Json::Array(items)) => {
            a.len() == items.len() && a.iter().zip(items).all(|(a, w)| partial_match(&a, w))
        }
        (a, w) => extjson::value(w).is_ok_and(|w| same(a, &w.get(), &[], "")),
    }
}

fn props_hold(docs: &[DocBuf], props: &Json) -> Option<Result<(), String>> {
    let per: Vec<&Json> = match props.get("$$perDoc").and_then(Json::as_array) {
        Some(list) => list.iter().collect(),
        None => vec![props; docs.len()],
    };
    if docs.is_empty() || per.len() != docs.len() {
        return Some(Err(format!(
            "{} documents for {} checks",
            docs.len(),
            per.len()
        )));
    }
    for (d, checks) in docs.iter().zip(per) {
        for (path, check) in checks.as_object()? {
            let v = path.split('.').filter(|p| !p.is_empty()).fold(
                Value::Document(d.doc()),
                |v, part| match v {
                    Value::Document(d) => d.field(part),
                    Value::Array(a) => part
                        .parse()
                        .ok()
                        .and_then(|i| a.get(i))
                        .unwrap_or(Value::Missing),
                    _ => Value::Missing,
                },
            );
            for one in check
                .as_array()
                .map_or(std::slice::from_ref(check), Vec::as_slice)
            {
                if !check_holds(&v, one)? {
                    let got = extjson::from_document(d.doc(), Mode::Canonical);
                    return Some(Err(format!("{path} fails {one}: {got}")));
                }
            }
        }
    }
    Some(Ok(()))
}

fn check_holds(v: &Value<'_>, check: &Json) -> Option<bool> {
    let args = &check["args"];
    Some(match check.get("$$check")?.as_str()? {
        "Exists" => !v.is_missing(),
        "NotExists" => v.is_missing(),
        "Eq" => extjson::value(&args["expected"]).is_ok_and(|w| same(v, &w.get(), &[], "")),
        "Ne" => extjson::value(&args["rejected"]).is_ok_and(|w| !same(v, &w.get(), &[], "")),
        "IsType" => Some(v.type_name()) == args["bson_type"].as_str(),
        "Len" => v.as_array().map(|a| a.len() as i64) == integer(&args["expected"]),
        "OrderedKeys" => v.as_doc().is_some_and(|d| {
            d.iter().map(|(k, _)| Json::from(k)).collect::<Vec<_>>()
                == args["expected"].as_array().cloned().unwrap_or_default()
        }),
        _ => return None,
    })
}
