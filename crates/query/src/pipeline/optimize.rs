//! Rewrites that never change results: neighbouring `$limit`s and `$skip`s merge, `$sort` takes the `$limit` behind it.

use crate::stages::{Kind, Stage, limit::Limit, skip::Skip};
use std::sync::Arc;

/// Rewrites until nothing changes any more; every rewrite makes the list shorter.
pub(crate) fn optimize(stages: Vec<Arc<dyn Stage>>) -> Vec<Arc<dyn Stage>> {
    let mut out: Vec<Arc<dyn Stage>> = Vec::with_capacity(stages.len());
    for stage in stages {
        out.push(stage);
        while let Some(merged) = merge_tail(&out) {
            out.pop();
            out.pop();
            out.push(merged);
        }
    }
    out
}

/// One stage that does what the last two do.
fn merge_tail(stages: &[Arc<dyn Stage>]) -> Option<Arc<dyn Stage>> {
    let [.., first, second] = stages else { return None };
    match (first.kind(), second.kind()) {
        (Kind::Limit(a), Kind::Limit(b)) => Some(Arc::new(Limit(a.min(b)))),
        (Kind::Skip(a), Kind::Skip(b)) => Some(Arc::new(Skip(a.checked_add(b)?))),
        (Kind::Sort { .. }, Kind::Limit(n)) => first.with_limit(n),
        _ => None,
    }
}
