//! Explained aggregations: a plan alone if it does the work of every stage, otherwise stages over a
//! cursor.

use super::planner::ExplainedQuery;
use crate::exec::{BatchStream, DocBatch, EmptyStream, ExecContext, MatchFilter};
use crate::find::Find;
use crate::physical::{EmptyScan, Operator, ProjectionSpec};
use crate::pipeline::Pipeline;
use crate::stage::{Kind, Stage};
use model::{Doc, DocWriter, Namespace, Result, Value};
use operators::expr::ParseCx;
use operators::project::Projection;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The leading part of a pipeline that one plan can do: a find, and the number of stages it
/// replaces.
///
/// # Errors
/// Those of a projection.
pub fn plain_prefix(pipeline: &Pipeline, exec: &ExecContext<'_>) -> Result<(Find, usize)> {
    let stages = pipeline.stages();
    let mut at = 0;
    let kind = |at: usize| stages.get(at).map_or(Kind::Other, |s| s.kind());
    let mut find = Find::all(MatchFilter::parse(&mut ParseCx::new(exec.env), Doc::EMPTY)?);
    if let Kind::Match(f) = kind(0) {
        find.filter = f.clone();
        at += 1;
    }
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
        // In a pipeline the limit comes before the skip, in a find after it.
        find.skip = n;
        find.limit = find.limit.map(|l| l.saturating_sub(n));
        at += 1;
    }
    let shown = stages.get(at).map(|s| s.describe());
    let project = shown
        .as_ref()
        .and_then(|d| d.doc().first())
        .filter(|(n, _)| *n == "$project" && stages.len() == at + 1);
    if let Some((_, Value::Document(spec))) = project {
        let mut cx = ParseCx::new(exec.env);
        if find.filter.filter.text().is_some() {
            cx.meta.push("textScore");
        }
        let projection = Projection::parse_project(&mut cx, Value::Document(spec))?;
        let spec = spec.to_buf();
        find.projection = Some(Arc::new(ProjectionSpec { spec, projection }));
        at += 1;
    }
    find.fields = pipeline.fields_needed();
    find.distinct = pipeline.distinct_needed();
    find.group_end = pipeline.group_end_needed();
    find.number = pipeline.number_needed();
    find.fold = pipeline.fold_needed();
    Ok((find, at))
}

/// Counts documents and time at a point of the pipeline.
#[derive(Default)]
pub struct Meter {
    docs: AtomicU64,
    bytes: AtomicU64,
    us: AtomicU64,
}

struct MeteredStream {
    inner: Box<dyn BatchStream>,
    meter: Arc<Meter>,
}

impl BatchStream for MeteredStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let start = Instant::now();
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

/// Writes `stages` (or the plan alone) of an explained aggregation. The source does the work of the
/// first `taken` stages; `meters` are those of [`run`], if it was run.
pub fn aggregation(
    w: &mut DocWriter<'_>,
    pipeline: &Pipeline,
    source: Option<&ExplainedQuery<'_>>,
    taken: usize,
    meters: &[Arc<Meter>],
    all: bool,
    exec: &ExecContext<'_>,
) {
    if let (Some(s), true) = (source, taken == pipeline.stages().len()) {
        s.write(w, all);
        return;
    }
    let mut list = w.array("stages");
    if let Some(s) = source {
        let mut one = list.doc();
        s.write(&mut one.doc("$cursor"), all);
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

/// Metrics that only blocking and joining stages have.
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
            let spilled = bytes(after) > exec.group_bytes_max() as u64;
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

/// An operator that a pipeline pulls and that its owner shows afterwards.
struct Shared(Arc<Mutex<Box<dyn Operator>>>);

impl BatchStream for Shared {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        self.0.lock().next_batch(exec, out)
    }
}

/// Runs the source and, over it, the stages after the first `taken`. There is a meter before the
/// first of them and after each. Writers are left out.
///
/// # Errors
/// Those of the stages; the operation's interrupt.
pub fn run(
    pipeline: &Pipeline,
    taken: usize,
    source: &mut Box<dyn Operator>,
    exec: &ExecContext<'_>,
) -> Result<Vec<Arc<Meter>>> {
    let lent = std::mem::replace(source, Box::new(EmptyScan::default()));
    let lent = Arc::new(Mutex::new(lent));
    let result = run_over(pipeline, taken, Box::new(Shared(lent.clone())), exec);
    std::mem::swap(source, &mut lent.lock());
    result
}

/// Runs a pipeline whose first stage makes documents with a score, such as a search; these come to
/// an end. There is a meter before the first stage, which counts nothing, and one after each stage.
/// Other pipelines are not run and have no meters.
///
/// # Errors
/// Those of the stages.
pub fn run_scored(pipeline: &Pipeline, exec: &ExecContext<'_>) -> Result<Vec<Arc<Meter>>> {
    let first = pipeline.stages().first();
    match first.is_some_and(|s| s.makes_documents() && !s.provides_meta().is_empty()) {
        true => run_over(pipeline, 0, Box::new(EmptyStream), exec),
        false => Ok(Vec::new()),
    }
}

fn run_over(
    pipeline: &Pipeline,
    taken: usize,
    source: Box<dyn BatchStream>,
    exec: &ExecContext<'_>,
) -> Result<Vec<Arc<Meter>>> {
    let mut meters = Vec::new();
    let metered =
        |docs: Box<dyn BatchStream>, meters: &mut Vec<Arc<Meter>>| -> Box<dyn BatchStream> {
            let meter = Arc::new(Meter::default());
            meters.push(meter.clone());
            Box::new(MeteredStream { inner: docs, meter })
        };
    let mut docs = metered(source, &mut meters);
    let behind = pipeline.stages().iter().skip(taken);
    for stage in behind.filter(|s| !s.is_writer()) {
        // Some stages do their work while they are opened.
        let began = Instant::now();
        let opened = stage.clone().open(docs, exec)?;
        let us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        docs = metered(opened, &mut meters);
        if let Some(meter) = meters.last() {
            meter.us.fetch_add(us, Ordering::Relaxed);
        }
    }
    let mut batch = DocBatch::new();
    while {
        exec.env.check_interrupt()?;
        batch.clear();
        docs.next_batch(exec, &mut batch)?
    } {}
    Ok(meters)
}
