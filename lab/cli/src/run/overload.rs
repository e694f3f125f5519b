//! Steps that determine the number of clients that saturate a target, and steps that use this
//! number.

use lab_kit::overload::{self, saturation};
use lab_kit::result::StepResult;
use lab_kit::target::Target;
use lab_kit::workload::{Role, Step};

use super::context::Run;
use super::step::window_of;

impl<T: Target> Run<'_, T> {
    /// The attempts so far: clients and rates.
    fn list_attempts(&self, done: &[StepResult]) -> Vec<(u32, f64)> {
        let planned = self.planned_steps();
        let names: Vec<&str> = planned
            .iter()
            .filter(|step| step.saturate)
            .map(|step| step.name.as_str())
            .collect();
        let tries = done
            .iter()
            .filter(|step| names.contains(&step.name.as_str()));
        tries
            .map(|step| (step.clients, step.rate.average))
            .collect()
    }

    /// Why a step with more clients is not necessary, if it is not.
    pub(super) fn is_saturated(&self, step: &Step, done: &[StepResult]) -> Option<String> {
        let clients = saturation(&self.list_attempts(done)).filter(|_| step.saturate)?;
        Some(format!("{clients} clients saturate the target"))
    }

    /// The step with its clients as a multiple of the number that saturates the target.
    pub(super) fn with_saturation(&self, step: &Step, done: &[StepResult]) -> Step {
        let tried = self.list_attempts(done);
        let most = tried.iter().map(|(clients, _)| *clients).max();
        let found = saturation(&tried).or(most);
        let clients = found.unwrap_or(self.settings.clients);
        let with = |role: &Role| Role {
            clients: role
                .times_saturation
                .map_or(role.clients, |times| Some(times.saturating_mul(clients))),
            ..role.clone()
        };
        let mut out = step.clone();
        out.work = with(&step.work);
        out.background = step.background.iter().map(with).collect();
        out
    }

    /// The figures of the overload, if the step had one.
    pub(super) fn add_overload(&self, step: &Step, result: &mut StepResult, done: &[StepResult]) {
        let share = step.background.first().and_then(|role| role.between);
        let (limits, ..) = self.limits(step);
        let Some((from, until)) = share.and_then(|share| window_of(share, limits)) else {
            return;
        };
        let window = from.as_secs_f64()..until.as_secs_f64();
        let found = overload::of_step(result, &self.list_attempts(done), window);
        result.more.overload = found;
    }
}
