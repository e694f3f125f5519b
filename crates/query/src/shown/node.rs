//! A stage of a plan as explain writes it.

use super::estimate::StageEstimate;
use model::{DocBuf, DocWriter, Value};

/// A number as int32 where it fits.
pub fn count(n: u64) -> Value<'static> {
    i32::try_from(n).map_or_else(
        |_| Value::Int64(i64::try_from(n).unwrap_or(i64::MAX)),
        Value::Int32,
    )
}

/// The counters of a stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageStats {
    /// Documents or entries it gave.
    pub returned: u64,
    /// Units of work, the end of the input included.
    pub works: u64,
    /// It will give nothing more.
    pub ended: bool,
    /// Times that it released its position in the store and went on later.
    pub saves: u64,
}

impl StageStats {
    /// The stats of a stage that gave `returned` of `looked_at`; reaching the end is one more unit
    /// of work.
    pub fn of(returned: u64, looked_at: u64, ended: bool) -> StageStats {
        StageStats {
            returned,
            works: looked_at.max(returned) + u64::from(ended),
            ended,
            saves: 0,
        }
    }
}

/// A stage of a plan.
#[derive(Clone, Debug, Default)]
pub struct PlanNode {
    /// Its name.
    pub stage: &'static str,
    /// The planner's estimate, if it made one.
    pub estimate: Option<StageEstimate>,
    /// The predicate it tests.
    pub filter: Option<DocBuf>,
    /// Its other properties.
    pub own: DocBuf,
    /// Its counters.
    pub stats: StageStats,
    /// Further counters.
    pub counted: DocBuf,
    /// The stages it reads from.
    pub inputs: Vec<PlanNode>,
}

impl PlanNode {
    /// A stage over another, with the number of documents it gave.
    pub fn wrap(
        input: PlanNode,
        stage: &'static str,
        own: DocBuf,
        returned: u64,
        ended: bool,
    ) -> PlanNode {
        let looked_at = input.stats.works - u64::from(input.stats.ended);
        let stats = StageStats {
            saves: input.stats.saves,
            ..StageStats::of(returned, looked_at, ended)
        };
        PlanNode {
            stage,
            own,
            stats,
            inputs: vec![input],
            ..PlanNode::default()
        }
    }

    /// No stage reads documents: everything comes from an index.
    pub fn is_covered(&self) -> bool {
        match (self.stage, self.inputs.as_slice()) {
            ("IXSCAN", []) => true,
            ("DISTINCT_SCAN", []) => self.own.doc().field("isFetching").as_bool() == Some(false),
            ("LIMIT" | "SKIP" | "SORT", [below]) => below.is_covered(),
            _ => false,
        }
    }

    /// Whether rows come from the entries of several scans, without documents.
    pub fn is_covered_union(&self) -> bool {
        match (self.stage, self.inputs.as_slice()) {
            ("OR" | "SORT_MERGE", [_, ..]) => true,
            ("LIMIT" | "SKIP" | "SORT", [below]) => below.is_covered_union(),
            _ => false,
        }
    }

    /// Writes the plan, with its stats if it was run; `ran_ms` is the time of the run.
    pub fn write(&self, w: &mut DocWriter<'_>, ran_ms: Option<u64>) {
        w.put("isCached", false);
        self.write_inner(w, ran_ms);
    }

    /// Writes the plan that was chosen.
    pub fn write_planned(&self, w: &mut DocWriter<'_>, is_cached: bool) {
        w.put("isCached", is_cached);
        self.write_inner(w, None);
    }

    /// Writes the stages only.
    pub(crate) fn write_stages(&self, w: &mut DocWriter<'_>) {
        self.write_inner(w, None);
    }

    fn write_inner(&self, w: &mut DocWriter<'_>, ran_ms: Option<u64>) {
        w.put("stage", self.stage);
        if let Some(estimate) = &self.estimate {
            estimate.write(w);
        }
        if let Some(f) = &self.filter {
            w.put("filter", f);
        }
        if let Some(ms) = ran_ms {
            let f = &self.stats;
            let idle = f.returned + u64::from(f.ended);
            w.put("nReturned", count(f.returned))
                .put("executionTimeMillisEstimate", count(ms))
                .put("works", count(f.works))
                .put("advanced", count(f.returned))
                .put("needTime", count(f.works.saturating_sub(idle)))
                // A read never yields for a lock.
                .put("needYield", 0i32)
                .put("saveState", count(f.saves))
                .put("restoreState", count(f.saves))
                .put("isEOF", i32::from(f.ended));
        }
        w.put_all(self.own.doc());
        if ran_ms.is_some() {
            w.put_all(self.counted.doc());
        }
        match self.inputs.as_slice() {
            [] => {}
            [one] if !matches!(self.stage, "OR" | "SORT_MERGE" | "TEXT_OR") => {
                one.write_inner(&mut w.doc("inputStage"), ran_ms)
            }
            many => {
                let mut list = w.array("inputStages");
                for s in many {
                    s.write_inner(&mut list.doc(), ran_ms);
                }
            }
        }
    }
}
