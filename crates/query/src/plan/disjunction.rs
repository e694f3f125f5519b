//! A union: one access path for each branch of an `$or`.

use super::access::{Access, Plan};
use super::best::of_branch;
use super::bounds;
use super::request::PlanRequest;
use operators::filter::Node;
use std::sync::Arc;
use store::{Collection, Index};

/// Most branches of a union.
const BRANCHES_MAX: usize = 64;

/// A union over the branches of a disjunction that must hold, if each branch has bounds of its own.
pub(super) fn plan_disjunction(
    coll: &Collection,
    request: &PlanRequest<'_>,
    root: &Node,
    indexes: &[Arc<Index>],
) -> Option<Plan> {
    let mut found = None;
    bounds::conjuncts(root, &mut |n| {
        if let (Node::Or(nodes), None) = (n, found) {
            found = Some(nodes);
        }
    });
    let nodes = found.filter(|n| n.len() <= BRANCHES_MAX)?;
    let mut branches = Vec::with_capacity(nodes.len());
    for n in nodes {
        let plan = of_branch(coll, request, n, indexes)?;
        if !matches!(plan.access, Access::Nothing) {
            branches.push(plan);
        }
    }
    if branches.is_empty() {
        return Some(Plan::empty());
    }
    let complete = matches!(root, Node::Or(_)) && branches.iter().all(|p| p.complete);
    let ordered = request.sort.filter(|_| branches.iter().all(|p| p.sorted));
    let sorted = request.sort.is_none() || ordered.is_some();
    let access = Access::Union {
        branches,
        merge: ordered.map(|s| Arc::new(s.clone())),
        disjoint: false,
    };
    Some(Plan {
        complete,
        ..Plan::of(access, sorted)
    })
}
