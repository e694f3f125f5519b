//! The best of the access paths over `_id` and over single indexes.

use super::access::Plan;
use super::id_path::{by_id, id_score};
use super::index_path::by_index;
use super::request::PlanRequest;
use operators::filter::Node;
use std::sync::Arc;
use store::{Collection, Index};

/// A plan and its points.
pub(super) type Scored = (u32, Plan);

/// Indexes that the planner may use of its own accord.
pub(super) fn usable(i: &&Arc<Index>) -> bool {
    let read = i.is_keyed() || i.has_cells() || i.wildcard().is_some();
    i.is_ready() && read && !i.is_hidden()
}

/// The best path to the documents of `root` among those that `fits` accepts; `by_id` is the one
/// over `_id`, if there is one. Of equal ones the first, a wildcard index last.
pub(super) fn best(
    by_id: Option<Plan>,
    request: &PlanRequest<'_>,
    root: &Node,
    indexes: &[Arc<Index>],
    fits: impl Fn(&Plan) -> bool,
) -> Option<Scored> {
    let mut best = by_id.filter(&fits).map(|p| (id_score(&p), p));
    let wild = |i: &&Arc<Index>| i.wildcard().is_some();
    let usable = || indexes.iter().filter(usable);
    for index in usable().filter(|i| !wild(i)).chain(usable().filter(wild)) {
        let Some((score, plan)) = by_index(index, request, root, false).filter(|(_, p)| fits(p))
        else {
            continue;
        };
        if best.as_ref().is_none_or(|(s, _)| score > *s) {
            best = Some((score, plan));
        }
    }
    best
}

/// The best bounded path to the documents of one branch of a disjunction.
pub(super) fn of_branch(
    coll: &Collection,
    request: &PlanRequest<'_>,
    branch: &Node,
    indexes: &[Arc<Index>],
) -> Option<Plan> {
    // The partial filters of indexes are compared with whole filters; a branch has none of its own.
    let request = PlanRequest {
        filter: None,
        ..*request
    };
    if matches!(branch, Node::AlwaysFalse) {
        return Some(Plan::nothing());
    }
    let by_id = by_id(coll, &request, branch);
    best(by_id, &request, branch, indexes, Plan::is_bounded).map(|(_, p)| p)
}
