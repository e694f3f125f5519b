//! Fills a registered index with the entries of existing documents (ADR 0082). Documents are read
//! without locks; their entries are gathered, sorted and written in large batches. Documents that
//! writers changed meanwhile are then checked again under their locks. Must not know: how an index
//! is registered and made ready.

use crate::catalog::{Collection, State};
use crate::commit::WriteUnit;
use crate::ddl::run::Run;
use crate::error;
use crate::format::{bucket, record};
use crate::index::{Index, KeySet};
use crate::locks::{KeyId, KeyIds};
use crate::write::duplicate::duplicate_key;
use crate::write::entries::{check_length, put_entries, put_entry};
use crate::write::reads::WriteReader;
use crate::write::writer::Writer;
use model::{MongoError, Result};
use std::collections::VecDeque;
use storage::{CursorOpts, KeyRange, Table, WriteBatch, WriteClass};

/// Documents read in one step.
const STEP_DOCS: usize = 1024;
/// Bytes of documents after which a step ends.
const STEP_BYTES: usize = 4 << 20;
/// Bytes of entries that are committed at once.
const BATCH_BYTES: usize = 128 << 10;
/// Entries of a unique index that are locked and committed at once.
const UNIQUE_ENTRIES: usize = 256;
/// The build ended because its index or collection was dropped.
pub(super) const INDEX_BUILD_ABORTED: i32 = 276;

/// The progress of a build, kept while its operation is set aside.
pub(super) struct BuildProgress {
    /// The key of the next document; `None` when all were read.
    next: Option<Vec<u8>>,
    /// Entries that were gathered and not written yet.
    run: Run,
    /// Documents and entries that must be checked under a lock.
    pending: VecDeque<PendingCheck>,
    buffers: Buffers,
}

/// A document that is checked by itself.
enum PendingCheck {
    /// Put all its entries.
    Put { id: Vec<u8> },
    /// This entry was put, but the document may not have it any more.
    Check { id: Vec<u8>, components: Vec<u8> },
}

#[derive(Default)]
struct Buffers {
    batch: WriteBatch,
    set: KeySet,
    entry: Vec<u8>,
    value: Vec<u8>,
}

impl BuildProgress {
    pub(super) fn new(coll: &Collection) -> BuildProgress {
        BuildProgress {
            next: Some(coll.key_bounds().0.to_vec()),
            run: Run::default(),
            pending: VecDeque::new(),
            buffers: Buffers::default(),
        }
    }

    /// The progress of an index that has no entries.
    pub(super) fn empty() -> BuildProgress {
        BuildProgress {
            next: None,
            run: Run::default(),
            pending: VecDeque::new(),
            buffers: Buffers::default(),
        }
    }
}

