//! A role of a step with everything that its clients need.

use std::sync::Arc;
use std::time::Duration;

use lab_kit::recorder::{StepFacts, StepRecorder};
use lab_kit::stalls::GapTracker;
use lab_kit::work::Quota;
use lab_kit::workload::{Operation, Role, Settings, Step};

use crate::counters::RoleCounters;
use crate::sampler::{INTERVAL, SampledRole};

/// A role with everything that its clients need.
pub(super) struct RolePlan<'a> {
    pub(super) role: &'a Role,
    pub(super) clients: u32,
    pub(super) batch: u32,
    /// Operations per second of all clients together.
    pub(super) rate: Option<f64>,
    pub(super) quota: Quota,
    pub(super) counters: Arc<RoleCounters>,
    pub(super) misses_allowed: bool,
    pub(super) is_background: bool,
}

impl<'a> RolePlan<'a> {
    pub(super) fn new(
        role: &'a Role,
        settings: &Settings,
        rate_of_settings: Option<f64>,
        quota: Quota,
        step: &Step,
        is_background: bool,
    ) -> Self {
        let clients = role.clients.unwrap_or(settings.clients);
        let takes_batches = matches!(role.operation, Operation::Insert | Operation::DeleteOldest);
        let recorded = role
            .arrivals
            .as_ref()
            .and_then(|arrivals| arrivals.mean_rate());
        let rate = role.rate.map(|rate| rate * f64::from(clients));
        let rate = recorded.or(rate).or(rate_of_settings);
        let removes = |role: &Role| {
            let mixed = role.mix.iter().map(|(operation, _)| *operation);
            mixed.chain([role.operation]).any(|operation| {
                matches!(operation, Operation::DeleteOldest | Operation::DeleteInsert)
            })
        };
        Self {
            role,
            clients,
            batch: if takes_batches {
                role.batch.unwrap_or(settings.batch)
            } else {
                1
            },
            rate,
            quota,
            counters: RoleCounters::new(
                clients,
                is_background,
                rate.is_some(),
                role.operation,
                step.readers.is_some(),
            ),
            misses_allowed: removes(&step.work) || step.background.iter().any(removes),
            is_background,
        }
    }

    pub(super) fn name(&self, step: &Step) -> String {
        let operation = serde_json::to_value(self.role.operation).unwrap_or_default();
        let operation = operation.as_str().unwrap_or_default().to_owned();
        if self.is_background {
            format!("{}:{operation}", step.name)
        } else {
            step.name.clone()
        }
    }

    /// `is_inside`: the target is in the lab's process.
    pub(super) fn sampled_role(
        &self,
        step: &Step,
        device: Option<&str>,
        is_inside: bool,
    ) -> SampledRole {
        let facts = StepFacts {
            name: self.name(step),
            operation: self.role.operation,
            measured: step.measured,
            clients: self.clients,
            batch: self.batch,
            open_loop: self.rate.is_some(),
            device: device.map(str::to_owned),
        };
        SampledRole {
            recorder: StepRecorder::new(facts, INTERVAL),
            counters: self.counters.clone(),
            rows: 0,
            gaps: GapTracker::default(),
            is_inside,
            stood_still: Duration::ZERO,
        }
    }
}
