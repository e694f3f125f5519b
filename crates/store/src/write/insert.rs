//! Inserts documents in chunks, one commit for each chunk. Must not know: who inserts, where the
//! documents come from.
//!
//! An id above every id of the collection is certainly new, so loads in id order never read. Other
//! ids cost one engine call for each chunk. Entries of non-unique indexes are put without a read.

use crate::catalog::Collection;
use crate::commit::WriteUnit;
use crate::format::meta;
use crate::write::capped::Room;
use crate::write::capped_order::InsertSize;
use crate::write::chunk::{CHUNK_DOCS, Chunk, Scratch, put_entries_of};
use crate::write::mode::Mode;
use crate::write::session::StatementLog;
use crate::write::transaction::Transaction;
use crate::write::unit::{DocumentUnit, NewDocuments};
use crate::write::writer::Writer;
use model::{Doc, MongoError, Result};
use smallvec::SmallVec;
use std::cell::RefCell;
use storage::{CommitPos, Table, WriteBatch};

/// Bytes of documents after which a commit takes no further document.
const CHUNK_BYTES: usize = 1 << 20;
/// Sequence numbers reserved at a time by collections whose ids arrive out of order.
pub(super) const SEQ_BLOCK: u64 = 1 << 16;
/// Numbers that processes give beside others, which grow with time, do not reach this before 2037.
const NUMBERS_END: u64 = 1 << 61;

