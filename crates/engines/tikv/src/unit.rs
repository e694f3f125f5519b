//! A unit of a member: a transaction of the cluster, and what it has read. Promises: each row that
//! was read is compared by the commit. Must not know: how it is committed.

use std::sync::Arc;

use parking_lot::Mutex;
use storage::emulate::{FixedView, SharedView};
use storage::{
    CheckedUnit, CommitPos, Cursor, CursorOpts, Durability, KeyRange, Reader, Result, StorageError,
    Table, WriteBatch,
};
use tikv_client::Transaction;

use crate::cluster::Change;
use crate::layout::{Layout, SlotId};
use crate::slots::SlotGuard;
use crate::turn::TurnGuard;
use crate::turn_renewal::TurnRenewal;
use crate::view::View;

/// What commits units.
pub(crate) trait UnitCommitter: Sync {
    /// Commits a batch with what the unit has read.
    fn commit_unit(&self, unit: MemberUnit<'_>, batch: &WriteBatch) -> Result<CommitPos>;

    /// Where rows lie.
    fn layout(&self) -> &Layout;
}

/// The transaction of a unit.
pub(crate) struct Begun<'m> {
    pub(crate) txn: Transaction,
    pub(crate) ts: u64,
    pub(crate) slot: SlotGuard<'m>,
}

/// A transaction of the cluster.
pub(crate) struct MemberUnit<'m> {
    pub(crate) member: &'m dyn UnitCommitter,
    pub(crate) txn: Transaction,
    pub(crate) view: Arc<View>,
    /// The announcements up to its beginning.
    pub(crate) announced: Vec<u8>,
    /// The rows that were read.
    pub(crate) read: Mutex<Vec<Vec<u8>>>,
    pub(crate) slot: SlotGuard<'m>,
    /// It is this member's turn at a change that all others wait for.
    pub(crate) turn: Option<TakenTurn<'m>>,
}

/// The turn of this member: other members wait, and so do other threads of this process.
pub(crate) struct TakenTurn<'m> {
    pub(crate) renewal: TurnRenewal,
    pub(crate) guard: TurnGuard<'m>,
}

impl MemberUnit<'_> {
    fn note(&self, table: Table, key: &[u8]) {
        let stored = storage::emulate::long_keys::place(key).0;
        let row = self.member.layout().row(table, stored);
        self.read.lock().push(row);
    }
}

impl Reader for MemberUnit<'_> {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.note(table, key);
        self.view.get(table, key, f)
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        keys.iter().for_each(|key| self.note(table, key));
        self.view.multi_get(table, keys, each)
    }

    fn cursor(&self, of: Table, range: KeyRange<'_>, how: CursorOpts) -> Result<Box<dyn Cursor>> {
        if self.turn.is_some() {
            // Any commit since the beginning has written the row of a slot, as this one will.
            return SharedView(Arc::clone(&self.view)).cursor(of, range, how);
        }
        Err(StorageError::Unsupported(
            "TiKV does not detect that a range has changed since it was read",
        ))
    }
}

impl CheckedUnit for MemberUnit<'_> {
    fn commit(self: Box<Self>, batch: &WriteBatch, _: Durability) -> Result<CommitPos> {
        self.member.commit_unit(*self, batch)
    }

    fn announced(&self) -> &[u8] {
        &self.announced
    }
}

/// The rows that an exclusive commit writes so that every unit conflicts that is in progress:
/// those of all slots, as they are, and that of members, for one that is joining.
pub(crate) fn turn_changes(view: &View, layout: &Layout, own: SlotId) -> Result<Vec<Change>> {
    let mut changes = view.rows_as_they_are(layout.slots())?;
    changes.retain(|(key, _)| *key != layout.slot(own));
    changes.extend(view.rows_as_they_are(layout.roster()..layout.turn())?);
    Ok(changes)
}
