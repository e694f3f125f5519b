//! Decides when a running script is ended: on the operation's interrupt, or after its own time
//! limit. Each thread has one; the engine asks it while a script runs.

use model::{MongoError, code};
use operation::Operation;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Default)]
struct Watchdog {
    operation: Option<Arc<Operation>>,
    until: Option<Instant>,
    /// The first reason.
    failed: Option<MongoError>,
}

thread_local! {
    static WATCH: RefCell<Watchdog> = RefCell::default();
}

/// Starts to watch one call.
pub(crate) fn begin(operation: Option<Arc<Operation>>, longest: Duration) {
    WATCH.set(Watchdog {
        operation,
        until: Instant::now().checked_add(longest),
        failed: None,
    });
}

/// Stops watching; returns the reason for which the script was ended.
pub(crate) fn end() -> Option<MongoError> {
    WATCH.take().failed
}

/// Whether the script must end.
pub(crate) fn is_over() -> bool {
    WATCH.with_borrow_mut(|w| {
        if w.failed.is_some() {
            return true;
        }
        let checked = w.operation.as_ref().map_or(Ok(()), |op| op.check());
        w.failed = checked.err().or_else(|| {
            let late = w.until.is_some_and(|until| Instant::now() >= until);
            late.then(|| {
                MongoError::new(
                    code::INTERRUPTED,
                    "JavaScript execution interrupted: too slow",
                )
            })
        });
        w.failed.is_some()
    })
}

/// Sets the reason to end the script.
pub(crate) fn fail(why: MongoError) {
    WATCH.with_borrow_mut(|w| {
        w.failed.get_or_insert(why);
    });
}
