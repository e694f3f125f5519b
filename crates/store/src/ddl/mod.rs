//! Changes of the catalog: collections, indexes, options. Promises: a change is one commit of the
//! catalog row with the records of what it drops, made while the collection's gate is closed;
//! memory changes after the commit, and a failed change leaves disk and memory as they were. Must
//! not know: commands.

mod collections;
mod filling;
mod indexes;
pub(crate) mod logged;
mod references;
mod run;
mod shared_keys;
mod sweep;
mod uncommitted;
pub(crate) mod writer;

pub use indexes::{IndexBuild, IndexEquality};

use crate::catalog::dropped::{self, Leftover};
use crate::catalog::{Collection, Shared, State};
use crate::commit::WriteUnit;
use crate::ddl::logged::Note;
use crate::format::meta;
use crate::gate::ClosingGuard;
use crate::index::Index;
use crate::write::writer::Writer;
use model::Result;
use std::sync::Arc;
use storage::{CommitPos, Table, WriteBatch};

impl Writer<'_> {
    /// Changes the catalog row. `change` gets the state to alter and adds what it drops. `ready` is
    /// an index that the row marks as ready from this commit on, `note` what the log records.
    ///
    /// # Errors
    /// 175 QueryPlanKilled when the collection is gone; those of `change`; the reason when the
    /// operation is interrupted while it waits for writers; engine failures. Nothing has changed
    /// then.
    fn alter<T>(
        &self,
        ready: Option<&Index>,
        note: Option<&Note>,
        change: impl FnOnce(&mut State, &mut Vec<Leftover>) -> Result<T>,
    ) -> Result<T> {
        let closed = self.close(self.operation)?;
        if self.is_dropped() {
            return Err(self.gone_error());
        }
        self.alter_alone(closed, ready, note, change)
    }

    /// As [`Writer::alter`], for an existing collection whose gate is closed.
    fn alter_alone<T>(
        &self,
        closed: ClosingGuard,
        ready: Option<&Index>,
        note: Option<&Note>,
        change: impl FnOnce(&mut State, &mut Vec<Leftover>) -> Result<T>,
    ) -> Result<T> {
        let beside_others = self.begin_exclusive()?;
        let old = self.state();
        let (mut new, mut leftovers) = (State::clone(&old), Vec::new());
        let made = change(&mut new, &mut leftovers)?;
        let mut batch = WriteBatch::new();
        Shared::put_row(&mut batch, &self.ns, &self.row(&new, ready));
        dropped::record(&mut batch, &leftovers);
        if let Some(unit) = &beside_others
            && new.capped.is_some()
            && old.capped.is_none()
        {
            self.put_whole_order(unit, &mut batch)?;
        }
        let altered = &mut |pos: CommitPos| {
            if self.shared.has_joined {
                // Whoever uses this handle finds the collection again.
                return;
            }
            if let Some(index) = ready {
                index.set_ready(pos);
            }
            self.set_unchanged_since(pos);
            self.set_state(new.clone());
            // Set before the entries are deleted, so that scans of them notice it.
            let left = |i: &&Arc<Index>| new.indexes.iter().any(|n| n.ident() == i.ident());
            old.indexes
                .iter()
                .filter(|i| !left(i))
                .for_each(|i| i.set_dropped());
        };
        let (db, coll) = (self.ns.db(), self.ns.coll());
        let mut rows = note.and_then(|n| {
            self.shared
                .log_command(&mut batch, db, coll, Some(&self.uuid), n)
        });
        let unit = WriteUnit::with_stamp(&mut batch, &mut rows).commit_through(beside_others);
        let pos = self.commit(unit.add_hook(altered)).map_err(|e| {
            let shared = &self.shared;
            shared.restart_after_conflict(self.operation, &self.ns, e)
        })?;
        drop(closed);
        self.shared.remove_leftovers(leftovers, pos);
        Ok(made)
    }
}

impl Collection {
    /// The keys that a dropped index leaves.
    fn leftover(&self, index: &Index) -> Leftover {
        // A multikey or wildcard index may have many more entries than documents.
        let keys = if index.is_multikey() || index.wildcard().is_some() {
            u64::MAX
        } else {
            self.count()
        };
        Leftover {
            ident: index.ident(),
            table: Table::Idx,
            keys,
            is_referenced: false,
        }
    }

    /// The keys that a dropped collection leaves; adds the deletion of its rows other than the
    /// catalog row to `batch`.
    fn leftovers(&self, state: &State, batch: &mut WriteBatch) -> Vec<Leftover> {
        batch.delete(Table::Meta, &meta::counter(self.ident));
        batch.delete(Table::Meta, &meta::unordered(self.ident));
        batch.delete(Table::Meta, &meta::buckets(self.ident));
        if self.shared.has_joined || state.capped.is_some() {
            batch.delete(Table::Meta, &meta::order_end(self.ident));
        }
        if self.is_view() {
            return Vec::new();
        }
        let mut all: Vec<Leftover> = state.indexes.iter().map(|i| self.leftover(i)).collect();
        // For a time-series collection these are the marks of open buckets.
        if state.capped.is_some() || state.series.is_some() {
            all.push(Leftover {
                ident: self.ident,
                table: Table::Cap,
                keys: self.count(),
                is_referenced: false,
            });
        }
        all.push(Leftover {
            ident: self.ident,
            table: Table::Doc,
            keys: self.count(),
            is_referenced: false,
        });
        let is_referenced = self.is_referenced();
        let own = all.iter_mut().filter(|l| l.ident == self.ident);
        own.for_each(|l| l.is_referenced = is_referenced);
        all
    }
}
