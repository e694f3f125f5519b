//! Runs recorded cases whose commands this room can answer (insert, create, createIndexes, find,
//! aggregate) in process. The folder of cases is named by `QUARRY_BEHAVIOUR`; without it the test
//! says so and ends. `QUARRY_AREA` narrows the areas, `QUARRY_SHOW` shows that many failures an
//! area.

use crate::judge::{Outcome, judge};
use crate::memory_host::{Coll, MemoryHost};
use model::{Doc, DocBuf, MongoError, Namespace, Result, Value, code, doc, extjson};
use operators::Env;
use operators::expr::ParseCx;
use query::pipeline::{ParseOptions, Pipeline, Rt};
use std::collections::BTreeMap;
use std::io::Read as _;

/// Areas this room answers for, when none is named.
const AREAS: &[&str] = &[
    "core/operator/stages",
    "core/operator/system-stages",
    "core/operator/window",
    "core/operator/accumulators",
    "core/aggregation/commands/aggregate",
];

/// The step needs what only a server has.
struct NotHere;

fn ns(db: &str, coll: &str) -> Result<Namespace> {
    Namespace::new(db, coll)
}

fn insert(host: &MemoryHost, db: &str, cmd: Doc<'_>) -> Result<DocBuf> {
    let ns = ns(db, cmd.field("insert").as_str().unwrap_or(""))?;
    host.colls.lock().unwrap().entry(ns.clone()).or_default();
    for d in cmd
        .field("documents")
        .as_array()
        .into_iter()
        .flat_map(|a| a.iter())
        .filter_map(|v| v.as_doc())
    {
        let n = host
            .colls
            .lock()
            .unwrap()
            .get(&ns)
            .map_or(0, |c| c.docs.len());
        let mut id = [9u8; 12];
        id[4..].copy_from_slice(&(n as u64).to_be_bytes());
        let stored = DocBuf::build(|w| {
            if !d.contains("_id") {
                w.put("_id", model::ObjectId(id));
            }
            w.put_all(d);
        });
        host.insert(&ns, stored)?;
    }
    Ok(doc! { "ok": 1.0 })
}

fn create(host: &MemoryHost, db: &str, cmd: Doc<'_>) -> Result<DocBuf> {
    let ns = ns(db, cmd.field("create").as_str().unwrap_or(""))?;
    let view = match cmd.field("viewOn") {
        Value::String(on) => Some((
            Namespace::new(db, on)?,
            cmd.field("pipeline")
                .as_array()
                .unwrap_or(model::Array::EMPTY)
                .as_doc()
                .to_buf(),
        )),
        _ => None,
    };
    if let Some((on, pipeline)) = &view {
        let env = Env::new(1_700_000_000_000, 7);
        let options = ParseOptions {
            inside: query::pipeline::Inside::View,
            ..ParseOptions::collection(on.clone())
        };
        Pipeline::parse(&mut ParseCx::new(&env), pipeline.doc().as_array(), &options)?;
    }
    let coll = Coll {
        view,
        capped: cmd.field("capped").truthy(),
        timeseries: cmd.contains("timeseries"),
        ..Coll::default()
    };
    host.colls.lock().unwrap().insert(ns, coll);
    Ok(doc! { "ok": 1.0 })
}

fn create_indexes(host: &MemoryHost, db: &str, cmd: Doc<'_>) -> Result<DocBuf> {
    let ns = ns(db, cmd.field("createIndexes").as_str().unwrap_or(""))?;
    let mut colls = host.colls.lock().unwrap();
    let coll = colls.entry(ns).or_default();
    for d in cmd
        .field("indexes")
        .as_array()
        .into_iter()
        .flat_map(|a| a.iter())
        .filter_map(|v| v.as_doc())
    {
        let key = d.field("key").as_doc().unwrap_or(Doc::EMPTY).to_buf();
        coll.indexes.push((
            d.field("name").as_str().unwrap_or("").to_owned(),
            key,
            d.field("unique").truthy(),
        ));
    }
    Ok(doc! { "ok": 1.0 })
}

fn env(cmd: Doc<'_>) -> Env {
    let mut env = Env::new(1_700_000_000_000, 7);
    for (name, v) in cmd.field("let").as_doc().into_iter().flat_map(|d| d.iter()) {
        env.let_vars.push((name.to_owned(), v.to_owned_value()));
    }
    env
}

