//! Since when a client has left something unfinished. Promises: a connection has at most one
//! deadline for this. Must not know: what is unfinished.

use std::time::{Duration, Instant};

/// The time limit of a client that has left something unfinished.
#[derive(Debug, Default)]
pub(super) struct ProgressDeadline {
    /// The time by which the client has to finish.
    until: Option<Instant>,
    /// The deadline at which the connection is next checked.
    look: Option<Instant>,
}

impl ProgressDeadline {
    /// Whether the time has passed, and a deadline to add if the connection has none yet.
    pub(super) fn judge(
        &mut self,
        is_unfinished: bool,
        patience: Duration,
    ) -> (bool, Option<Instant>) {
        if !is_unfinished {
            self.until = None;
            return (false, None);
        }
        let now = Instant::now();
        let until = *self.until.get_or_insert(now + patience);
        if until <= now {
            return (true, None);
        }
        if self.look.is_some_and(|look| look > now) {
            return (false, None);
        }
        self.look = Some(until);
        (false, self.look)
    }
}
