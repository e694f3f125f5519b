//! What the retryable writes of one session have done: remembered in the same batch as the write itself, so that a retry
//! after a crash is answered from here and not run twice.
//!
//! One row per session, overwritten in place; a long list of results goes on in further parts, so that no write ever
//! stores more than a part anew. Layout in `docs/on-disk.md`. Must not know: commands, replies.

use crate::error;
use crate::format::{meta, record};
use crate::store::Store;
use model::{Doc, DocBuf, Result};
use storage::{Batch, CommitPos, CursorOpts, Durability, Engine, KeyRange, Table};

const FORMAT: u8 = 1;
/// Flag: another part follows.
const MORE: u8 = 1;
/// A part that has grown to this many bytes is closed.
const PART_BYTES: usize = 4096;
/// Records looked at per step of a sweep.
const SWEEP_ROWS: usize = 1024;

/// Identity of a session.
pub type SessionId = [u8; 16];

/// What a statement did. Statements that changed nothing are not remembered: running them again is right.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Inserted a document.
    Inserted,
    /// Changed a document.
    Updated,
    /// Deleted a document.
    Deleted,
    /// An update that inserted: `{_id: ...}`.
    Upserted(DocBuf),
    /// findAndModify changed a document; this is it before.
    UpdatedBefore(DocBuf),
    /// findAndModify changed a document; this is it after.
    UpdatedAfter(DocBuf),
    /// findAndModify removed this document.
    Removed(DocBuf),
    /// findAndModify inserted this document.
    Made(DocBuf),
}

/// What is to be remembered of a write beside the fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    Fact,
    /// The `_id` of a document an update inserts.
    Id,
    /// The document before a change or removal (or as inserted).
    Before,
    /// The document after a change (or as inserted).
    After,
}

/// Where a write is to be remembered.
#[derive(Debug)]
pub struct Noted<'n> {
    /// The session's record.
    pub record: &'n mut SessionRecord,
    /// Number of each statement: one per document of an insert, else one.
    pub ids: &'n [i32],
    /// What to remember.
    pub keep: Keep,
}

/// Statements with consecutive numbers and the same effect.
#[derive(Clone, Debug, PartialEq)]
struct Run {
    first: i32,
    count: u32,
    effect: Effect,
}

/// How a transaction number relates to those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Newer than all: nothing of it has run.
    New,
    /// The present one: some of it may have run.
    Again,
    /// Older than this one.
    Old(i64),
}

/// State to return to when a batch is not applied.
#[derive(Clone, Debug)]
struct Before {
    runs: usize,
    last_count: u32,
    part: u32,
    part_start: usize,
    part_bytes: usize,
}

/// The record of one session, in memory; read from disk when first used.
#[derive(Debug)]
pub struct SessionRecord {
    id: SessionId,
    loaded: bool,
    txn_number: Option<i64>,
    runs: Vec<Run>,
    /// Statement numbers came in ascending order so far.
    ascending: bool,
    /// The part written now, where it begins in `runs`, and its size when last written.
    part: u32,
    part_start: usize,
    part_bytes: usize,
    /// Parts of numbers before that are still on disk.
    stale_parts: u32,
    on_disk: bool,
    pos: CommitPos,
    value: Vec<u8>,
}

impl SessionRecord {
    /// The record of a session, not read yet.
    pub fn new(id: SessionId) -> SessionRecord {
        SessionRecord {
            id,
            loaded: false,
            txn_number: None,
            runs: Vec::new(),
            ascending: true,
            part: 0,
            part_start: 0,
            part_bytes: 0,
            stale_parts: 0,
            on_disk: false,
            pos: CommitPos::default(),
            value: Vec::new(),
        }
    }

    /// Begins or repeats the write with this number.
    ///
    /// # Cost
    /// One read when the session is used for the first time since the start, else none.
    ///
    /// # Errors
    /// Engine failures; 1 for a damaged row.
    pub fn begin(&mut self, store: &Store, number: i64) -> Result<Begun> {
        if !self.loaded {
            let newest = self.txn_number;
            self.load(store.engine().as_ref())?;
            // A number whose writes all failed is not on disk, and still the newest.
            if let Some(n) = newest.filter(|n| self.txn_number.is_none_or(|disk| disk < *n)) {
                self.advance(n);
            }
        }
        match self.txn_number {
            Some(last) if number < last => return Ok(Begun::Old(last)),
            Some(last) if number == last => return Ok(Begun::Again),
            _ => {}
        }
        self.advance(number);
        Ok(Begun::New)
    }

