//! Rows of a column index (docs/adr/0103-column-segments.md): segments, which have the values of
//! the documents between two ids as they were at one moment, and notes of documents that were
//! touched since. Numbers of segments and of runs are identifiers: never used twice.

use crate::format::record::{read_varint, varint};
use model::Value;

pub use super::segment_column::{APART, SegmentColumn};

const HEAD: u8 = 1;
const TOUCHED: u8 = 2;
const COLUMN: u8 = 3;
/// Follows the id of a note, so that notes are in the order of ids and before [`bound_after`].
const NOTE: u8 = 0;
/// Bytes after that: the number of the run, and one within the run.
const TOUCH_BYTES: usize = 12;
/// Longest stored bound of values.
const ZONE_BYTES: usize = 64;
const FORMAT: u8 = 1;
/// Most documents in a segment.
pub const ROWS_MAX: u32 = 1 << 20;

/// The number of the column that holds the ids.
pub const IDS: u32 = 0;

/// Replaces the path of the column that says which fields of the columns each document has, and in
/// which order. No real path is empty.
pub const SHAPES: &str = "";

/// The head of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Head {
    /// Number of documents in it.
    pub rows: u32,
    /// It has all documents from this encoded id on ...
    pub low: Vec<u8>,
    /// ... and before this one.
    pub high: Vec<u8>,
    /// The documents have no values at other top-level paths than those of the columns.
    pub is_complete: bool,
    /// It was ended because its values reached the limit of bytes.
    pub is_large: bool,
    /// Its columns; the first has number 1.
    pub columns: Vec<ColumnHead>,
}

/// The head of one column.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ColumnHead {
    /// Path of the column.
    pub path: String,
    /// Components that are not above and not below any value; `None` where a value is an array, or
    /// where a document has to be read.
    pub zone: Option<Zone>,
    /// Number of rows whose documents have to be read.
    pub apart: u32,
}

/// Bounds of values, as ascending components that may be cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    low: Vec<u8>,
    high: Vec<u8>,
}

impl Zone {
    /// The bounds of one value.
    pub fn of(v: &Value<'_>) -> Zone {
        let mut low = Vec::new();
        super::keys::encode(v, None, &mut low);
        let high = low.clone();
        Zone { low, high }
    }

    /// Extends the bounds by a value.
    pub fn add(&mut self, v: &Value<'_>, buffer: &mut Vec<u8>) {
        buffer.clear();
        super::keys::encode(v, None, buffer);
        if *buffer < self.low {
            self.low.clone_from(buffer);
        }
        if *buffer > self.high {
            self.high.clone_from(buffer);
        }
    }

    /// Limits the length of the bounds, which may widen them.
    #[must_use]
    pub fn cut(mut self) -> Zone {
        self.low.truncate(ZONE_BYTES);
        if self.high.len() > ZONE_BYTES {
            self.high.truncate(ZONE_BYTES);
            // Above everything with this prefix.
            self.high.push(0xFF);
        }
        self
    }

    /// Whether these bounds include all values between the other bounds.
    pub fn has(&self, other: &Zone) -> bool {
        self.low <= other.low && other.high <= self.high
    }

    /// Whether a value may lie between two bounds (lower included, upper excluded, as for index
    /// entries).
    pub fn meets(&self, lower: &[u8], upper: &[u8]) -> bool {
        // A bound at a value continues after its component with a byte below `FF`.
        let above = [&self.high[..], &[0xFF]].concat();
        lower < &above[..] && &self.low[..] < upper
    }
}

/// Bounds of all rows of one kind.
fn of_kind(index: u32, kind: u8) -> Vec<u8> {
    let mut key = index.to_be_bytes().to_vec();
    key.push(kind);
    key
}

/// All heads: lower and upper bound.
pub fn heads(index: u32) -> [Vec<u8>; 2] {
    [of_kind(index, HEAD), of_kind(index, HEAD + 1)]
}

