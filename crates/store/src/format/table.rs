//! Documents stored by column: the measurements of a bucket, and documents inside them. They are
//! read back byte for byte, whatever they contain.
//!
//! `shapes columns`. A shape is the list of a document's columns in document order; when there are
//! several shapes, the number of each document's shape follows. A column is its name, its length
//! and its values; unwanted columns are skipped.

use crate::format::ints;
use crate::format::record::{read_varint, varint};
use model::{Doc, DocBuf, Element, Tag};
use rustc_hash::FxHashMap;

/// The forms in which the values of a column are written.
mod form {
    /// A document whose fields have empty names.
    pub(super) const MIXED: u8 = 0;
    /// One value that all rows share: tag, payload.
    pub(super) const SAME: u8 = 1;
    /// Tag and whole numbers.
    pub(super) const WHOLE: u8 = 2;
    /// Doubles: a power of ten, and whole numbers to be divided by it.
    pub(super) const DECIMAL: u8 = 3;
    /// Doubles: for each the bytes whose bits differ from those of the previous one.
    pub(super) const BITS: u8 = 4;
    /// Seconds, five bytes and a counter as whole numbers.
    pub(super) const OBJECT_IDS: u8 = 5;
    /// The distinct strings, and for each value the number of its string.
    pub(super) const STRINGS: u8 = 6;
    /// Tag and a table of their fields.
    pub(super) const DOCUMENTS: u8 = 7;
}

/// Powers of ten by which doubles are multiplied to get whole numbers.
const POWERS: [f64; 10] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/// Whole numbers up to here are exact as doubles.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// Documents nested deeper than this are written as they are.
const DEPTH_MAX: usize = 8;
/// Strings are written as they are when more than one in this many is distinct.
const STRINGS_SHARE: usize = 2;

type Cell<'d> = (Tag, &'d [u8]);

