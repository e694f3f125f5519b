//! Numbers of what writers note for a column index. Must not know: indexes.

use crate::format::segment::Touch;
use model::Result;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Numbers that no two writes have, also not those of a server that crashed: a number of this run
/// of the server, and one within it.
#[derive(Default)]
pub(super) struct TouchNumbers {
    run: OnceLock<u32>,
    next: AtomicU64,
}

impl TouchNumbers {
    /// The next one; `new_run` gives the number of the run when there is none yet.
    ///
    /// # Errors
    /// Those of `new_run`.
    pub(super) fn next(&self, new_run: &dyn Fn() -> Result<u32>) -> Result<Touch> {
        let run = match self.run.get() {
            Some(run) => *run,
            None => {
                let own = new_run()?;
                *self.run.get_or_init(|| own)
            }
        };
        let number = self.next.fetch_add(1, Relaxed);
        Ok(Touch { run, number })
    }
}
