//! The statement log of one session: the effects of its retryable writes, recorded in the same
//! batch as the write, so that a retry after a crash is answered from here and not run twice.
//!
//! One row for each session, overwritten in place; a long list of results continues in further
//! parts, so that no write stores more than one part again. Layout in `docs/on-disk.md`. Must not
//! know: commands, replies.

use crate::catalog::Shared;
use crate::commit::{CommitHook, WriteUnit};
use crate::error;
use crate::format::{meta, record};
use crate::log::SessionFields;
use model::{Doc, DocBuf, Result};
use std::hash::{DefaultHasher, Hasher};
use storage::{CommitPos, CursorOpts, Engine, KeyRange, Reader, Table, WriteBatch};

const FORMAT: u8 = 1;
/// Flag: another part follows.
const MORE: u8 = 1;
/// A part that has grown to this many bytes is closed.
const PART_BYTES: usize = 4096;
/// Records read at a time by a sweep.
const SWEEP_ROWS: usize = 1024;

/// Identity of a session.
pub type SessionId = [u8; 16];

/// The effect of a statement. Statements that changed nothing are not recorded: running them again
/// is correct.
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
    /// findAndModify changed a document; this is the document before.
    UpdatedBefore(DocBuf),
    /// findAndModify changed a document; this is the document after.
    UpdatedAfter(DocBuf),
    /// findAndModify removed this document.
    Removed(DocBuf),
    /// findAndModify inserted this document.
    Made(DocBuf),
}

/// What is recorded of a statement in addition to its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryImage {
    /// Record nothing more.
    Fact,
    /// The `_id` of a document an update inserts.
    Id,
    /// The document before a change or removal (or as inserted).
    Before,
    /// The document after a change (or as inserted).
    After,
}

/// Records the effects of statements in the record of a session.
#[derive(Debug)]
pub struct StatementLog<'n> {
    /// The session's record.
    pub record: &'n mut SessionRecord,
    /// Number of each statement: one per document of an insert, else one.
    pub ids: &'n [i32],
    /// What to record in addition to the effect.
    pub keep: RetryImage,
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
pub enum NumberOrder {
    /// Newer than all: no statement of it has run.
    New,
    /// The current one: some of its statements may have run.
    Again,
    /// Older than this number, which is the current one.
    Old(i64),
}

/// The new state of a session's record, for after the commit.
pub(crate) struct StagedRecord<'r> {
    record: &'r mut SessionRecord,
    /// The runs of the current part.
    tail: Vec<Run>,
    ascending: bool,
    part: u32,
    part_start: usize,
    part_bytes: usize,
    stored: Option<StoredPart>,
}

impl CommitHook for StagedRecord<'_> {
    fn note_applied(&mut self, pos: CommitPos) {
        let r = &mut *self.record;
        r.runs.truncate(self.part_start);
        r.runs.append(&mut self.tail);
        (r.ascending, r.part, r.part_start, r.part_bytes) =
            (self.ascending, self.part, self.part_start, self.part_bytes);
        (r.stale_parts, r.on_disk) = (0, true);
        r.stored = self.stored;
        r.pos = r.pos.max(pos);
    }

    fn note_failed(&mut self) {
        // The batch may have been applied although the engine reported an error: the next attempt
        // reads the record from disk.
        self.record.loaded = false;
    }
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
    /// Number of the current part, the index of its first run in `runs`, and its size when last
    /// written.
    part: u32,
    part_start: usize,
    part_bytes: usize,
    /// Number of parts of earlier transaction numbers that are still on disk.
    stale_parts: u32,
    on_disk: bool,
    pos: CommitPos,
    /// Time in the log of the last entry of this transaction number; 0 before the first, and after
    /// a start.
    logged_at: u64,
    value: Vec<u8>,
    /// Other processes may write the record, too.
    is_shared: bool,
    /// The last part on disk as this process knows it; only of shared records.
    stored: Option<StoredPart>,
}

/// A part of a record on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoredPart {
    part: u32,
    /// A hash of its bytes.
    digest: u64,
}

impl StoredPart {
    fn of(part: u32, bytes: &[u8]) -> StoredPart {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        let digest = hasher.finish();
        StoredPart { part, digest }
    }
}

