//! Reads a whole collection from the segments of a column index, in parts with a taker each. The
//! takers apply the filter. Must not know: what they do with the documents.

use super::parts::{PartitionedRead, PartitionedResult};
use super::reader::Criteria;
use super::row_filter::{RowFilter, RowMatches};
use super::segments::ColumnScan;
use super::taker::Consumer;
use crate::exec::MatchFilter;
use crate::meter::open_read;
use crate::plan::Plan;
use crate::shown::PlanNode;
use model::Result;
use operation::{AccessPath, ReadTotals};
use operators::Env;
use std::sync::Arc;
use store::Collection;

/// The read of a whole collection.
pub(super) struct WholeColumns {
    coll: Arc<Collection>,
    plan: Plan,
    filter: Arc<MatchFilter>,
    by: RowFilter,
    scan: ColumnScan,
}

impl WholeColumns {
    /// The read of a plan that has columns for values; `None` for other plans.
    pub(super) fn of(
        coll: &Arc<Collection>,
        plan: &Plan,
        filter: &Arc<MatchFilter>,
    ) -> Option<WholeColumns> {
        let columns = plan.columns.as_ref()?;
        if columns.lens.makes_documents {
            return None;
        }
        Some(WholeColumns {
            coll: Arc::clone(coll),
            plan: plan.clone(),
            filter: Arc::clone(filter),
            by: RowFilter::of(Some(filter), &columns.lens.paths)?,
            scan: ColumnScan::new(coll, columns),
        })
    }

    /// The access path.
    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Reads everything; returns the takers in the order of their documents.
    ///
    /// # Errors
    /// Those of the filter, the takers and the store; the operation's interrupt.
    pub(super) fn run<'f, T: Consumer>(
        &'f self,
        env: &'f Env,
        make: &(dyn Fn(RowMatches<'f>) -> T + Sync),
    ) -> Result<Vec<T>> {
        self.scan.begin();
        open_read(env, || AccessPath::Columns(self.scan.index().clone()));
        let read = PartitionedRead {
            coll: &self.coll,
            plan: &self.plan,
            wanted: Criteria {
                filter: Some(&self.filter),
                env,
                vars: None,
            },
        };
        let mut taken = PartitionedResult::new();
        let make = || make(RowMatches::new(&self.by, env, None));
        let ended = read.run_columns(&mut taken, &make, &self.scan);
        self.scan.note_documents(taken.docs);
        read.count(taken.docs);
        ended?;
        Ok(taken.takers)
    }

    /// The stage that explain shows.
    pub(super) fn show(&self, returned: u64) -> PlanNode {
        self.scan.show(Some(&self.filter), returned)
    }

    /// The entries and documents examined.
    pub(super) fn read_totals(&self) -> ReadTotals {
        ReadTotals {
            keys: 0,
            docs: self.scan.documents(),
            returned: 0,
        }
    }
}
