//! A query that is explained: its operators are run if the verbosity requires it, and shown.

use context::ctx::Ctx;
use model::{DocWriter, Namespace, Result, Value};
use query::exec::ExecContext;
use query::explain::{ExplainedQuery, Shape, shape_of};
use query::find::{Find, PlannedQuery};
use query::physical::run_to_end;
use query::plan::{CachedPlan, Plan, PlanCache, alternatives};
use query::shown::PlanNode;
use request::Outcome;
use state::release::Release;
use std::sync::Arc;
use store::Collection;

/// Verbosity of the reply.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// `queryPlanner`: the plan.
    Planner,
    /// `executionStats`: also the execution of the plan.
    Stats,
    /// `allPlansExecution`: also the execution of each plan.
    All,
}

/// The query that is explained, and its collection.
pub(super) struct ExplainTarget {
    pub(super) ns: Namespace,
    pub(super) coll: Option<Arc<Collection>>,
    pub(super) find: Find,
}

impl ExplainTarget {
    /// The explanation of a query that is not planned yet.
    pub(super) fn new(ns: Namespace, coll: Option<Arc<Collection>>, find: Find) -> ExplainTarget {
        let rivals = Some(Arc::default());
        let find = Find { rivals, ..find };
        ExplainTarget { ns, coll, find }
    }

    /// Plans that were considered and not chosen.
    fn rejected_plans(&self, plan: Option<&Plan>) -> Vec<PlanNode> {
        let (Some(c), Some(plan)) = (&self.coll, plan) else {
            return Vec::new();
        };
        let compared = self.find.rivals.as_ref().map(|r| r.list());
        let others = compared.filter(|c| !c.is_empty());
        let others = others.unwrap_or_else(|| alternatives(c, &self.find.plan_request(), plan));
        let shown = |p: Plan| {
            let estimate = p.estimate;
            let root = self.find.operators(c.clone(), p);
            root.show().with_estimates(estimate.as_ref())
        };
        others.into_iter().map(shown).collect()
    }

    /// Whether queries of the shape take this plan from the cache.
    fn is_cached(&self, plan: Option<&Plan>) -> bool {
        let (Some(c), Some(plan)) = (&self.coll, plan) else {
            return false;
        };
        let index = plan.index.as_ref().map_or("_id_", |i| i.name());
        let shape = shape_of(&self.find);
        let entries = PlanCache::of(c).list(c);
        let is_it = |e: &Arc<CachedPlan>| {
            e.is_active() && e.index == index && Shape::of_cached(e).text == shape.text
        };
        entries.iter().any(is_it)
    }

    /// The query with its operators, which took `ran_ms` or were not run.
    pub(super) fn query<'q>(
        &'q self,
        ns: &'q str,
        planned: &'q PlannedQuery,
        ran_ms: Option<u64>,
    ) -> ExplainedQuery<'q> {
        ExplainedQuery {
            ns,
            find: &self.find,
            plan: planned.plan.as_ref(),
            root: planned.root.as_ref(),
            is_cached: self.is_cached(planned.plan.as_ref()),
            rejected: self.rejected_plans(planned.plan.as_ref()),
            ran_ms,
        }
    }

    /// Writes the plan to the reply, and the execution statistics if they are requested.
    pub(super) fn reply(
        &self,
        cx: &mut Ctx<'_, '_>,
        mut planned: PlannedQuery,
        exec: &ExecContext<'_>,
        level: Level,
    ) -> Result<Outcome> {
        let ran_ms = level.run(cx, || run_to_end(planned.root.as_mut(), exec))?;
        let name = self.ns.to_string();
        let query = self.query(&name, &planned, ran_ms.map(|(ms, ())| ms));
        reply(cx, |w| {
            w.put("explainVersion", "1");
            query.write(w, level == Level::All);
        });
        Ok(Outcome::Reply)
    }
}

impl Level {
    /// Runs `f` if statistics are requested, and returns its duration in milliseconds.
    pub(super) fn run<T>(
        self,
        cx: &Ctx<'_, '_>,
        run: impl FnOnce() -> Result<T>,
    ) -> Result<Option<(u64, T)>> {
        if self == Level::Planner {
            return Ok(None);
        }
        let clock = &cx.service.clock;
        let start_us = clock.monotonic_us();
        let done = run()?;
        Ok(Some(((clock.monotonic_us() - start_us) / 1000, done)))
    }
}

/// Writes the reply: the fields that `fill` writes, then those at the end of every explain.
pub(crate) fn reply(cx: &mut Ctx<'_, '_>, fill: impl FnOnce(&mut DocWriter<'_>)) {
    fill(&mut cx.reply);
    let explained = match cx.value() {
        Value::Document(d) if cx.command.name == "explain" => d,
        _ => cx.request.body,
    };
    if matches!(
        explained.first(),
        Some(("find" | "aggregate" | "distinct", _))
    ) {
        let hash = context::read::shape::hash(cx.db, explained);
        cx.reply.put("queryShapeHash", hash.as_str());
    }
    cx.reply.put("command", explained);
    let mut server = cx.reply.doc("serverInfo");
    let (host, port) = cx
        .service
        .config
        .host
        .rsplit_once(':')
        .unwrap_or((cx.service.config.host.as_str(), "27017"));
    server
        .put("host", host)
        .put("port", port.parse::<i32>().unwrap_or(27017));
    let version = Release::of(cx.service.config.profile).version;
    let revision = cx.service.config.revision;
    server.put("version", version).put("gitVersion", revision);
    drop(server);
    let mut p = cx.reply.doc("serverParameters");
    for (name, bytes) in [
        ("internalQueryFacetBufferSizeBytes", 104_857_600i32),
        ("internalQueryFacetMaxOutputDocSizeBytes", 104_857_600),
        (
            "internalLookupStageIntermediateDocumentMaxSizeBytes",
            104_857_600,
        ),
        ("internalDocumentSourceGroupMaxMemoryBytes", 104_857_600),
        ("internalQueryMaxBlockingSortMemoryUsageBytes", 104_857_600),
        ("internalQueryProhibitBlockingMergeOnMongoS", 0),
        ("internalQueryMaxAddToSetBytes", 104_857_600),
        (
            "internalDocumentSourceSetWindowFieldsMaxMemoryBytes",
            104_857_600,
        ),
    ] {
        p.put(name, bytes);
    }
    p.put("internalQueryFrameworkControl", "forceClassicEngine");
    p.put("internalQueryPlannerIgnoreIndexWithCollationForRegex", 1i32);
}
