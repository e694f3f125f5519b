//! Whole plans: what stands above the access path, and the planner's part of the answer.

use super::access::{self, ReadStats};
use super::{PlanNode, count, filter};
use crate::exec::SortPattern;
use crate::find::Find;
use crate::plan::{Access, Plan};
use model::{Doc, DocBuf, DocWriter};

/// What is done with the documents found.
pub enum Operation {
    /// They are given.
    Find,
    /// They are counted.
    Count,
    /// One for each value of an index's first field is read.
    Distinct,
    /// They are changed: how many would be changed, and how many inserted.
    Update {
        /// Would be modified.
        modified: u64,
        /// Would be inserted.
        upserted: u64,
    },
    /// They are deleted.
    Delete,
}

/// What is explained.
pub struct ExplainedQuery<'s> {
    /// The read.
    pub find: &'s Find,
    /// The projection as the client wrote it.
    pub projection: Doc<'s>,
    /// How it is read; `None` without a collection.
    pub plan: Option<&'s Plan>,
    /// The collection is clustered by the client's wish.
    pub clustered: bool,
    /// What is done.
    pub over: Operation,
}

/// The stages of a plan, with what they did.
pub fn tree(s: &ExplainedQuery<'_>, m: &ReadStats) -> PlanNode {
    let Some(plan) = s.plan else {
        return above(
            s,
            PlanNode {
                stage: "EOF",
                own: model::doc! { "type": "nonExistentNamespace" },
                ..PlanNode::default()
            },
            m,
        );
    };
    if let Operation::Distinct = s.over {
        return above(s, access::distinct_scan(plan, m), m);
    }
    if let Operation::Count = s.over {
        let all = s.find.filter.filter.is_always_true() && s.find.hint.is_none();
        if all {
            return PlanNode {
                stage: "RECORD_STORE_FAST_COUNT",
                counted: counted(s, m),
                ..PlanNode::default()
            };
        }
        if plan.complete && matches!(plan.access, Access::Index { .. }) {
            return above(s, access::count_scan(plan, m), m);
        }
    }
    above(
        s,
        access::tree(plan, Some(&s.find.filter), s.clustered, m),
        m,
    )
}

fn counted(s: &ExplainedQuery<'_>, m: &ReadStats) -> DocBuf {
    let most = s.find.limit.unwrap_or(u64::MAX);
    let skipped = s.find.skip.min(m.matched);
    model::doc! { "nCounted": count((m.matched - skipped).min(most)), "nSkipped": count(skipped) }
}

fn above(s: &ExplainedQuery<'_>, mut shown: PlanNode, m: &ReadStats) -> PlanNode {
    let (find, amount) = (s.find, |n: u64| i64::try_from(n).unwrap_or(i64::MAX));
    match s.over {
        Operation::Count => {
            let mut top = PlanNode::over(shown, "COUNT", DocBuf::new(), 0);
            top.counted = counted(s, m);
            return top;
        }
        Operation::Update { modified, upserted } => {
            let mut top = PlanNode::over(shown, "UPDATE", DocBuf::new(), 0);
            top.counted = model::doc! { "nMatched": count(m.matched),
            "nWouldModify": count(modified), "nWouldUpsert": count(upserted) };
            return top;
        }
        Operation::Delete => {
            let mut top = PlanNode::over(shown, "DELETE", DocBuf::new(), 0);
            top.counted = model::doc! { "nWouldDelete": count(m.matched) };
            return top;
        }
        Operation::Find | Operation::Distinct => {}
    }
    let mut returned = m.matched;
    if let (Some(sort), false) = (&find.sort, s.plan.is_some_and(|p| p.sorted)) {
        (shown, returned) = sorted(s, sort, shown, returned, m);
    }
    if find.skip > 0 {
        returned = returned.saturating_sub(find.skip);
        shown = PlanNode::over(
            shown,
            "SKIP",
            model::doc! { "skipAmount": amount(find.skip) },
            returned,
        );
    }
    // A sort with a limit leaves no more than wanted.
    if let Some(n) = find.limit.filter(|_| shown.stage != "SORT") {
        returned = returned.min(n);
        shown = PlanNode::over(
            shown,
            "LIMIT",
            model::doc! { "limitAmount": amount(n) },
            returned,
        );
    }
    if !s.projection.is_empty() {
        let simple = s
            .projection
            .iter()
            .all(|(n, v)| !n.contains('.') && (v.is_number() || v.type_name() == "bool"));
        let stage = if simple {
            "PROJECTION_SIMPLE"
        } else {
            "PROJECTION_DEFAULT"
        };
        shown = PlanNode::over(
            shown,
            stage,
            model::doc! { "transformBy": s.projection },
            returned,
        );
    }
    shown
}

