//! Buckets of time-series collections, in the table of documents. All rows of a bucket begin with
//! its key, and the first row is its head:
//!
//! | row | key | value |
//! |---|---|---|
//! | head of an open bucket | bucket key | `02`, metadata |
//! | head of a closed one | bucket key | `03`, metadata, what `write_closed` says |
//! | measurement of an open one | bucket key, insert_seq (8) | record |
//!
//! The bucket key is ident (4), `02`, beginning in milliseconds (8, sign flipped), 8 bytes that
//! distinguish buckets with the same beginning. Encoded `_id`s have no class `02`: measurements of
//! collections created before there were buckets come after the buckets, each a record of its own.

use crate::format::record::{read_varint, varint};
use crate::format::{ints, table};
use model::{Doc, DocBuf, OwnedValue, Tag, Value};

const CLASS: u8 = 2;
const OPEN: u8 = 2;
const CLOSED: u8 = 3;

/// Bytes of a bucket key.
pub(crate) const KEY_LEN: usize = 4 + 1 + 8 + 8;
/// Upper limit for the measurements of one bucket; a larger number is damage.
const ROWS_MAX: u64 = 1 << 24;

/// Key of a bucket.
pub(crate) type BucketKey = [u8; KEY_LEN];

/// The key of a bucket that begins at `start_ms`.
pub(crate) fn key(ident: u32, start_ms: i64, rest: [u8; 8]) -> BucketKey {
    let mut key = [0; KEY_LEN];
    key[..13].copy_from_slice(&bound_before(ident, start_ms));
    key[13..].copy_from_slice(&rest);
    key
}

/// A bound before every bucket that begins at `start_ms` or later.
pub(crate) fn bound_before(ident: u32, start_ms: i64) -> [u8; 13] {
    let mut key = [CLASS; 13];
    key[..4].copy_from_slice(&ident.to_be_bytes());
    key[5..].copy_from_slice(&(start_ms as u64 ^ 1 << 63).to_be_bytes());
    key
}

/// A bound after all buckets and before all other documents.
pub(crate) fn end(ident: u32) -> [u8; 5] {
    let mut key = [CLASS + 1; 5];
    key[..4].copy_from_slice(&ident.to_be_bytes());
    key
}

/// The bucket a key of the table of documents belongs to; `None` for other documents.
pub(crate) fn of(key: &[u8]) -> Option<BucketKey> {
    key.first_chunk::<KEY_LEN>()
        .filter(|k| k[4] == CLASS)
        .copied()
}

/// The beginning of a bucket.
pub(crate) fn start_ms(key: &BucketKey) -> i64 {
    let bytes = key[5..13].try_into().unwrap_or_default();
    (u64::from_be_bytes(bytes) ^ 1 << 63) as i64
}

/// The part of a bucket's key that differs between buckets with the same beginning.
pub(crate) fn key_suffix(key: &BucketKey) -> [u8; 8] {
    key[13..].try_into().unwrap_or_default()
}

/// The key of a measurement.
pub(crate) fn row_key(bucket: &BucketKey, insert_seq: u64) -> [u8; KEY_LEN + 8] {
    let mut key = [0; KEY_LEN + 8];
    key[..KEY_LEN].copy_from_slice(bucket);
    key[KEY_LEN..].copy_from_slice(&insert_seq.to_be_bytes());
    key
}

/// The insert sequence in the key of a measurement of a bucket; `None` for a head.
pub(crate) fn row_seq(key: &[u8]) -> Option<u64> {
    let seq = key.get(KEY_LEN..)?.first_chunk::<8>()?;
    Some(u64::from_be_bytes(*seq))
}

fn write_meta(out: &mut Vec<u8>, meta: Value<'_>) {
    let doc = DocBuf::build(|w| _ = w.put("", meta));
    let element = doc.doc().elements().next();
    let (tag, payload) = element.map_or((Tag::MISSING, &[][..]), |e| (e.tag, e.payload));
    out.push(tag.0);
    varint(out, payload.len() as u64);
    out.extend_from_slice(payload);
}

fn read_meta(bytes: &[u8]) -> Option<(OwnedValue, &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (len, rest) = read_varint(rest)?;
    let (payload, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    let doc = DocBuf::build(|w| {
        if Tag(tag) != Tag::MISSING {
            w.put_raw(b"", Tag(tag), payload);
        }
    });
    Some((doc.doc().field("").to_owned_value(), rest))
}

/// The head of an open bucket.
pub(crate) fn write_open(out: &mut Vec<u8>, meta: Value<'_>) {
    out.push(OPEN);
    write_meta(out, meta);
}

/// A measurement of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Measurement {
    pub(crate) insert_seq: u64,
    pub(crate) doc: DocBuf,
}