    fn advance(&mut self, number: i64) {
        self.stale_parts = self.stale_parts.max(self.part);
        self.txn_number = Some(number);
        self.runs.clear();
        (self.ascending, self.part, self.part_start, self.part_bytes) = (true, 0, 0, 0);
    }

    /// What the statement did, if it was done.
    pub fn find(&self, statement: i32) -> Option<&Effect> {
        let holds = |r: &&Run| statement.checked_sub(r.first).is_some_and(|d| d >= 0 && (d as u32) < r.count);
        if !self.ascending {
            return self.runs.iter().find(holds).map(|r| &r.effect);
        }
        let after = self.runs.partition_point(|r| r.first <= statement);
        self.runs.get(after.checked_sub(1)?).filter(holds).map(|r| &r.effect)
    }

    /// Covers everything the session has written since the server started.
    pub fn pos(&self) -> CommitPos {
        self.pos
    }

    /// Adds the statements and what they did to a batch that is applied next; the result tells how that went.
    pub(crate) fn write(
        &mut self,
        batch: &mut Batch,
        statements: impl Iterator<Item = (i32, Effect)>,
        apply: impl FnOnce(&Batch) -> Result<CommitPos>,
    ) -> Result<CommitPos> {
        let before = Before {
            runs: self.runs.len(),
            last_count: self.runs.last().map_or(0, |r| r.count),
            part: self.part,
            part_start: self.part_start,
            part_bytes: self.part_bytes,
        };
        for part in 1..=self.stale_parts {
            batch.delete(Table::Meta, &meta::session_part(&self.id, part));
        }
        if self.part_bytes > PART_BYTES {
            self.put(batch, MORE);
            self.part = self.part.saturating_add(1);
            self.part_start = self.runs.len();
        }
        for (id, effect) in statements {
            self.add(id, effect);
        }
        self.put(batch, 0);
        match apply(batch) {
            Ok(pos) => {
                (self.stale_parts, self.on_disk) = (0, true);
                self.pos = self.pos.max(pos);
                Ok(pos)
            }
            Err(e) => {
                // Perhaps it was applied and only the answer was lost: the next try looks at the disk.
                self.loaded = false;
                self.runs.truncate(before.runs);
                if let Some(last) = self.runs.last_mut() {
                    last.count = before.last_count;
                }
                (self.part, self.part_start, self.part_bytes) = (before.part, before.part_start, before.part_bytes);
                Err(e)
            }
        }
    }

    fn add(&mut self, id: i32, effect: Effect) {
        let plain = matches!(effect, Effect::Inserted | Effect::Updated | Effect::Deleted);
        let in_part = self.runs.len() > self.part_start;
        if let Some(last) = self.runs.last_mut() {
            let end = i64::from(last.first) + i64::from(last.count);
            if plain && in_part && last.effect == effect && end == i64::from(id) {
                last.count += 1;
                return;
            }
            self.ascending &= end <= i64::from(id);
        }
        self.runs.push(Run { first: id, count: 1, effect });
    }

    /// Puts the present part.
    fn put(&mut self, batch: &mut Batch, flags: u8) {
        self.value.clear();
        self.value.extend_from_slice(&[FORMAT, flags]);
        record::varint(&mut self.value, self.txn_number.unwrap_or(0) as u64);
        for run in self.runs.get(self.part_start..).unwrap_or_default() {
            record::varint(&mut self.value, u64::from(run.first as u32));
            record::varint(&mut self.value, u64::from(run.count));
            let (tag, doc) = tagged(&run.effect);
            self.value.push(tag);
            self.value.extend_from_slice(doc.map_or(&[], DocBuf::as_bytes));
        }
        self.part_bytes = self.value.len();
        if self.part == 0 {
            batch.put(Table::Meta, &meta::session(&self.id), &self.value);
        } else {
            batch.put(Table::Meta, &meta::session_part(&self.id, self.part), &self.value);
        }
        // An image of many megabytes is not kept twice in memory.
        self.value.shrink_to(4 * PART_BYTES);
    }

    fn load(&mut self, engine: &dyn Engine) -> Result<()> {
        let mut fresh = SessionRecord::new(self.id);
        let mut bytes = Vec::new();
        let mut found = engine.get(Table::Meta, &meta::session(&self.id), &mut bytes).map_err(error::storage)?;
        while found {
            fresh.part_start = fresh.runs.len();
            fresh.part_bytes = bytes.len();
            fresh.on_disk = true;
            let more = fresh.read_part(&bytes).ok_or_else(|| error::corrupt("the record of a session"))?;
            if !more {
                break;
            }
            fresh.part = fresh.part.saturating_add(1);
            found = engine.get(Table::Meta, &meta::session_part(&self.id, fresh.part), &mut bytes).map_err(error::storage)?;
        }
        fresh.loaded = true;
        *self = fresh;
        Ok(())
    }

