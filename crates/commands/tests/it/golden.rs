//! Runs the golden cases in `crates/query/tests/golden`: the examples on the aggregation pages of
//! the reference manual, with the documented results (never results of this server). `GOLDEN=<part
//! of a file name>` selects files. The README beside the data describes the format.

use crate::behaviour::{send, serve, store};
use commands::{Config, Connection, Dispatcher};
use model::{Array, Doc, DocBuf, Value, compare, extjson};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DATA: &str = "../query/tests/golden";

/// Registered names without a golden case, and the reason.
const WITHOUT_CASE: &[(&str, &str, &str)] = &[
    ("stage", "$_internalUnpackBucket", "of tools, see series.rs"),
    (
        "stage",
        "$listSearchIndexes",
        "needs an index that was built, see search.rs",
    ),
    (
        "stage",
        "$search",
        "needs an index that was built, see search.rs",
    ),
    (
        "stage",
        "$searchBeta",
        "needs an index that was built, see search.rs",
    ),
    (
        "stage",
        "$searchMeta",
        "needs an index that was built, see search.rs",
    ),
    (
        "stage",
        "$vectorSearch",
        "needs an index that was built, see search.rs",
    ),
    (
        "expression",
        "$_internalJsEmit",
        "of mapReduce, see scripts.rs",
    ),
    (
        "accumulator",
        "$_internalJsReduce",
        "of mapReduce, see scripts.rs",
    ),
];

/// One case and its position.
struct Case {
    kind: String,
    name: String,
    n: usize,
    body: Json,
}

fn files() -> Vec<(String, PathBuf)> {
    let mut out = Vec::new();
    for kind in ["stage", "accumulator", "window", "expression"] {
        for file in std::fs::read_dir(Path::new(DATA).join(kind)).expect("golden data") {
            out.push((kind.to_owned(), file.expect("readable").path()));
        }
    }
    out.sort();
    out
}

fn cases() -> Vec<Case> {
    let mut out = Vec::new();
    for (kind, path) in files() {
        let name = path
            .file_stem()
            .and_then(|s| s.to_str())
            .expect("a name")
            .to_owned();
        let text = std::fs::read_to_string(&path).expect("readable");
        let list: Vec<Json> =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        out.extend(list.into_iter().enumerate().map(|(n, body)| Case {
            kind: kind.clone(),
            name: name.clone(),
            n,
            body,
        }));
    }
    out
}

fn canonical(v: &Value<'_>) -> String {
    extjson::from_value(v, extjson::Mode::Canonical).to_string()
}

/// The single field of a marker such as `{"$$approx": 1.5}`.
fn marker<'a>(e: &Value<'a>, name: &str) -> Option<Value<'a>> {
    let d = e.as_doc().filter(|d| d.count() == 1)?;
    d.get(name)
}

/// The path at which `a` first differs from the expected `e`; types, field order and the sign of
/// zero count.
fn difference(path: &str, a: &Value<'_>, e: &Value<'_>) -> Option<String> {
    let differs = || {
        Some(format!(
            "at {path}: expected {}, got {}",
            canonical(e),
            canonical(a)
        ))
    };
    for (name, tolerance) in [("$$approx", 1e-13), ("$$near", 1e-6)] {
        if let Some(near) = marker(e, name) {
            let (Value::Double(x), Some(y)) = (a, near.as_f64()) else {
                return differs();
            };
            return if (x - y).abs() <= tolerance * y.abs() {
                None
            } else {
                differs()
            };
        }
    }
    if let Some(number) = marker(e, "$$number") {
        return if model::Number::of(a).is_some() && compare(a, &number).is_eq() {
            None
        } else {
            differs()
        };
    }
    if let Some(kind) = marker(e, "$$type") {
        return if kind.as_str() == Some(a.type_name()) {
            None
        } else {
            differs()
        };
    }
    match (a, e) {
        (Value::Document(a), Value::Document(e)) => document_difference(path, *a, *e),
        (Value::Array(a), Value::Array(e)) => list_difference(path, *a, *e),
        (Value::Double(x), Value::Double(y))
            if x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan() =>
        {
            None
        }
        (Value::Double(_), Value::Double(_)) => differs(),
        // 1.0 and 1.00 compare equal as decimals, but are shown differently.
        (Value::Decimal128(x), Value::Decimal128(y)) if x.to_string() != y.to_string() => differs(),
        _ if a.tag() == e.tag() && compare(a, e).is_eq() => None,
        _ => differs(),
    }
}

