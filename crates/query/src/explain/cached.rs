//! An entry of the plan cache as `$planCacheStats` shows it.

use super::shape::Shape;
use crate::plan::CachedPlan;
use crate::shown::{PlanNode, ReadCounts, count, read};
use model::{DocWriter, Value};

/// Writes an entry to a document; `host` is the name of this server.
pub fn write_cached(entry: &CachedPlan, host: &str, w: &mut DocWriter<'_>) {
    let (shape, first) = (Shape::of_cached(entry), entry.first_run());
    let counts = ReadCounts {
        keys: first.keys,
        docs: first.docs,
        matched: first.matched,
        ended: true,
        ..ReadCounts::default()
    };
    let stages: PlanNode = read(&entry.plan, None, false, &counts);
    w.put("version", "1")
        .put("queryHash", shape.hash.as_str())
        .put("planCacheShapeHash", shape.hash.as_str())
        .put("planCacheKey", shape.key(&entry.index).as_str())
        .put("isActive", entry.is_active())
        .put("works", i64::try_from(entry.works()).unwrap_or(i64::MAX))
        .put("timeOfCreation", Value::Date(entry.made_ms))
        .put("createdFromQuery", &entry.query);
    stages.write_stages(&mut w.doc("cachedPlan"));
    {
        let mut runs = w.array("creationExecStats");
        let mut run = runs.doc();
        run.put("nReturned", count(first.matched))
            .put("executionTimeMillisEstimate", 0i32)
            .put("totalKeysExamined", count(first.keys))
            .put("totalDocsExamined", count(first.docs));
        stages.write_stages(&mut run.doc("executionStages"));
    }
    {
        let mut points: Vec<u32> = entry.candidates.iter().map(|(_, points)| *points).collect();
        points.sort_unstable_by(|a, b| b.cmp(a));
        let mut scores = w.array("candidatePlanScores");
        for points in points {
            scores.push(f64::from(points));
        }
    }
    w.put("indexFilterSet", entry.filtered)
        .put(
            "estimatedSizeBytes",
            i64::try_from(entry.size_bytes()).unwrap_or(i64::MAX),
        )
        .put("host", host);
}
