//! Why a running script is ended: what the operation's interrupt says, or its own time. One of each
//! thread, asked by the engine while a script runs.

use model::{MongoError, code};
use operation::Operation;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Default)]
struct Watch {
    operation: Option<Arc<Operation>>,
    until: Option<Instant>,
    /// The first reason.
    failed: Option<MongoError>,
}

thread_local! {
    static WATCH: RefCell<Watch> = RefCell::default();
}

/// Begins to watch for one call.
pub(crate) fn begin(operation: Option<Arc<Operation>>, longest: Duration) {
    WATCH.set(Watch {
        operation,
        until: Instant::now().checked_add(longest),
        failed: None,
    });
}

/// Ends it, and gives the reason for which the script was ended.
pub(crate) fn end() -> Option<MongoError> {
    WATCH.take().failed
}

/// True when the script must end.
pub(crate) fn must_end() -> bool {
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

/// Ends the script for a reason.
pub(crate) fn fail(why: MongoError) {
    WATCH.with_borrow_mut(|w| {
        w.failed.get_or_insert(why);
    });
}
