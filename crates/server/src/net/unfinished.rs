//! Since when a connection has left something unfinished. Promises: one deadline at a time is kept
//! for a connection. Must not know: what is unfinished.

use std::time::{Duration, Instant};

/// What a connection has left unfinished.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    /// Until when the client has to finish it.
    until: Option<Instant>,
    /// When the connection is looked at next.
    look: Option<Instant>,
}

impl Unfinished {
    /// Whether the time is over, and when to look again, if nobody does by then.
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
