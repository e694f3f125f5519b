//! Locks, gates and session rows under a scheduler that tries many interleavings (feature
//! `shuttle`). A lost wake-up or a deadlock leaves tasks that cannot continue, which the scheduler
//! reports. Promises: the number of interleavings is bounded. Must not know: the disk.
//!
//! `SHUTTLE_ITERATIONS` multiplies the number of interleavings.

mod gate;
mod locks;
mod sessions;

use operation::{Operation, SystemClock};
use std::sync::Arc;

/// The operation that writes: it belongs to one task and nothing interrupts it.
fn test_operation() -> Operation {
    Operation::new_detached(Arc::new(SystemClock::default()))
}

/// Runs `test` with random choices, and with choices that switch tasks rarely but at the worst
/// moments (PCT).
fn interleave(iterations: usize, test: fn()) {
    let times = std::env::var("SHUTTLE_ITERATIONS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1usize);
    shuttle::check_random(test, iterations * times);
    for depth in [2, 3] {
        shuttle::check_pct(test, iterations * times / 2, depth);
    }
}

/// Lets another task run, so that it can see a change that is not atomic half done.
fn yield_task() {
    shuttle::thread::yield_now();
}