fn document_difference(path: &str, a: Doc<'_>, e: Doc<'_>) -> Option<String> {
    for (name, wanted) in e.iter() {
        let here = format!("{path}.{name}");
        match a.get(name) {
            None => {
                return Some(format!(
                    "at {here}: expected {}, got nothing",
                    canonical(&wanted)
                ));
            }
            Some(got) => {
                if let Some(d) = difference(&here, &got, &wanted) {
                    return Some(d);
                }
            }
        }
    }
    let (got, wanted): (Vec<&str>, Vec<&str>) = (
        a.iter().map(|f| f.0).collect(),
        e.iter().map(|f| f.0).collect(),
    );
    (got != wanted).then(|| format!("at {path}: expected the fields {wanted:?}, got {got:?}"))
}

fn list_difference(path: &str, a: Array<'_>, e: Array<'_>) -> Option<String> {
    for (i, (got, wanted)) in a.iter().zip(e.iter()).enumerate() {
        if let Some(d) = difference(&format!("{path}[{i}]"), &got, &wanted) {
            return Some(d);
        }
    }
    (a.len() != e.len())
        .then(|| format!("at {path}: expected {} elements, got {}", e.len(), a.len()))
}

/// Sorts the documents, and the arrays at `sets` within each, when the manual leaves their order
/// open.
fn sort_documents(list: Array<'_>, any: bool, sets: &[&str]) -> DocBuf {
    let mut docs: Vec<DocBuf> = list
        .iter()
        .map(|v| {
            let plain = |v: Value<'_>| DocBuf::build(|w| _ = w.put("", v));
            v.as_doc().map_or_else(
                || plain(v),
                |d| DocBuf::build(|w| sort_sets(w, d, "", sets)),
            )
        })
        .collect();
    if any {
        docs.sort_by(|a, b| compare(&Value::from(a), &Value::from(b)));
    }
    DocBuf::build(|w| {
        let mut out = w.array("");
        docs.iter().for_each(|d| _ = out.push(d.doc()));
    })
}

fn sort_sets(w: &mut model::DocWriter<'_>, d: Doc<'_>, at: &str, sets: &[&str]) {
    for (name, v) in d.iter() {
        let path = if at.is_empty() {
            name.to_owned()
        } else {
            format!("{at}.{name}")
        };
        match v {
            Value::Document(inner) => sort_sets(&mut w.doc(name), inner, &path, sets),
            Value::Array(a) if sets.contains(&path.as_str()) => {
                let mut all: Vec<Value<'_>> = a.iter().collect();
                all.sort_by(compare);
                let mut out = w.array(name);
                all.into_iter().for_each(|v| _ = out.push(v));
            }
            _ => _ = w.put(name, v),
        }
    }
}

/// The server of one case.
struct Bench {
    service: Arc<Dispatcher>,
    conn: Connection,
}

impl Bench {
    fn new() -> Bench {
        let config = Config {
            replica_set: None,
            ..Config::default()
        };
        let service = serve(config, store());
        let conn = service.connect("127.0.0.1:50000");
        Bench { service, conn }
    }

    fn run(&mut self, command: &Json) -> Result<DocBuf, String> {
        let command = extjson::document(command)?;
        let db = command
            .doc()
            .field("$db")
            .as_str()
            .unwrap_or("test")
            .to_owned();
        Ok(send(&self.service, &mut self.conn, &db, command.doc()))
    }

