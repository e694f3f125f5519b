//! Runs cases of a test on several threads. Promises: a panic in a case is the caller's. Must not
//! know: the cases.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Opening and closing an engine is mostly waiting, so there are more threads than processors.
const THREADS: usize = 6;

/// Calls `check` with each number; the order is not defined.
pub fn run_cases(cases: Range<usize>, check: &(dyn Fn(usize) + Sync)) {
    let next = AtomicUsize::new(cases.start);
    let check_some = || {
        loop {
            let case = next.fetch_add(1, Ordering::Relaxed);
            if case >= cases.end {
                return;
            }
            check(case);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(check_some)).collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}
