//! A row of the log: the entries of one commit, or a part of them. Layout in `docs/on-disk.md`.
//! Must not know: commits, readers.
//!
//! Key: `ident(4) time(8)` of the last entry, so that a seek for any time finds the row that
//! contains it. The entries have consecutive times. Value: a head of fixed length, then the body:
//! with `DOCUMENTS` complete entries except for the fields that all of them end with, with
//! `INSERTS` a document of their common fields and then the inserted documents, as the client sent
//! them, with `REFERENCES` the same with references in place of documents (see `references`).

use model::{Doc, DocWriter, Timestamp, Value};

const FORMAT: u8 = 1;
/// Entries as documents.
pub(crate) const DOCUMENTS: u8 = 0;
/// Inserts into one collection.
pub(crate) const INSERTS: u8 = 1;
/// Inserts into one collection, of which the row has references instead of documents.
pub(crate) const REFERENCES: u8 = 2;

/// No log reaches this time, the last second that a timestamp has.
pub(crate) const TIMES_END: u64 = (u32::MAX as u64) << 32;
/// No log reaches this number of entries or bytes.
const TOTAL_END: u64 = 1 << 62;
/// Bytes of a head.
pub(crate) const HEAD_BYTES: usize = 30;
/// Offset in the value of the part of the head that is only known at the commit.
pub(crate) const LATE_AT: usize = 6;
/// The document before a change, stored in addition to its entry; not shown as a part of the entry.
pub(crate) const PRE_IMAGE: &str = "preImage";

/// Number of an entry among those of its transaction, the first is 0; not shown.
pub(crate) const LINK: &str = "link";
/// Time of the previous entry with the same transaction number of a session, 0 for none; shown in
/// `prevOpTime`.
pub(crate) const PREVIOUS: &str = "previous";

/// The head of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: u8,
    /// Number of entries in the row.
    pub(crate) entries: u32,
    /// The part that is known at the commit.
    pub(crate) late: LogTotals,
}

/// Sums over the whole log, so that the difference of two rows gives the entries and bytes between
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogTotals {
    /// Number of entries ever written, including this row's.
    pub(crate) entries_total: u64,
    /// Number of bytes ever written, including this row's.
    pub(crate) bytes_total: u64,
    /// The wall clock, milliseconds since the epoch.
    pub(crate) wall_ms: i64,
}

impl LogTotals {
    pub(crate) fn encode(&self) -> [u8; HEAD_BYTES - LATE_AT] {
        let mut out = [0; HEAD_BYTES - LATE_AT];
        out[..8].copy_from_slice(&self.entries_total.to_be_bytes());
        out[8..16].copy_from_slice(&self.bytes_total.to_be_bytes());
        out[16..].copy_from_slice(&self.wall_ms.to_be_bytes());
        out
    }
}

/// The head of a row, whose late part is still to be patched.
pub(crate) fn head(kind: u8, entries: u32) -> [u8; HEAD_BYTES] {
    let mut out = [0; HEAD_BYTES];
    (out[0], out[1]) = (FORMAT, kind);
    out[2..LATE_AT].copy_from_slice(&entries.to_be_bytes());
    out
}

/// Splits a value. `None` when it is not one (corruption).
pub(crate) fn read(value: &[u8]) -> Option<(Head, &[u8])> {
    let (head, body) = value.split_first_chunk::<HEAD_BYTES>()?;
    if head[0] != FORMAT || head[1] > REFERENCES {
        return None;
    }
    let number = |at: usize| {
        head.get(at..at + 8)?
            .try_into()
            .ok()
            .map(u64::from_be_bytes)
    };
    let late = LogTotals {
        entries_total: number(LATE_AT)?,
        bytes_total: number(LATE_AT + 8)?,
        wall_ms: number(LATE_AT + 16)? as i64,
    };
    if late.entries_total.max(late.bytes_total) >= TOTAL_END {
        return None;
    }
    let entries = u32::from_be_bytes(head.get(2..LATE_AT)?.try_into().ok()?);
    Some((
        Head {
            kind: head[1],
            entries,
            late,
        },
        body,
    ))
}

/// The key of the row whose last entry has this time.
pub(crate) fn key(ident: u32, time: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&ident.to_be_bytes());
    key[4..].copy_from_slice(&time.to_be_bytes());
    key
}

