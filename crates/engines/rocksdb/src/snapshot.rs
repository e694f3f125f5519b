//! Snapshots that own their resources: they keep the database alive and borrow nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use storage::{CommitPos, Cursor, CursorOpts, KeyRange, Reader, Result, Snapshot, Table};

use crate::cursor::RocksCursor;
use crate::ffi::{Db, DbSnapshot};

pub(crate) struct RocksSnapshot {
    snap: Arc<DbSnapshot>,
    taken: Instant,
}

impl RocksSnapshot {
    pub(crate) fn take(db: &Arc<Db>) -> Self {
        Self {
            snap: Arc::new(DbSnapshot::take(db)),
            taken: Instant::now(),
        }
    }
}

impl Reader for RocksSnapshot {
    fn get(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        self.snap.db().get(self.snap.opts(), table, key, out)
    }

    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.snap.db().get_with(self.snap.opts(), table, key, f)
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.snap
            .db()
            .multi_get(self.snap.opts(), table, keys, each)
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        range.check()?;
        Ok(Box::new(RocksCursor::new(
            self.snap.db(),
            Some(&self.snap),
            table,
            range,
            opts,
        )))
    }
}

impl Snapshot for RocksSnapshot {
    fn pos(&self) -> CommitPos {
        CommitPos(self.snap.sequence())
    }

    fn age(&self) -> Duration {
        self.taken.elapsed()
    }
}
