//! Sizes of collections, for `collStats`, `dbStats` and `$collStats`.

use crate::ddl::{names, system_views};
use metrics::LatencyCounts;
use model::{Doc, DocBuf, DocWriter, Namespace, Number, Result, Value, bail, code};
use request::spec::LatencyKind;
use state::service::Service;
use store::{CollStats, Collection, ReadView};

/// The size of all indexes in bytes.
pub fn sum_indexes(s: &CollStats) -> i64 {
    to_signed(s.all_index_bytes())
}

/// The number as a signed integer, at most the largest one.
pub fn to_signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// An integer as 32 bits if it fits, as MongoDB writes sizes.
pub fn fit(n: i64) -> Value<'static> {
    i32::try_from(n).map_or(Value::Int64(n), Value::Int32)
}

/// Latencies in MongoDB's format, in microseconds.
pub fn write_latency(counts: &LatencyCounts, histograms: bool, w: &mut DocWriter<'_>) {
    if histograms {
        // One element for each bucket that is not empty.
        let mut buckets = w.array("histogram");
        for (from_us, count) in counts.nonempty_buckets() {
            buckets
                .doc()
                .put("micros", to_signed(from_us))
                .put("count", to_signed(count));
        }
    }
    w.put("latency", to_signed(counts.sum_us))
        .put("ops", to_signed(counts.count()));
}

/// The storage statistics of one collection, as `collStats` and `$collStats` show them.
pub fn storage_stats(c: &Collection, scale: i64, w: &mut DocWriter<'_>) -> Result<()> {
    let s = c.stats()?;
    let options = c.options();
    let options = options.doc();
    let scale = scale.max(1);
    w.put("size", fit(s.size_bytes / scale));
    match options.field("timeseries") {
        Value::Document(_) => put_bucket_stats(c, &mut w.doc("timeseries"))?,
        _ => {
            w.put("count", fit(s.count));
            if s.count > 0 {
                w.put("avgObjSize", fit(s.size_bytes / s.count));
            }
        }
    }
    w.put("numOrphanDocs", 0i32)
        .put("storageSize", fit(to_signed(s.storage_bytes) / scale))
        .put("freeStorageSize", fit(to_signed(s.unused_bytes) / scale));
    let capped = options.field("capped").truthy();
    w.put("capped", capped);
    if capped {
        w.put("max", options.get("max").unwrap_or(Value::Int32(0)))
            .put(
                "maxSize",
                options
                    .field("size")
                    .as_i64_exact()
                    .map_or(Value::Missing, fit),
            );
    }
    let own_id = !options.contains("clusteredIndex") && !options.contains("timeseries");
    w.put(
        "nindexes",
        fit(to_signed(
            (s.index_bytes.len() + usize::from(own_id)) as u64,
        )),
    );
    let mut details = w.doc("indexDetails");
    let indexes = c.indexes();
    for (name, bytes) in &s.index_bytes {
        let index = indexes.iter().find(|i| i.name() == name);
        let mut one = details.doc(name);
        one.put("storageBytes", to_signed(*bytes));
        if let Some(index) = index {
            one.put("multikey", index.is_multikey())
                .put("ready", index.is_ready());
        }
    }
    drop(details);
    let mut builds = w.array("indexBuilds");
    for index in indexes.iter().filter(|i| !i.is_ready()) {
        builds.push(index.name());
    }
    drop(builds);
    let total = sum_indexes(&s);
    w.put("totalIndexSize", fit(total / scale));
    w.put(
        "totalSize",
        fit(to_signed(s.storage_bytes).saturating_add(total) / scale),
    );
    let mut sizes = w.doc("indexSizes");
    if own_id {
        // Documents are stored in the order of `_id`, so their keys count as its index.
        sizes.put("_id_", fit(to_signed(s.id_bytes) / scale));
    }
    for (name, bytes) in &s.index_bytes {
        sizes.put(name, fit(to_signed(*bytes) / scale));
    }
    drop(sizes);
    w.put("scaleFactor", fit(scale));
    Ok(())
}

/// Writes the counters of a time-series collection's buckets.
fn put_bucket_stats(c: &Collection, w: &mut DocWriter<'_>) -> Result<()> {
    let b = c.bucket_stats()?;
    let commits = b.inserts + b.updates;
    let average = |sum: i64, n: i64| sum.checked_div(n).unwrap_or(0);
    w.put(
        "bucketsNs",
        format!("{}.system.buckets.{}", c.ns().db(), c.ns().coll()).as_str(),
    )
    .put("bucketCount", fit(b.buckets))
    .put("avgBucketSize", fit(average(b.bytes, b.buckets)))
    .put("numBucketInserts", fit(b.inserts))
    .put("numBucketUpdates", fit(b.updates))
    .put("numBucketsOpenedDueToMetadata", fit(b.opened_for_metadata))
    .put("numBucketsClosedDueToCount", fit(b.closed_by_count))
    .put("numBucketsClosedDueToSize", fit(b.closed_by_size))
    .put(
        "numBucketsClosedDueToTimeForward",
        fit(b.closed_by_time_forward),
    )
    .put(
        "numBucketsClosedDueToTimeBackward",
        fit(b.closed_by_time_backward),
    )
    .put(
        "numBucketsClosedDueToMemoryThreshold",
        fit(b.closed_by_memory),
    )
    .put("numCommits", fit(commits))
    .put("numMeasurementsCommitted", fit(b.measurements))
    .put(
        "avgNumMeasurementsPerCommit",
        fit(average(b.measurements, commits)),
    );
    Ok(())
}

