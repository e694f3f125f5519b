//! `queryPlanner` and `executionStats` of an explained query, from the operators that run it.

use super::shape::Shape;
use crate::find::Find;
use crate::physical::Operator;
use crate::plan::Plan;
use crate::shown::{PlanNode, canonical, count};
use model::{Doc, DocBuf, DocWriter};

/// A query that is explained.
pub struct ExplainedQuery<'s> {
    /// Its namespace.
    pub ns: &'s str,
    /// The query.
    pub find: &'s Find,
    /// How it is read; `None` without a collection.
    pub plan: Option<&'s Plan>,
    /// The operators.
    pub root: &'s dyn Operator,
    /// Queries of this shape take its plan from the cache.
    pub is_cached: bool,
    /// Plans that were not chosen.
    pub rejected: Vec<PlanNode>,
    /// Time that running them took; `None` when they were not run.
    pub ran_ms: Option<u64>,
}

/// The shape of a query.
pub fn shape_of(find: &Find) -> Shape {
    Shape::of_parts(
        find.filter.spec.doc(),
        find.sort.as_ref().map_or(Doc::EMPTY, |s| s.spec()),
        find.projection_spec(),
        find.collation.as_ref().map_or(Doc::EMPTY, DocBuf::doc),
    )
}

impl ExplainedQuery<'_> {
    /// Writes `queryPlanner`, and `executionStats` if the query was run; `all` adds what each plan
    /// did.
    pub fn write(&self, w: &mut DocWriter<'_>, all: bool) {
        self.write_planner(&mut w.doc("queryPlanner"));
        if let Some(ms) = self.ran_ms {
            self.write_stats(&mut w.doc("executionStats"), ms, all);
        }
    }

    /// The stages with the planner's estimates.
    fn describe_plan(&self) -> PlanNode {
        let plan = self.plan.and_then(|p| p.estimate.as_ref());
        self.root.show().with_estimates(plan)
    }

    fn write_planner(&self, w: &mut DocWriter<'_>) {
        let parsed = canonical(self.find.filter.spec.doc());
        let filtered = self.find.allowed.as_ref().is_some_and(|a| a.filter);
        let shape = shape_of(self.find);
        let index = self.plan.and_then(|p| p.index.as_ref());
        let key = shape.key(index.map_or("_id_", |i| i.name()));
        w.put("namespace", self.ns)
            .put("parsedQuery", &parsed)
            .put("indexFilterSet", filtered);
        w.put("queryHash", shape.hash.as_str())
            .put("planCacheShapeHash", shape.hash.as_str())
            .put("planCacheKey", key.as_str());
        w.put("optimizationTimeMillis", 0i32)
            .put("maxIndexedOrSolutionsReached", false);
        w.put("maxIndexedAndSolutionsReached", false)
            .put("maxScansToExplodeReached", false);
        w.put("prunedSimilarIndexes", false);
        let shown = self.describe_plan();
        shown.write_planned(&mut w.doc("winningPlan"), self.is_cached);
        let mut list = w.array("rejectedPlans");
        for r in &self.rejected {
            r.write(&mut list.doc(), None);
        }
    }

    fn write_stats(&self, w: &mut DocWriter<'_>, ms: u64, all: bool) {
        let (shown, examined) = (self.describe_plan(), self.root.read_totals());
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
