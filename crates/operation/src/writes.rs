//! What an operation has written, how long it has waited, and whether it may be run again.
//!
//! Promises: an operation that may be run again has changed nothing that its next run would not
//! know of; counting costs one addition for each commit. Must not know: which data is written, what
//! the operation waits for.

use parking_lot::Mutex;
use std::any::Any;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// A value that one run of an operation keeps for the next run.
pub type OpaqueValue = Box<dyn Any + Send>;

/// The value of `runs_again_at` for an operation that may not be run again.
const NEVER: u64 = u64::MAX;

/// The counters of one operation's writes, and the state of its current run.
pub struct WriteCounters {
    commits: AtomicU64,
    /// The log time of the operation's last change; 0 without a change.
    time: AtomicU64,
    waited_us: AtomicU64,
    /// Bytes that the operation has written beyond the size it was admitted with.
    debt_bytes: AtomicUsize,
    /// The number of commits at which the operation may be run again: the next run knows of all of
    /// them. [`NEVER`] when it may not be run again.
    runs_again_at: AtomicU64,
    run: Mutex<Run>,
}

#[derive(Default)]
struct Run {
    /// The value that the previous run has kept.
    given: Option<OpaqueValue>,
    end: Suspension,
}

/// What a run leaves when it ends in order to wait without a thread. A run that ends otherwise
/// leaves nothing.
#[derive(Default)]
pub struct Suspension {
    /// The registration of the waiter; it must be held until the operation runs again.
    pub registered: Option<OpaqueValue>,
    /// The value that the next run is given.
    pub kept: Option<OpaqueValue>,
}

impl Default for WriteCounters {
    fn default() -> WriteCounters {
        WriteCounters {
            commits: AtomicU64::new(0),
            time: AtomicU64::new(0),
            waited_us: AtomicU64::new(0),
            debt_bytes: AtomicUsize::new(0),
            runs_again_at: AtomicU64::new(NEVER),
            run: Mutex::default(),
        }
    }
}

impl WriteCounters {
    /// The counters of the connection's next operation, which takes over the debt of this one.
    pub(crate) fn of_next(&self) -> WriteCounters {
        WriteCounters {
            debt_bytes: AtomicUsize::new(self.debt_bytes.swap(0, Relaxed)),
            ..WriteCounters::default()
        }
    }

    /// Counts a commit, successful or not.
    pub fn count_commit(&self) {
        self.commits.fetch_add(1, Relaxed);
    }

    /// Notes the log time of a change.
    pub fn committed_at(&self, time: u64) {
        self.time.fetch_max(time, Relaxed);
    }

    /// The log time of the last change; 0 without a change.
    pub fn time(&self) -> u64 {
        self.time.load(Relaxed)
    }

    /// Adds the time of a wait on the thread.
    pub fn add_waited(&self, waited: Duration) {
        let us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.waited_us.fetch_add(us, Relaxed);
    }

    /// Microseconds of waits on the thread since the last call.
    pub fn take_waited_us(&self) -> u64 {
        self.waited_us.swap(0, Relaxed)
    }

    /// Adds to the debt: a write was this many bytes larger than it was admitted for.
    pub fn add_debt(&self, bytes: usize) {
        self.debt_bytes.fetch_add(bytes, Relaxed);
    }

    /// Takes the debt, in bytes. The caller pays it.
    pub fn take_debt(&self) -> usize {
        match self.debt_bytes.load(Relaxed) {
            0 => 0,
            _ => self.debt_bytes.swap(0, Relaxed),
        }
    }

    /// Begins a run. With `runs_again`, the operation may be run again as long as it has changed
    /// nothing since the start of the run or the last [`WriteCounters::checkpoint`]. `given` is the
    /// value that the previous run has kept.
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
    pub fn end_run(&self) -> Suspension {
        self.runs_again_at.store(NEVER, Relaxed);
        std::mem::take(&mut *self.run.lock()).end
    }

    /// Notes that the value kept for the next run covers all changes made so far.
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

    /// Notes that the run ends in order to wait: the operation is run again when the lock that
    /// `registered` waits for is released.
    pub fn set_aside(&self, registered: OpaqueValue) {
        self.run.lock().end.registered = Some(registered);
    }

    /// Keeps a value for the next run.
    pub fn keep(&self, what: OpaqueValue) {
        self.run.lock().end.kept = Some(what);
    }

    /// Takes the value that the previous run has kept. Only the first call returns it.
    pub fn take_given(&self) -> Option<OpaqueValue> {
        self.run.lock().given.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_may_rerun_only_if_all_its_commits_are_checkpointed() {
        let writes = WriteCounters::default();
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
        let first = WriteCounters::default();
        first.add_debt(3);
        first.add_debt(4);
        let next = first.of_next();
        assert_eq!((first.take_debt(), next.take_debt()), (0, 7));
        assert_eq!(next.take_debt(), 0);
    }
}
