//! Numbers of the notes that writers make for a column index. Must not know: indexes.

use crate::format::segment::WriteNumber;
use model::Result;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Numbers that no two writes share, not even after a crash: the number of the server run, and one
/// within the run.
#[derive(Default)]
pub(super) struct WriteNumbers {
    run: OnceLock<u32>,
    next: AtomicU64,
}

impl WriteNumbers {
    /// The next number; `new_run` gives the number of the run when it is not known yet.
    ///
    /// # Errors
    /// Those of `new_run`.
    pub(super) fn next(&self, new_run: &dyn Fn() -> Result<u32>) -> Result<WriteNumber> {
        let run = match self.run.get() {
            Some(run) => *run,
            None => {
                let own = new_run()?;
                *self.run.get_or_init(|| own)
            }
        };
        let number = self.next.fetch_add(1, Relaxed);
        Ok(WriteNumber { run, number })
    }
}
