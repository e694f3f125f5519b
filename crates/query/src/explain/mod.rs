//! What explain shows: plans as trees of stages in MongoDB's words, with stats when they were
//! run.
//! Must not know: the command around it.

mod access;
mod bounds;
mod filter;
mod find;
mod pipeline;

pub use access::{ReadStats, measure, measure_distinct};
pub use filter::canonical;
pub use find::{ExplainedQuery, Operation, filter_shape, query_planner, tree};
pub use pipeline::{ExplainedSource, aggregation, plain_prefix, put_stats};

use model::{DocBuf, DocWriter, Value};

/// A number as int32 where it fits.
pub fn count(n: u64) -> Value<'static> {
    i32::try_from(n).map_or_else(
        |_| Value::Int64(i64::try_from(n).unwrap_or(i64::MAX)),
        Value::Int32,
    )
}

/// What a stage did.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageStats {
    /// Documents or entries it gave.
    pub returned: u64,
    /// Units of work, the end of the input included.
    pub works: u64,
    /// Time until it was done, those below it included.
    pub ms: u64,
}

/// A stage of a plan.
#[derive(Clone, Debug, Default)]
pub struct PlanNode {
    /// Its name.
    pub stage: &'static str,
    /// The predicate it tests.
    pub filter: Option<DocBuf>,
    /// What describes it.
    pub own: DocBuf,
    /// What it did.
    pub stats: StageStats,
    /// What else it counted.
    pub counted: DocBuf,
    /// Where it reads.
    pub inputs: Vec<PlanNode>,
}

impl PlanNode {
    /// A stage over another that gave `returned`.
    pub fn over(input: PlanNode, stage: &'static str, own: DocBuf, returned: u64) -> PlanNode {
        let stats = StageStats {
            returned,
            works: input.stats.works.max(returned),
            ms: input.stats.ms,
        };
        PlanNode {
            stage,
            own,
            stats,
            inputs: vec![input],
            ..PlanNode::default()
        }
    }

    /// Writes the plan, with its stats when it was run.
    pub fn write(&self, w: &mut DocWriter<'_>, executed: bool) {
        w.put("isCached", false);
        self.write_inner(w, executed);
    }

    fn write_inner(&self, w: &mut DocWriter<'_>, executed: bool) {
        w.put("stage", self.stage);
        if let Some(f) = &self.filter {
            w.put("filter", f);
        }
        if executed {
            let f = &self.stats;
            w.put("nReturned", count(f.returned))
                .put("executionTimeMillisEstimate", count(f.ms));
            w.put("works", count(f.works))
                .put("advanced", count(f.returned));
            w.put("needTime", count(f.works.saturating_sub(f.returned + 1)));
            w.put("needYield", 0i32)
                .put("saveState", 0i32)
                .put("restoreState", 0i32)
                .put("isEOF", 1i32);
        }
        w.put_all(self.own.doc());
        if executed {
            w.put_all(self.counted.doc());
        }
        match self.inputs.as_slice() {
            [] => {}
            [one] if !matches!(self.stage, "OR" | "SORT_MERGE" | "TEXT_OR") => {
                one.write_inner(&mut w.doc("inputStage"), executed)
            }
            many => {
                let mut list = w.array("inputStages");
                for s in many {
                    s.write_inner(&mut list.doc(), executed);
                }
            }
        }
    }
}
