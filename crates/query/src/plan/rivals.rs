//! The plans that were compared with the one that was taken, kept for explain. Must not know: how
//! they were compared.

use super::access::Plan;
use parking_lot::Mutex;

/// Receives the plans that were compared by their costs and not taken, with these.
#[derive(Default)]
pub struct Rivals(Mutex<Vec<Plan>>);

impl Rivals {
    /// Notes plans that were compared with the one that was taken, in place of what was noted
    /// before. The one that is taken, and one that was preferred, are among them twice.
    pub(super) fn note(&self, taken: &Plan, compared: Vec<Plan>) {
        let mut rivals: Vec<Plan> = Vec::new();
        for plan in compared {
            if !plan.reads_like(taken) && !rivals.iter().any(|r| r.reads_like(&plan)) {
                rivals.push(plan);
            }
        }
        *self.0.lock() = rivals;
    }

    /// The plans; none when nothing was compared by costs.
    pub fn list(&self) -> Vec<Plan> {
        self.0.lock().clone()
    }
}