impl Writer<'_> {
    /// # Errors
    /// 276 when the index was dropped while it was built.
    pub(super) fn check_registered(&self, state: &State, index: &Index) -> Result<()> {
        if state.indexes.iter().any(|i| i.ident() == index.ident()) {
            Ok(())
        } else {
            Err(self.aborted_error(index))
        }
    }

    pub(super) fn aborted_error(&self, index: &Index) -> MongoError {
        MongoError::new(
            INDEX_BUILD_ABORTED,
            format!(
                "the build of index {} on {} was aborted: the index or the collection was dropped",
                index.name(),
                self.ns
            ),
        )
    }

    /// Puts the missing entries. `on_progress` is called whenever `filling` covers everything done
    /// so far, `go_on` before each step.
    pub(super) fn fill_index(
        &self,
        index: &Index,
        filling: &mut BuildProgress,
        on_progress: &dyn Fn(),
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        // Changes by a process without our locks are not in the set of changed documents.
        let engine = &self.shared.engine;
        let is_shared =
            self.shared.has_joined || engine.begin().map_err(error::storage)?.is_checked();
        loop {
            go_on()?;
            // Inside the gate: once the index or the collection is dropped, no entries are written
            // for it.
            let (_inside, state) = self.enter(self.operation)?;
            self.check_registered(&state, index)?;
            if let Some(pending) = filling.pending.front() {
                engine.admit(64, WriteClass::Background);
                match pending {
                    PendingCheck::Put { id } => {
                        self.index_one(index, id, &mut filling.buffers)?;
                        index.add_documents_read(u64::from(is_shared));
                    }
                    PendingCheck::Check { id, components } => {
                        self.check_one(index, id, components, &mut filling.buffers)?;
                    }
                }
                filling.pending.pop_front();
                on_progress();
            } else if filling.next.is_some() && !filling.run.is_full() {
                match is_shared {
                    true => self.name_documents(filling)?,
                    false => self.gather(index, filling)?,
                }
                on_progress();
            } else {
                filling.run.sort();
                let written = match index.is_unique() {
                    true => self.write_unique(index, filling)?,
                    false => self.write_sorted(index, filling)?,
                };
                on_progress();
                filling.run.take(written);
                if written == 0 && filling.next.is_none() {
                    return Ok(());
                }
            }
        }
    }

    /// Reads the next documents and gathers their entries.
    fn gather(&self, index: &Index, filling: &mut BuildProgress) -> Result<()> {
        let BuildProgress {
            next: Some(next),
            run,
            buffers,
            ..
        } = filling
        else {
            return Ok(());
        };
        let (mut number, mut bytes, mut multikey, mut result) = (0, 0, 0, Ok(()));
        let mut after = Vec::new();
        let more = self.visit_documents(next, false, &mut |key, value| {
            result = self
                .keys_of_row(index, key, value, &mut buffers.set)
                .map(|()| run.add(&buffers.set, key.get(4..).unwrap_or_default()));
            multikey |= buffers.set.multikey;
            number += 1;
            bytes += value.len();
            after.clear();
            after.extend_from_slice(key);
            result.is_ok() && bytes < STEP_BYTES && !run.is_full()
        })?;
        result?;
        index.add_documents_read(number);
        // The marks must be written before the entries that need them.
        self.mark_multikey(index, multikey)?;
        match more {
            true => {
                *next = after;
                next.push(0);
            }
            false => filling.next = None,
        }
        Ok(())
    }

    /// Lists the next documents, each of which is read again under its lock.
    fn name_documents(&self, filling: &mut BuildProgress) -> Result<()> {
        let Some(next) = &mut filling.next else {
            return Ok(());
        };
        let (mut after, pending) = (Vec::new(), &mut filling.pending);
        let more = self.visit_documents(next, true, &mut |key, _| {
            let id = key.get(4..).unwrap_or_default().to_vec();
            pending.push_back(PendingCheck::Put { id });
            after.clear();
            after.extend_from_slice(key);
            true
        })?;
        match more {
            true => {
                *next = after;
                next.push(0);
            }
            false => filling.next = None,
        }
        Ok(())
    }

    /// Shows some document rows from `next` on; false when there are no more, true only after at
    /// least one was shown.
    fn visit_documents(
        &self,
        next: &[u8],
        keys_only: bool,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<bool> {
        let opts = CursorOpts {
            keys_only,
            fill_cache: false,
            ..CursorOpts::default()
        };
        let range = KeyRange {
            lower: next,
            upper: &self.key_bounds().1,
        };
        let engine = &self.shared.engine;
        let mut cursor = engine
            .cursor(Table::Doc, range, opts)
            .map_err(error::storage)?;
        let mut any = false;
        let more = cursor.visit(STEP_DOCS, &mut |key, value| {
            any = true;
            each(key, value)
        });
        more.map(|more| more && any).map_err(error::storage)
    }

    /// The keys for one row of the table of documents; none for a row without entries.
    fn keys_of_row(&self, index: &Index, key: &[u8], value: &[u8], set: &mut KeySet) -> Result<()> {
        set.clear();
        if bucket::of(key).is_some() {
            if let Some(doc) = self.indexed_document(index, key, value)? {
                index.keys_of_new(doc.doc(), set)?;
            }
        } else {
            let record = record::read(value);
            let (_, doc) =
                record.ok_or_else(|| error::corrupt(&format!("a record of {}", self.ns)))?;
            index.keys_of_new(doc, set)?;
        }
        let max = self.shared.engine.caps().key_bytes_max;
        check_length(index, set, key.len(), max)
    }

    /// Writes the next entries while writers are active; returns their number. Entries of changed
    /// documents are checked afterwards. A writer that deleted an entry before it was put has
    /// recorded that before its commit; a later writer deletes the entry itself.
    fn write_sorted(&self, index: &Index, filling: &mut BuildProgress) -> Result<usize> {
        let (b, mut number) = (&mut filling.buffers, 0);
        b.batch.clear();
        for e in filling.run.remaining_entries() {
            put_entry(&mut b.batch, index, e.key, e.id, &mut b.entry);
            number += 1;
            if b.batch.byte_len() >= BATCH_BYTES.min(self.batch_room()) {
                break;
            }
        }
        if number == 0 {
            return Ok(0);
        }
        let engine = &self.shared.engine;
        engine.admit(b.batch.byte_len(), WriteClass::Background);
        self.commit(WriteUnit::new(&b.batch))?;
        for e in filling.run.remaining_entries().take(number) {
            if index.may_have_changed(e.id) {
                filling.pending.push_back(PendingCheck::Check {
                    id: e.id.to_vec(),
                    components: e.key.components.to_vec(),
                });
            }
        }
        Ok(number)
    }

    /// As [`Writer::write_sorted`], for a unique index. Keys and documents are locked, so that
    /// those that have not changed stay unchanged until the commit; all others are checked one by
    /// one.
    fn write_unique(&self, index: &Index, filling: &mut BuildProgress) -> Result<usize> {
        let BuildProgress {
            run,
            pending,
            buffers: b,
            ..
        } = filling;
        let chunk: Vec<_> = run.remaining_entries().take(UNIQUE_ENTRIES).collect();
        if chunk.is_empty() {
            return Ok(0);
        }
        let (mut wanted, mut entries) = (KeyIds::new(), Vec::with_capacity(chunk.len()));
        for e in &chunk {
            index.unique_entry(e.key.components, &mut b.entry);
            wanted.push(KeyId::of(&b.entry));
            entries.push(std::mem::take(&mut b.entry));
            wanted.push(KeyId::of(&self.key_of_id(e.id)));
        }
        let engine = &self.shared.engine;
        engine.admit(chunk.len() * 64, WriteClass::Background);
        let mut is_simple = vec![false; chunk.len()];
        b.batch.clear();
        if let Ok(_held) = self.shared.locks.try_lock(&mut wanted, None) {
            let keys: Vec<&[u8]> = entries.iter().map(Vec::as_slice).collect();
            let mut owned = vec![false; chunk.len()];
            let see = &mut |n: usize, value: Option<&[u8]>| {
                let free =
                    value.is_none_or(|v| chunk.get(n).is_some_and(|e| index.is_owned_by(v, e.id)));
                if let Some(simple) = is_simple.get_mut(n) {
                    *simple = free;
                }
                if let Some(owned) = owned.get_mut(n) {
                    *owned = free && value.is_some();
                }
            };
            engine
                .multi_get(Table::Idx, &keys, see)
                .map_err(error::storage)?;
            let mut before: Option<&[u8]> = None;
            for (n, e) in chunk.iter().enumerate() {
                let repeats = before.replace(e.key.components) == Some(e.key.components);
                let simple = is_simple.get_mut(n).filter(|s| **s);
                let Some(simple) = simple else { continue };
                *simple = !repeats && !index.may_have_changed(e.id);
                if *simple && owned.get(n) == Some(&false) {
                    put_entry(&mut b.batch, index, e.key, e.id, &mut b.entry);
                }
            }
            self.commit(WriteUnit::new(&b.batch))?;
        }
        for (e, _) in chunk.iter().zip(&is_simple).filter(|(_, simple)| !**simple) {
            pending.push_back(PendingCheck::Put { id: e.id.to_vec() });
        }
        Ok(chunk.len())
    }

    fn batch_room(&self) -> usize {
        self.shared.engine.caps().batch_bytes_max / 2
    }

    fn key_of_id(&self, id: &[u8]) -> Vec<u8> {
        [&self.ident.to_be_bytes(), id].concat()
    }

    /// Deletes an entry that its document no longer has, or updates the entry's value.
    fn check_one(
        &self,
        index: &Index,
        id: &[u8],
        components: &[u8],
        b: &mut Buffers,
    ) -> Result<()> {
        let (engine, key) = (&self.shared.engine, self.key_of_id(id));
        let _held = self
            .shared
            .lock_keys(self.operation, &mut KeyIds::from_slice(&[KeyId::of(&key)]))?;
        b.set.clear();
        if engine
            .get(Table::Doc, &key, &mut b.value)
            .map_err(error::storage)?
            && let Some(doc) = self.indexed_document(index, &key, &b.value)?
        {
            index.keys_of(doc.doc(), &mut b.set)?;
        }
        b.batch.clear();
        if let Some(key) = b.set.get(components) {
            put_entry(&mut b.batch, index, key, id, &mut b.entry);
        } else {
            index.entry_key(components, id, &mut b.entry);
            b.batch.delete(Table::Idx, &b.entry);
        }
        self.commit(WriteUnit::new(&b.batch)).map(|_| ())
    }

    /// Puts the entries of a document, read under its lock.
    fn index_one(&self, index: &Index, id: &[u8], b: &mut Buffers) -> Result<()> {
        let engine = &self.shared.engine;
        let key = &self.key_of_id(id);
        let mut locked: KeyIds = KeyIds::from_slice(&[KeyId::of(key)]);
        let mut owner = Vec::new();
        loop {
            let held = self.shared.lock_keys(self.operation, &mut locked)?;
            let reads = WriteReader::Unit(self.begin_unit(&[(Table::Doc, key)])?);
            b.value.clear();
            if !reads.get(Table::Doc, key, &mut b.value)? {
                return Ok(());
            }
            let doc = match self.indexed_document(index, key, &b.value)? {
                Some(doc) => doc,
                None => return Ok(()),
            };
            let doc = doc.doc();
            index.keys_of_new(doc, &mut b.set)?;
            check_length(index, &b.set, key.len(), engine.caps().key_bytes_max)?;
            if index.is_unique() {
                let mut wanted = locked.clone();
                for k in b.set.iter() {
                    index.unique_entry(k, &mut b.entry);
                    wanted.push(KeyId::of(&b.entry));
                }
                wanted.sort_unstable();
                wanted.dedup();
                if wanted != locked {
                    drop(held);
                    locked = wanted;
                    continue;
                }
                for k in b.set.iter() {
                    index.unique_entry(k, &mut b.entry);
                    owner.clear();
                    if reads.get(Table::Idx, &b.entry, &mut owner)?
                        && !index.is_owned_by(&owner, id)
                    {
                        return Err(duplicate_key(self, index, doc));
                    }
                }
            }
            b.batch.clear();
            self.mark_multikey_in(index, b.set.multikey, &reads, &mut b.batch)?;
            put_entries(&mut b.batch, index, b.set.keys(), id, &mut b.entry);
            let write = WriteUnit::new(&b.batch).commit_through(reads.into_unit());
            match self.commit(write) {
                Err(e) if error::is_conflict(&e) => self.operation.check()?,
                committed => return committed.map(|_| ()),
            }
        }
    }
}