/// Appends documents.
pub(super) fn write(out: &mut Vec<u8>, docs: &[Doc<'_>]) {
    write_at(out, docs, 0);
}

fn write_at(out: &mut Vec<u8>, docs: &[Doc<'_>], depth: usize) {
    let mut columns: Vec<(&[u8], Vec<Cell<'_>>)> = Vec::new();
    let mut by_name: FxHashMap<&[u8], usize> = FxHashMap::default();
    let mut shapes: Vec<Vec<usize>> = Vec::new();
    let mut by_shape: FxHashMap<Vec<usize>, usize> = FxHashMap::default();
    let mut shape_of = Vec::with_capacity(docs.len());
    for doc in docs {
        let mut shape = Vec::new();
        for e in doc.elements() {
            let column = *by_name.entry(e.name).or_insert_with(|| {
                columns.push((e.name, Vec::new()));
                columns.len() - 1
            });
            columns[column].1.push((e.tag, e.payload));
            shape.push(column);
        }
        let known = by_shape.get(&shape).copied();
        shape_of.push(known.unwrap_or_else(|| {
            shapes.push(shape.clone());
            by_shape.insert(shape, shapes.len() - 1);
            shapes.len() - 1
        }) as i64);
    }
    varint(out, shapes.len() as u64);
    for shape in &shapes {
        varint(out, shape.len() as u64);
        shape.iter().for_each(|c| varint(out, *c as u64));
    }
    if shapes.len() > 1 {
        ints::write(out, &shape_of);
    }
    varint(out, columns.len() as u64);
    let mut body = Vec::new();
    for (name, cells) in &columns {
        body.clear();
        write_column(&mut body, cells, depth);
        varint(out, name.len() as u64);
        out.extend_from_slice(name);
        varint(out, body.len() as u64);
        out.extend_from_slice(&body);
    }
}

fn write_column(out: &mut Vec<u8>, cells: &[Cell<'_>], depth: usize) {
    let Some((tag, payload)) = cells.first() else {
        return;
    };
    if cells.iter().all(|c| c == &cells[0]) {
        out.extend_from_slice(&[form::SAME, tag.0]);
        return out.extend_from_slice(payload);
    }
    let written = cells.iter().all(|(t, _)| t == tag)
        && match *tag {
            Tag::INT32 | Tag::INT64 | Tag::DATE | Tag::TIMESTAMP | Tag::BOOL => {
                out.extend_from_slice(&[form::WHOLE, tag.0]);
                ints::write(
                    out,
                    &cells
                        .iter()
                        .map(|(t, p)| read_integer(*t, p))
                        .collect::<Vec<_>>(),
                );
                true
            }
            Tag::DOUBLE => {
                write_doubles(out, cells);
                true
            }
            Tag::OBJECT_ID => {
                write_ids(out, cells);
                true
            }
            Tag::STRING => write_strings(out, cells),
            Tag::DOCUMENT | Tag::ARRAY if depth < DEPTH_MAX => {
                out.extend_from_slice(&[form::DOCUMENTS, tag.0]);
                let docs: Vec<Doc<'_>> = cells.iter().map(|(_, p)| Doc::from_prefix(p)).collect();
                write_at(out, &docs, depth + 1);
                true
            }
            _ => false,
        };
    if !written {
        out.push(form::MIXED);
        let all = DocBuf::build(|w| {
            for (tag, payload) in cells {
                w.put_raw(b"", *tag, payload);
            }
        });
        out.extend_from_slice(all.as_bytes());
    }
}

fn read_integer(tag: Tag, payload: &[u8]) -> i64 {
    let wide = payload
        .first_chunk::<8>()
        .map_or(0, |b| i64::from_le_bytes(*b));
    match tag {
        Tag::BOOL => payload.first().map_or(0, |b| i64::from(*b)),
        Tag::INT32 => payload
            .first_chunk::<4>()
            .map_or(0, |b| i32::from_le_bytes(*b).into()),
        _ => wide,
    }
}

fn put_whole(tag: Tag, n: i64, out: &mut Vec<u8>) {
    match tag {
        Tag::BOOL => out.push(n as u8),
        Tag::INT32 => out.extend_from_slice(&(n as i32).to_le_bytes()),
        _ => out.extend_from_slice(&n.to_le_bytes()),
    }
}

fn write_doubles(out: &mut Vec<u8>, cells: &[Cell<'_>]) {
    let values: Vec<f64> = cells
        .iter()
        .map(|(_, p)| p.first_chunk::<8>().map_or(0.0, |b| f64::from_le_bytes(*b)))
        .collect();
    let scaled = POWERS.iter().enumerate().find_map(|(power, ten)| {
        let one = |v: &f64| {
            let n = (v * ten).round();
            let whole = (n.abs() <= EXACT_MAX).then_some(n as i64)?;
            // Negative zero has no whole number.
            let exact = (whole as f64 / ten).to_bits() == v.to_bits();
            exact.then_some(whole)
        };
        let all: Option<Vec<i64>> = values.iter().map(one).collect();
        Some((power, all?))
    });
    if let Some((power, numbers)) = scaled {
        out.extend_from_slice(&[form::DECIMAL, power as u8]);
        return ints::write(out, &numbers);
    }
    out.push(form::BITS);
    let mut before = 0u64;
    for v in &values {
        let differ = (v.to_bits() ^ before).to_be_bytes();
        before = v.to_bits();
        // The number of equal bytes at the front and at the back.
        let front = differ.iter().take_while(|b| **b == 0).count();
        let back = differ[front..]
            .iter()
            .rev()
            .take_while(|b| **b == 0)
            .count();
        out.push((front << 4 | back) as u8);
        out.extend_from_slice(&differ[front..8 - back]);
    }
}

fn write_ids(out: &mut Vec<u8>, cells: &[Cell<'_>]) {
    out.push(form::OBJECT_IDS);
    for (from, to) in [(0, 4), (4, 9), (9, 12)] {
        let part = |p: &[u8]| {
            p.get(from..to)
                .unwrap_or_default()
                .iter()
                .fold(0, |n, b| n << 8 | i64::from(*b))
        };
        ints::write(out, &cells.iter().map(|(_, p)| part(p)).collect::<Vec<_>>());
    }
}

/// Writes nothing and returns false when most strings are distinct.
fn write_strings(out: &mut Vec<u8>, cells: &[Cell<'_>]) -> bool {
    let mut known: FxHashMap<&[u8], i64> = FxHashMap::default();
    let mut list = Vec::new();
    let mut numbers = Vec::with_capacity(cells.len());
    for (_, payload) in cells {
        let next = list.len() as i64;
        numbers.push(*known.entry(payload).or_insert_with(|| {
            list.push(*payload);
            next
        }));
    }
    if list.len() * STRINGS_SHARE > cells.len() {
        return false;
    }
    out.push(form::STRINGS);
    varint(out, list.len() as u64);
    for payload in list {
        varint(out, payload.len() as u64);
        out.extend_from_slice(payload);
    }
    ints::write(out, &numbers);
    true
}

/// The decoded values of a column: concatenated payloads.
struct Column<'t> {
    name: &'t [u8],
    bytes: Vec<u8>,
    /// Type of each value, and the end of its payload.
    ends: Vec<(Tag, usize)>,
    /// Number of the next value, and where its payload begins.
    at: usize,
    start: usize,
}

impl<'t> Column<'t> {
    fn push(&mut self, tag: Tag, fill: impl FnOnce(&mut Vec<u8>)) {
        fill(&mut self.bytes);
        self.ends.push((tag, self.bytes.len()));
    }

    fn next(&mut self) -> Option<Element<'_>> {
        let (tag, end) = *self.ends.get(self.at)?;
        let payload = self.bytes.get(self.start..end)?;
        (self.at, self.start) = (self.at + 1, end);
        Some(Element {
            name: self.name,
            tag,
            payload,
        })
    }
}

/// Reads `count` documents with the fields for whose names `wanted` is true. `None` when damaged.
pub(super) fn read(
    bytes: &[u8],
    count: usize,
    wanted: &dyn Fn(&[u8]) -> bool,
) -> Option<Vec<DocBuf>> {
    read_at(bytes, count, wanted, 0)
}

fn read_at(
    bytes: &[u8],
    count: usize,
    wanted: &dyn Fn(&[u8]) -> bool,
    depth: usize,
) -> Option<Vec<DocBuf>> {
    if depth > DEPTH_MAX {
        return None;
    }
    let (number, mut rest) = read_varint(bytes)?;
    let mut shapes: Vec<Vec<usize>> = Vec::new();
    for _ in 0..number {
        let (len, behind) = read_varint(rest)?;
        rest = behind;
        let mut shape = Vec::new();
        for _ in 0..len {
            let (column, behind) = read_varint(rest)?;
            rest = behind;
            // Every column takes at least one byte.
            let column = usize::try_from(column).ok().filter(|c| *c < bytes.len());
            shape.push(column?);
        }
        shapes.push(shape);
    }
    let mut shape_of = vec![0; if shapes.is_empty() { 0 } else { count }];
    if shapes.len() > 1 {
        (shape_of, rest) = ints::read(rest, count)?;
    }
    if shape_of.len() != count {
        return None;
    }
    let cells = cells_of(&shapes, &shape_of)?;
    let (number, mut rest) = read_varint(rest)?;
    let mut columns: Vec<Option<Column<'_>>> = Vec::new();
    for n in 0..usize::try_from(number).ok()? {
        let (name, behind) = read_bytes(rest)?;
        let (body, behind) = read_bytes(behind)?;
        rest = behind;
        columns.push(match wanted(name) {
            true => Some(read_column(name, body, *cells.get(n)?, depth)?),
            false => None,
        });
    }
    let mut docs = Vec::with_capacity(count);
    for shape in shape_of {
        let shape = shapes.get(usize::try_from(shape).ok()?)?;
        let mut sound = true;
        docs.push(DocBuf::build(|w| {
            for column in shape {
                match columns.get_mut(*column) {
                    Some(Some(column)) => match column.next() {
                        Some(e) => _ = w.put_element(&e),
                        None => sound = false,
                    },
                    Some(None) => {}
                    None => sound = false,
                }
            }
        }));
        if !sound {
            return None;
        }
    }
    Some(docs)
}

/// The number of values in each column.
fn cells_of(shapes: &[Vec<usize>], shape_of: &[i64]) -> Option<Vec<usize>> {
    let mut documents = vec![0usize; shapes.len()];
    for shape in shape_of {
        *documents.get_mut(usize::try_from(*shape).ok()?)? += 1;
    }
    let mut cells = Vec::new();
    for (shape, documents) in shapes.iter().zip(documents) {
        for column in shape {
            if cells.len() <= *column {
                cells.resize(*column + 1, 0);
            }
            *cells.get_mut(*column)? += documents;
        }
    }
    Some(cells)
}

fn read_bytes(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = read_varint(bytes)?;
    rest.split_at_checked(usize::try_from(len).ok()?)
}

fn read_column<'t>(name: &'t [u8], bytes: &[u8], count: usize, depth: usize) -> Option<Column<'t>> {
    let mut column = Column {
        name,
        bytes: Vec::new(),
        ends: Vec::new(),
        at: 0,
        start: 0,
    };
    let (&kind, rest) = bytes.split_first()?;
    match kind {
        form::MIXED => {
            let all = Doc::new(rest)?;
            for e in all.elements() {
                column.push(e.tag, |out| out.extend_from_slice(e.payload));
            }
        }
        form::SAME => {
            let (&tag, payload) = rest.split_first()?;
            for _ in 0..count {
                column.push(Tag(tag), |out| out.extend_from_slice(payload));
            }
        }
        form::WHOLE => {
            let (&tag, rest) = rest.split_first()?;
            for n in ints::read(rest, count)?.0 {
                column.push(Tag(tag), |out| put_whole(Tag(tag), n, out));
            }
        }
        form::DECIMAL => {
            let (&power, rest) = rest.split_first()?;
            let ten = POWERS.get(usize::from(power))?;
            for n in ints::read(rest, count)?.0 {
                let v = n as f64 / ten;
                column.push(Tag::DOUBLE, |out| out.extend_from_slice(&v.to_le_bytes()));
            }
        }
        form::BITS => read_bits(&mut column, rest, count)?,
        form::OBJECT_IDS => {
            let (seconds, rest) = ints::read(rest, count)?;
            let (middle, rest) = ints::read(rest, count)?;
            let (counters, _) = ints::read(rest, count)?;
            for ((s, m), c) in seconds.iter().zip(&middle).zip(&counters) {
                column.push(Tag::OBJECT_ID, |out| {
                    out.extend_from_slice(&s.to_be_bytes()[4..]);
                    out.extend_from_slice(&m.to_be_bytes()[3..]);
                    out.extend_from_slice(&c.to_be_bytes()[5..]);
                });
            }
        }
        form::STRINGS => {
            let (number, mut rest) = read_varint(rest)?;
            let mut list = Vec::new();
            for _ in 0..number {
                let (payload, behind) = read_bytes(rest)?;
                list.push(payload);
                rest = behind;
            }
            for n in ints::read(rest, count)?.0 {
                let payload = *list.get(usize::try_from(n).ok()?)?;
                column.push(Tag::STRING, |out| out.extend_from_slice(payload));
            }
        }
        form::DOCUMENTS => {
            let (&tag, rest) = rest.split_first()?;
            for doc in read_at(rest, count, &|_| true, depth + 1)? {
                column.push(Tag(tag), |out| out.extend_from_slice(doc.as_bytes()));
            }
        }
        _ => return None,
    }
    Some(column)
}

fn read_bits(column: &mut Column<'_>, mut rest: &[u8], count: usize) -> Option<()> {
    let mut before = 0u64;
    for _ in 0..count {
        let (&head, behind) = rest.split_first()?;
        let (front, back) = (usize::from(head >> 4), usize::from(head & 15));
        let len = 8usize.checked_sub(front)?.checked_sub(back)?;
        let (middle, behind) = behind.split_at_checked(len)?;
        rest = behind;
        let mut differ = [0; 8];
        differ.get_mut(front..front + len)?.copy_from_slice(middle);
        before ^= u64::from_be_bytes(differ);
        column.push(Tag::DOUBLE, |out| {
            out.extend_from_slice(&before.to_le_bytes())
        });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{ObjectId, Value, doc};
    use proptest::prelude::*;

    fn round_trip(docs: &[DocBuf]) -> Vec<u8> {
        let views: Vec<Doc<'_>> = docs.iter().map(DocBuf::doc).collect();
        let mut out = Vec::new();
        write(&mut out, &views);
        assert_eq!(read(&out, docs.len(), &|_| true).as_deref(), Some(docs));
        out
    }

    #[test]
    fn documents_come_back_byte_for_byte() {
        round_trip(&[]);
        round_trip(&[doc! {}]);
        round_trip(&[doc! { "a": 1i32 }, doc! {}, doc! { "b": "x", "a": 2i64 }]);
        round_trip(&[
            doc! { "a": { "x": 1i32, "y": [1i32, "two", { "z": 0.1 }] }, "n": f64::NAN },
            doc! { "n": -0.0, "a": { "y": [2i32], "x": 1.5 } },
            doc! { "n": 1e300, "a": Value::Null },
        ]);
        // A name twice, which BSON does not forbid.
        let twice = DocBuf::build(|w| _ = w.put("a", 1i32).put("a", 2i32));
        round_trip(&[twice.clone(), doc! { "a": 3i32 }, twice]);
        round_trip(&[
            doc! { "v": true, "s": "one" },
            doc! { "v": false, "s": "two" },
            doc! { "v": true, "s": "one" },
            doc! { "v": true, "s": "one" },
        ]);
    }

    #[test]
    fn only_what_is_wanted_is_read() {
        let docs: Vec<DocBuf> = (0..50i32)
            .map(|i| doc! { "a": i, "b": i * 2, "c": "x" })
            .collect();
        let out = round_trip(&docs);
        let read = read(&out, 50, &|name| name == b"b").unwrap();
        assert_eq!(read[7], doc! { "b": 14i32 });
    }

    #[test]
    fn measurements_take_a_few_bytes() {
        let docs: Vec<DocBuf> = (0..1000i32)
            .map(|i| {
                let mut id = [1; 12];
                id[..4].copy_from_slice(&(1_700_000_000 + i).to_be_bytes());
                id[9..].copy_from_slice(&(70_000 + i).to_be_bytes()[1..]);
                doc! { "t": Value::Date(1_700_000_000_000 + i64::from(i) * 1000),
                "m": { "sensor": 5i32, "room": "kitchen" }, "_id": ObjectId(id),
                "temp": 20.0 + f64::from(i * 7 % 50) / 10.0 }
            })
            .collect();
        let plain: usize = docs.iter().map(|d| d.as_bytes().len()).sum();
        let packed = round_trip(&docs).len();
        assert!(packed * 50 < plain, "{packed} of {plain}");
    }

    #[test]
    fn damage_is_noticed_or_harmless() {
        let docs: Vec<DocBuf> = (0..20i32)
            .map(|i| doc! { "a": i, "d": f64::from(i) / 3.0, "s": { "x": "y", "z": i % 2 } })
            .collect();
        let out = round_trip(&docs);
        for at in 0..out.len() {
            for bit in 0..8 {
                let mut damaged = out.clone();
                damaged[at] ^= 1 << bit;
                // Damaged bytes must not cause a panic; the values may be wrong.
                let _ = read(&damaged, 20, &|_| true);
            }
            assert!(read(&out[..at], 20, &|_| true).is_none());
        }
    }

    proptest! {
        #[test]
        fn doubles_keep_their_bits(bits in proptest::collection::vec(any::<u64>(), 1..30)) {
            let docs: Vec<DocBuf> = bits.iter().map(|b| doc! { "v": f64::from_bits(*b) }).collect();
            round_trip(&docs);
        }

        #[test]
        fn decimals_keep_their_bits(n in proptest::collection::vec(-100_000i64..100_000, 1..30)) {
            let docs: Vec<DocBuf> = n.iter().map(|n| doc! { "v": *n as f64 / 100.0 }).collect();
            round_trip(&docs);
        }
    }
}