/// The time in a key. `None` when it is none that a log reaches (corruption), so that times behind
/// it can be counted.
pub(crate) fn time_of(key: &[u8]) -> Option<u64> {
    let time = key.get(4..)?.try_into().ok().map(u64::from_be_bytes)?;
    (time < TIMES_END).then_some(time)
}

/// The entries of a row in their order.
pub(crate) struct Entries<'v> {
    kind: u8,
    common: Doc<'v>,
    rest: &'v [u8],
    /// Time of the next entry.
    time: u64,
    wall_ms: i64,
    /// Number of the next entry.
    at: usize,
}

impl<'v> Entries<'v> {
    /// The entries of a row with this time in its key and this value, which has no references.
    pub(crate) fn of(last: u64, value: &'v [u8]) -> Option<Entries<'v>> {
        let (head, mut rest) = read(value)?;
        if head.kind == REFERENCES {
            return None;
        }
        let mut common = Doc::EMPTY;
        if head.kind == INSERTS {
            common = next_document(&mut rest)?;
        }
        Some(Entries {
            kind: head.kind,
            common,
            rest,
            time: last.checked_sub(u64::from(head.entries).checked_sub(1)?)?,
            wall_ms: head.late.wall_ms,
            at: 0,
        })
    }

    /// The next entry: its time, and the `Entry` that writes it.
    pub(crate) fn next(&mut self) -> Option<(u64, Entry<'v>)> {
        let doc = next_document(&mut self.rest)?;
        let (time, at) = (self.time, self.at);
        (self.time, self.at) = (time + 1, at + 1);
        Some((
            time,
            Entry {
                kind: self.kind,
                common: self.common,
                doc,
                at,
                time,
                wall_ms: self.wall_ms,
            },
        ))
    }
}

pub(crate) fn next_document<'v>(rest: &mut &'v [u8]) -> Option<Doc<'v>> {
    let len = u32::from_le_bytes(*rest.first_chunk::<4>()?) as usize;
    let (doc, behind) = rest.split_at_checked(len)?;
    *rest = behind;
    Doc::new(doc)
}

/// One entry of a row.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'v> {
    kind: u8,
    common: Doc<'v>,
    doc: Doc<'v>,
    at: usize,
    time: u64,
    wall_ms: i64,
}

impl<'v> Entry<'v> {
    /// The entry as clients see it; with `hidden`, the document before a change and the number
    /// within a transaction as well.
    pub(crate) fn write(&self, w: &mut DocWriter<'_>, hidden: bool) {
        let previous = if self.kind == INSERTS {
            self.write_insert(w)
        } else {
            self.write_document(w, hidden)
        };
        w.put("ts", Timestamp::from_u64(self.time))
            .put("t", 1i64)
            .put("v", 2i64)
            .put("wall", Value::Date(self.wall_ms));
        if let Some(time) = previous {
            let term = if time == 0 { -1i64 } else { 1 };
            let mut previous = w.doc("prevOpTime");
            previous.put("ts", Timestamp::from_u64(time)).put("t", term);
        }
    }

    /// Writes the entry; returns the time of the previous one, where one is named.
    fn write_document(&self, w: &mut DocWriter<'_>, hidden: bool) -> Option<u64> {
        let mut previous = None;
        for e in self.doc.elements() {
            match (e.name, e.value()) {
                (name, _) if name == PRE_IMAGE.as_bytes() && !hidden => continue,
                (name, Value::Timestamp(time)) if name == PREVIOUS.as_bytes() => {
                    previous = Some(time.as_u64());
                    continue;
                }
                (name, Value::Int32(n)) if name == LINK.as_bytes() => {
                    // The entries of a transaction are in one commit, so their times are
                    // consecutive.
                    previous = Some(if n == 0 { 0 } else { self.time - 1 });
                    if !hidden {
                        continue;
                    }
                }
                _ => {}
            }
            w.put_element(&e);
        }
        previous
    }

    fn write_insert(&self, w: &mut DocWriter<'_>) -> Option<u64> {
        let (mut statement, mut previous) = (None, None);
        let mut operation = false;
        for (name, value) in self.common.iter() {
            match (name, value) {
                (PREVIOUS, Value::Timestamp(time)) => {
                    let first = self.at == 0;
                    previous = Some(if first { time.as_u64() } else { self.time - 1 });
                    continue;
                }
                ("statements", Value::Binary(b)) => {
                    let at = self.at * 4;
                    statement = b.bytes.get(at..at + 4).and_then(|n| n.try_into().ok());
                    continue;
                }
                ("ns", _) if !operation => {
                    operation = true;
                    w.put("op", "i");
                }
                _ => {}
            }
            w.put(name, value);
        }
        w.put("o", self.doc);
        w.doc("o2").put("_id", self.doc.field("_id"));
        if let Some(n) = statement {
            w.put("stmtId", i32::from_le_bytes(n));
        }
        previous
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Binary, DocBuf, doc};