/// The key of a head.
pub fn head(index: u32, number: u32) -> Vec<u8> {
    let mut key = of_kind(index, HEAD);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The number of the segment whose head has this key.
pub fn number_of(key: &[u8]) -> Option<u32> {
    match key.get(4..)? {
        [HEAD, number @ ..] => Some(u32::from_be_bytes(number.try_into().ok()?)),
        _ => None,
    }
}

/// The key of a column.
pub fn column(index: u32, segment: u32, number: u32) -> Vec<u8> {
    let mut key = of_kind(index, COLUMN);
    key.extend_from_slice(&segment.to_be_bytes());
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The segment and the number of the column with this key.
pub fn column_of(key: &[u8]) -> Option<(u32, u32)> {
    match key.get(4..)? {
        [COLUMN, rest @ ..] => {
            let (segment, number) = rest.split_first_chunk::<4>()?;
            let number = number.try_into().ok()?;
            Some((u32::from_be_bytes(*segment), u32::from_be_bytes(number)))
        }
        _ => None,
    }
}

/// The number of a write: a run of the server, and a write within it.
#[derive(Clone, Copy, Debug)]
pub struct WriteNumber {
    /// Identifier of the run.
    pub run: u32,
    /// Number of the write within the run.
    pub number: u64,
}

/// The note that the write with this number touched a document.
pub fn touch_key(index: u32, id: &[u8], touch: WriteNumber) -> Vec<u8> {
    let mut key = of_kind(index, TOUCHED);
    key.reserve_exact(id.len() + 1 + TOUCH_BYTES);
    key.extend_from_slice(id);
    key.push(NOTE);
    key.extend_from_slice(&touch.run.to_be_bytes());
    key.extend_from_slice(&touch.number.to_be_bytes());
    key
}

/// Notes of documents from one encoded id up to another: lower and upper bound. `None` is the end.
pub fn touch_range(index: u32, low: &[u8], high: Option<&[u8]>) -> [Vec<u8>; 2] {
    let lower = [&of_kind(index, TOUCHED)[..], low].concat();
    let upper = match high {
        Some(high) => [&of_kind(index, TOUCHED)[..], high].concat(),
        None => of_kind(index, TOUCHED + 1),
    };
    [lower, upper]
}

/// A bound after an encoded id and its notes, and before every other id above it: `FF` follows the
/// id, because an id may be a prefix of another.
pub fn bound_after(id: &[u8]) -> Vec<u8> {
    [id, &[NOTE + 1]].concat()
}

/// The encoded id of a note.
pub fn touched_id(key: &[u8]) -> Option<&[u8]> {
    match key.get(4..)? {
        [TOUCHED, rest @ ..] => {
            let (id, _) = rest.split_at_checked(rest.len().checked_sub(TOUCH_BYTES)?)?;
            id.strip_suffix(&[NOTE])
        }
        _ => None,
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_bytes(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = read_varint(bytes)?;
    rest.split_at_checked(usize::try_from(len).ok()?)
}

impl Head {
    /// Encodes the head for storage.
    pub fn encode(&self) -> Vec<u8> {
        let flags = u8::from(self.is_complete) | u8::from(self.is_large) << 1;
        let mut out = vec![FORMAT, flags];
        varint(&mut out, u64::from(self.rows));
        put_bytes(&mut out, &self.low);
        put_bytes(&mut out, &self.high);
        varint(&mut out, self.columns.len() as u64);
        for column in &self.columns {
            put_bytes(&mut out, column.path.as_bytes());
            out.push(u8::from(column.zone.is_some()) | u8::from(column.apart > 0) << 1);
            if let Some(zone) = &column.zone {
                put_bytes(&mut out, &zone.low);
                put_bytes(&mut out, &zone.high);
            }
            if column.apart > 0 {
                varint(&mut out, u64::from(column.apart));
            }
        }
        out
    }

    /// Decodes a head; `None` when it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Head> {
        let [FORMAT, flags @ 0..=3, rest @ ..] = bytes else {
            return None;
        };
        let (rows, rest) = read_varint(rest)?;
        let (low, rest) = take_bytes(rest)?;
        let (high, rest) = take_bytes(rest)?;
        let (number, mut rest) = read_varint(rest)?;
        let mut columns = Vec::new();
        for _ in 0..number {
            let (path, behind) = take_bytes(rest)?;
            let (flags, behind) = behind.split_first()?;
            rest = behind;
            let (mut zone, mut apart) = (None, 0);
            if flags & 1 != 0 {
                let (low, behind) = take_bytes(rest)?;
                let (high, behind) = take_bytes(behind)?;
                rest = behind;
                let (low, high) = (low.to_vec(), high.to_vec());
                zone = Some(Zone { low, high });
            }
            if flags & 2 != 0 {
                let (number, behind) = read_varint(rest)?;
                rest = behind;
                apart = u32::try_from(number).ok()?;
            }
            let path = std::str::from_utf8(path).ok()?.to_owned();
            columns.push(ColumnHead { path, zone, apart });
        }
        let whole = Head {
            rows: u32::try_from(rows).ok().filter(|n| *n <= ROWS_MAX)?,
            low: low.to_vec(),
            high: high.to_vec(),
            is_complete: flags & 1 != 0,
            is_large: flags & 2 != 0,
            columns,
        };
        rest.is_empty().then_some(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_and_cut_ones_do_not() {
        let zone = |v| Some(Zone::of(&v));
        let column = |path: &str, zone, apart| ColumnHead {
            path: path.to_owned(),
            zone,
            apart,
        };
        let head = Head {
            rows: 300,
            low: vec![1],
            high: vec![7; 200],
            is_complete: true,
            is_large: true,
            columns: vec![
                column("a.b", zone(Value::Int32(5)), 0),
                column("b", None, 300),
                column("", None, 0),
            ],
        };
        let bytes = head.encode();
        assert_eq!(Head::decode(&bytes), Some(head));
        for cut in 0..bytes.len() {
            assert_eq!(Head::decode(&bytes[..cut]), None);
        }
    }

    #[test]
    fn keys_say_what_they_are_of() {
        assert_eq!(number_of(&head(9, 77)), Some(77));
        assert_eq!(column_of(&column(9, 77, 3)), Some((77, 3)));
        let note = touch_key(9, b"id", WriteNumber { run: 1, number: 2 });
        assert_eq!(touched_id(&note), Some(&b"id"[..]));
        assert!(number_of(&note).is_none() && column_of(&note).is_none());
        let [low, high] = touch_range(9, b"id", None);
        assert!(low <= note && note < high);
        let [low, high] = touch_range(9, b"", Some(b"id"));
        assert!(low <= note && note >= high);
    }

    #[test]
    fn the_notes_of_the_last_id_lie_before_the_end_of_its_segment() {
        let id = |v: Value<'_>| {
            let mut id = Vec::new();
            super::super::keys::encode(&v, None, &mut id);
            id
        };
        let touch = |run| WriteNumber { run, number: 1 };
        // The first id is a prefix of the second.
        for (last, next) in [
            (Value::Int32(49), Value::Int32(50)),
            (Value::String("a"), Value::String("a\0")),
            (Value::String("a"), Value::String("a\0b")),
        ] {
            let (last, next) = (id(last), id(next));
            let end = bound_after(&last);
            assert!(last < end && end < next);
            for run in [0, 1, u32::MAX] {
                let [low, high] = touch_range(9, &[], Some(&end));
                let note = touch_key(9, &last, touch(run));
                assert!(low <= note && note < high);
                assert_eq!(touched_id(&note), Some(&last[..]));
                let note = touch_key(9, &next, touch(run));
                let [low, _] = touch_range(9, &end, None);
                assert!(high <= note && low <= note);
            }
        }
    }

    #[test]
    fn cut_zones_are_wider() {
        let text = "x".repeat(200);
        let mut zone = Zone::of(&Value::String(&text));
        zone.add(&Value::Int32(3), &mut Vec::new());
        let zone = zone.cut();
        let mut component = Vec::new();
        super::super::keys::encode(&Value::String(&text), None, &mut component);
        let behind = [&component[..], &[super::super::keys::AFTER]].concat();
        component.push(super::super::keys::BEFORE);
        assert!(zone.meets(&component, &behind));
        assert!(!zone.meets(&[0x60], &[0x68]) && !zone.meets(&[0x0A], &[0x30]));
    }
}
