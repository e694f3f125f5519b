//! The best of the access paths over `_id` and over single indexes.

use super::access::Plan;
use super::id_path::{by_id, id_score};
use super::index_path::by_index;
use super::request::PlanRequest;
use operators::filter::Node;
use std::sync::Arc;
use store::{Collection, Index};

/// The plan with the most points.
pub(super) struct Best {
    pub(super) points: u32,
    pub(super) plan: Plan,
    /// So many plans were compared.
    pub(super) compared: usize,
}

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
) -> Option<Best> {
    let mut best = by_id.filter(&fits).map(|plan| Best {
        points: id_score(&plan),
        plan,
        compared: 1,
    });
    let wild = |i: &&Arc<Index>| i.wildcard().is_some();
    let usable = || indexes.iter().filter(usable);
    for index in usable().filter(|i| !wild(i)).chain(usable().filter(wild)) {
        let Some((points, plan)) = by_index(index, request, root, false).filter(|(_, p)| fits(p))
        else {
            continue;
        };
        let compared = best.as_ref().map_or(0, |b| b.compared) + 1;
        match &mut best {
            Some(best) if points <= best.points => best.compared = compared,
            best => {
                *best = Some(Best {
                    points,
                    plan,
                    compared,
                });
            }
        }
    }
    best
}

/// The plans that [`best`] compares, by the names of their indexes, with their points.
pub(super) fn compared(
    by_id: Option<&Plan>,
    request: &PlanRequest<'_>,
    root: &Node,
    indexes: &[Arc<Index>],
) -> Vec<(String, u32)> {
    let by_id = by_id.map(|p| ("_id_".to_owned(), id_score(p)));
    let others = indexes.iter().filter(usable).filter_map(|i| {
        let (points, _) = by_index(i, request, root, false)?;
        Some((i.name().to_owned(), points))
    });
    by_id.into_iter().chain(others).collect()
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
    best(by_id, &request, branch, indexes, Plan::is_bounded).map(|b| b.plan)
}