    fn succeed(&mut self, command: &Json) -> Result<DocBuf, String> {
        let reply = self.run(command)?;
        let fine =
            reply.doc().field("ok").as_f64() == Some(1.0) && !reply.doc().contains("writeErrors");
        if fine {
            Ok(reply)
        } else {
            Err(format!(
                "{command}\n    was refused: {}",
                canonical(&Value::from(&reply))
            ))
        }
    }

    /// All documents of a cursor; without a cursor, the reply as one document.
    fn rows(&mut self, command: &Json) -> Result<DocBuf, String> {
        let reply = self.succeed(command)?;
        let Some(cursor) = reply.doc().field("cursor").as_doc() else {
            return Ok(DocBuf::build(|w| _ = w.array("").push(reply.doc())));
        };
        if cursor.field("id").as_i64_exact() != Some(0) {
            return Err("more documents than one batch".to_owned());
        }
        Ok(DocBuf::build(|w| _ = w.put("", cursor.field("firstBatch"))))
    }
}

fn rows_differ(got: &DocBuf, wanted: &Json, case: &Json) -> Result<Option<String>, String> {
    let sets: Vec<&str> = case["sets"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
        .collect();
    let any = case["order"] == "any";
    let wanted = extjson::document(&serde_json::json!({ "": wanted }))?;
    let list = |d: &DocBuf| {
        d.doc()
            .field("")
            .as_array()
            .map(|a| sort_documents(a, any, &sets))
    };
    let (Some(got), Some(wanted)) = (list(got), list(&wanted)) else {
        return Err("expected is no list".to_owned());
    };
    let lines = |d: &DocBuf| -> String {
        let list = d.doc().field("").as_array().unwrap_or(Array::EMPTY);
        list.iter()
            .map(|v| format!("      {}\n", canonical(&v)))
            .collect()
    };
    let found = difference("", &got.doc().field(""), &wanted.doc().field(""));
    Ok(found.map(|d| {
        format!(
            "{d}\n    expected\n{}    got\n{}",
            lines(&wanted),
            lines(&got)
        )
    }))
}

fn error_differs(reply: &DocBuf, code: &Json) -> Option<String> {
    let got = reply.doc().field("code").as_i64_exact();
    // `true` means that the manual documents an error without its code.
    (got.is_none() || *code != Json::Bool(true) && got != code.as_i64()).then(|| {
        format!(
            "expected error {code}, got {}",
            canonical(&Value::from(reply))
        )
    })
}

/// Runs a case whose rows are expressions and their values.
fn run_table(bench: &mut Bench, case: &Json) -> Result<Option<String>, String> {
    let document = if case["document"].is_null() {
        serde_json::json!({})
    } else {
        case["document"].clone()
    };
    for row in case["table"].as_array().into_iter().flatten() {
        let (expression, wanted) = (&row[0], &row[1]);
        let pipeline = serde_json::json!([{ "$documents": [{ "$literal": document }] },
            { "$replaceWith": { "value": expression } }]);
        let command = serde_json::json!({ "aggregate": 1, "pipeline": pipeline, "cursor": {} });
        let found = if let Some(code) = wanted.get("$$error") {
            error_differs(&bench.run(&command)?, code)
        } else {
            let rows = bench
                .rows(&command)
                .map_err(|e| format!("{expression}: {e}"))?;
            let missing = wanted.get("$$missing").is_some();
            let wanted = if missing {
                serde_json::json!([{}])
            } else {
                serde_json::json!([{ "value": wanted }])
            };
            rows_differ(&rows, &wanted, case)?
        };
        if let Some(found) = found {
            return Ok(Some(format!("{expression}: {found}")));
        }
    }
    Ok(None)
}

fn command_of(case: &Json) -> Json {
    if !case["command"].is_null() {
        return case["command"].clone();
    }
    let first = case["collections"]
        .as_object()
        .and_then(|c| c.keys().next())
        .map(|name| Json::from(name.as_str()));
    let on = if case["on"].is_null() {
        first.unwrap_or(Json::from(1))
    } else {
        case["on"].clone()
    };
    serde_json::json!({ "aggregate": on, "pipeline": case["pipeline"],
        "cursor": { "batchSize": 1000 } })
}

fn run_case(case: &Json) -> Result<Option<String>, String> {
    let mut bench = Bench::new();
    for (collection, documents) in case["collections"].as_object().into_iter().flatten() {
        if documents.as_array().is_some_and(|d| !d.is_empty()) {
            bench.succeed(&serde_json::json!({ "insert": collection, "documents": documents }))?;
        }
    }
    for command in case["setup"].as_array().into_iter().flatten() {
        bench.succeed(command)?;
    }
    if !case["table"].is_null() {
        return run_table(&mut bench, case);
    }
    let command = command_of(case);
    if !case["error"].is_null() {
        return Ok(error_differs(&bench.run(&command)?, &case["error"]));
    }
    let rows = bench.rows(&command)?;
    if let Some(found) = rows_differ(&rows, &case["expected"], case)? {
        return Ok(Some(found));
    }
    for (collection, wanted) in case["after"].as_object().into_iter().flatten() {
        let (db, name) = collection.split_once('/').unwrap_or(("test", collection));
        let rows =
            bench.rows(&serde_json::json!({ "find": name, "sort": { "_id": 1 }, "$db": db }))?;
        if let Some(found) = rows_differ(&rows, wanted, &Json::Null)? {
            return Ok(Some(format!("in {collection} afterwards {found}")));
        }
    }
    Ok(None)
}

#[test]
fn documented_examples() {
    let only = std::env::var("GOLDEN").unwrap_or_default();
    let mut failures = Vec::new();
    let mut count = 0;
    for case in cases() {
        let title = format!(
            "{}/{} #{} ({})",
            case.kind,
            case.name,
            case.n,
            case.body["description"].as_str().unwrap_or("?")
        );
        if !title.contains(&only) {
            continue;
        }
        count += 1;
        match run_case(&case.body) {
            Ok(None) if !case.body["fails"].is_null() => {
                failures.push(format!("{title}\n  passes now: take its mark 'fails' away"))
            }
            Ok(None) => {}
            Ok(Some(_)) | Err(_) if !case.body["fails"].is_null() => {}
            Ok(Some(why)) | Err(why) => failures.push(format!("{title}\n  {why}")),
        }
    }
    println!("{} of {count} golden cases", count - failures.len());
    assert!(
        failures.is_empty(),
        "{} of {count} golden cases fail:\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

/// Collects every object key of a case at any depth.
fn keys_of<'j>(json: &'j Json, into: &mut BTreeSet<&'j str>) {
    match json {
        Json::Array(items) => items.iter().for_each(|item| keys_of(item, into)),
        Json::Object(fields) => {
            for (name, v) in fields {
                into.insert(name);
                keys_of(v, into);
            }
        }
        _ => {}
    }
}

#[test]
fn every_registered_name_has_a_case() {
    let mut wanted: BTreeSet<(&str, &str)> = query::stages::names().map(|n| ("stage", n)).collect();
    wanted.extend(operators::expr::names().map(|n| ("expression", n)));
    wanted.extend(operators::accumulator::names().map(|n| ("accumulator", n)));
    wanted.extend(query::stages::window_functions().map(|n| ("window", n)));
    let all = cases();
    let mut bad = Vec::new();
    for (kind, name) in wanted {
        let has = all
            .iter()
            .filter(|c| c.kind == kind && format!("${}", c.name) == name)
            .any(|c| {
                let mut keys = BTreeSet::new();
                ["pipeline", "command", "table"]
                    .iter()
                    .for_each(|part| keys_of(&c.body[*part], &mut keys));
                keys.contains(name)
            });
        let excused = WITHOUT_CASE
            .iter()
            .any(|(k, n, _)| (*k, *n) == (kind, name));
        if has == excused {
            bad.push(format!(
                "{kind} {name}: {}",
                if has {
                    "has a case and is excused"
                } else {
                    "has none"
                }
            ));
        }
    }
    assert!(bad.is_empty(), "{} names:\n{}", bad.len(), bad.join("\n"));
}
