//! The plans that were compared with the chosen one, kept for explain. Must not know: how they were
//! compared.

use super::access::Plan;
use parking_lot::Mutex;

/// Receives the plans that lost the comparison, with their costs.
#[derive(Default)]
pub struct RejectedPlans(Mutex<Vec<Plan>>);

impl RejectedPlans {
    /// Replaces the noted plans by those of a comparison. Plans that read like the chosen one, or
    /// like another noted one, are left out.
    pub(super) fn note(&self, taken: &Plan, compared: Vec<Plan>) {
        let mut rivals: Vec<Plan> = Vec::new();
        for plan in compared {
            if !plan.reads_like(taken) && !rivals.iter().any(|r| r.reads_like(&plan)) {
                rivals.push(plan);
            }
        }
        *self.0.lock() = rivals;
    }

    /// The plans; empty if no costs were compared.
    pub fn list(&self) -> Vec<Plan> {
        self.0.lock().clone()
    }
}