    fn value(kind: u8, entries: u32, parts: &[&[u8]]) -> Vec<u8> {
        let mut value = head(kind, entries).to_vec();
        let late = LogTotals {
            entries_total: 7,
            bytes_total: TOTAL_END - 1,
            wall_ms: -5,
        };
        value[LATE_AT..HEAD_BYTES].copy_from_slice(&late.encode());
        parts.iter().for_each(|p| value.extend_from_slice(p));
        assert_eq!(read(&value).map(|(h, _)| h.late), Some(late));
        value
    }

    #[test]
    fn inserts_share_what_they_have_in_common() {
        let ids: Vec<u8> = [3i32, 4].iter().flat_map(|n| n.to_le_bytes()).collect();
        let ids = Binary {
            subtype: 0,
            bytes: &ids,
        };
        let before = Timestamp::from_u64(50);
        let common =
            doc! { "txnNumber": 9i64, "ns": "db.c", "statements": ids, "previous": before };
        let docs = [doc! { "_id": 1i32 }, doc! { "_id": 2i32, "a": 5i32 }];
        let parts = [common.as_bytes(), docs[0].as_bytes(), docs[1].as_bytes()];
        let value = value(INSERTS, 2, &parts);
        let mut entries = Entries::of(100, &value).unwrap();
        let (time, first) = entries.next().unwrap();
        assert_eq!(time, 99);
        let shown = DocBuf::build(|w| first.write(w, false));
        let expected = doc! {
            "txnNumber": 9i64, "op": "i", "ns": "db.c", "o": { "_id": 1i32 },
            "o2": { "_id": 1i32 }, "stmtId": 3i32, "ts": Timestamp::from_u64(99), "t": 1i64,
            "v": 2i64, "wall": Value::Date(-5), "prevOpTime": { "ts": before, "t": 1i64 },
        };
        assert_eq!(shown.doc(), expected.doc());
        let (time, second) = entries.next().unwrap();
        let shown = DocBuf::build(|w| second.write(w, false));
        assert_eq!(time, 100);
        assert_eq!(shown.doc().field("stmtId").as_i64_exact(), Some(4));
        let previous = doc! { "ts": Timestamp::from_u64(99), "t": 1i64 };
        assert_eq!(
            shown.doc().field("prevOpTime").as_doc(),
            Some(previous.doc())
        );
        assert!(entries.next().is_none());
    }

    #[test]
    fn an_entry_of_a_transaction_names_the_one_before() {
        for (n, ts, term) in [(0i32, 0, -1i64), (2, 8, 1)] {
            let entry = doc! { "link": n, "op": "c" };
            let value = value(DOCUMENTS, 1, &[entry.as_bytes()]);
            let (_, e) = Entries::of(9, &value).unwrap().next().unwrap();
            let shown = DocBuf::build(|w| e.write(w, false));
            let previous = doc! { "ts": Timestamp::from_u64(ts), "t": term };
            assert!(!shown.doc().contains("link"));
            assert_eq!(
                shown.doc().field("prevOpTime").as_doc(),
                Some(previous.doc())
            );
            let hidden = DocBuf::build(|w| e.write(w, true));
            assert_eq!(
                hidden.doc().field("link").as_i64_exact(),
                Some(i64::from(n))
            );
        }
    }

    #[test]
    fn an_image_is_shown_only_when_asked_for() {
        let entry = doc! { "op": "d", "ns": "db.c", "preImage": { "_id": 1i32 } };
        let value = value(DOCUMENTS, 1, &[entry.as_bytes()]);
        for images in [false, true] {
            let (_, e) = Entries::of(1, &value).unwrap().next().unwrap();
            let shown = DocBuf::build(|w| e.write(w, images));
            assert_eq!(shown.doc().contains(PRE_IMAGE), images);
        }
        assert!(Entries::of(0, &value[..20]).is_none());
        assert!(read(&[2; 40]).is_none());
    }
}
