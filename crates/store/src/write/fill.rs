//! The batch of a modification: records, index entries, counts. Must not know: locks, commits.

use crate::catalog::{Collection, State};
use crate::error;
use crate::format::record;
use crate::view::capped::order_key;
use crate::write::duplicate::duplicate_key;
use crate::write::entries::entry_value;
use crate::write::mode::Mode;
use crate::write::modify::{Change, Decided, Filled, Modified, Scratch};
use crate::write::session::{Effect, Keep, StatementLog};
use model::{Doc, Result};
use smallvec::SmallVec;
use storage::{CommitPos, Table};

impl Collection {
    /// Puts the changes into the batch, up to the first that is refused.
    pub(super) fn fill_changes(
        &self,
        state: &State,
        s: &mut Scratch,
        keys: &[&[u8]],
        decided: Decided,
        building: bool,
        mode: &Mode<'_, '_>,
    ) -> Result<Filled> {
        s.batch.clear();
        s.log.clear();
        let mut filled = Filled {
            multikey: SmallVec::from_elem(0, state.indexes.len()),
            failure: decided.failure,
            ..Filled::default()
        };
        let mut start = 0;
        for (n, change) in decided.changes.iter().enumerate() {
            let Some(end) = s.old_ends.get(n).copied().flatten() else {
                filled.outcomes.push(Modified::Absent);
                continue;
            };
            let bytes = std::mem::take(&mut s.old);
            let (header, old) = self.parse(bytes.get(start..end))?;
            start = end;
            let new = match change {
                None | Some(Change::Keep) => {
                    filled.outcomes.push(Modified::Kept);
                    s.old = bytes;
                    continue;
                }
                Some(Change::Delete) => None,
                Some(Change::Replace(b) | Change::Update(b, _)) => {
                    Some(Doc::new(b).ok_or_else(|| error::corrupt("a document to be stored"))?)
                }
            };
            let (mark, log_mark) = (s.batch.mark(), s.log.mark());
            if let Some(change) = change {
                self.log_change(state, &mut s.log, old, change, mode);
            }
            let put = self.put_change(
                state,
                s,
                keys[n],
                n,
                (header, old, new),
                (building, mode),
                &mut filled,
            );
            match put {
                Ok(()) => {}
                Err(e) => {
                    s.batch.rollback_to(mark);
                    s.log.rollback_to(log_mark);
                    filled.failure = Some(e);
                    s.old = bytes;
                    break;
                }
            }
            if let Mode::Logged(StatementLog { keep, .. }) = mode {
                filled.effect = Some(changed(*keep, old, new));
            }
            s.old = bytes;
        }
        Ok(filled)
    }

    #[allow(clippy::too_many_arguments)]
    fn put_change(
        &self,
        state: &State,
        s: &mut Scratch,
        key: &[u8],
        n: usize,
        (header, old, new): (record::Header, Doc<'_>, Option<Doc<'_>>),
        how: (bool, &Mode<'_, '_>),
        filled: &mut Filled,
    ) -> Result<()> {
        self.put_entry_changes(state, s, &key[4..], n, (old, new), how, filled)?;
        let old_bytes = old.len_bytes() as i64;
        match new {
            Some(d) => {
                s.value.clear();
                let header = record::Header {
                    version: self.shared.next_version(),
                    ..header
                };
                record::write(&mut s.value, header, d.as_bytes());
                s.batch.put(Table::Doc, key, &s.value);
                filled.bytes += d.len_bytes() as i64 - old_bytes;
                filled
                    .outcomes
                    .push(Modified::Replaced(CommitPos::default()));
            }
            None => {
                s.batch.delete(Table::Doc, key);
                if state.capped.is_some() {
                    s.batch
                        .delete(Table::Cap, &order_key(self.ident, header.insert_seq));
                }
                filled.docs -= 1;
                filled.bytes -= old_bytes;
                filled.deleted.push(header.insert_seq);
                filled
                    .outcomes
                    .push(Modified::Deleted(CommitPos::default()));
            }
        }
        Ok(())
    }

    /// Puts the index entries that change with a document into the batch.
    #[allow(clippy::too_many_arguments)]
    fn put_entry_changes(
        &self,
        state: &State,
        s: &mut Scratch,
        id: &[u8],
        n: usize,
        (old, new): (Doc<'_>, Option<Doc<'_>>),
        (building, mode): (bool, &Mode<'_, '_>),
        filled: &mut Filled,
    ) -> Result<()> {
        for (i, index) in state.indexes.iter().enumerate() {
            if new.is_some_and(|d| index.sees_same(old, d)) {
                continue;
            }
            let new_keys = &s.new_keys[n * state.indexes.len() + i];
            index.keys_of(old, &mut s.old_keys)?;
            for k in s
                .old_keys
                .iter()
                .filter(|k| new.is_none() || !new_keys.contains(k))
            {
                index.entry_key(k, id, &mut s.entry);
                if index.is_unique() {
                    if building && !self.owns_entry(&s.entry, id, mode)? {
                        continue;
                    }
                    filled.unique.insert(s.entry.clone(), false);
                }
                filled.entry_bytes -= s.entry.len() as i64;
                s.batch.delete(Table::Idx, &s.entry);
            }
            let Some(d) = new else { continue };
            for k in new_keys.iter().filter(|k| !s.old_keys.contains(k)) {
                index.entry_key(k, id, &mut s.entry);
                if index.is_unique() {
                    let taken = match filled.unique.get(&s.entry) {
                        Some(put) => *put,
                        None => mode.exists(&self.shared, Table::Idx, &s.entry)?,
                    };
                    if taken {
                        return Err(duplicate_key(self, index, d));
                    }
                    filled.unique.insert(s.entry.clone(), true);
                }
                filled.entry_bytes += s.entry.len() as i64;
                s.batch.put(Table::Idx, &s.entry, entry_value(index, id));
            }
            filled.multikey[i] |= new_keys.multikey;
        }
        Ok(())
    }

    /// Whether the entry of a unique index leads to the document with this id.
    fn owns_entry(&self, entry: &[u8], id: &[u8], mode: &Mode<'_, '_>) -> Result<bool> {
        if let Mode::Transaction(transaction, _) = mode {
            let mut owner = Vec::new();
            let found = transaction.read_claimed(Table::Idx, entry, &mut owner)?;
            return Ok(found && owner == id);
        }
        let mut ours = false;
        let look = &mut |owner: &[u8]| ours = owner == id;
        self.shared
            .engine
            .get_with(Table::Idx, entry, look)
            .map_err(error::storage)?;
        Ok(ours)
    }
}

/// The recorded effect of a change.
pub(super) fn changed(keep: Keep, old: Doc<'_>, new: Option<Doc<'_>>) -> Effect {
    match (keep, new) {
        (Keep::Fact | Keep::Id, Some(_)) => Effect::Updated,
        (Keep::Fact | Keep::Id, None) => Effect::Deleted,
        (Keep::Before, Some(_)) => Effect::UpdatedBefore(old.to_buf()),
        (Keep::After, Some(d)) => Effect::UpdatedAfter(d.to_buf()),
        (Keep::Before | Keep::After, None) => Effect::Removed(old.to_buf()),
    }
}
