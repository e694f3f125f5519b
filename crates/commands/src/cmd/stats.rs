//! `collStats`, `dbStats`, `dataSize`.

use context::command::Command;
use context::ctx::Ctx;
use context::ddl::{index_spec, names};
use context::read::stats::{fit, storage_stats, sum_indexes, to_signed};
use model::{Doc, Namespace, Result, Value, bail, code, compare};
use request::Outcome;
use request::args::{Kind, arg};
use request::asked::RightsRequest;
use request::spec::{Privilege, flag};
use std::cmp::Ordering;
use store::{Collection, ReadView};

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "collStats",
        "sizes of a collection",
        Privilege::Collection(&[auth::Action::CollStats]),
        flag::READ_CONCERN,
        &[
            arg("scale", Kind::AtLeast(1, code::BAD_VALUE)),
            arg("waitForLock", Kind::BoolLike),
            arg("numericOnly", Kind::BoolLike),
            arg("verbose", Kind::BoolLike),
        ],
        coll_stats,
    )
    .aliases(&["collstats"])
    .value(Kind::Collection),
    Command::new(
        "dbStats",
        "sizes of a database",
        Privilege::Database(&[auth::Action::DbStats]),
        flag::READ_CONCERN,
        &[
            arg("scale", Kind::AtLeast(1, code::BAD_VALUE)),
            arg("freeStorage", Kind::BoolLike),
        ],
        db_stats,
    )
    .aliases(&["dbstats"]),
    Command::new(
        "dataSize",
        "bytes of documents, of a range of keys when asked",
        Privilege::Asked(needs_of_data_size),
        flag::READ_CONCERN,
        &[
            arg("keyPattern", Kind::Object),
            arg("min", Kind::Object),
            arg("max", Kind::Object),
            arg("estimate", Kind::BoolLike),
        ],
        data_size,
    )
    .aliases(&["datasize"])
    .value(Kind::Str),
];

fn coll_stats(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::read_collection(cx)?;
    let scale = cx.args.int("scale").unwrap_or(1);
    cx.reply.put("ns", ns.to_string().as_str());
    let Some(c) = cx.service.store.collection(&ns)? else {
        for name in [
            "size",
            "count",
            "numOrphanDocs",
            "storageSize",
            "totalSize",
            "nindexes",
            "totalIndexSize",
        ] {
            cx.reply.put(name, 0i32);
        }
        cx.reply.doc("indexDetails");
        cx.reply.doc("indexSizes");
        cx.reply.put("scaleFactor", fit(scale));
        return Ok(Outcome::Reply);
    };
    if c.is_view() {
        bail!(
            code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Namespace {ns} is a view, not a collection"
        );
    }
    storage_stats(&c, scale, &mut cx.reply)?;
    Ok(Outcome::Reply)
}

fn db_stats(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let scale = cx.args.int("scale").unwrap_or(1).max(1);
    let (
        mut collections,
        mut views,
        mut objects,
        mut data,
        mut storage,
        mut indexes,
        mut index_bytes,
        mut free,
    ) = (0i64, 0i64, 0i64, 0i64, 0i64, 0i64, 0i64, 0i64);
    for e in cx.service.store.list_collections(cx.db)? {
        let Some(c) = cx
            .service
            .store
            .collection(&Namespace::new(cx.db, &e.name)?)?
        else {
            continue;
        };
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
        indexes += to_signed(s.index_bytes.len() as u64)
            + i64::from(!c.options().doc().contains("clusteredIndex"));
        index_bytes = index_bytes.saturating_add(sum_indexes(&s));
        free = free.saturating_add_unsigned(s.unused_bytes);
    }
    // Views have a collection for their definitions.
    collections += i64::from(views > 0);
    let scaled = |n: i64| n as f64 / scale as f64;
    let w = &mut cx.reply;
    w.put("db", cx.db)
        .put("collections", collections)
        .put("views", views)
        .put("objects", objects);
    w.put(
        "avgObjSize",
        if objects > 0 {
            data as f64 / objects as f64
        } else {
            0.0
        },
    );
    w.put("dataSize", scaled(data))
        .put("storageSize", scaled(storage))
        .put("indexes", indexes)
        .put("indexSize", scaled(index_bytes));
    w.put("totalSize", scaled(storage.saturating_add(index_bytes)))
        .put("scaleFactor", scale);
    if cx.args.bool("freeStorage", false) {
        w.put("freeStorageSize", scaled(free))
            .put("indexFreeStorageSize", 0.0)
            .put("totalFreeStorageSize", scaled(free));
    }
    if let Some((used, total)) = cx.service.disk_bytes() {
        cx.reply
            .put("fsUsedSize", scaled(to_signed(used)))
            .put("fsTotalSize", scaled(to_signed(total)));
    }
    Ok(Outcome::Reply)
}

