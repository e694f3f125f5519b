//! Writes log entries into the batch of their change. Promises: a large inserted document is
//! referred to, a small one copied once more, into the batch; no tree of values is made. Must not
//! know: locks, how a change came about.

use super::commit_times::first_entry_time;
use super::concerned::NamespaceHash;
use super::places::TakenPlace;
use super::times::{Log, ReservedTimes};
use crate::commit::Stamp;
use crate::format::log as row;
use crate::format::{record, references};
use model::{Binary, Doc, DocBuf, DocWriter, Namespace, Result, Timestamp};
use smallvec::SmallVec;
use storage::{CommitPos, PutOffsets, Table, WriteBatch};

/// SHA-256 of the empty user name, for sessions without a user.
const NOBODY: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// The session an entry belongs to.
#[derive(Clone, Copy)]
pub(crate) struct SessionFields {
    pub(crate) id: [u8; 16],
    pub(crate) number: i64,
    /// Time of the last entry with this transaction number, 0 before the first.
    pub(crate) previous: u64,
}

impl SessionFields {
    pub(crate) fn write(&self, w: &mut DocWriter<'_>) {
        let mut id = w.doc("lsid");
        id.put("id", uuid(&self.id));
        id.put(
            "uid",
            Binary {
                subtype: 0,
                bytes: &NOBODY,
            },
        );
        drop(id);
        w.put("txnNumber", self.number);
    }

    /// Writes the time of the previous entry.
    pub(crate) fn write_previous(&self, w: &mut DocWriter<'_>) {
        w.put(row::PREVIOUS, Timestamp::from_u64(self.previous));
    }
}

pub(crate) fn uuid(bytes: &[u8; 16]) -> Binary<'_> {
    Binary { subtype: 4, bytes }
}

/// A list of entries without the fields that all of them end with.
#[derive(Default)]
pub(crate) struct EntryList {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: u32,
}

/// A length of a list, to roll back to.
#[derive(Clone, Copy)]
pub(crate) struct EntryMark {
    len: usize,
    count: u32,
}

impl EntryList {
    pub(crate) fn push(&mut self, fill: impl FnOnce(&mut DocWriter<'_>)) {
        fill(&mut DocWriter::new(&mut self.bytes));
        self.count += 1;
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    pub(crate) fn append(&mut self, more: &EntryList) {
        self.bytes.extend_from_slice(&more.bytes);
        self.count += more.count;
    }

    /// The current length, for [`EntryList::rollback_to`].
    pub(crate) fn mark(&self) -> EntryMark {
        EntryMark {
            len: self.bytes.len(),
            count: self.count,
        }
    }

    pub(crate) fn rollback_to(&mut self, mark: EntryMark) {
        self.bytes.truncate(mark.len);
        self.count = mark.count;
    }
}

/// Writes the first fields of an entry for an operation on a document.
pub(crate) fn operation(w: &mut DocWriter<'_>, op: &str, ns: &Namespace, id: &[u8; 16]) {
    w.put("op", op);
    put_ns(w, ns);
    w.put("ui", uuid(id));
}

fn put_ns(w: &mut DocWriter<'_>, ns: &Namespace) {
    let mut name = SmallVec::<[u8; 128]>::new();
    name.extend_from_slice(ns.db().as_bytes());
    name.push(b'.');
    name.extend_from_slice(ns.coll().as_bytes());
    w.put("ns", std::str::from_utf8(&name).unwrap_or_default());
}

/// An inserted document and its record in the batch.
#[derive(Clone, Copy)]
pub(crate) struct NewRecord<'d> {
    pub(crate) doc: Doc<'d>,
    /// The record key without ident.
    pub(crate) key: &'d [u8],
    /// Where the record lies in the batch, when it has a place for the time of its entry, which
    /// then refers to it.
    pub(crate) at: Option<usize>,
}

/// A record that gets the time of its entry.
struct TimedRecord {
    /// Number of its row.
    row: usize,
    /// Number of its entry in the row.
    entry: u64,
    /// Where it lies in the batch.
    at: usize,
}

/// The rows of one commit; their times are filled in at the commit.
pub(crate) struct LogRows<'l> {
    log: &'l Log,
    rows: SmallVec<[(PutOffsets, u32); 1]>,
    entries: u32,
    bytes: u64,
    concerned: SmallVec<[NamespaceHash; 1]>,
    records: SmallVec<[TimedRecord; 1]>,
    /// Held until the commit is complete; also released when it unwinds.
    reserved: Option<ReservedTimes<'l>>,
    /// Beside other processes, where the rows lie until they have a time.
    place: Option<TakenPlace<'l>>,
    /// Time of the last entry.
    last: u64,
}

impl<'l> LogRows<'l> {
    pub(crate) fn new(log: &'l Log, concerned: SmallVec<[NamespaceHash; 1]>) -> LogRows<'l> {
        LogRows {
            log,
            rows: SmallVec::new(),
            entries: 0,
            bytes: 0,
            concerned,
            records: SmallVec::new(),
            reserved: None,
            place: None,
            last: 0,
        }
    }

    /// Time of the last entry; set at the commit.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Adds a database or collection that the entries concern.
    pub(crate) fn add_namespace(mut self, others: NamespaceHash) -> LogRows<'l> {
        if !self.concerned.contains(&others) {
            self.concerned.push(others);
        }
        self
    }

