//! `collStats`, `dbStats`, `dataSize`.

use super::command;
use crate::dispatch::args::{Kind, arg};
use crate::dispatch::ctx::Ctx;
use crate::ddl::{index_spec, names};
use crate::dispatch::command::{Command, flag};
use crate::dispatch::request::Outcome;
use model::{Doc, DocWriter, Namespace, Result, Value, bail, code, compare};
use std::cmp::Ordering;
use store::{CollStats, Collection};

pub(crate) static COMMANDS: &[Command] = &[
    Command {
        aliases: &["collstats"],
        value: Kind::Collection,
        ..command(
            "collStats",
            "sizes of a collection",
            flag::READ_CONCERN,
            &[arg("scale", Kind::AtLeast(1, code::BAD_VALUE)), arg("waitForLock", Kind::BoolLike), arg("numericOnly", Kind::BoolLike), arg("verbose", Kind::BoolLike)],
            coll_stats,
        )
    },
    Command {
        aliases: &["dbstats"],
        ..command(
            "dbStats",
            "sizes of a database",
            flag::READ_CONCERN,
            &[arg("scale", Kind::AtLeast(1, code::BAD_VALUE)), arg("freeStorage", Kind::Number)],
            db_stats,
        )
    },
    Command {
        aliases: &["datasize"],
        value: Kind::Str,
        ..command(
            "dataSize",
            "bytes of documents, of a range of keys when asked",
            flag::READ_CONCERN,
            &[arg("keyPattern", Kind::Object), arg("min", Kind::Object), arg("max", Kind::Object), arg("estimate", Kind::BoolLike)],
            data_size,
        )
    },
];

fn sum_indexes(s: &CollStats) -> i64 {
    s.index_bytes.iter().fold(0i64, |a, (_, b)| a.saturating_add_unsigned(*b))
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A whole number as 32 bits where it fits, as MongoDB's builders write sizes.
pub(crate) fn fit(n: i64) -> Value<'static> {
    i32::try_from(n).map_or(Value::Int64(n), Value::Int32)
}

