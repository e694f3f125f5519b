//! A fixed state of all tables: a session in a transaction, which only one thread may use at a
//! time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use storage::emulate::{FixedView, RowRequest, RowSource};
use storage::{CommitPos, Result, RowBatch, Table};

use crate::pool::Pool;
use crate::session::Session;

/// The session and what it depends on.
pub(crate) struct View {
    session: Mutex<Session>,
    pos: u64,
    taken: Instant,
}

impl View {
    /// Takes a view of the latest state, whose position the caller passes.
    pub(crate) fn take(pool: &Arc<Pool>, pos: u64) -> Result<View> {
        let mut session = Session::of(pool)?;
        session.begin()?;
        Ok(View {
            session: Mutex::new(session),
            pos,
            taken: Instant::now(),
        })
    }
}

impl FixedView for View {
    fn get(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.session.lock().get(table, key, f)
    }

    fn pos(&self) -> CommitPos {
        CommitPos(self.pos)
    }

    fn age(&self) -> Duration {
        self.taken.elapsed()
    }
}

impl RowSource for View {
    fn rows(&self, wanted: RowRequest<'_>, rows: &mut RowBatch) -> Result<bool> {
        rows.clear();
        if wanted.range.is_empty() {
            return Ok(false);
        }
        let session = self.session.lock();
        let mut is_full = false;
        session.scan(
            wanted.table,
            wanted.range,
            wanted.reverse,
            &mut |key, value| {
                let value = if wanted.keys_only { &[][..] } else { value };
                rows.push(key, value);
                is_full = wanted.is_full(rows);
                !is_full
            },
        )?;
        Ok(is_full)
    }
}
