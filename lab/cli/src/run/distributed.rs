//! The lab's side of a step whose clients are on other machines: starts and ends them together, and
//! combines their reports into one result.
//!
//! Promises: a generator that dies, hangs or sends impossible reports ends the run, which names the
//! generator and its last counts; the run never waits for it longer than its limits allow.
//! Neighbours: `gather` listens, `generator` is the other side.

use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use lab_kit::folder::RunFolder;
use lab_kit::pacing::Arrivals;
use lab_kit::target::Target;
use lab_kit::work::TableCheckpoint;
use lab_kit::workload::{Role, Step};

use super::afterwards::FinalChecks;
use super::context::Run;
use super::gather::{GeneratorReports, LOOK, StepCollector};
use super::merge::GeneratorState;
use super::role_plan::RolePlan;
use super::state::StepEnd;
use super::step::{StepInputs, announce, no_work_error};
use super::watchers::WatcherResults;
use crate::clients::Control;
use crate::counters::lock;
use crate::errors::LabError;
use crate::interrupt::wait_interrupt;
use crate::load::StepOrder;
use crate::progress::Progress;
use crate::sampler::Instruments;

impl<T: Target> Run<'_, T> {
    /// Whether the clients of a step are on other machines.
    pub(super) fn is_elsewhere(&self, step: &Step) -> bool {
        step.measured && lock(&self.fleet).is_some()
    }

    fn order(&self, step: &Step, plans: &[RolePlan<'_>]) -> StepOrder {
        let recorded = |role: &Role| match &role.arrivals {
            Some(Arrivals::Recorded(times)) => Some(times.to_vec()),
            _ => None,
        };
        let indexes = self.dataset.indexes.lock();
        StepOrder {
            step: step.name.clone(),
            clients: plans.iter().map(|plan| plan.clients).collect(),
            arrivals: plans.iter().map(|plan| recorded(plan.role)).collect(),
            marks: self.dataset.table_checkpoints(),
            has_indexes: indexes.is_ok_and(|indexes| !indexes.is_empty()),
            is_sparse: self.dataset.sparse.load(Ordering::Relaxed),
        }
    }

    /// Runs a step whose clients are on other machines.
    pub(super) async fn run_step_elsewhere(
        &self,
        step: &Step,
        folder: RunFolder,
        instruments: Instruments,
    ) -> Result<(StepEnd, RunFolder, Instruments), LabError> {
        let (limits, quota, goal) = self.limits(step);
        let plans = self.plans(step, quota);
        let Some(main) = plans.first() else {
            return Err(no_work_error());
        };
        let lab_cpu_us_per_op = self.measure_own_cost(step, main).await?;
        let Some(fleet) = lock(&self.fleet).take() else {
            return Err(no_work_error());
        };
        let order = || self.order(step, &plans);
        let fleet = tokio::task::block_in_place(|| {
            let mut fleet = fleet;
            fleet.prepare(order).map(|()| fleet)
        })?;
        let device = instruments.device().map(str::to_owned);
        let sampled = plans.iter();
        let sampled = sampled.map(|plan| plan.sampled_role(step, device.as_deref(), false));
        let sampled = (sampled.collect(), folder, instruments);
        let progress = Progress::new(&step.name, step.work.operation.unit(), goal);
        let merging = GeneratorReports::new(step, plans.len(), fleet, limits);
        let mut gathering = StepCollector::start(merging, sampled, progress)?;
        let begun = gathering.sampled;
        let control = Control::new(0);
        tokio::time::sleep_until(begun.into()).await;
        gathering.instruments.restart();
        control.start_together().await;
        announce(step);
        let interventions = self.begin_interventions(step, &control);
        let gatherer = std::thread::spawn({
            let control = control.clone();
            move || gathering.run(&control, begun)
        });
        wait_for(&gatherer, &control).await;
        let interventions = interventions.end(limits.call_timeout).await;
        let gathering = gatherer
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let ended_at = gathering.ended_at;
        let (merging, sampled) = gathering.into_parts();
        let seconds = ended_at.saturating_sub(limits.warmup).as_secs_f64();
        let generators = merging.results(main.clients, seconds);
        self.take_tables(&merging);
        let totals = merging.totals(&plans);
        *lock(&self.fleet) = Some(merging.fleet);
        let role = |client| self.seed_of(step, main, "client", client);
        let more = StepInputs {
            watched: WatcherResults::default(),
            afterwards: FinalChecks::default(),
            plans: &plans,
            totals,
            generators,
            control: &control,
            seeds: (0..main.clients).map(role).collect(),
            lab_cpu_us_per_op,
            interventions,
        };
        self.conclude_step(step, sampled, more).await
    }

    /// Records the changes that the generators made to the tables.
    fn take_tables(&self, merging: &GeneratorReports) {
        let marks: Vec<Vec<TableCheckpoint>> =
            merging.states.iter().map(GeneratorState::marks).collect();
        self.dataset.merge_lanes(&marks);
        if let Some(program) = &self.dataset.program {
            for state in &merging.states {
                program.add_counts(&state.program());
            }
        }
    }
}

/// Waits until all generators have ended; an interrupt stops them.
async fn wait_for<T>(gatherer: &JoinHandle<T>, control: &Control) {
    let interrupt = wait_interrupt();
    tokio::pin!(interrupt);
    while !gatherer.is_finished() {
        tokio::select! {
            () = &mut interrupt, if !control.is_stopping() => control.stop("interrupted"),
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}
