//! Rewrites that never change results. Each is a rule with a name; rules are applied until none
//! applies any more. `facts` knows what a stage reads and changes; the rules are in `rules`.

mod facts;
mod rules;
mod split;

pub(crate) use facts::{group_end, groups_by_alone, needs, number_only};

use crate::stage::Stage;
use operators::expr::ParseCx;
use rules::RULES;
use std::sync::Arc;

/// More rewrites for each stage than any pipeline needs: a bound in case rules undo one another.
const REWRITES_A_STAGE: usize = 64;

/// Rewrites until no rule applies.
pub(crate) fn optimize(
    mut stages: Vec<Arc<dyn Stage>>,
    cx: &mut ParseCx<'_>,
) -> Vec<Arc<dyn Stage>> {
    let mut left = stages.len() * REWRITES_A_STAGE;
    let mut at = 0;
    while at < stages.len() && left > 0 {
        if RULES.iter().any(|(_, rule)| rule(&mut stages, at, cx)) {
            // The moved stage may combine with the stage before it.
            at = at.saturating_sub(1);
            left -= 1;
        } else {
            at += 1;
        }
    }
    stages
}