/// The value of the first field is a full namespace.
fn needs_of_data_size(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let ns = Namespace::parse(asked.value.as_str().unwrap_or(""))?;
    asked.needs_at(&ns, &[auth::Action::Find])
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
            bail!(
                code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                "Namespace {ns} is a view or time-series collection, not a collection"
            )
        }
        Some(c) => match range {
            None => (to_signed(c.size_bytes()), to_signed(c.count())),
            Some((min, max)) => measure(c, cx.args.doc("keyPattern"), min, max)?,
        },
    };
    let millis = (cx.service.clock.monotonic_us() - start_us) / 1000;
    cx.reply
        .put("estimate", estimate)
        .put("size", size)
        .put("numObjects", count)
        .put("millis", to_signed(millis));
    Ok(Outcome::Reply)
}

fn range<'a>(cx: &Ctx<'a, '_>) -> Result<Option<(Doc<'a>, Doc<'a>)>> {
    match (cx.args.doc("min"), cx.args.doc("max")) {
        (None, None) => Ok(None),
        (Some(min), Some(max)) => Ok(Some((min, max))),
        _ => bail!(code::BAD_VALUE, "only one of min or max specified"),
    }
}

/// The bytes and number of the documents whose keys are at least `min` and below `max`.
fn measure(
    c: &std::sync::Arc<Collection>,
    pattern: Option<Doc<'_>>,
    min: Doc<'_>,
    max: Doc<'_>,
) -> Result<(i64, i64)> {
    let fits = |key: Doc<'_>| {
        min.iter().zip(key.iter()).all(|((a, _), (b, _))| a == b) && min.count() <= key.count()
    };
    let indexes = c.indexes();
    let id = model::doc! { "_id": 1i32 };
    let known = |key: Doc<'_>| {
        index_spec::is_id_key(key)
            || indexes
                .iter()
                .any(|i| index_spec::same_key(i.key_pattern(), key))
    };
    let key = match pattern {
        Some(p) if known(p) && fits(p) => p,
        Some(p) => bail!(
            code::OPERATION_FAILED,
            "couldn't find valid index containing key pattern {p}"
        ),
        None if fits(id.doc()) => id.doc(),
        None => match indexes.iter().map(|i| i.key_pattern()).find(|k| fits(*k)) {
            Some(key) => key,
            None => bail!(
                code::OPERATION_FAILED,
                "couldn't find valid index containing key pattern of {min}"
            ),
        },
    };
    let (mut size, mut count) = (0i64, 0i64);
    let mut scan = c.scan_keys(&ReadView::LATEST, None, None, false);
    while scan.visit(1024, &mut |row| {
        if order(row.doc, key, min) != Ordering::Less && order(row.doc, key, max) == Ordering::Less
        {
            size += to_signed(row.doc.len_bytes() as u64);
            count += 1;
        }
        true
    })? {}
    Ok((size, count))
}

/// Compares a document's key with a bound, field by field, in the directions of the key pattern.
fn order(doc: Doc<'_>, key: Doc<'_>, bound: Doc<'_>) -> Ordering {
    for ((path, direction), (_, limit)) in key.iter().zip(bound.iter()) {
        let value = path.split('.').fold(Value::Document(doc), |v, part| {
            v.as_doc().map_or(Value::Missing, |d| d.field(part))
        });
        let by = compare(&value, &limit);
        let by = if direction.as_f64().is_some_and(|n| n < 0.0) {
            by.reverse()
        } else {
            by
        };
        if by != Ordering::Equal {
            return by;
        }
    }
    Ordering::Equal
}
