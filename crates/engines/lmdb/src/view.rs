//! A fixed state of all tables: one read transaction, which only one thread may use at a time.

use std::time::{Duration, Instant};

use heed::{RoTxn, WithoutTls};
use parking_lot::Mutex;
use storage::emulate::{FixedView, RowRequest, RowSource};
use storage::{CommitPos, Result, RowBatch, Table};

use crate::error::classify;
use crate::rows;
use crate::tables::Tables;

/// The read transaction and what it depends on.
pub(crate) struct View {
    tables: Tables,
    txn: Mutex<RoTxn<'static, WithoutTls>>,
    pos: u64,
    taken: Instant,
}

impl View {
    /// Takes a view of the latest state.
    pub(crate) fn take(tables: &Tables) -> Result<View> {
        let txn = tables.env.clone().static_read_txn();
        let txn = txn.map_err(|e| classify("a snapshot", e))?;
        Ok(View {
            tables: tables.clone(),
            pos: txn.id() as u64,
            txn: Mutex::new(txn),
            taken: Instant::now(),
        })
    }
}

impl FixedView for View {
    fn get(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let txn = self.txn.lock();
        Ok(self.tables.get(&txn, table, key)?.map(f).is_some())
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
        rows::read(&self.tables, &self.txn.lock(), wanted, rows)
    }
}