/// Writes the head of a closed bucket with its measurements, in their order: `03`, metadata, number
/// of measurements (varint), first and last time (8 each, big-endian), their insert sequences, a
/// table of the documents.
pub(crate) fn write_closed(
    out: &mut Vec<u8>,
    meta: Value<'_>,
    first_ms: i64,
    last_ms: i64,
    measurements: &[Measurement],
) {
    out.push(CLOSED);
    write_meta(out, meta);
    varint(out, measurements.len() as u64);
    out.extend_from_slice(&first_ms.to_be_bytes());
    out.extend_from_slice(&last_ms.to_be_bytes());
    let seqs: Vec<i64> = measurements.iter().map(|m| m.insert_seq as i64).collect();
    ints::write(out, &seqs);
    let docs: Vec<Doc<'_>> = measurements.iter().map(|m| m.doc.doc()).collect();
    table::write(out, &docs);
}

/// A decoded head.
pub(crate) struct Head<'b> {
    pub(crate) meta: OwnedValue,
    pub(crate) closed: Option<ClosedHead<'b>>,
}

/// The additional contents of a closed bucket's head.
#[derive(Clone, Copy)]
pub(crate) struct ClosedHead<'b> {
    pub(crate) count: usize,
    /// First and last time.
    pub(crate) times: (i64, i64),
    body: &'b [u8],
}

/// Reads a head. `None` when damaged.
pub(crate) fn read(value: &[u8]) -> Option<Head<'_>> {
    let (&kind, rest) = value.split_first()?;
    let (meta, rest) = read_meta(rest)?;
    let closed = match kind {
        OPEN if rest.is_empty() => None,
        CLOSED => {
            let (count, rest) = read_varint(rest)?;
            let (first, rest) = rest.split_first_chunk::<8>()?;
            let (last, body) = rest.split_first_chunk::<8>()?;
            Some(ClosedHead {
                count: usize::try_from(count).ok().filter(|_| count < ROWS_MAX)?,
                times: (i64::from_be_bytes(*first), i64::from_be_bytes(*last)),
                body,
            })
        }
        _ => return None,
    };
    Some(Head { meta, closed })
}

impl ClosedHead<'_> {
    /// The measurements with the fields for which `wanted` is true. `None` when damaged.
    pub(crate) fn measurements(&self, wanted: &dyn Fn(&[u8]) -> bool) -> Option<Vec<Measurement>> {
        let (seqs, body) = ints::read(self.body, self.count)?;
        let docs = table::read(body, self.count, wanted)?;
        let both = seqs.into_iter().zip(docs);
        Some(
            both.map(|(seq, doc)| Measurement {
                insert_seq: seq as u64,
                doc,
            })
            .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn keys_order_by_beginning() {
        let keys = [-5i64, -1, 0, 1, 1_700_000_000_000].map(|ms| key(7, ms, [9; 8]));
        assert!(keys.is_sorted());
        for (k, ms) in keys.iter().zip([-5i64, -1, 0, 1, 1_700_000_000_000]) {
            assert_eq!((start_ms(k), key_suffix(k), of(k)), (ms, [9; 8], Some(*k)));
            assert_eq!(row_seq(&row_key(k, 300)), Some(300));
            assert!(bound_before(7, ms)[..] < k[..] && k[..] < end(7)[..]);
        }
    }

    #[test]
    fn heads_come_back() {
        let meta = doc! { "m": { "s": 1i32 } };
        let meta = meta.doc().field("m");
        for meta in [meta, Value::Missing, Value::Null, Value::String("x")] {
            let mut open = Vec::new();
            write_open(&mut open, meta);
            let head = read(&open).unwrap();
            assert!(head.closed.is_none() && head.meta == meta.to_owned_value());
            let rows = [1u64, 5, 3].map(|n| Measurement {
                insert_seq: n,
                doc: doc! { "t": Value::Date(n as i64), "v": n as f64 / 2.0 },
            });
            let mut closed = Vec::new();
            write_closed(&mut closed, meta, 1, 5, &rows);
            let head = read(&closed).unwrap();
            let body = head.closed.unwrap();
            assert_eq!((body.count, body.times), (3, (1, 5)));
            assert_eq!(body.measurements(&|_| true).unwrap(), rows);
        }
    }
}
