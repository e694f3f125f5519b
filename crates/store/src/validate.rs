//! `validate`: reads documents and index entries and compares each with the other, and both with
//! the counters and the multikey marks.

use crate::catalog::collection::{Collection, State};
use crate::error;
use crate::format::{bucket, keys, meta, record};
use crate::index::{Index, KeySet};
use crate::log::{Log, LogReader, VisitResult};
use model::{Doc, Result, Value};
use operation::{Operation, SystemClock};
use std::sync::Arc;
use storage::{CursorOpts, KeyRange, Table};

/// The result of a validation.
#[derive(Clone, Debug, Default)]
pub struct Validation {
    /// Number of documents read.
    pub documents: u64,
    /// Bytes of BSON read.
    pub bytes: u64,
    /// Number of entries in each index.
    pub index_entries: Vec<(String, u64)>,
    /// Errors found; empty when the collection is valid.
    pub errors: Vec<String>,
}

/// The keys of one document, and buffers for them.
#[derive(Default)]
struct Buffers {
    set: KeySet,
    key: Vec<u8>,
}

/// The entries and marks that the documents read so far need in one index.
#[derive(Clone, Default)]
struct ExpectedIndex {
    entries: u64,
    /// One bit for each field of which some document has several values.
    multikey: u32,
}

impl Collection {
    /// Checks everything, without an operation of a client. Writers are kept out, so that documents
    /// and indexes are of one moment.
    ///
    /// # Errors
    /// Engine failures; findings are in the result.
    pub fn validate(&self) -> Result<Validation> {
        let operation = Operation::new_detached(Arc::new(SystemClock::default()));
        self.validate_while(&operation, &|| Ok(()))
    }

