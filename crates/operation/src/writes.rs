//! What an operation has written and waited for, and whether it may be run again.
//!
//! Promises: an operation that may be run again has changed nothing that its next run would not
//! know of; counting costs one addition for each commit. Must not know: what is written, what the
//! operation waits for.

use parking_lot::Mutex;
use std::any::Any;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// What is kept from one run of an operation to the next.
pub type OpaqueValue = Box<dyn Any + Send>;

/// Stands for an operation that may not be run again.
const NEVER: u64 = u64::MAX;

/// See the head of this file.
pub struct Writes {
    commits: AtomicU64,
    /// The time of its last change in the log; 0 without one.
    time: AtomicU64,
    waited_us: AtomicU64,
    /// Bytes written beyond what was admitted.
    debt_bytes: AtomicUsize,
    /// While there were so many commits, all that was changed is known to the next run.
    runs_again_at: AtomicU64,
    run: Mutex<Run>,
}

#[derive(Default)]
struct Run {
    /// What the run before has kept.
    given: Option<OpaqueValue>,
    end: SetAside,
}

/// What is left of a run that ended in order to wait without a thread; nothing of another.
#[derive(Default)]
pub struct SetAside {
    /// Registered where it waits; to be held until it runs again.
    pub registered: Option<OpaqueValue>,
    /// What its next run is given.
    pub kept: Option<OpaqueValue>,
}

impl Default for Writes {
    fn default() -> Writes {
        Writes {
            commits: AtomicU64::new(0),
            time: AtomicU64::new(0),
            waited_us: AtomicU64::new(0),
            debt_bytes: AtomicUsize::new(0),
            runs_again_at: AtomicU64::new(NEVER),
            run: Mutex::default(),
        }
    }
}

impl Writes {
    /// Those of the next operation of the same connection, which pays the debt of this one.
    pub(crate) fn of_next(&self) -> Writes {
        Writes {
            debt_bytes: AtomicUsize::new(self.debt_bytes.swap(0, Relaxed)),
            ..Writes::default()
        }
    }

    /// Counts a change that was made, or tried.
    pub fn count_commit(&self) {
        self.commits.fetch_add(1, Relaxed);
    }

    /// Notes that a change was made that has this time in the log.
    pub fn committed_at(&self, time: u64) {
        self.time.fetch_max(time, Relaxed);
    }

    /// The time of the last change in the log; 0 without one.
    pub fn time(&self) -> u64 {
        self.time.load(Relaxed)
    }

    /// Adds a wait on a thread.
    pub fn add_waited(&self, waited: Duration) {
        let us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.waited_us.fetch_add(us, Relaxed);
    }

    /// Microseconds of waits on a thread since this was asked last.
    pub fn take_waited_us(&self) -> u64 {
        self.waited_us.swap(0, Relaxed)
    }

    /// Adds to the debt: a write was larger by so many bytes than admitted.
    pub fn add_debt(&self, bytes: usize) {
        self.debt_bytes.fetch_add(bytes, Relaxed);
    }

    /// The debt in bytes, which the caller pays.
    pub fn take_debt(&self) -> usize {
        match self.debt_bytes.load(Relaxed) {
            0 => 0,
            _ => self.debt_bytes.swap(0, Relaxed),
        }
    }

    /// Begins a run that may be followed by another while it has changed nothing since
    /// [`Writes::checkpoint`]. `given` is what the run before has kept.
    pub fn begin_run(&self, runs_again: bool, given: Option<OpaqueValue>) {
        let at = match runs_again {
            true => self.commits.load(Relaxed),
            false => NEVER,
        };
        self.runs_again_at.store(at, Relaxed);
        if given.is_some() {
            self.run.lock().given = given;
        }
    }

    /// Ends a run.
    pub fn end_run(&self) -> SetAside {
        self.runs_again_at.store(NEVER, Relaxed);
        std::mem::take(&mut *self.run.lock()).end
    }

    /// All that was changed so far is in what the next run is given.
    pub fn checkpoint(&self) {
        if self.runs_again_at.load(Relaxed) != NEVER {
            self.runs_again_at
                .store(self.commits.load(Relaxed), Relaxed);
        }
    }

    /// Whether the operation may be run again now.
    pub fn may_run_again(&self) -> bool {
        self.runs_again_at.load(Relaxed) == self.commits.load(Relaxed)
    }

    /// The operation ends its run, and is run again when what it has registered for is released.
    pub fn set_aside(&self, registered: OpaqueValue) {
        self.run.lock().end.registered = Some(registered);
    }

    /// Keeps what the next run needs.
    pub fn keep(&self, what: OpaqueValue) {
        self.run.lock().end.kept = Some(what);
    }

    /// What the run before has kept; once.
    pub fn take_given(&self) -> Option<OpaqueValue> {
        self.run.lock().given.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_run_again_only_over_what_its_next_run_knows() {
        let writes = Writes::default();
        assert!(!writes.may_run_again(), "before its first run");
        writes.begin_run(true, None);
        assert!(writes.may_run_again());
        writes.count_commit();
        assert!(!writes.may_run_again(), "it has changed something");
        writes.checkpoint();
        assert!(writes.may_run_again());
        writes.set_aside(Box::new("registered"));
        writes.keep(Box::new(7i32));
        let end = writes.end_run();
        assert!(!writes.may_run_again() && end.registered.is_some());
        assert!(writes.end_run().registered.is_none());
        writes.begin_run(false, end.kept);
        writes.checkpoint();
        assert!(!writes.may_run_again());
        let given = writes.take_given().and_then(|g| g.downcast::<i32>().ok());
        assert_eq!(given.as_deref(), Some(&7));
        assert!(writes.take_given().is_none());
    }

    #[test]
    fn the_next_operation_pays_the_debt() {
        let first = Writes::default();
        first.add_debt(3);
        first.add_debt(4);
        let next = first.of_next();
        assert_eq!((first.take_debt(), next.take_debt()), (0, 7));
        assert_eq!(next.take_debt(), 0);
    }
}
