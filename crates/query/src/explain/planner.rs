//! The planner's and the executor's part of an explained query, of the operators that run it.

use crate::find::Find;
use crate::physical::Operator;
use crate::plan::Plan;
use crate::shown::{PlanNode, canonical, count};
use model::{Doc, DocWriter};

/// A query that is explained.
pub struct ExplainedQuery<'s> {
    /// Its namespace.
    pub ns: &'s str,
    /// What is asked.
    pub find: &'s Find,
    /// How it is read; `None` without a collection.
    pub plan: Option<&'s Plan>,
    /// The operators.
    pub root: &'s dyn Operator,
    /// Plans not taken.
    pub rejected: Vec<PlanNode>,
    /// Time that running them took; `None` when they were not run.
    pub ran_ms: Option<u64>,
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

impl ExplainedQuery<'_> {
    /// Fills `queryPlanner`, and `executionStats` when the query was run; `all` adds what each plan
    /// did.
    pub fn write(&self, w: &mut DocWriter<'_>, all: bool) {
        self.write_planner(&mut w.doc("queryPlanner"));
        if let Some(ms) = self.ran_ms {
            self.write_stats(&mut w.doc("executionStats"), ms, all);
        }
    }

    fn write_planner(&self, w: &mut DocWriter<'_>) {
        let parsed = canonical(self.find.filter.spec.doc());
        let filter_shape = filter_shape(parsed.doc());
        let filtered = self.find.allowed.as_ref().is_some_and(|a| a.filter);
        let sort = self.find.sort.as_ref();
        let sort = sort.map_or_else(String::new, |p| format!("{}", p.spec()));
        let projection = self.find.projection.as_ref();
        let projection = projection.map_or(Doc::EMPTY, |p| p.spec.doc());
        let hash = shape(&[&filter_shape, &sort, &format!("{projection}")]);
        let index = self.plan.and_then(|p| p.index.as_ref());
        let key = shape(&[&hash, index.map_or("", |i| i.name())]);
        w.put("namespace", self.ns)
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
        self.root.show().write(&mut w.doc("winningPlan"), None);
        let mut list = w.array("rejectedPlans");
        for r in &self.rejected {
            r.write(&mut list.doc(), None);
        }
    }

    fn write_stats(&self, w: &mut DocWriter<'_>, ms: u64, all: bool) {
        let (shown, examined) = (self.root.show(), self.root.examined());
        w.put("executionSuccess", true)
            .put("nReturned", count(shown.stats.returned));
        w.put("executionTimeMillis", count(ms));
        w.put("totalKeysExamined", count(examined.keys))
            .put("totalDocsExamined", count(examined.docs));
        shown.write(&mut w.doc("executionStages"), Some(ms));
        if all {
            w.array("allPlansExecution");
        }
    }
}