    fn put<'p>(
        &mut self,
        batch: &mut WriteBatch,
        entries: u32,
        parts: impl Iterator<Item = &'p [u8]> + Clone,
    ) {
        // The bytes of the value alone, as `first_row` counts them.
        self.bytes += parts.clone().map(|part| part.len() as u64).sum::<u64>();
        let member = self.log.member.as_ref();
        let ident = member.map_or(self.log.ident, |member| member.raw_ident());
        let at = batch.put_parts(Table::Log, &row::key(ident, 0), parts);
        self.rows.push((at, entries));
        self.entries += entries;
    }

    /// Adds a row of complete entries.
    pub(crate) fn documents(&mut self, batch: &mut WriteBatch, list: &EntryList) {
        let head = row::head(row::DOCUMENTS, list.count);
        self.put(batch, list.count, [&head[..], &list.bytes].into_iter());
    }

    /// Adds a row of inserts into the collection with this identifier; `common` has the fields that
    /// all their entries share.
    pub(crate) fn inserts<'d>(
        &mut self,
        batch: &mut WriteBatch,
        ident: u32,
        common: &DocBuf,
        new: impl Iterator<Item = NewRecord<'d>> + Clone,
    ) {
        let count = new.clone().count() as u32;
        let common = common.as_bytes();
        if new.clone().all(|n| n.at.is_none()) {
            let head = row::head(row::INSERTS, count);
            let before = [&head[..], common].into_iter();
            return self.put(batch, count, before.chain(new.map(|n| n.doc.as_bytes())));
        }
        let (mut items, mut whole) = (Vec::new(), 0);
        for (n, record) in new.enumerate() {
            whole += record.doc.len_bytes() as u64;
            match record.at {
                Some(at) => {
                    references::push(&mut items, record.key);
                    self.records.push(TimedRecord {
                        row: self.rows.len(),
                        entry: n as u64,
                        at,
                    });
                }
                None => items.extend_from_slice(record.doc.as_bytes()),
            }
        }
        let head = row::head(row::REFERENCES, count);
        let mut start = references::start(ident, 0);
        // The row counts as one with copies, so that the log keeps as many entries as such a one.
        let spared = whole.saturating_sub((items.len() + start.len()) as u64);
        start = references::start(ident, spared);
        self.put(
            batch,
            count,
            [&head[..], common, &start, &items].into_iter(),
        );
        self.bytes += spared;
    }

    /// Number of entries that refer to a record.
    pub(crate) fn references(&self) -> usize {
        self.records.len()
    }
}

impl Stamp for LogRows<'_> {
    /// Writes the times into the rows; beside other processes, their place.
    fn stamp(&mut self, batch: &mut WriteBatch) -> Result<()> {
        if let Some(member) = &self.log.member {
            if !self.rows.is_empty() {
                self.place = Some(member.place(batch, &self.rows)?);
            }
            return Ok(());
        }
        let concerned = std::mem::take(&mut self.concerned);
        let reserved = self.log.reserve(self.entries, self.bytes, concerned);
        let mut last = reserved.first().saturating_sub(1);
        let mut late = reserved.end_totals();
        late.entries_total -= u64::from(self.entries);
        late.bytes_total -= self.bytes;
        let rows = self.rows.len() as u64;
        for (n, (at, entries)) in self.rows.iter().enumerate() {
            for record in self.records.iter().filter(|r| r.row == n) {
                let time = last + 1 + record.entry;
                batch.patch(record.at + record::TIME_AT, &time.to_be_bytes());
            }
            last += u64::from(*entries);
            late.entries_total += u64::from(*entries);
            // The bytes are spread evenly over the rows of one commit; the last row has the exact
            // sum.
            late.bytes_total = if n as u64 + 1 == rows {
                reserved.end_totals().bytes_total
            } else {
                late.bytes_total + self.bytes / rows
            };
            batch.patch(at.key + 4, &last.to_be_bytes());
            batch.patch(at.value + row::LATE_AT, &late.encode());
        }
        self.last = last;
        self.reserved = Some(reserved);
        Ok(())
    }

    fn note_applied(&mut self, pos: CommitPos) {
        if let Some(place) = self.place.take() {
            let entries = self.entries;
            self.last = first_entry_time(pos, entries) + u64::from(entries) - 1;
            place.note_committed(pos, self.rows.len() as u16, self.bytes);
        }
    }

    fn note_refused(&mut self) {
        if let Some(place) = self.place.take() {
            place.note_refused();
        }
    }

    fn time(&self) -> u64 {
        self.last
    }

    fn note_complete(&mut self) {
        (self.reserved, self.place) = (None, None);
    }
}

/// The fields that all inserts of a commit share.
pub(crate) fn common(
    ns: &Namespace,
    id: &[u8; 16],
    session: Option<&SessionFields>,
    statements: &[i32],
    timeseries: bool,
) -> DocBuf {
    DocBuf::build(|w| {
        if let Some(s) = session {
            s.write(w);
        }
        put_ns(w, ns);
        w.put("ui", uuid(id));
        if timeseries {
            w.put("isTimeseries", true);
        }
        if let Some(s) = session {
            s.write_previous(w);
        }
        if !statements.is_empty() {
            let bytes: SmallVec<[u8; 64]> =
                statements.iter().flat_map(|n| n.to_le_bytes()).collect();
            w.put(
                "statements",
                Binary {
                    subtype: 0,
                    bytes: &bytes,
                },
            );
        }
    })
}