/// The outcome of an insert.
#[derive(Debug, Default)]
pub struct InsertOutcome {
    /// Number of documents written.
    pub count: usize,
    /// Errors of refused documents, by position.
    pub errors: Vec<(usize, MongoError)>,
    /// Covers all writes of the insert.
    pub pos: CommitPos,
    /// Number of documents processed from the first on: written or refused.
    pub seen: usize,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

impl Collection {
    /// Whether [`Writer::insert`] writes these in one batch: all or none.
    pub fn inserts_at_once(&self, docs: &[Doc<'_>]) -> bool {
        self.chunk_len(docs) == docs.len()
    }

    /// How many of the documents one commit inserts. Documents of one commit must fit into a capped
    /// collection together.
    fn chunk_len(&self, docs: &[Doc<'_>]) -> usize {
        let state = self.state();
        let limits = state.capped;
        let most_docs = limits.and_then(|l| l.docs).map_or(CHUNK_DOCS, |d| {
            usize::try_from(d).map_or(CHUNK_DOCS, |d| d.min(CHUNK_DOCS))
        });
        let most_bytes = limits.map_or(u64::MAX, |l| l.bytes);
        let (mut len, mut bytes) = (0, 0);
        // In a capped collection the commit may delete as many.
        let changes = self.commit_docs_max(&state) / (1 + usize::from(limits.is_some()));
        let most_docs = most_docs.min(changes);
        while len < docs.len().min(most_docs) && bytes < CHUNK_BYTES {
            self.note_size(docs[len].len_bytes());
            bytes += docs[len].len_bytes();
            if len > 0 && bytes as u64 > most_bytes {
                break;
            }
            len += 1;
        }
        len
    }
}

impl Writer<'_> {
    /// Inserts documents that have their `_id` and are valid BSON. With `ordered` it stops at the
    /// first refused document.
    ///
    /// # Errors
    /// As a whole: 175 when the collection is gone, engine failures. Per document, in
    /// [`InsertOutcome::errors`]: 11000 DuplicateKey, 171 parallel arrays.
    pub fn insert(&self, docs: &[Doc<'_>], ordered: bool) -> Result<InsertOutcome> {
        self.insert_logged(docs, ordered, None)
    }

    /// As [`Writer::insert`]; each document written is recorded in the statement log, in the
    /// same commit.
    ///
    /// # Errors
    /// As [`Writer::insert`].
    pub fn insert_logged(
        &self,
        docs: &[Doc<'_>],
        ordered: bool,
        log: Option<&mut StatementLog<'_>>,
    ) -> Result<InsertOutcome> {
        let mut done = InsertOutcome::default();
        self.insert_with_progress(docs, ordered, log, &mut done, &|| {})
            .map(|()| done)
    }

    /// As [`Writer::insert_logged`]. `done` has the result also after an error, and `on_progress`
    /// is called after each commit, when `done` includes it.
    ///
    /// # Errors
    /// As [`Writer::insert`].
    pub fn insert_with_progress(
        &self,
        docs: &[Doc<'_>],
        ordered: bool,
        log: Option<&mut StatementLog<'_>>,
        done: &mut InsertOutcome,
        on_progress: &dyn Fn(),
    ) -> Result<()> {
        self.insert_as(docs, ordered, &mut Mode::of(log), done, on_progress)
    }

    /// As [`Writer::insert`], as part of a transaction.
    ///
    /// # Errors
    /// As [`Writer::insert`]; as a whole also 112 when another writer has written a key since the
    /// transaction began, 24 LockTimeout, 257 TransactionTooLarge, 263
    /// OperationNotSupportedInTransaction.
    pub fn insert_in(
        &self,
        docs: &[Doc<'_>],
        ordered: bool,
        transaction: &Transaction,
    ) -> Result<InsertOutcome> {
        let mut mode = Mode::Transaction(transaction, transaction.enter(self)?);
        let mut done = InsertOutcome::default();
        self.insert_as(docs, ordered, &mut mode, &mut done, &|| {})
            .map(|()| done)
    }

    fn insert_as(
        &self,
        docs: &[Doc<'_>],
        ordered: bool,
        mode: &mut Mode<'_, '_>,
        done: &mut InsertOutcome,
        on_progress: &dyn Fn(),
    ) -> Result<()> {
        if let Err(e) = self.check_write() {
            let refused = if ordered {
                docs.len().min(1)
            } else {
                docs.len()
            };
            done.errors = (0..refused).map(|i| (i, e.clone())).collect();
            done.seen = refused;
            return Ok(());
        }
        if self.is_series() {
            return self.insert_measurements(docs, ordered, mode, done, on_progress);
        }
        let mut at = 0;
        while at < docs.len() {
            let end = at + self.chunk_len(&docs[at..]);
            let bytes = docs[at..end].iter().map(|d| d.len_bytes()).sum();
            let inside = mode.enter(self, bytes)?;
            let state = inside.state();
            // The whole chunk is inserted under one state, even if large keys split it into several
            // commits.
            while at < end {
                let run = |s: &mut Scratch, done: &mut InsertOutcome, mode: &mut Mode<'_, '_>| {
                    let chunk = Chunk::of(state, &docs[at..end], at, ordered);
                    let taken = self.insert_chunk(s, chunk, done, mode);
                    mode.admit_later(self, s.batch.byte_len().saturating_sub(bytes));
                    s.shrink();
                    taken
                };
                let refused = done.errors.len();
                // The buffers are in use when a test's scheduler runs another writer on this
                // thread.
                let taken = SCRATCH.with(|cell| match cell.try_borrow_mut() {
                    Ok(mut s) => run(&mut s, done, mode),
                    Err(_) => run(&mut Scratch::default(), done, mode),
                });
                if mode.is_outdated(&taken) {
                    done.errors.truncate(refused);
                    self.operation.check()?;
                    continue;
                }
                at += taken?;
                done.seen = at;
                on_progress();
                if ordered && !done.errors.is_empty() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Inserts the first documents of a chunk, all unless their keys are very large.
    ///
    /// # Output
    /// How many documents it processed.
    fn insert_chunk(
        &self,
        s: &mut Scratch,
        chunk: Chunk<'_>,
        done: &mut InsertOutcome,
        mode: &mut Mode<'_, '_>,
    ) -> Result<usize> {
        let mut chunk = self.make_keys(s, chunk);
        let (state, docs, base, usable) = (chunk.state, chunk.docs, chunk.base, chunk.usable);
        let mut room = self.begin_room(state);
        let incoming = match room {
            Room::Unlimited => InsertSize::default(),
            _ => InsertSize::of(docs.iter().take(usable)),
        };
        let _held = self.lock_for_insert(state, &mut room, &mut chunk.keys, incoming, mode)?;
        let reads = mode.begin(self, &self.keys_to_read(s, usable))?;
        let mut after = 0;
        if let Room::Shared(order) = &mut room {
            self.read_order(order, &reads)?;
            after = order.last();
        }
        let (first_seq, fresh) = self.allocate(s, usable, after)?;
        let stored = self.stored_ids(s, &fresh, &reads)?;
        s.unique.look_up(&reads)?;
        let written = self.fill_batch(s, chunk, first_seq, &stored, &mut done.errors, &reads)?;
        if written.positions.is_empty() {
            return Ok(written.processed);
        }
        put_entries_of(s, &state.indexes, &written.positions);
        for (index, bits) in state.indexes.iter().zip(&written.multikey) {
            self.mark_multikey_in(index, *bits, &reads, &mut s.batch)?;
        }
        let new = written.positions.iter();
        let last = new.clone().next_back().map_or(0, |n| first_seq + *n as u64);
        let incoming = match room {
            Room::Unlimited => incoming,
            _ => InsertSize::of(new.map(|n| &docs[*n])).up_to(last),
        };
        let old = self.delete_for_insert(state, &mut room, incoming, s, &reads)?;
        let mut unit = DocumentUnit::new(*self, state).add_inserts(NewDocuments {
            docs,
            accepted: &written.positions,
            base,
            first_seq,
            record_keys: &s.record_keys,
            key_ends: &s.key_ends,
            records_at: &written.records_at,
        });
        if let Some(old) = &old {
            unit = unit.add_changes(old.of_unit(&mut s.old.log));
        }
        let committed = unit.commit(&mut s.batch, mode, reads.into_unit());
        self.end_room(&mut room, old.as_ref(), committed.is_ok());
        done.pos = committed?;
        done.count += written.positions.len();
        Ok(written.processed)
    }

    /// Assigns sequence numbers to a chunk and returns which of its keys are above every key so
    /// far. The caller has locked the keys, so no other writer can insert the same key.
    ///
    /// The mark of ids out of order is committed here, before memory records it: it is in the
    /// journal before every document that needs it, and a failure leaves memory and disk as they
    /// were.
    ///
    /// Where other processes write, too, no key is certainly new, the engine gives the numbers, and
    /// the mark is in the batch of the documents. The numbers are above `after` then.
    fn allocate(
        &self,
        s: &mut Scratch,
        count: usize,
        after: u64,
    ) -> Result<(u64, SmallVec<[bool; CHUNK_DOCS]>)> {
        if self.shared.has_joined
            && let Some(first) = self.shared.engine.number_rows(count)
        {
            if self.is_uncommitted() {
                // Its mark is committed with it.
                self.live.set_out_of_order();
            } else if self.live.is_in_order() {
                mark_unordered(&mut s.batch, self.ident);
            }
            return Ok((first.max(after + 1), SmallVec::from_elem(false, count)));
        }
        let mut order = self.live.order();
        let mut fresh = SmallVec::new();
        let (mut start, mut highest) = (0, None);
        let mut disorder = false;
        for end in &s.key_ends[..count] {
            let key = &s.record_keys[start..*end];
            start = *end;
            let above = key > highest.unwrap_or(order.max_key.as_slice());
            if above {
                highest = Some(key);
            } else {
                disorder = true;
            }
            fresh.push(above);
        }
        let first = order.next_seq;
        let next = first + count as u64;
        let in_order = self.live.is_in_order();
        if (disorder && in_order) || (!in_order && next > order.reserved) {
            let reserved = next + SEQ_BLOCK;
            let mut mark = WriteBatch::new();
            mark.put(
                Table::Meta,
                &meta::unordered(self.ident),
                &reserved.to_be_bytes(),
            );
            let marked = &mut |_: CommitPos| {
                order.reserved = reserved;
                self.live.set_out_of_order();
            };
            if self.is_uncommitted() {
                marked(CommitPos::default());
            } else {
                self.commit(WriteUnit::new(&mark).add_hook(marked))?;
            }
        }
        if let Some(key) = highest {
            order.max_key.clear();
            order.max_key.extend_from_slice(key);
        }
        order.next_seq = next;
        Ok((first, fresh))
    }
}

/// Marks a collection to which several processes write: no number that one of them gives reaches
/// the one in the mark.
pub(crate) fn mark_unordered(batch: &mut WriteBatch, ident: u32) {
    let reserved = NUMBERS_END.to_be_bytes();
    batch.put(Table::Meta, &meta::unordered(ident), &reserved);
}