fn coll_stats(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::own(cx)?;
    let scale = cx.args.int("scale").unwrap_or(1);
    cx.reply.put("ns", ns.to_string().as_str());
    let Some(c) = cx.service.store.collection(&ns)? else {
        for name in ["size", "count", "numOrphanDocs", "storageSize", "totalSize", "nindexes", "totalIndexSize"] {
            cx.reply.put(name, 0i32);
        }
        cx.reply.doc("indexDetails");
        cx.reply.doc("indexSizes");
        cx.reply.put("scaleFactor", fit(scale));
        return Ok(Outcome::Reply);
    };
    if c.is_view() {
        bail!(code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Namespace {ns} is a view, not a collection");
    }
    collection_figures(&c, scale, &mut cx.reply)?;
    Ok(Outcome::Reply)
}

/// The storage figures of one collection, as `collStats` and `$collStats` show them.
pub(crate) fn collection_figures(c: &Collection, scale: i64, w: &mut DocWriter<'_>) -> Result<()> {
    let s = c.stats()?;
    let options = c.options();
    let options = options.doc();
    let scale = scale.max(1);
    w.put("size", fit(s.size_bytes / scale));
    match options.field("timeseries") {
        Value::Document(_) => {
            w.doc("timeseries").put("bucketsNs", format!("{}.system.buckets.{}", c.ns().db(), c.ns().coll()).as_str()).put("bucketCount", 0i32);
        }
        _ => {
            w.put("count", fit(s.count));
            if s.count > 0 {
                w.put("avgObjSize", fit(s.size_bytes / s.count));
            }
        }
    }
    w.put("numOrphanDocs", 0i32).put("storageSize", fit(signed(s.storage_bytes) / scale)).put("freeStorageSize", 0i32);
    let capped = options.field("capped").truthy();
    w.put("capped", capped);
    if capped {
        w.put("max", options.get("max").unwrap_or(Value::Int32(0))).put("maxSize", options.field("size").as_i64_exact().map_or(Value::Missing, fit));
    }
    let own_id = !options.contains("clusteredIndex") && !options.contains("timeseries");
    w.put("nindexes", fit(signed((s.index_bytes.len() + usize::from(own_id)) as u64)));
    w.doc("indexDetails");
    w.array("indexBuilds");
    let total = sum_indexes(&s);
    w.put("totalIndexSize", fit(total / scale));
    w.put("totalSize", fit(signed(s.storage_bytes).saturating_add(total) / scale));
    let mut sizes = w.doc("indexSizes");
    if own_id {
        // The documents are clustered by `_id`: its index is the collection itself.
        sizes.put("_id_", 0i32);
    }
    for (name, bytes) in &s.index_bytes {
        sizes.put(name, fit(signed(*bytes) / scale));
    }
    drop(sizes);
    w.put("scaleFactor", fit(scale));
    Ok(())
}

/// The document of `$collStats`; `spec` names the parts wanted.
///
/// # Errors
/// 26 NamespaceNotFound and 166 where a part needs a collection; engine failures.
pub(crate) fn stage(service: &crate::service::Service, ns: &Namespace, spec: Doc<'_>) -> Result<Vec<model::DocBuf>> {
    let coll = service.store.collection(ns)?;
    if coll.is_none() && names::is_views(service, ns)? {
        return Ok(vec![of_views(service, ns, spec)?]);
    }
    let needs = ["storageStats", "count", "queryExecStats"].iter().any(|part| spec.contains(part));
    let c = match (&coll, needs) {
        (None, true) => bail!(code::NAMESPACE_NOT_FOUND, "Collection [{ns}] not found."),
        (Some(c), true) if c.is_view() => {
            bail!(code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Namespace {ns} is a view, not a collection")
        }
        _ => coll.as_ref(),
    };
    let mut failed = Ok(());
    let doc = model::DocBuf::build(|w| {
        w.put("ns", ns.to_string().as_str()).put("host", &service.config.host);
        w.put("localTime", Value::Date(service.clock.now_ms()));
        if let Some(options) = spec.get("latencyStats") {
            let histograms = options.as_doc().is_some_and(|d| d.field("histograms").truthy());
            let mut l = w.doc("latencyStats");
            for kind in ["reads", "writes", "commands", "transactions"] {
                let mut one = l.doc(kind);
                if histograms {
                    // One element for each bucket that is not empty.
                    one.array("histogram");
                }
                one.put("latency", 0i64).put("ops", 0i64).put("queryableEncryptionLatencyMicros", 0i64);
            }
        }
        if let (Some(options), Some(c)) = (spec.get("storageStats"), c) {
            let scale = options.as_doc().and_then(|d| d.field("scale").as_f64()).map_or(1, |f| f as i64);
            failed = collection_figures(c, scale, &mut w.doc("storageStats"));
        }
        if let (true, Some(c)) = (spec.contains("count"), c) {
            // Of a time series MongoDB counts the buckets; there are none.
            w.put("count", fit(if names::is_timeseries(c) { 0 } else { signed(c.count()) }));
        }
        if spec.contains("queryExecStats") {
            w.doc("queryExecStats").doc("collectionScans").put("total", 0i64).put("nonTailable", 0i64);
        }
    });
    failed.map(|()| vec![doc])
}

/// The same of `system.views`, which is made from the catalog.
fn of_views(service: &crate::service::Service, ns: &Namespace, spec: Doc<'_>) -> Result<model::DocBuf> {
    let views: Vec<_> = service.store.list_collections(ns.db())?.into_iter().filter(|e| names::is_view_row(&e.row)).collect();
    let bytes = views.iter().fold(0i64, |n, e| n.saturating_add_unsigned(e.row.options.doc().len_bytes() as u64));
    let count = signed(views.len() as u64);
    Ok(model::DocBuf::build(|w| {
        w.put("ns", ns.to_string().as_str()).put("host", &service.config.host).put("localTime", Value::Date(service.clock.now_ms()));
        if spec.contains("latencyStats") {
            w.doc("latencyStats");
        }
        if spec.contains("storageStats") {
            let mut s = w.doc("storageStats");
            s.put("size", fit(bytes)).put("count", fit(count)).put("storageSize", fit(bytes)).put("capped", false).put("nindexes", 1i32);
        }
        if spec.contains("count") {
            w.put("count", fit(count));
        }
        if spec.contains("queryExecStats") {
            w.doc("queryExecStats").doc("collectionScans").put("total", 0i64).put("nonTailable", 0i64);
        }
    }))
}

fn db_stats(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let scale = cx.args.int("scale").unwrap_or(1).max(1);
    let (mut collections, mut views, mut objects, mut data, mut storage, mut indexes, mut index_bytes) = (0i64, 0i64, 0i64, 0i64, 0i64, 0i64, 0i64);
    for e in cx.service.store.list_collections(cx.db)? {
        let Some(c) = cx.service.store.collection(&Namespace::new(cx.db, &e.name)?)? else { continue };
        if c.is_view() {
            views += 1;
            continue;
        }
        let s = c.stats()?;
        collections += 1;
        views += i64::from(names::is_timeseries(&c));
        objects += s.count;
        data = data.saturating_add(s.size_bytes);
        storage = storage.saturating_add_unsigned(s.storage_bytes);
        indexes += signed(s.index_bytes.len() as u64) + i64::from(!c.options().doc().contains("clusteredIndex"));
        index_bytes = index_bytes.saturating_add(sum_indexes(&s));
    }
    // Views have a collection of their definitions.
    collections += i64::from(views > 0);
    let scaled = |n: i64| n as f64 / scale as f64;
    let w = &mut cx.reply;
    w.put("db", cx.db).put("collections", collections).put("views", views).put("objects", objects);
    w.put("avgObjSize", if objects > 0 { data as f64 / objects as f64 } else { 0.0 });
    w.put("dataSize", scaled(data)).put("storageSize", scaled(storage)).put("indexes", indexes).put("indexSize", scaled(index_bytes));
    w.put("totalSize", scaled(storage.saturating_add(index_bytes))).put("scaleFactor", scale);
    if cx.args.int("freeStorage").unwrap_or(0) != 0 {
        w.put("freeStorageSize", 0.0).put("indexFreeStorageSize", 0.0).put("totalFreeStorageSize", 0.0);
    }
    let (used, total) = cx.service.disk_bytes();
    cx.reply.put("fsUsedSize", scaled(used)).put("fsTotalSize", scaled(total));
    Ok(Outcome::Reply)
}

fn data_size(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = Namespace::parse(cx.value().as_str().unwrap_or(""))?;
    let start_us = cx.service.clock.monotonic_us();
    let range = range(cx)?;
    let estimate = cx.args.bool("estimate", false);
    let there = cx.service.store.collection(&ns)?;
    let (size, count) = match &there {
        None => (0, 0),
        Some(c) if c.is_view() || names::is_timeseries(c) => {
            bail!(code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Namespace {ns} is a view or time-series collection, not a collection")
        }
        Some(c) => match range {
            None => (signed(c.size_bytes()), signed(c.count())),
            Some(bounds) => measure(c, cx.args.doc("keyPattern"), bounds)?,
        },
    };
    let millis = (cx.service.clock.monotonic_us() - start_us) / 1000;
    cx.reply.put("estimate", estimate).put("size", size).put("numObjects", count).put("millis", signed(millis));
    Ok(Outcome::Reply)
}

fn range<'a>(cx: &Ctx<'a, '_>) -> Result<Option<(Doc<'a>, Doc<'a>)>> {
    match (cx.args.doc("min"), cx.args.doc("max")) {
        (None, None) => Ok(None),
        (Some(min), Some(max)) => Ok(Some((min, max))),
        _ => bail!(code::BAD_VALUE, "only one of min or max specified"),
    }
}

/// Bytes and number of documents whose keys are at least `min` and below `max`.
fn measure(c: &std::sync::Arc<Collection>, pattern: Option<Doc<'_>>, (min, max): (Doc<'_>, Doc<'_>)) -> Result<(i64, i64)> {
    let fits = |key: Doc<'_>| min.iter().zip(key.iter()).all(|((a, _), (b, _))| a == b) && min.count() <= key.count();
    let indexes = c.indexes();
    let id = model::doc! { "_id": 1i32 };
    let known = |key: Doc<'_>| index_spec::is_id_key(key) || indexes.iter().any(|i| index_spec::same_key(i.key_pattern(), key));
    let key = match pattern {
        Some(p) if known(p) && fits(p) => p,
        Some(p) => bail!(code::OPERATION_FAILED, "couldn't find valid index containing key pattern {p:?}"),
        None if fits(id.doc()) => id.doc(),
        None => match indexes.iter().map(|i| i.key_pattern()).find(|k| fits(*k)) {
            Some(key) => key,
            None => bail!(code::OPERATION_FAILED, "couldn't find valid index containing key pattern of {min:?}"),
        },
    };
    let (mut size, mut count) = (0i64, 0i64);
    let mut scan = c.scan_keys(None, None, false);
    while scan.visit(1024, &mut |row| {
        if order(row.doc, key, min) != Ordering::Less && order(row.doc, key, max) == Ordering::Less {
            size += signed(row.doc.len_bytes() as u64);
            count += 1;
        }
        true
    })? {}
    Ok((size, count))
}

/// Compares a document's key with a bound, field by field in the directions of the pattern.
fn order(doc: Doc<'_>, key: Doc<'_>, bound: Doc<'_>) -> Ordering {
    for ((path, direction), (_, limit)) in key.iter().zip(bound.iter()) {
        let value = path.split('.').fold(Value::Document(doc), |v, part| v.as_doc().map_or(Value::Missing, |d| d.field(part)));
        let by = compare(&value, &limit);
        let by = if direction.as_f64().is_some_and(|n| n < 0.0) { by.reverse() } else { by };
        if by != Ordering::Equal {
            return by;
        }
    }
    Ordering::Equal
}
