//! Decides which runs may read the data that another run has loaded.

use lab_kit::workload::{Operation, Role, Settings, Step, Workload};

/// Whether everything after the load only reads, so that the next run finds the same data.
pub(super) fn is_read_only(workload: &Workload) -> bool {
    let reads = |operation: Operation| {
        matches!(
            operation,
            Operation::Point
                | Operation::Points
                | Operation::Range
                | Operation::IndexRange
                | Operation::Scan
                | Operation::Settle
        )
    };
    let role_reads = |role: &Role| {
        if role.operation == Operation::Mix {
            role.mix.iter().all(|(operation, _)| reads(*operation))
        } else {
            reads(role.operation)
        }
    };
    let steps = workload.steps(1);
    let first = steps.iter().position(|step| step.measured).unwrap_or(0);
    let mut rest = steps.iter().skip(first);
    first > 0
        && rest.all(|step: &Step| role_reads(&step.work) && step.background.iter().all(role_reads))
}

/// Whether two runs can share the same load.
pub(super) fn is_same_load(one: &Settings, other: &Settings) -> bool {
    let mut other = other.clone();
    other.clients = one.clients;
    other.hot_rows = one.hot_rows;
    other.rate = one.rate;
    other.seconds = one.seconds;
    other.warmup_seconds = one.warmup_seconds;
    other.assign = one.assign;
    other.memory_mb = one.memory_mb;
    *one == other
}
