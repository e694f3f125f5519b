//! Aggregations: as a plan alone when every stage went into it, else as stages over a cursor.

use super::planner::ExplainedQuery;
use crate::exec::{BatchStream, DocBatch, ExecContext, MatchFilter};
use crate::find::Find;
use crate::physical::ProjectionSpec;
use crate::pipeline::Pipeline;
use crate::stage::{Kind, Stage};
use model::{Doc, DocBuf, DocWriter, Namespace, Result, Value};
use operators::expr::ParseCx;
use operators::project::Projection;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What of a pipeline the plan below it does: a find, and how many stages that is.
///
/// # Errors
/// Those of a projection.
pub fn plain_prefix(
    stages: &[Arc<dyn Stage>],
    exec: &ExecContext<'_>,
    fields: Option<&[String]>,
) -> Result<(Find, usize)> {
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
        // The limit stands before the skip in a pipeline and behind it in a find.
        find.skip = n;
        find.limit = find.limit.map(|l| l.saturating_sub(n));
        at += 1;
    }
    let mut spec = DocBuf::new();
    let shown = stages.get(at).map(|s| s.describe());
    let project = shown
        .as_ref()
        .and_then(|d| d.doc().first())
        .filter(|(n, _)| *n == "$project");
    match (project, fields) {
        (Some((_, Value::Document(wanted))), _) if stages.len() == at + 1 => {
            spec = wanted.to_buf();
            at += 1;
        }
        (_, Some(fields)) if !fields.is_empty() => {
            spec = DocBuf::build(|w| {
                for f in fields.iter().filter(|f| *f != "_id") {
                    w.put(f, 1i32);
                }
                w.put("_id", i32::from(fields.iter().any(|f| f == "_id")));
            });
        }
        _ => {}
    }
    if !spec.doc().is_empty() {
        let mut cx = ParseCx::new(exec.env);
        if find.filter.filter.text().is_some() {
            cx.meta.push("textScore");
        }
        let projection = Projection::parse_project(&mut cx, Value::from(&spec))?;
        find.projection = Some(Arc::new(ProjectionSpec { spec, projection }));
    }
    Ok((find, at))
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

/// Fills `stages` (or the plan alone) of an explained aggregation; `taken` leading stages are done
/// by the source.
///
/// # Errors
/// Those of the stages, when they are run.
pub fn aggregation(
    w: &mut DocWriter<'_>,
    pipeline: &Pipeline,
    source: Option<&ExplainedQuery<'_>>,
    taken: usize,
    all: bool,
    exec: &ExecContext<'_>,
) -> Result<()> {
    let executed = source.is_some_and(|s| s.ran_ms.is_some());
    if let (Some(s), true) = (source, taken == pipeline.stages().len()) {
        s.write(w, all);
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
    Ok(())
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