/// The document of `$collStats`; `spec` selects its parts.
///
/// # Errors
/// 26 NamespaceNotFound and 166 if a part needs a collection; engine failures.
pub(crate) fn stage(service: &Service, ns: &Namespace, spec: Doc<'_>) -> Result<Vec<DocBuf>> {
    let coll = service.store.collection(ns)?;
    if coll.is_none() && system_views::is_there(service, &ReadView::LATEST, ns)? {
        return Ok(vec![of_views(service, ns, spec)?]);
    }
    let needs = ["storageStats", "count", "queryExecStats"]
        .iter()
        .any(|part| spec.contains(part));
    let c = match (&coll, needs) {
        (None, true) => bail!(code::NAMESPACE_NOT_FOUND, "Collection [{ns}] not found."),
        (Some(c), true) if c.is_view() => {
            bail!(
                code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                "Namespace {ns} is a view, not a collection"
            )
        }
        _ => coll.as_ref(),
    };
    let mut failed = Ok(());
    let doc = DocBuf::build(|w| {
        w.put("ns", ns.to_string().as_str())
            .put("host", &service.config.host);
        w.put("localTime", Value::Date(service.clock.now_ms()));
        if let Some(options) = spec.get("latencyStats") {
            let histograms = options
                .as_doc()
                .is_some_and(|d| d.field("histograms").truthy());
            let mut l = w.doc("latencyStats");
            let used = service.counters.of(&ns.to_string());
            for (name, kind) in [
                ("reads", LatencyKind::Read),
                ("writes", LatencyKind::Write),
                ("commands", LatencyKind::Command),
            ] {
                let counts = used.as_ref().map(|u| u.latency(kind));
                write_latency(&counts.unwrap_or_default(), histograms, &mut l.doc(name));
            }
            // A transaction belongs to no collection: its time is in the server's `opLatencies`.
            let none = LatencyCounts::default();
            write_latency(&none, histograms, &mut l.doc("transactions"));
        }
        if let (Some(options), Some(c)) = (spec.get("storageStats"), c) {
            let scale = options
                .as_doc()
                .and_then(|d| Number::of(&d.field("scale")))
                .map_or(1, |n| n.to_i64_lenient().min(i64::from(i32::MAX)));
            failed = storage_stats(c, scale, &mut w.doc("storageStats"));
        }
        if let (true, Some(c)) = (spec.contains("count"), c) {
            // A time series counts as a view, whose documents are stored elsewhere.
            w.put(
                "count",
                fit(if names::is_timeseries(c) {
                    0
                } else {
                    to_signed(c.count())
                }),
            );
        }
        if spec.contains("queryExecStats") {
            let used = service.counters.of(&ns.to_string());
            let (total, tailable) = used.map_or((0, 0), |u| u.collection_scans());
            w.doc("queryExecStats")
                .doc("collectionScans")
                .put("total", total)
                .put("nonTailable", total - tailable);
        }
    });
    failed.map(|()| vec![doc])
}

/// The same for `system.views`, whose documents are built from the catalog.
fn of_views(service: &Service, ns: &Namespace, spec: Doc<'_>) -> Result<DocBuf> {
    let views = system_views::documents(service, &ReadView::LATEST, ns.db())?;
    let bytes = views.iter().fold(0i64, |n, view| {
        n.saturating_add_unsigned(view.doc().len_bytes() as u64)
    });
    let count = to_signed(views.len() as u64);
    Ok(DocBuf::build(|w| {
        w.put("ns", ns.to_string().as_str())
            .put("host", &service.config.host)
            .put("localTime", Value::Date(service.clock.now_ms()));
        if spec.contains("latencyStats") {
            w.doc("latencyStats");
        }
        if spec.contains("storageStats") {
            let mut s = w.doc("storageStats");
            s.put("size", fit(bytes))
                .put("count", fit(count))
                .put("storageSize", fit(bytes))
                .put("capped", false)
                .put("nindexes", 1i32);
        }
        if spec.contains("count") {
            w.put("count", fit(count));
        }
        if spec.contains("queryExecStats") {
            w.doc("queryExecStats")
                .doc("collectionScans")
                .put("total", 0i64)
                .put("nonTailable", 0i64);
        }
    }))
}
