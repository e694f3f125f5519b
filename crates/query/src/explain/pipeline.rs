//! Aggregations: as a plan alone when every stage went into it, else as stages over a cursor.

use super::PlanNode;
use super::access::ReadStats;
use super::find::{ExplainedQuery, query_planner, tree};
use crate::exec::{BatchStream, DocBatch, ExecContext, MatchFilter};
use crate::find::Find;
use crate::pipeline::Pipeline;
use crate::stage::{Kind, Stage};
use model::{Doc, DocBuf, DocWriter, Namespace, Result, Value};
use operators::expr::ParseCx;
use operators::project::Projection;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What of a pipeline the plan below it does: a find, its projection as a document, and how many
/// stages that is.
pub fn plain_prefix(
    stages: &[Arc<dyn Stage>],
    exec: &ExecContext<'_>,
    fields: Option<&[String]>,
) -> Result<(Find, DocBuf, usize)> {
    let mut at = 0;
    let kind = |at: usize| stages.get(at).map_or(Kind::Other, |s| s.kind());
    let filter = match kind(0) {
        Kind::Match(f) => {
            at += 1;
            f.clone()
        }
        _ => Arc::new(MatchFilter::parse(&mut ParseCx::new(exec.env), Doc::EMPTY)?),
    };
    let mut find = Find {
        filter,
        sort: None,
        skip: 0,
        limit: None,
        projection: None,
        hint: None,
        min: DocBuf::new(),
        max: DocBuf::new(),
        return_key: false,
        show_record_id: false,
        tail: false,
        collation: None,
        view: None,
        allowed: None,
    };
    if let Kind::Sort { pattern, limit } = kind(at) {
        find.sort = Some(pattern.clone());
        find.limit = limit;
        at += 1;
    }
    if let (Kind::Limit(n), None) = (kind(at), find.limit) {
        find.limit = Some(n);
        at += 1;
    }
    if let Kind::Skip(n) = kind(at) {
        // The limit stands before the skip in a pipeline and behind it in a find.
        find.skip = n;
        find.limit = find.limit.map(|l| l.saturating_sub(n));
        at += 1;
    }
    let mut projection = DocBuf::new();
    let shown = stages.get(at).map(|s| s.describe());
    let project = shown
        .as_ref()
        .and_then(|d| d.doc().first())
        .filter(|(n, _)| *n == "$project");
    match (project, fields) {
        (Some((_, Value::Document(spec))), _) if stages.len() == at + 1 => {
            projection = spec.to_buf();
            at += 1;
        }
        (_, Some(fields)) if !fields.is_empty() => {
            projection = DocBuf::build(|w| {
                for f in fields.iter().filter(|f| *f != "_id") {
                    w.put(f, 1i32);
                }
                w.put("_id", i32::from(fields.iter().any(|f| f == "_id")));
            });
        }
        _ => {}
    }
    if !projection.doc().is_empty() {
        let mut cx = ParseCx::new(exec.env);
        if find.filter.filter.text().is_some() {
            cx.meta.push("textScore");
        }
        find.projection = Some(Projection::parse_project(
            &mut cx,
            Value::from(&projection),
        )?);
    }
    Ok((find, projection, at))
}

/// Documents and time that went through a place.
#[derive(Default)]
struct Meter {
    docs: AtomicU64,
    bytes: AtomicU64,
    us: AtomicU64,
}

struct Metered {
    inner: Box<dyn BatchStream>,
    meter: Arc<Meter>,
}

impl BatchStream for Metered {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let start = std::time::Instant::now();
        let more = self.inner.next_batch(exec, out);
        let us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.meter.us.fetch_add(us, Ordering::Relaxed);
        self.meter
            .docs
            .fetch_add(out.len() as u64, Ordering::Relaxed);
        self.meter.bytes.fetch_add(
            out.iter().map(|d| d.len_bytes() as u64).sum(),
            Ordering::Relaxed,
        );
        more
    }
}

/// The read below a pipeline.
pub struct ExplainedSource<'s> {
    /// Its namespace.
    pub ns: &'s str,
    /// What is explained of it.
    pub subject: ExplainedQuery<'s>,
    /// Plans not taken.
    pub rejected: Vec<PlanNode>,
    /// What it did, when it was run.
    pub measured: Option<ReadStats>,
}

/// Fills `stages` (or the plan alone) of an explained aggregation; `taken` leading stages are done
/// by the source.
///
/// # Errors
/// Those of the stages, when they are run.
pub fn aggregation(
    w: &mut DocWriter<'_>,
    pipeline: &Pipeline,
    source: Option<&ExplainedSource<'_>>,
    taken: usize,
    all: bool,
    exec: &ExecContext<'_>,
) -> Result<()> {
    let executed = source.is_some_and(|s| s.measured.is_some());
    if let (Some(s), true) = (source, taken == pipeline.stages().len()) {
        planner_and_stats(w, s, all);
        return Ok(());
    }
    let meters = if executed {
        run(pipeline, taken, exec)?
    } else {
        Vec::new()
    };
    let mut list = w.array("stages");
    if let Some(s) = source {
        let mut one = list.doc();
        planner_and_stats(&mut one.doc("$cursor"), s, all);
        if let Some(m) = meters.first() {
            put_meter(&mut one, m);
        }
    }
    for (n, stage) in pipeline.stages().iter().enumerate().skip(taken) {
        let mut one = list.doc();
        one.put_all(stage.describe().doc());
        let at = n - taken;
        if let (Some(before), Some(after)) = (meters.get(at), meters.get(at + 1)) {
            own_metrics(
                &mut one,
                stage.as_ref(),
                before,
                after,
                pipeline.target().db(),
                exec,
            );
            put_meter(&mut one, after);
        }
    }
    Ok(())
}

