//! The server's clock: the one that all servers on the same data share, if the engine has one,
//! otherwise the machine's.
//!
//! Promises: after another server has taken over, documents expire and operations are dated as
//! before. Must not know: which engine it is.

use std::sync::Arc;

use commands::{Clock, SystemClock};
use storage::Engine;

/// The clock.
pub(crate) struct ServerClock {
    engine: Arc<dyn Engine>,
    machine: SystemClock,
}

impl ServerClock {
    /// The clock of a server on `engine`.
    pub(crate) fn of(engine: &Arc<dyn Engine>) -> ServerClock {
        ServerClock {
            engine: Arc::clone(engine),
            machine: SystemClock::default(),
        }
    }
}

impl Clock for ServerClock {
    fn now_ms(&self) -> i64 {
        let shared = self.engine.shared_time_ms();
        shared
            .and_then(|ms| i64::try_from(ms).ok())
            .unwrap_or_else(|| self.machine.now_ms())
    }

    fn monotonic_us(&self) -> u64 {
        self.machine.monotonic_us()
    }
}