    /// As [`Collection::validate`], for an operation; calls `go_on` repeatedly.
    ///
    /// # Errors
    /// Those of `go_on` and engine failures; the reason when the operation is interrupted while it
    /// waits for writers, or set aside.
    pub fn validate_while(
        &self,
        operation: &Operation,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Validation> {
        let _alone = self.close(operation)?;
        let state = self.state();
        if state.dropped {
            return Err(self.gone_error());
        }
        if self.shared.has_joined {
            self.renew_counts(self.shared.engine.as_ref())?;
        }
        let mut v = Validation::default();
        // An index that is being built does not have all its entries yet and is not read.
        let ready: Vec<_> = state
            .indexes
            .iter()
            .filter(|i| i.is_ready())
            .cloned()
            .collect();
        let expected = self.check_documents(&state, &ready, go_on, &mut v)?;
        for (index, expected) in ready.iter().zip(expected) {
            if index.is_columns() {
                let rows = self.check_segments(index, go_on, &mut v)?;
                v.index_entries.push((index.name().to_owned(), rows));
                continue;
            }
            self.check_multikey_mark(index, expected.multikey, &mut v)?;
            let entries = self.count_entries(index.ident(), index.is_unique(), &mut v)?;
            if entries != expected.entries {
                v.errors.push(format!(
                    "index {} has {entries} entries, {} were expected",
                    index.name(),
                    expected.entries
                ));
            }
            v.index_entries.push((index.name().to_owned(), entries));
        }
        if let Some(log) = self.as_log() {
            self.check_log(log, go_on, &mut v)?;
            return Ok(v);
        }
        if v.documents != self.count() || v.bytes != self.size_bytes() {
            v.errors.push(format!(
                "the counters say {} documents of {} bytes, there are {} of {}",
                self.count(),
                self.size_bytes(),
                v.documents,
                v.bytes
            ));
        }
        Ok(v)
    }

    /// Checks that all entries of the log can be read, with the documents that they refer to.
    fn check_log(
        &self,
        log: &Arc<Log>,
        go_on: &dyn Fn() -> Result<()>,
        v: &mut Validation,
    ) -> Result<()> {
        let (mut last, end) = (log.oldest(), log.visible());
        loop {
            let engine = Arc::clone(&self.shared.engine);
            let mut reader = LogReader::new(engine, Arc::clone(log), last.max(log.oldest()));
            loop {
                go_on()?;
                let read = reader.visit(256, &mut |_, entry| {
                    v.documents += 1;
                    v.bytes += entry.len_bytes() as u64;
                    true
                });
                last = reader.next();
                match read {
                    Ok(VisitResult::More) if last <= end => {}
                    // It was cut meanwhile.
                    Ok(VisitResult::Lost) => break,
                    Ok(_) => return Ok(()),
                    Err(e) => {
                        let at = last.as_u64();
                        v.errors.push(format!("the log from time {at} on: {e}"));
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Reads all documents and returns the entries that each index must have.
    fn check_documents(
        &self,
        state: &State,
        ready: &[Arc<Index>],
        go_on: &dyn Fn() -> Result<()>,
        v: &mut Validation,
    ) -> Result<Vec<ExpectedIndex>> {
        let mut expected = vec![ExpectedIndex::default(); ready.len()];
        let (lower, upper) = self.key_bounds();
        let mut after = lower.to_vec();
        let mut rows = storage::RowBatch::new();
        let opts = CursorOpts {
            fill_cache: false,
            ..CursorOpts::default()
        };
        let mut buffers = Buffers::default();
        loop {
            go_on()?;
            let range = KeyRange {
                lower: &after,
                upper: &upper,
            };
            let mut cursor = self
                .shared
                .engine
                .cursor(Table::Doc, range, opts)
                .map_err(error::storage)?;
            let more = cursor
                .next_batch(&mut rows, 1024, 4 << 20)
                .map_err(error::storage)?;
            for (key, value) in rows.iter() {
                after.clear();
                after.extend_from_slice(key);
                after.push(0);
                match bucket::of(key) {
                    Some(_) => self.check_bucket_row(key, value, v),
                    None => self.check_record(state, key, value, &mut buffers, v)?,
                }
                for (index, expected) in ready.iter().zip(&mut expected) {
                    // Damaged rows were reported already.
                    if let Ok(Some(doc)) = self.indexed_document(index, key, value) {
                        self.check_entries(index, key, doc.doc(), expected, &mut buffers, v)?;
                    }
                }
            }
            if !more {
                return Ok(expected);
            }
        }
    }

    /// Checks a row of a bucket: its measurements are counted, and decoded when they are packed.
    fn check_bucket_row(&self, key: &[u8], value: &[u8], v: &mut Validation) {
        let count = |doc: Doc<'_>, v: &mut Validation| {
            v.documents += 1;
            v.bytes += doc.len_bytes() as u64;
            if let Err(e) = model::validate(doc.as_bytes()) {
                v.errors.push(format!("measurement at {}: {e}", hex(key)));
            }
        };
        if bucket::row_seq(key).is_some() {
            match record::read(value) {
                Some((_, doc)) => count(doc, v),
                None => v.errors.push(format!("record {} is damaged", hex(key))),
            }
            return;
        }
        let sound = bucket::read(value).map(|head| head.closed);
        let packed = match sound {
            Some(None) => return,
            Some(Some(closed)) => closed.measurements(&|_| true),
            None => None,
        };
        match packed {
            Some(packed) => packed.iter().for_each(|m| count(m.doc.doc(), v)),
            None => v.errors.push(format!("bucket {} is damaged", hex(key))),
        }
    }

    fn check_record(
        &self,
        state: &State,
        key: &[u8],
        value: &[u8],
        buffers: &mut Buffers,
        v: &mut Validation,
    ) -> Result<()> {
        let Some((header, doc)) = record::read(value) else {
            v.errors.push(format!("record {} is damaged", hex(key)));
            return Ok(());
        };
        v.documents += 1;
        v.bytes += doc.len_bytes() as u64;
        if let Err(e) = model::validate(doc.as_bytes()) {
            v.errors.push(format!("document at {}: {e}", hex(key)));
        }
        let id = doc.field("_id");
        if state.capped.is_some() && !self.has_place(key, header.insert_seq)? {
            v.errors
                .push(format!("the order of a capped collection lacks _id {id}"));
        }
        self.record_key(&id, &mut buffers.key);
        let is_hidden = self.lacks_ids() && matches!(id, Value::Missing);
        if buffers.key != key && !is_hidden {
            v.errors.push(format!(
                "document with _id {id} is stored under another key"
            ));
        }
        Ok(())
    }

    /// Checks that every entry of a document is in an index.
    fn check_entries(
        &self,
        index: &Index,
        key: &[u8],
        doc: Doc<'_>,
        expected: &mut ExpectedIndex,
        buffers: &mut Buffers,
        v: &mut Validation,
    ) -> Result<()> {
        if let Err(e) = index.keys_of(doc, &mut buffers.set) {
            v.errors.push(format!("index {}: {e}", index.name()));
            return Ok(());
        }
        expected.entries += buffers.set.len() as u64;
        expected.multikey |= buffers.set.multikey;
        for k in buffers.set.keys() {
            index.entry_key(k.components, &key[4..], &mut buffers.key);
            let (mut right, mut expected) = (false, Vec::new());
            index.append_value(k.marks, &key[4..], &mut expected);
            self.shared
                .engine
                .get_with(Table::Idx, &buffers.key, &mut |value| {
                    right = value == expected
                })
                .map_err(error::storage)?;
            if !right {
                let (name, id) = (index.name(), doc.field("_id"));
                v.errors
                    .push(format!("index {name} lacks the entry of _id {id}"));
            }
        }
        Ok(())
    }

    /// The mark must be set on disk and in memory; a mark that is not needed does no harm.
    fn check_multikey_mark(&self, index: &Index, needed: u32, v: &mut Validation) -> Result<()> {
        let mut stored = 0;
        let see =
            &mut |b: &[u8]| stored = b.first_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b));
        self.shared
            .engine
            .get_with(Table::Meta, &meta::multikey(index.ident()), see)
            .map_err(error::storage)?;
        if needed & !(stored & index.multikey_bits()) != 0 {
            v.errors.push(format!(
                "index {} lacks multikey marks: fields {needed:b} (bits) hold arrays, {stored:b} \
                    are marked on disk, {:b} in memory",
                index.name(),
                index.multikey_bits()
            ));
        }
        Ok(())
    }

    fn count_entries(&self, ident: u32, unique: bool, v: &mut Validation) -> Result<u64> {
        let (lower, upper) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
        let opts = CursorOpts {
            fill_cache: false,
            ..CursorOpts::default()
        };
        let range = KeyRange {
            lower: &lower,
            upper: &upper,
        };
        let mut cursor = self
            .shared
            .engine
            .cursor(Table::Idx, range, opts)
            .map_err(error::storage)?;
        let (mut count, mut damaged) = (0, 0);
        let each = &mut |key: &[u8], _: &[u8]| {
            count += 1;
            damaged += u64::from(!unique && keys::id_of_tail(key).is_none());
            true
        };
        while cursor.visit(4096, each).map_err(error::storage)? {}
        if damaged > 0 {
            v.errors.push(format!("{damaged} damaged index entries"));
        }
        Ok(count)
    }
}

/// A key in hexadecimal, for messages.
pub(crate) fn hex(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}