    /// Takes the runs of a part; true when another follows.
    fn read_part(&mut self, bytes: &[u8]) -> Option<bool> {
        let [FORMAT, flags, rest @ ..] = bytes else { return None };
        let (number, mut rest) = record::read_varint(rest)?;
        self.txn_number = Some(i64::try_from(number).ok()?);
        while !rest.is_empty() {
            let (first, r) = record::read_varint(rest)?;
            let (count, r) = record::read_varint(r)?;
            let (tag, r) = r.split_first()?;
            let (effect, r) = untagged(*tag, r)?;
            let first = u32::try_from(first).ok()? as i32;
            if let Some(last) = self.runs.last() {
                self.ascending &= i64::from(last.first) + i64::from(last.count) <= i64::from(first);
            }
            self.runs.push(Run { first, count: u32::try_from(count).ok()?, effect });
            rest = r;
        }
        Some(flags & MORE != 0)
    }
}

fn tagged(effect: &Effect) -> (u8, Option<&DocBuf>) {
    match effect {
        Effect::Inserted => (1, None),
        Effect::Updated => (2, None),
        Effect::Deleted => (3, None),
        Effect::Upserted(d) => (4, Some(d)),
        Effect::UpdatedBefore(d) => (5, Some(d)),
        Effect::UpdatedAfter(d) => (6, Some(d)),
        Effect::Removed(d) => (7, Some(d)),
        Effect::Made(d) => (8, Some(d)),
    }
}

fn untagged(tag: u8, rest: &[u8]) -> Option<(Effect, &[u8])> {
    let make: fn(DocBuf) -> Effect = match tag {
        1 => return Some((Effect::Inserted, rest)),
        2 => return Some((Effect::Updated, rest)),
        3 => return Some((Effect::Deleted, rest)),
        4 => Effect::Upserted,
        5 => Effect::UpdatedBefore,
        6 => Effect::UpdatedAfter,
        7 => Effect::Removed,
        8 => Effect::Made,
        _ => return None,
    };
    let len = usize::try_from(u32::from_le_bytes(*rest.first_chunk::<4>()?)).ok()?;
    let (doc, rest) = rest.split_at_checked(len)?;
    Some((make(Doc::new(doc)?.to_buf()), rest))
}

impl Store {
    /// Forgets what a session that ended has done.
    ///
    /// # Errors
    /// Engine failures.
    pub fn forget_session(&self, record: &mut SessionRecord) -> Result<()> {
        if !record.on_disk {
            return Ok(());
        }
        let mut batch = Batch::new();
        batch.delete(Table::Meta, &meta::session(&record.id));
        for part in 1..=record.part.max(record.stale_parts) {
            batch.delete(Table::Meta, &meta::session_part(&record.id, part));
        }
        self.engine().apply(&batch, Durability::Buffered).map_err(error::storage)?;
        *record = SessionRecord::new(record.id);
        Ok(())
    }

    /// Removes the records of sessions that are not alive: left by sessions of an earlier run of the server that
    /// nobody used since.
    ///
    /// # Output
    /// The number of rows removed.
    ///
    /// # Cost
    /// A walk over the keys of all records.
    ///
    /// # Errors
    /// Engine failures.
    pub fn sweep_sessions(&self, alive: &dyn Fn(&SessionId) -> bool) -> Result<usize> {
        let range = KeyRange { lower: meta::SESSIONS.0, upper: meta::SESSIONS.1 };
        let opts = CursorOpts { keys_only: true, fill_cache: false, ..CursorOpts::default() };
        let mut cursor = self.engine().cursor(Table::Meta, range, opts).map_err(error::storage)?;
        let (mut batch, mut more) = (Batch::new(), true);
        let mut removed = 0;
        while more {
            batch.clear();
            let mut look = |key: &[u8], _: &[u8]| {
                if meta::session_of(key).is_none_or(|id| !alive(&id)) {
                    batch.delete(Table::Meta, key);
                }
                true
            };
            more = cursor.visit(SWEEP_ROWS, &mut look).map_err(error::storage)?;
            removed += batch.len();
            if !batch.is_empty() {
                self.engine().apply(&batch, Durability::Buffered).map_err(error::storage)?;
            }
        }
        Ok(removed)
    }
}
