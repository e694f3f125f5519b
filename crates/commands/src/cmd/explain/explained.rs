//! A query that is explained: its plan, its measurement, the reply.

use crate::dispatch::ctx::Ctx;
use crate::release::VERSION;
use model::{Doc, DocWriter, Namespace, Result, Value};
use query::exec::ExecContext;
use query::explain::{self, ExplainedQuery, Operation, PlanNode, ReadStats};
use query::find::Find;
use query::plan::{Plan, alternatives, plan_read};
use std::sync::Arc;
use store::Collection;

/// Verbosity of the reply.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// `queryPlanner`: the plan.
    Planner,
    /// `executionStats`: also what it did.
    Stats,
    /// `allPlansExecution`: also what each plan did.
    All,
}

/// The query that is explained, and its collection.
pub(super) struct Explained<'a> {
    pub(super) ns: Namespace,
    pub(super) coll: Option<Arc<Collection>>,
    pub(super) find: Find,
    pub(super) projection: Doc<'a>,
}

impl Explained<'_> {
    pub(super) fn plan(&self) -> Result<Option<Plan>> {
        let request = self.find.plan_request();
        self.coll
            .as_ref()
            .map(|c| plan_read(c, &request))
            .transpose()
    }

    pub(super) fn measure(
        &self,
        plan: Option<&Plan>,
        exec: &ExecContext<'_>,
        cx: &Ctx<'_, '_>,
        most: u64,
        entries: bool,
    ) -> Result<ReadStats> {
        let (Some(c), Some(plan)) = (&self.coll, plan) else {
            return Ok(ReadStats::default());
        };
        let start = cx.service.clock.monotonic_us();
        let mut m = explain::measure(c, plan, Some(&self.find.filter), exec.env, most, entries)?;
        m.ms = (cx.service.clock.monotonic_us() - start) / 1000;
        Ok(m)
    }

    /// Matches after which the query would end.
    pub(super) fn most(&self, plan: Option<&Plan>) -> u64 {
        let blocked = self.find.sort.is_some() && !plan.is_some_and(|p| p.sorted);
        self.find
            .limit
            .filter(|_| !blocked)
            .map_or(u64::MAX, |n| n.saturating_add(self.find.skip))
    }

    pub(super) fn subject<'s>(
        &'s self,
        plan: Option<&'s Plan>,
        over: Operation,
    ) -> ExplainedQuery<'s> {
        let clustered = self
            .coll
            .as_ref()
            .is_some_and(|c| c.options().doc().contains("clusteredIndex"));
        ExplainedQuery {
            find: &self.find,
            projection: self.projection,
            plan,
            clustered,
            over,
        }
    }

    /// Plans that were considered and not chosen.
    pub(super) fn rejected(&self, plan: Option<&Plan>) -> Vec<PlanNode> {
        let (Some(c), Some(plan)) = (&self.coll, plan) else {
            return Vec::new();
        };
        let others = alternatives(c, &self.find.plan_request(), plan);
        others
            .iter()
            .map(|p| {
                explain::tree(
                    &self.subject(Some(p), Operation::Find),
                    &ReadStats::default(),
                )
            })
            .collect()
    }

    /// Writes the plan, and the execution statistics when measured.
    pub(super) fn reply(
        &self,
        cx: &mut Ctx<'_, '_>,
        plan: Option<&Plan>,
        over: Operation,
        measured: Option<&ReadStats>,
        level: Level,
    ) {
        let subject = self.subject(plan, over);
        let rejected = self.rejected(plan);
        let name = self.ns.to_string();
        reply(cx, |w| {
            w.put("explainVersion", "1");
            explain::query_planner(&mut w.doc("queryPlanner"), &name, &subject, &rejected);
            if let Some(m) = measured {
                explain::put_stats(
                    &mut w.doc("executionStats"),
                    &explain::tree(&subject, m),
                    m,
                    level == Level::All,
                );
            }
        });
    }
}

/// Writes the reply: what `fill` puts, then the fields every explain ends with.
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
        let hash = crate::read::shape::hash(cx.db, explained);
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
    server.put("version", VERSION).put("gitVersion", "quarry");
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
