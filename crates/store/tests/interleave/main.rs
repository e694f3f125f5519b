//! Locks, gates and session rows under a scheduler that tries many interleavings (feature
//! `shuttle`). A lost wake-up and a deadlock show as tasks that can never go on, which the
//! scheduler reports. Promises: the number of interleavings is bounded. Must not know: the disk.
//!
//! `SHUTTLE_ITERATIONS` multiplies the number of interleavings.

mod gate;
mod locks;
mod sessions;

use operation::{Operation, SystemClock};
use std::sync::Arc;

/// Who writes: an operation that nothing interrupts, of one task alone.
fn own() -> Operation {
    Operation::detached(Arc::new(SystemClock::default()))
}

/// Runs `test` under random choices, and under choices that need few changes of task (PCT) but at
/// the worst moments.
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

/// Lets another task run: what is not atomic is seen half done.
fn others_run() {
    shuttle::thread::yield_now();
}
