//! Which column indexes a read may take its values from, and what its filter says of a path. Must
//! not know: segments.

use super::bounds::{Combine, directed, of_filter};
use super::index_bounds::collation_fits;
use super::request::{Hint, PlanRequest};
use super::{Access, Plan};
use crate::exec::MatchFilter;
use std::sync::Arc;
use store::{Collection, Index};

/// Column indexes for a read.
#[derive(Clone, Default)]
pub(crate) struct ColumnChoice {
    /// In the order in which they were made.
    pub(crate) indexes: Vec<Arc<Index>>,
    /// Strings compare by their bytes.
    pub(crate) simple_collation: bool,
}

impl ColumnChoice {
    /// Those that a read may use which is planned so: it scans the collection, and is not told
    /// otherwise.
    pub(crate) fn of(coll: &Collection, plan: &Plan, request: &PlanRequest<'_>) -> ColumnChoice {
        let scans = matches!(plan.access, Access::Collection { reverse: false });
        if !scans || matches!(request.hint, Some(Hint::Natural { .. })) {
            return ColumnChoice::default();
        }
        let meant = |i: &Index| match request.hint {
            Some(hint) => hint.names(i) && (!i.is_hidden() || matches!(hint, Hint::Own(_))),
            None => !i.is_hidden(),
        };
        let allowed = |i: &Index| {
            let allowed = request.allowed;
            allowed.is_none_or(|a| a.has(i.name(), i.key_pattern()))
        };
        let all = coll.readable_indexes(request.view);
        let usable = all.iter().filter(|i| i.is_columns());
        ColumnChoice {
            indexes: usable.filter(|i| meant(i) && allowed(i)).cloned().collect(),
            simple_collation: collation_fits(request.collation, None),
        }
    }

    /// There is none.
    pub(crate) fn is_none(&self) -> bool {
        self.indexes.is_empty()
    }
}

/// Bytes between which the values of a path lie in each document that matches, as those of index
/// entries: lower ones included, upper ones excluded. For documents with one value there; `None`
/// when it may be any.
pub(crate) fn ranges_of(
    filter: &MatchFilter,
    path: &str,
    simple_collation: bool,
) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let root = filter.filter.root();
    let bounds = of_filter(root, path, None, simple_collation, Combine::Intersect);
    let ranges = bounds.ranges?;
    Some(ranges.iter().map(|r| directed(r, false)).collect())
}
