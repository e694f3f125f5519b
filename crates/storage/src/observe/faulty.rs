//! The fault injector: makes the n-th call fail, before the engine sees it or after the engine has
//! done the work.

use parking_lot::Mutex;

use super::{Call, Observer};
use crate::engine::{Caps, CommitPos};
use crate::error::{Result, StorageError};

/// A planned failure.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Number of calls that still succeed.
    pub after_calls: u64,
    /// The error that the failing call returns.
    pub error: StorageError,
    /// Every later call fails as well.
    pub lasting: bool,
    /// The engine does the work and only the answer is lost; otherwise the engine never sees the
    /// call.
    pub work_is_done: bool,
    /// Only writing calls (`apply`, `flush`, `wait_durable`, drops) count and fail.
    pub writes_only: bool,
}

/// Fails as planned; without a plan it only counts calls.
#[derive(Debug, Default)]
pub struct FaultInjector {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    calls: u64,
    fault: Option<Fault>,
}

impl FaultInjector {
    /// Plans a fault, counted from now; `None` ends it.
    pub fn plan(&self, fault: Option<Fault>) {
        *self.state.lock() = State { calls: 0, fault };
    }

    /// Calls seen since the last plan.
    pub fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    fn strike(&self, call: &Call<'_>, work_is_done: bool) -> Result<()> {
        let mut state = self.state.lock();
        let Some(fault) = state.fault.clone() else {
            return Ok(());
        };
        if fault.work_is_done != work_is_done
            || (fault.writes_only && !is_write(call))
            || state.calls <= fault.after_calls
        {
            return Ok(());
        }
        if !fault.lasting {
            state.fault = None;
        }
        Err(fault.error)
    }
}

impl Observer for FaultInjector {
    fn before_call(&self, call: &Call<'_>, _caps: &Caps) -> Result<()> {
        {
            let mut state = self.state.lock();
            let counts = state
                .fault
                .as_ref()
                .is_none_or(|fault| !fault.writes_only || is_write(call));
            state.calls += u64::from(counts);
        }
        self.strike(call, false)
    }

    fn after_call(
        &self,
        call: &Call<'_>,
        _outcome: std::result::Result<CommitPos, &StorageError>,
    ) -> Result<()> {
        self.strike(call, true)
    }
}

fn is_write(call: &Call<'_>) -> bool {
    matches!(
        call,
        Call::Apply { .. } | Call::WaitDurable { .. } | Call::DropRange { .. } | Call::Flush
    )
}
