//! Sorting a whole input, for finds and for pipelines.

use super::operator::Operator;
use crate::exec::{BatchStream, DocBatch, ExecContext, Run, SortPattern, sort_all};
use crate::shown::{PlanNode, count};
use model::{DocBuf, Result};
use operation::ReadTotals;
use operators::Env;
use std::sync::Arc;

/// The memory limit that explain shows for a sort.
const MEM_LIMIT_BYTES: i32 = 104_857_600;

/// Sorts its input; with a limit only that many documents are kept.
pub(crate) struct Sort<I> {
    input: I,
    pattern: Arc<SortPattern>,
    keep: Option<u64>,
    /// Documents are given as they were read; no projection changes them above.
    simple: bool,
    run: Option<Run>,
    returned: u64,
    ended: bool,
}

impl<I: BatchStream> Sort<I> {
    pub(crate) fn new(input: I, pattern: Arc<SortPattern>, keep: Option<u64>) -> Sort<I> {
        Sort {
            input,
            pattern,
            keep,
            simple: true,
            run: None,
            returned: 0,
            ended: false,
        }
    }

    /// The sort, if `projected` below a projection.
    pub(crate) fn with_projection(self, projected: bool) -> Sort<I> {
        Sort {
            simple: !projected,
            ..self
        }
    }
}

impl<I: BatchStream> BatchStream for Sort<I> {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let run = match &mut self.run {
            Some(run) => run,
            none => none.insert(sort_all(&self.pattern, self.keep, &mut self.input, exec)?),
        };
        let more = run.next_batch(out)?;
        self.returned += out.len() as u64;
        self.ended = !more;
        Ok(more)
    }
}

impl<I: Operator> Operator for Sort<I> {
    fn begin(&mut self, env: &Env) {
        self.input.begin(env);
    }

    fn show(&self) -> PlanNode {
        let own = DocBuf::build(|w| {
            w.put("sortPattern", self.pattern.spec())
                .put("memLimit", MEM_LIMIT_BYTES);
            if let Some(n) = self.keep {
                w.put("limitAmount", i64::try_from(n).unwrap_or(i64::MAX));
            }
            w.put("type", if self.simple { "simple" } else { "default" });
        });
        let mut shown = PlanNode::wrap(self.input.show(), "SORT", own, self.returned, self.ended);
        // Each document is one unit of work when it is read and one when it is given.
        shown.stats.works += self.returned;
        let of_run = |number: fn(&Run) -> u64| self.run.as_ref().map_or(0, number);
        let sorted = i64::try_from(of_run(Run::sorted_bytes)).unwrap_or(i64::MAX);
        let spills = of_run(Run::spills);
        shown.counted = model::doc! {
            "totalDataSizeSorted": sorted,
            "usedDisk": spills > 0,
            "spills": count(spills),
            "spilledDataStorageSize": count(of_run(Run::spilled_bytes))
        };
        shown
    }

    fn read_totals(&self) -> ReadTotals {
        self.input.read_totals()
    }
}