impl SessionRecord {
    /// The record of a session that was not read yet.
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
            logged_at: 0,
            value: Vec::new(),
            is_shared: false,
            stored: None,
        }
    }

    /// The session.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Notes that other processes may have written the record: it is read from disk again.
    pub(crate) fn share(&mut self) {
        self.is_shared = true;
        self.loaded = false;
    }

    /// Whether the record on disk is still the one that is known here.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn is_current(&self, reader: &dyn Reader) -> Result<bool> {
        let part = self.stored.map_or(0, |stored| stored.part);
        let mut found = None;
        let see = &mut |bytes: &[u8]| found = Some(StoredPart::of(part, bytes));
        let read = reader.get_with(Table::Meta, &self.newest_row(), see);
        read.map_err(error::storage)?;
        Ok(found == self.stored)
    }

    /// The key of the row that is compared.
    pub(crate) fn newest_row(&self) -> Vec<u8> {
        match self.stored.map_or(0, |stored| stored.part) {
            0 => meta::session(&self.id).to_vec(),
            part => meta::session_part(&self.id, part).to_vec(),
        }
    }

    /// Begins or repeats the write with this number.
    ///
    /// # Cost
    /// One read when the session is used for the first time since the start, else none.
    ///
    /// # Errors
    /// Engine failures; 1 InternalError for a damaged row.
    pub(crate) fn begin(&mut self, engine: &dyn Engine, number: i64) -> Result<NumberOrder> {
        self.ensure_loaded(engine)?;
        match self.txn_number {
            Some(last) if number < last => return Ok(NumberOrder::Old(last)),
            Some(last) if number == last => return Ok(NumberOrder::Again),
            _ => {}
        }
        self.advance(number);
        Ok(NumberOrder::New)
    }

    fn advance(&mut self, number: i64) {
        self.stale_parts = self.stale_parts.max(self.part);
        self.txn_number = Some(number);
        self.runs.clear();
        self.logged_at = 0;
        (self.ascending, self.part, self.part_start, self.part_bytes) = (true, 0, 0, 0);
    }

    /// Reads the record from disk, unless that was done before.
    ///
    /// # Errors
    /// Engine failures; 1 InternalError for a damaged row.
    pub(crate) fn ensure_loaded(&mut self, engine: &dyn Engine) -> Result<()> {
        if self.loaded {
            return Ok(());
        }
        let newest = self.txn_number;
        self.load(engine)?;
        // A number whose writes all failed is not on disk, but it is still the newest.
        if let Some(n) = newest.filter(|n| self.txn_number.is_none_or(|disk| disk < *n)) {
            self.advance(n);
        }
        Ok(())
    }

    /// The newest transaction number, once the record was read.
    pub fn number(&self) -> Option<i64> {
        self.txn_number
    }

    /// The effect of the statement, if it was recorded.
    pub fn find(&self, statement: i32) -> Option<&Effect> {
        let holds = |r: &&Run| {
            statement
                .checked_sub(r.first)
                .is_some_and(|d| d >= 0 && (d as u32) < r.count)
        };
        if !self.ascending {
            return self.runs.iter().find(holds).map(|r| &r.effect);
        }
        let after = self.runs.partition_point(|r| r.first <= statement);
        self.runs
            .get(after.checked_sub(1)?)
            .filter(holds)
            .map(|r| &r.effect)
    }

    /// The session fields of log entries.
    pub(crate) fn fields(&self) -> Option<SessionFields> {
        self.txn_number.map(|number| SessionFields {
            id: self.id,
            number,
            previous: self.logged_at,
        })
    }

    /// Records the time in the log of the last write of this number.
    pub(crate) fn set_log_time(&mut self, time: u64) {
        self.logged_at = time;
    }

    /// Covers all writes of the session since the server started.
    pub fn pos(&self) -> CommitPos {
        self.pos
    }

    /// Adds the statements and their effects to a batch; the record changes after the commit.
    pub(crate) fn stage<'r>(
        &'r mut self,
        batch: &mut WriteBatch,
        statements: impl Iterator<Item = (i32, Effect)>,
    ) -> StagedRecord<'r> {
        for part in 1..=self.stale_parts {
            batch.delete(Table::Meta, &meta::session_part(&self.id, part));
        }
        let (mut part, mut part_start) = (self.part, self.part_start);
        if self.part_bytes > PART_BYTES {
            let closed = self.runs.get(part_start..).unwrap_or_default();
            encode(&mut self.value, MORE, self.txn_number, closed);
            put(batch, &self.id, part, &self.value);
            part = part.saturating_add(1);
            part_start = self.runs.len();
        }
        let mut tail = self.runs.get(part_start..).unwrap_or_default().to_vec();
        let before = part_start
            .checked_sub(1)
            .and_then(|last| self.runs.get(last));
        let mut end = tail.last().or(before).map_or(i64::MIN, Run::end);
        let mut ascending = self.ascending;
        for (id, effect) in statements {
            ascending &= end <= i64::from(id);
            add(&mut tail, id, effect);
            end = tail.last().map_or(i64::MIN, Run::end);
        }
        encode(&mut self.value, 0, self.txn_number, &tail);
        put(batch, &self.id, part, &self.value);
        let part_bytes = self.value.len();
        let stored = self.is_shared.then(|| StoredPart::of(part, &self.value));
        // An image of many megabytes is not kept twice in memory.
        self.value.clear();
        self.value.shrink_to(4 * PART_BYTES);
        StagedRecord {
            tail,
            ascending,
            part,
            part_start,
            part_bytes,
            stored,
            record: self,
        }
    }

    fn load(&mut self, engine: &dyn Engine) -> Result<()> {
        let mut fresh = SessionRecord::new(self.id);
        fresh.is_shared = self.is_shared;
        let mut bytes = Vec::new();
        let mut found = engine
            .get(Table::Meta, &meta::session(&self.id), &mut bytes)
            .map_err(error::storage)?;
        while found {
            fresh.part_start = fresh.runs.len();
            fresh.part_bytes = bytes.len();
            fresh.on_disk = true;
            if fresh.is_shared {
                fresh.stored = Some(StoredPart::of(fresh.part, &bytes));
            }
            let more = fresh
                .read_part(&bytes)
                .ok_or_else(|| error::corrupt("the record of a session"))?;
            if !more {
                break;
            }
            fresh.part = fresh.part.saturating_add(1);
            found = engine
                .get(
                    Table::Meta,
                    &meta::session_part(&self.id, fresh.part),
                    &mut bytes,
                )
                .map_err(error::storage)?;
        }
        fresh.loaded = true;
        *self = fresh;
        Ok(())
    }

    /// Adds the runs of a part; true when another part follows.
    fn read_part(&mut self, bytes: &[u8]) -> Option<bool> {
        let [FORMAT, flags, rest @ ..] = bytes else {
            return None;
        };
        let (number, mut rest) = record::read_varint(rest)?;
        self.txn_number = Some(i64::try_from(number).ok()?);
        while !rest.is_empty() {
            let (first, r) = record::read_varint(rest)?;
            let (count, r) = record::read_varint(r)?;
            let (tag, r) = r.split_first()?;
            let (effect, r) = decode_effect(*tag, r)?;
            let first = u32::try_from(first).ok()? as i32;
            if let Some(last) = self.runs.last() {
                self.ascending &= i64::from(last.first) + i64::from(last.count) <= i64::from(first);
            }
            self.runs.push(Run {
                first,
                count: u32::try_from(count).ok()?,
                effect,
            });
            rest = r;
        }
        Some(flags & MORE != 0)
    }
}