fn planner_and_stats(w: &mut DocWriter<'_>, s: &ExplainedSource<'_>, all: bool) {
    query_planner(&mut w.doc("queryPlanner"), s.ns, &s.subject, &s.rejected);
    if let Some(m) = &s.measured {
        put_stats(&mut w.doc("executionStats"), &tree(&s.subject, m), m, all);
    }
}

/// Fills `executionStats`.
pub fn put_stats(w: &mut DocWriter<'_>, shown: &PlanNode, m: &ReadStats, all: bool) {
    w.put("executionSuccess", true)
        .put("nReturned", super::count(shown.stats.returned));
    w.put("executionTimeMillis", super::count(m.ms));
    let keys = if shown.stage.starts_with("EXPRESS") {
        m.scanned.docs
    } else {
        keys_of(shown, m)
    };
    w.put("totalKeysExamined", super::count(keys))
        .put("totalDocsExamined", super::count(m.scanned.docs));
    shown.write(&mut w.doc("executionStages"), true);
    if all {
        w.array("allPlansExecution");
    }
}

/// Entries of `_id` are documents here, but a client counts both.
fn keys_of(shown: &PlanNode, m: &ReadStats) -> u64 {
    fn by_id(s: &PlanNode) -> bool {
        s.stage == "IXSCAN" && s.own.doc().field("indexName").as_str() == Some("_id_")
            || s.inputs.iter().any(by_id)
    }
    if m.scanned.keys == 0 && by_id(shown) {
        m.scanned.docs
    } else {
        m.scanned.keys
    }
}

fn put_meter(w: &mut DocWriter<'_>, m: &Meter) {
    w.put(
        "nReturned",
        i64::try_from(m.docs.load(Ordering::Relaxed)).unwrap_or(i64::MAX),
    );
    w.put(
        "executionTimeMillisEstimate",
        i64::try_from(m.us.load(Ordering::Relaxed) / 1000).unwrap_or(i64::MAX),
    );
}

/// What blocking and joining stages tell besides.
fn own_metrics(
    w: &mut DocWriter<'_>,
    stage: &dyn Stage,
    before: &Meter,
    after: &Meter,
    db: &str,
    exec: &ExecContext<'_>,
) {
    let shown = stage.describe();
    let bytes = |m: &Meter| m.bytes.load(Ordering::Relaxed);
    let amount = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let over = |n: u64| n > exec.host.memory_limit_bytes() as u64;
    match shown.doc().first() {
        Some(("$sort", _)) => {
            let spilled =
                over(bytes(before)) && !matches!(stage.kind(), Kind::Sort { limit: Some(_), .. });
            w.put("totalDataSizeSortedBytesEstimate", amount(bytes(before)))
                .put("usedDisk", spilled);
            w.put("spills", i64::from(spilled))
                .put("spilledDataStorageSize", 0i64);
        }
        Some(("$group", Value::Document(spec))) => {
            let spilled = over(bytes(after));
            let mut each = w.doc("maxAccumulatorMemoryUsageBytes");
            for (name, _) in spec.iter().filter(|(n, _)| *n != "_id") {
                each.put(name, 0i64);
            }
            drop(each);
            w.put("totalOutputDataSizeBytes", amount(bytes(after)))
                .put("usedDisk", spilled);
            w.put("spills", i64::from(spilled))
                .put("spilledDataStorageSize", 0i64);
        }
        Some(("$lookup", Value::Document(spec))) => {
            let index = spec
                .field("from")
                .as_str()
                .zip(spec.field("foreignField").as_str())
                .and_then(|(from, field)| {
                    exec.host.look_up_index(
                        &Namespace::new(db, from).ok()?,
                        &model::FieldPath::new(field),
                    )
                });
            w.put("collectionScans", i64::from(index.is_none()));
            let mut used = w.array("indexesUsed");
            if let Some(name) = index {
                used.push(name.as_str());
            }
        }
        _ => {}
    }
}

/// Runs the stages over the source, a meter before the first and behind each; writers are left out.
fn run(pipeline: &Pipeline, taken: usize, exec: &ExecContext<'_>) -> Result<Vec<Arc<Meter>>> {
    let (mut docs, done) = pipeline.open_leading(exec, taken)?;
    let mut meters = Vec::new();
    let metered =
        |docs: Box<dyn BatchStream>, meters: &mut Vec<Arc<Meter>>| -> Box<dyn BatchStream> {
            let meter = Arc::new(Meter::default());
            meters.push(meter.clone());
            Box::new(Metered { inner: docs, meter })
        };
    docs = metered(docs, &mut meters);
    for stage in pipeline
        .stages()
        .iter()
        .skip(done)
        .filter(|s| !s.is_writer())
    {
        docs = metered(stage.clone().open(docs, exec)?, &mut meters);
    }
    let mut batch = DocBatch::new();
    while {
        exec.env.check_interrupt()?;
        batch.clear();
        docs.next_batch(exec, &mut batch)?
    } {}
    Ok(meters)
}
