//! The resources that an operation uses on its threads: processor time, and bytes read from files.
//!
//! Promises: they are measured only while some database is profiled; otherwise they cost nothing.
//! Must not know: where they are reported.

use rustix::time::{ClockId, clock_gettime};
use state::service::Service;

/// The resources that an operation has used on the threads it ran on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceUse {
    /// Processor time in nanoseconds.
    pub cpu_ns: u64,
    /// `None` when the engine does not count them.
    pub(crate) read_bytes: Option<u64>,
}

/// The counters of this thread when an operation begins or continues.
pub struct Mark(ResourceUse);

impl Mark {
    /// Reads the counters; `None` while no database is profiled.
    pub fn set(service: &Service) -> Option<Mark> {
        service.state.profile.is_on().then(|| Mark(now(service)))
    }

    /// Adds the resources used since a mark, if one was set.
    pub fn end(mark: Option<Mark>, service: &Service, all: &mut Option<ResourceUse>) {
        let Some(Mark(before)) = mark else { return };
        let after = now(service);
        let all = all.get_or_insert_default();
        all.cpu_ns += after.cpu_ns.saturating_sub(before.cpu_ns);
        if let (Some(from), Some(to)) = (before.read_bytes, after.read_bytes) {
            *all.read_bytes.get_or_insert(0) += to.saturating_sub(from);
        }
    }
}

fn now(service: &Service) -> ResourceUse {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    ResourceUse {
        cpu_ns: seconds.saturating_mul(1_000_000_000).saturating_add(nanos),
        read_bytes: service.store.engine().bytes_read_here(),
    }
}
