//! The lab's own cost of each operation.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use lab_kit::seed;
use lab_kit::share::Share;
use lab_kit::target::{CallOutcome, Session, Target};
use lab_kit::work::{ClientAction, ClientWork, Dataset};
use lab_kit::workload::Step;
use metrics::LatencyHistogram;

use super::context::Run;
use super::role_plan::RolePlan;
use crate::errors::LabError;

/// The lab's own cost is measured over this many calls, or for the following time.
const OWN_COST_CALLS: u32 = 2_000;
const OWN_COST_TIME: Duration = Duration::from_millis(50);

impl<T: Target> Run<'_, T> {
    /// The lab's own cost of each operation: drawing, encoding and recording calls that are never
    /// made, on copies of the state.
    pub(super) async fn measure_own_cost(
        &self,
        step: &Step,
        plan: &RolePlan<'_>,
    ) -> Result<Option<f64>, LabError> {
        let mut work = self.copy_work(step, plan, "own-cost");
        let mut session = self.target.session(false).await?;
        let mut latency = LatencyHistogram::default();
        let (begun, mut ops) = (Instant::now(), 0);
        for _ in 0..OWN_COST_CALLS {
            let sent = Instant::now();
            let call = match work.draw() {
                ClientAction::Call(_, call) | ClientAction::Pair(_, call, _) => call,
                ClientAction::Wait | ClientAction::End => break,
            };
            let size = call.ops();
            std::hint::black_box(session.encode(call));
            work.account(CallOutcome::success(size, size));
            latency.record(sent.elapsed());
            ops += size;
            if begun.elapsed() > OWN_COST_TIME {
                break;
            }
        }
        Ok((ops > 0).then(|| begun.elapsed().as_secs_f64() * 1e6 / ops as f64))
    }

    /// The work of a client on copies of the state, with a separate random stream.
    pub(super) fn copy_work(&self, step: &Step, plan: &RolePlan<'_>, purpose: &str) -> ClientWork {
        let dataset = Dataset::new(self.dataset.kind, self.dataset.ids, self.settings.clone())
            .with_program(self.seed);
        dataset.restore(&self.dataset.table_checkpoints());
        dataset
            .indexes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(self.indexes());
        let random = seed::stream(self.seed, &step.name, purpose, 0);
        ClientWork::new(
            plan.role.clone(),
            plan.quota,
            Arc::new(dataset),
            random,
            Share::new(0, plan.clients),
            true,
        )
    }
}
