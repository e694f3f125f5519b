//! One thread at a time, whose guard another thread may drop. Must not know: what for.

use parking_lot::{Condvar, Mutex};

/// One exclusive unit at a time.
#[derive(Default)]
pub(crate) struct Turn {
    is_taken: Mutex<bool>,
    released: Condvar,
}

/// Gives the turn back when it is dropped. Any thread may drop it.
pub(crate) struct TurnGuard<'t>(&'t Turn);

impl Turn {
    /// Takes the turn; waits while another thread has it.
    pub(crate) fn take(&self) -> TurnGuard<'_> {
        let mut is_taken = self.is_taken.lock();
        while *is_taken {
            self.released.wait(&mut is_taken);
        }
        *is_taken = true;
        TurnGuard(self)
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        *self.0.is_taken.lock() = false;
        self.0.released.notify_one();
    }
}
