//! Finds an index that gives the first document of each group in the wanted order. The index begins
//! with fields that have one value, then the group's path, then the order. Must not know: how the
//! other documents of a group are skipped.

use super::access::{Access, Plan};
use super::best::usable;
use super::index_path::plan_index;
use super::request::{Hint, PlanRequest};
use crate::exec::{GroupEnd, SortBy, SortPattern};
use model::DocBuf;
use operators::filter::Node;
use std::sync::Arc;
use store::{Collection, FieldKind, Index};

/// An index whose entries come group by group.
pub(crate) struct GroupedPlan {
    pub(crate) plan: Plan,
    /// Entries with the same values in this many first fields are a group.
    pub(crate) fields: usize,
}

/// A plan over an index that gives the matching documents group by group, the wanted document of
/// each group first; `None` if no index does.
pub(crate) fn group_end_plan(
    coll: &Collection,
    request: &PlanRequest<'_>,
    end: &GroupEnd,
) -> Option<GroupedPlan> {
    let bounded = request.min.is_some() || request.max.is_some() || request.near.is_some();
    let natural = matches!(request.hint, Some(Hint::Natural { .. }));
    if bounded || natural || request.collation.is_some() || coll.is_series() || coll.is_log() {
        return None;
    }
    let indexes = coll.readable_indexes(request.view);
    // Groups may be read in either direction; the direction of the sort is tried first.
    let first = request.sort?.parts().first()?;
    let ascending = match &first.by {
        SortBy::Path(path) if path.as_str() == end.path => first.ascending != end.last,
        _ => true,
    };
    [ascending, !ascending].into_iter().find_map(|ascending| {
        let order = order_of(request.sort?, end, ascending)?;
        let asked = PlanRequest {
            sort: Some(&order),
            limit: None,
            ..*request
        };
        let grouped = indexes
            .iter()
            .filter(usable)
            .filter_map(|i| plan_by_index(i, &asked, end));
        // Of equal plans, the first.
        let best = grouped.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, grouped)| grouped)
    })
}

/// The order by groups and, within a group, the wanted order; reversed if the last document is
/// wanted.
fn order_of(sort: &SortPattern, end: &GroupEnd, ascending: bool) -> Option<SortPattern> {
    let direction = |ascending: bool| if ascending { 1i32 } else { -1i32 };
    let mut spec = DocBuf::new();
    spec.put(&end.path, direction(ascending));
    for part in sort.parts() {
        let SortBy::Path(path) = &part.by else {
            return None;
        };
        // All documents of a group have the same value here.
        if path.as_str() != end.path {
            spec.put(path.as_str(), direction(part.ascending != end.last));
        }
    }
    SortPattern::parse(spec.doc()).ok()
}

/// The plan over one index, with its points.
fn plan_by_index(
    index: &Arc<Index>,
    request: &PlanRequest<'_>,
    end: &GroupEnd,
) -> Option<(u32, GroupedPlan)> {
    let is_meant = request.hint.is_none_or(|hint| hint.names(index));
    let is_allowed = request
        .allowed
        .is_none_or(|allowed| allowed.has(index.name(), index.key_pattern()));
    let plain = index.is_keyed() && index.multikey_bits() == 0 && index.collation().is_none();
    if !is_meant || !is_allowed || !plain {
        return None;
    }
    let fields = index.fields();
    let ordered = |kind: FieldKind| matches!(kind, FieldKind::Ascending | FieldKind::Descending);
    let at = fields.iter().position(|f| f.path.as_str() == end.path)?;
    // A number in a path is a position to an index but a name to an expression.
    let numbered = fields
        .get(at)
        .is_some_and(|f| f.path.parts().iter().any(|p| p.index.is_some()));
    if numbered || !fields.iter().all(|f| ordered(f.kind)) {
        return None;
    }
    let root = request
        .filter
        .map_or(&Node::AlwaysTrue, |f| f.filter.root());
    let (points, plan) = plan_index(index, request, root, false)?;
    let fixed = plan.bounds.get(..at)?.iter().all(|b| b.is_one_point());
    let by_entries = matches!(plan.access, Access::Index { .. }) && plan.wildcard.is_none();
    let gives_all = by_entries && plan.complete && plan.sorted && plan.multikey == 0 && fixed;
    gives_all.then(|| {
        let plan = Plan {
            view: request.view.cloned().unwrap_or_default(),
            ..plan
        };
        let fields = at + 1;
        (points, GroupedPlan { plan, fields })
    })
}