fn reply(ns: &str, docs: &query::pipeline::Batch) -> DocBuf {
    DocBuf::build(|w| {
        {
            let mut c = w.doc("cursor");
            c.put("id", 0i64).put("ns", ns);
            let mut a = c.array("firstBatch");
            docs.iter().for_each(|d| {
                a.push(d);
            });
        }
        w.put("ok", 1.0);
    })
}

fn aggregate(
    host: &MemoryHost,
    db: &str,
    cmd: Doc<'_>,
) -> std::result::Result<Result<DocBuf>, NotHere> {
    const PLAIN: &[&str] = &[
        "aggregate",
        "pipeline",
        "cursor",
        "let",
        "allowDiskUse",
        "hint",
        "maxTimeMS",
        "comment",
        "batchSize",
    ];
    if cmd.iter().any(|(name, _)| !PLAIN.contains(&name))
        || cmd.field("cursor").as_doc().is_none_or(|c| !c.is_empty())
    {
        return Err(NotHere);
    }
    let run = || -> Result<DocBuf> {
        let env = env(cmd);
        let (options, name) = match cmd.field("aggregate") {
            Value::String(c) => (ParseOptions::collection(ns(db, c)?), format!("{db}.{c}")),
            _ => (ParseOptions::database(db), format!("{db}.$cmd.aggregate")),
        };
        let pipeline =
            Pipeline::parse_value(&mut ParseCx::new(&env), cmd.field("pipeline"), &options)?;
        let mut rt = Rt::new(&env, host);
        rt.allow_disk_use = cmd.field("allowDiskUse").as_bool().unwrap_or(true);
        let docs = pipeline.run_to_end(&rt)?;
        Ok(reply(&name, &docs))
    };
    Ok(run())
}

fn find(host: &MemoryHost, db: &str, cmd: Doc<'_>) -> std::result::Result<Result<DocBuf>, NotHere> {
    if cmd
        .iter()
        .any(|(name, _)| !["find", "filter", "sort", "limit", "projection", "skip"].contains(&name))
    {
        return Err(NotHere);
    }
    let mut stages = Vec::new();
    {
        let mut w = model::ArrayWriter::new(&mut stages);
        for (field, stage) in [
            ("filter", "$match"),
            ("sort", "$sort"),
            ("skip", "$skip"),
            ("limit", "$limit"),
            ("projection", "$project"),
        ] {
            let empty = cmd.field(field).as_doc().is_some_and(Doc::is_empty);
            if cmd.contains(field) && !empty {
                w.doc().put(stage, cmd.field(field));
            }
        }
    }
    let stages = DocBuf::from_bytes(stages).unwrap();
    let agg = DocBuf::build(|w| {
        w.put("aggregate", cmd.field("find"))
            .put("pipeline", stages.doc().as_array())
            .doc("cursor");
    });
    aggregate(host, db, agg.doc())
}

fn step(host: &MemoryHost, db: &str, cmd: Doc<'_>) -> std::result::Result<Outcome, NotHere> {
    Ok(match cmd.first().map(|(name, _)| name) {
        Some("insert") => insert(host, db, cmd),
        Some("create") => create(host, db, cmd),
        Some("createIndexes") => create_indexes(host, db, cmd),
        Some("aggregate") => aggregate(host, db, cmd)?,
        Some("find") => find(host, db, cmd)?,
        Some("drop") => {
            let coll = cmd.field("drop").as_str().unwrap_or("").to_owned();
            let dropped = ns(db, &coll).map(|n| host.colls.lock().unwrap().remove(&n).is_some());
            match dropped {
                Ok(true) => Ok(doc! { "ok": 1.0 }),
                Ok(false) => Err(MongoError::new(code::NAMESPACE_NOT_FOUND, "ns not found")),
                Err(e) => Err(e),
            }
        }
        Some("listCollections") => Ok(doc! { "ok": 1.0 }),
        _ => return Err(NotHere),
    })
}

