//! Recorded cases whose commands need only pipelines (insert, create, createIndexes, find,
//! aggregate), run in this process.

use crate::memory_host::{Coll, MemoryHost};
use crate::outcome::{first_batch, is_judged, reply};
use crate::recorded::{self, Verdict, run_areas};
use model::{Doc, DocBuf, MongoError, Namespace, Result, Value, code, doc};
use operators::Env;
use operators::expr::ParseCx;
use query::exec::ExecContext;
use query::pipeline::Pipeline;
use query::stage::ParseOptions;
use serde_json::Value as Json;

/// Areas of the recorded cases about stages.
const AREAS: &[&str] = &[
    "core/operator/stages",
    "core/operator/system-stages",
    "core/operator/window",
    "core/operator/accumulators",
    "core/aggregation/commands/aggregate",
];

/// A step that needs a whole server.
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
            inside: query::stage::PipelineContext::View,
            ..query::stages::collection_options(on.clone())
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
        let options = match cmd.field("aggregate") {
            Value::String(c) => query::stages::collection_options(ns(db, c)?),
            _ => query::stages::database_options(db),
        };
        let pipeline =
            Pipeline::parse_value(&mut ParseCx::new(&env), cmd.field("pipeline"), &options)?;
        let mut exec = ExecContext::new(&env, host);
        exec.allow_disk_use = cmd.field("allowDiskUse").as_bool().unwrap_or(true);
        let docs = pipeline.run_to_end(&exec)?;
        Ok(first_batch(docs.iter()))
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

fn step(host: &MemoryHost, db: &str, cmd: Doc<'_>) -> std::result::Result<Result<DocBuf>, NotHere> {
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

fn run_case(case: &Json) -> Verdict {
    if is_judged(case, &|name, _| name == "listCollections") {
        return Verdict::Skipped;
    }
    let host = MemoryHost::default();
    recorded::run_case(case, &mut |db, command| {
        step(&host, db, command).ok().map(reply)
    })
}

#[test]
fn recorded_cases() {
    let wanted = |area: &str| AREAS.iter().any(|a| area.starts_with(a));
    let Some(areas) = run_areas(&wanted, &run_case) else {
        return;
    };
    let all = recorded::sum(&areas);
    assert!(
        std::env::var_os("QUARRY_AREA").is_some() || all.passed >= FLOOR,
        "{all:?}, {FLOOR} passed before"
    );
}

/// The number of cases that passed before.
const FLOOR: usize = 4830;