impl Run {
    /// The first number after the run.
    fn end(&self) -> i64 {
        i64::from(self.first) + i64::from(self.count)
    }
}

/// Adds a statement to the runs of a part.
fn add(runs: &mut Vec<Run>, id: i32, effect: Effect) {
    let plain = matches!(effect, Effect::Inserted | Effect::Updated | Effect::Deleted);
    if let Some(last) = runs.last_mut()
        && plain
        && last.effect == effect
        && last.end() == i64::from(id)
    {
        last.count += 1;
        return;
    }
    runs.push(Run {
        first: id,
        count: 1,
        effect,
    });
}

fn encode(value: &mut Vec<u8>, flags: u8, txn_number: Option<i64>, runs: &[Run]) {
    value.clear();
    value.extend_from_slice(&[FORMAT, flags]);
    record::varint(value, txn_number.unwrap_or(0) as u64);
    for run in runs {
        record::varint(value, u64::from(run.first as u32));
        record::varint(value, u64::from(run.count));
        let (tag, doc) = tag_effect(&run.effect);
        value.push(tag);
        value.extend_from_slice(doc.map_or(&[], DocBuf::as_bytes));
    }
}

fn put(batch: &mut WriteBatch, id: &SessionId, part: u32, value: &[u8]) {
    match part {
        0 => batch.put(Table::Meta, &meta::session(id), value),
        part => batch.put(Table::Meta, &meta::session_part(id, part), value),
    }
}

fn tag_effect(effect: &Effect) -> (u8, Option<&DocBuf>) {
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

fn decode_effect(tag: u8, rest: &[u8]) -> Option<(Effect, &[u8])> {
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

/// The transaction number of a part.
fn number_of(part: &[u8]) -> Option<i64> {
    let [FORMAT, _, rest @ ..] = part else {
        return None;
    };
    let (number, _) = record::read_varint(rest)?;
    i64::try_from(number).ok()
}

impl Shared {
    /// Deletes the record of a session that has ended.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn forget_session(&self, record: &mut SessionRecord) -> Result<()> {
        if !record.on_disk {
            return Ok(());
        }
        let mut batch = WriteBatch::new();
        batch.delete(Table::Meta, &meta::session(&record.id));
        for part in 1..=record.part.max(record.stale_parts) {
            batch.delete(Table::Meta, &meta::session_part(&record.id, part));
        }
        let forgotten = &mut |_: CommitPos| *record = SessionRecord::new(record.id);
        self.commit(WriteUnit::new(&batch).add_hook(forgotten))
            .map(|_| ())
    }

    /// Calls `f` with each recorded session and the number of its last transaction or retryable
    /// write.
    ///
    /// # Cost
    /// A scan of all records.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn each_session(&self, f: &mut dyn FnMut(SessionId, i64)) -> Result<()> {
        let range = KeyRange {
            lower: meta::SESSIONS.0,
            upper: meta::SESSIONS.1,
        };
        let mut cursor = self
            .engine
            .cursor(Table::Meta, range, CursorOpts::default())
            .map_err(error::storage)?;
        let mut look = |key: &[u8], value: &[u8]| {
            let first = meta::session_of(key).filter(|id| meta::session(id) == key);
            if let (Some(id), Some(number)) = (first, number_of(value)) {
                f(id, number);
            }
            true
        };
        while cursor
            .visit(SWEEP_ROWS, &mut look)
            .map_err(error::storage)?
        {}
        Ok(())
    }
}