/// Runs one case: `Ok` whether it went as expected, with the reason when not.
fn run(case: &serde_json::Value) -> std::result::Result<Option<String>, NotHere> {
    let host = MemoryHost::default();
    let mut outcomes: Vec<Option<Outcome>> = Vec::new();
    let steps = case["steps"].as_array().ok_or(NotHere)?;
    let judged_list = |of: usize| {
        steps
            .get(of)
            .is_some_and(|s| s["run"].get("listCollections").is_some())
    };
    for s in steps {
        if let Some(run) = s.get("run") {
            let cmd = extjson::document(run).map_err(|_| NotHere)?;
            outcomes.push(Some(step(
                &host,
                s["db"].as_str().unwrap_or("db"),
                cmd.doc(),
            )?));
            continue;
        }
        outcomes.push(None);
        let e = &s["expect"];
        let of = e["of"]["$numberInt"]
            .as_str()
            .and_then(|t| t.parse().ok())
            .or_else(|| e["of"].as_u64())
            .unwrap_or(0) as usize;
        if judged_list(of) {
            return Err(NotHere);
        }
        let Some(Some(outcome)) = outcomes.get(of) else {
            return Err(NotHere);
        };
        if let Some(why) = judge(outcome, e) {
            return Ok(Some(why));
        }
    }
    Ok(None)
}

fn load(path: &std::path::Path) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// Some cases nest deeper than JSON readers like.
fn parse(line: &str) -> serde_json::Value {
    let mut reader = serde_json::Deserializer::from_str(line);
    reader.disable_recursion_limit();
    serde::Deserialize::deserialize(&mut reader).unwrap()
}

#[test]
fn recorded_cases() {
    let deep_stack = std::thread::Builder::new()
        .stack_size(256 << 20)
        .spawn(run_all)
        .unwrap();
    if let Err(panic) = deep_stack.join() {
        std::panic::resume_unwind(panic);
    }
}

fn run_all() {
    let Ok(folder) = std::env::var("QUARRY_BEHAVIOUR") else {
        eprintln!("skipped: QUARRY_BEHAVIOUR names no folder of recorded cases");
        return;
    };
    let wanted = std::env::var("QUARRY_AREA").ok();
    let show: usize = std::env::var("QUARRY_SHOW")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    let in_area = |area: &str| match &wanted {
        Some(w) => area.starts_with(w.as_str()),
        None => AREAS.iter().any(|a| area.starts_with(a)),
    };
    // Passed, failed, not runnable here; by area.
    let mut counts: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    for path in files {
        let name = path
            .file_name()
            .unwrap()
            .to_string_lossy()
            .replace("__", "/")
            .replace(".jsonl.gz", "");
        let related = AREAS
            .iter()
            .any(|a| name.starts_with(a) || a.starts_with(&name))
            || wanted
                .as_deref()
                .is_some_and(|w| name.starts_with(w) || w.starts_with(&name));
        if !related {
            continue;
        }
        for line in load(&path).lines() {
            let case = parse(line);
            let area = case["area"].as_str().unwrap_or("").to_owned();
            if !in_area(&area) {
                continue;
            }
            let count = counts.entry(area.clone()).or_default();
            match run(&case) {
                Ok(None) => count[0] += 1,
                Err(NotHere) => count[2] += 1,
                Ok(Some(why)) => {
                    count[1] += 1;
                    if count[1] <= show {
                        let cut: String = why.chars().take(600).collect();
                        let last = case["steps"]
                            .as_array()
                            .into_iter()
                            .flatten()
                            .rfind(|s| s["run"].get("aggregate").is_some());
                        let sent: String = last
                            .map(|s| s["run"].to_string())
                            .unwrap_or_default()
                            .chars()
                            .take(500)
                            .collect();
                        eprintln!("FAIL {area} #{}\n     {cut}\n     {sent}", case["n"]);
                    }
                }
            }
        }
    }
    let mut total = [0; 3];
    for (area, c) in &counts {
        eprintln!(
            "{:5} passed {:5} failed {:5} not here  {area}",
            c[0], c[1], c[2]
        );
        total.iter_mut().zip(c).for_each(|(t, n)| *t += n);
    }
    eprintln!(
        "{:5} passed {:5} failed {:5} not here  all",
        total[0], total[1], total[2]
    );
    if wanted.is_none() {
        assert!(
            total[0] >= FLOOR,
            "{} recorded cases pass, {FLOOR} did before",
            total[0]
        );
    }
}

/// Cases that passed when this was last set.
const FLOOR: usize = 4830;
