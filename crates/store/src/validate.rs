//! `validate`: reads documents and indexes both ways and compares them with each other, with the
//! counters and with the multikey marks. Must not know: who asks.

use crate::catalog::Collection;
use crate::error;
use crate::format::{keys, meta, record};
use crate::index::{Index, KeySet};
use model::Result;
use storage::{CursorOpts, KeyRange, Table};

/// What a validation found.
#[derive(Clone, Debug, Default)]
pub struct Validation {
    /// Documents met.
    pub documents: u64,
    /// Bytes of BSON met.
    pub bytes: u64,
    /// Entries per index.
    pub index_entries: Vec<(String, u64)>,
    /// Trouble found; empty means sound.
    pub errors: Vec<String>,
}

impl Collection {
    /// Checks everything. Writers are held up meanwhile, so that both sides are of one moment.
    ///
    /// # Errors
    /// Engine failures; findings are in the result.
    pub fn validate(&self) -> Result<Validation> {
        self.validate_while(&|| Ok(()))
    }

    /// [`Collection::validate`], asking `go_on` now and then.
    ///
    /// # Errors
    /// Those of `go_on` and engine failures.
    pub fn validate_while(&self, go_on: &dyn Fn() -> Result<()>) -> Result<Validation> {
        let _alone = self.gate.close();
        let state = self.state();
        if state.dropped {
            return Err(self.gone());
        }
        let engine = &self.shared.engine;
        let mut v = Validation::default();
        // An index that is being built has not all its entries yet, and nobody reads it.
        let ready: Vec<_> = state
            .indexes
            .iter()
            .filter(|i| i.is_ready())
            .cloned()
            .collect();
        let mut expected = vec![(0u64, 0u32); ready.len()];
        let (lower, upper) = self.key_bounds();
        let mut after = lower.to_vec();
        let mut rows = storage::RowBatch::new();
        let opts = CursorOpts {
            fill_cache: false,
            ..CursorOpts::default()
        };
        let (mut set, mut entry, mut id_key) = (KeySet::default(), Vec::new(), Vec::new());
        loop {
            go_on()?;
            let range = KeyRange {
                lower: &after,
                upper: &upper,
            };
            let mut cursor = engine
                .cursor(Table::Doc, range, opts)
                .map_err(error::storage)?;
            let more = cursor
                .next_batch(&mut rows, 1024, 4 << 20)
                .map_err(error::storage)?;
            for (key, value) in rows.iter() {
                after.clear();
                after.extend_from_slice(key);
                after.push(0);
                let Some((header, doc)) = record::read(value) else {
                    v.errors.push(format!("record {key:02x?} is damaged"));
                    continue;
                };
                v.documents += 1;
                v.bytes += doc.len_bytes() as u64;
                if let Err(e) = model::validate(doc.as_bytes()) {
                    v.errors.push(format!("document at {key:02x?}: {e}"));
                }
                if state.capped && !self.has_place(key, header.insert_seq)? {
                    v.errors.push(format!(
                        "the order of a capped collection lacks _id {:?}",
                        doc.field("_id")
                    ));
                }
                self.record_key(&doc.field("_id"), &mut id_key);
                if id_key != key {
                    v.errors.push(format!(
                        "document with _id {:?} lies under another key",
                        doc.field("_id")
                    ));
                }
                for (index, (entries, multikey)) in ready.iter().zip(&mut expected) {
                    if let Err(e) = index.keys_of(doc, &mut set) {
                        v.errors.push(format!("index {}: {e}", index.name()));
                        continue;
                    }
                    *entries += set.len() as u64;
                    *multikey |= set.multikey;
                    for k in set.iter() {
                        index.entry_key(k, &key[4..], &mut entry);
                        let mut right = false;
                        engine
                            .get_with(Table::Idx, &entry, &mut |owner| {
                                right = !index.is_unique() || owner == &key[4..]
                            })
                            .map_err(error::storage)?;
                        if !right {
                            v.errors.push(format!(
                                "index {} lacks the entry of _id {:?}",
                                index.name(),
                                doc.field("_id")
                            ));
                        }
                    }
                }
            }
            if !more {
                break;
            }
        }
        for (index, (expected, multikey)) in ready.iter().zip(expected) {
            self.check_multikey_mark(index, multikey, &mut v)?;
            let entries = self.count_entries(index.ident(), index.is_unique(), &mut v)?;
            if entries != expected {
                v.errors.push(format!(
                    "index {} has {entries} entries, {expected} were expected",
                    index.name()
                ));
            }
            v.index_entries.push((index.name().to_owned(), entries));
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

    /// The mark must be on disk and in memory; one too many does no harm.
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
