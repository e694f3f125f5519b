//! The best of the access paths over `_id` and over single indexes.

use super::access::Plan;
use super::id_path::{id_score, plan_by_id};
use super::index_path::plan_index;
use super::request::PlanRequest;
use operators::filter::Node;
use std::sync::Arc;
use store::{Collection, Index};

/// The plan with the most points.
pub(super) struct BestPlan {
    pub(super) points: u32,
    pub(super) plan: Plan,
    /// The number of plans compared.
    pub(super) compared: usize,
}

/// Indexes that the planner may use without a hint.
pub(super) fn usable(i: &&Arc<Index>) -> bool {
    let read = i.is_keyed() || i.has_cells() || i.wildcard().is_some();
    i.is_ready() && read && !i.is_hidden()
}

/// The best access path to the documents of `root` among the indexes that `fits` accepts; `by_id`
/// is the path over `_id`, if there is one. Of equal paths the first wins; a wildcard index loses.
pub(super) fn best(
    by_id: Option<Plan>,
    request: &PlanRequest<'_>,
    root: &Node,
    indexes: &[Arc<Index>],
    fits: impl Fn(&Plan) -> bool,
) -> Option<BestPlan> {
    let mut best = by_id.filter(&fits).map(|plan| BestPlan {
        points: id_score(&plan),
        plan,
        compared: 1,
    });
    let wild = |i: &&Arc<Index>| i.wildcard().is_some();
    let usable = || indexes.iter().filter(usable);
    for index in usable().filter(|i| !wild(i)).chain(usable().filter(wild)) {
        let Some((points, plan)) = plan_index(index, request, root, false).filter(|(_, p)| fits(p))
        else {
            continue;
        };
        let compared = best.as_ref().map_or(0, |b| b.compared) + 1;
        match &mut best {
            Some(best) if points <= best.points => best.compared = compared,
            best => {
                *best = Some(BestPlan {
                    points,
                    plan,
                    compared,
                });
            }
        }
    }
    best
}

/// The plans that [`best`] compares: the names of their indexes and their points.
pub(super) fn list_compared(
    by_id: Option<&Plan>,
    request: &PlanRequest<'_>,
    root: &Node,
    indexes: &[Arc<Index>],
) -> Vec<(String, u32)> {
    let by_id = by_id.map(|p| ("_id_".to_owned(), id_score(p)));
    let others = indexes.iter().filter(usable).filter_map(|i| {
        let (points, _) = plan_index(i, request, root, false)?;
        Some((i.name().to_owned(), points))
    });
    by_id.into_iter().chain(others).collect()
}

/// The best bounded access path to the documents of one branch of a disjunction.
pub(super) fn of_branch(
    coll: &Collection,
    request: &PlanRequest<'_>,
    branch: &Node,
    indexes: &[Arc<Index>],
) -> Option<Plan> {
    // A partial index's filter is compared with the whole filter, which a branch does not have.
    let request = PlanRequest {
        filter: None,
        ..*request
    };
    if matches!(branch, Node::AlwaysFalse) {
        return Some(Plan::empty());
    }
    let by_id = plan_by_id(coll, &request, branch);
    best(by_id, &request, branch, indexes, Plan::is_bounded).map(|b| b.plan)
}