/// A sort that is done after reading; with a limit it gives no more than wanted.
fn sorted(
    s: &ExplainedQuery<'_>,
    sort: &SortPattern,
    input: PlanNode,
    given: u64,
    m: &ReadStats,
) -> (PlanNode, u64) {
    let (find, amount) = (s.find, |n: u64| i64::try_from(n).unwrap_or(i64::MAX));
    let keep = find.limit.map(|n| n.saturating_add(find.skip));
    let returned = given.min(keep.unwrap_or(u64::MAX));
    let own = DocBuf::build(|w| {
        w.put("sortPattern", sort.spec())
            .put("memLimit", 104_857_600i32);
        if let Some(n) = keep {
            w.put("limitAmount", amount(n));
        }
        w.put(
            "type",
            if find.projection.is_none() {
                "simple"
            } else {
                "default"
            },
        );
    });
    let mut shown = PlanNode::over(input, "SORT", own, returned);
    shown.stats.works += returned;
    shown.counted = model::doc! {
        "totalDataSizeSorted": i64::try_from(m.bytes).unwrap_or(i64::MAX), "usedDisk": false,
            "spills": 0i32,
        "spilledDataStorageSize": 0i32
    };
    (shown, returned)
}

/// Eight hexadecimal digits that are the same for filters of one shape.
fn shape(parts: &[&str]) -> String {
    let hash = parts
        .iter()
        .flat_map(|p| p.bytes().chain([0]))
        .fold(0x811C_9DC5_u32, |h, b| {
            (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
        });
    format!("{hash:08X}")
}

/// What filters of one shape have in common: paths and operators in an order of their own.
pub fn filter_shape(canonical: Doc<'_>) -> String {
    let mut out = String::new();
    outline(canonical, &mut out);
    out
}

/// Paths and operators of a filter, without values.
fn outline(spec: Doc<'_>, out: &mut String) {
    for (name, v) in spec.iter() {
        out.push_str(name);
        match v {
            model::Value::Document(d) => outline(d, out),
            model::Value::Array(a) if name.starts_with('$') => a
                .iter()
                .filter_map(|v| v.as_doc())
                .for_each(|d| outline(d, out)),
            _ => {}
        }
        out.push(';');
    }
}

/// Fills `queryPlanner`.
pub fn query_planner(
    w: &mut DocWriter<'_>,
    ns: &str,
    s: &ExplainedQuery<'_>,
    rejected: &[PlanNode],
) {
    let parsed = filter::canonical(s.find.filter.spec.doc());
    let filter_shape = filter_shape(parsed.doc());
    let filtered = s.find.allowed.as_ref().is_some_and(|a| a.filter);
    let sort = s
        .find
        .sort
        .as_ref()
        .map_or_else(String::new, |p| format!("{:?}", p.spec()));
    let hash = shape(&[&filter_shape, &sort, &format!("{:?}", s.projection)]);
    let index = s
        .plan
        .and_then(|p| p.index.as_ref())
        .map_or("", |i| i.name());
    let key = shape(&[&hash, index]);
    w.put("namespace", ns)
        .put("parsedQuery", &parsed)
        .put("indexFilterSet", filtered);
    w.put("queryHash", hash.as_str())
        .put("planCacheShapeHash", hash.as_str())
        .put("planCacheKey", key.as_str());
    w.put("optimizationTimeMillis", 0i32)
        .put("maxIndexedOrSolutionsReached", false);
    w.put("maxIndexedAndSolutionsReached", false)
        .put("maxScansToExplodeReached", false);
    w.put("prunedSimilarIndexes", false);
    tree(s, &ReadStats::default()).write(&mut w.doc("winningPlan"), false);
    let mut list = w.array("rejectedPlans");
    for r in rejected {
        r.write(&mut list.doc(), false);
    }
}
