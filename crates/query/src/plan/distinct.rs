//! When an index can give one document for each value of its first field.

use super::access::{Access, Plan};
use super::index_path::plan_index;
use super::request::{Hint, PlanRequest};
use operators::filter::Node;
use std::sync::Arc;
use store::{Collection, FieldKind, Index};

/// A plan that finds every value of `field` among the matching documents by an index that begins
/// with it; `None` if no index does. `chosen` is the plan for the filter.
pub fn distinct_plan(
    coll: &Collection,
    request: &PlanRequest<'_>,
    chosen: &Plan,
    field: &str,
) -> Option<Plan> {
    // The entries of buckets do not have the values of measurements.
    if chosen.series.is_some() {
        return None;
    }
    let fits = |i: &Index| {
        let first = i.fields().first();
        i.multikey_bits() == 0
            && i.collation().is_none()
            && request.collation.is_none()
            // A number in a path is a position to an index but a name to an expression.
            && first.is_some_and(|f| {
                f.path.as_str() == field && f.kind != FieldKind::Hashed
                    && f.path.parts().iter().all(|p| p.index.is_none())
            })
    };
    if request.filter.is_none_or(|f| f.filter.is_always_true()) {
        if matches!(request.hint, Some(Hint::Natural { .. })) {
            return None;
        }
        let indexes = coll.readable_indexes(request.view);
        let usable = |i: &&Arc<Index>| {
            i.is_ready() && i.is_keyed() && !i.is_hidden() && !i.is_sparse() && !i.is_partial()
        };
        let hinted = |i: &&Arc<Index>| {
            request.hint.is_none() || chosen.index.as_ref().is_some_and(|c| c.name() == i.name())
        };
        let index = indexes
            .iter()
            .filter(usable)
            .filter(hinted)
            .find(|i| fits(i))?;
        let plan =
            plan_index(index, &PlanRequest::default(), &Node::AlwaysTrue, true).map(|(_, p)| p)?;
        return Some(Plan {
            view: chosen.view.clone(),
            ..plan
        });
    }
    let only_first = chosen.bounds.iter().skip(1).all(|b| b.is_all());
    let index = chosen.index.as_ref()?;
    (chosen.complete && only_first && fits(index) && matches!(chosen.access, Access::Index { .. }))
        // The estimate was for reading all entries.
        .then(|| Plan {
            estimate: None,
            ..chosen.clone()
        })
}
