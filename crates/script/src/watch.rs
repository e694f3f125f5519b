//! Why a running script is ended: what the operation's interrupt says, or its own time. One of each
//! thread, asked by the engine while a script runs.

use model::{MongoError, code};
use operators::cx::Check;
use std::cell::RefCell;
use std::time::{Duration, Instant};

#[derive(Default)]
struct Watch {
    check: Option<Check>,
    until: Option<Instant>,
    /// The first reason.
    failed: Option<MongoError>,
}

thread_local! {
    static WATCH: RefCell<Watch> = RefCell::default();
}

/// Begins to watch for one call.
pub(crate) fn begin(check: Option<Check>, longest: Duration) {
    WATCH.set(Watch {
        check,
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
        let checked = w.check.as_ref().map_or(Ok(()), |check| check());
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
