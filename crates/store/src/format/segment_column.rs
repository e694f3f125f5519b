//! The compact form of one column of a segment: runs of types; whole numbers as a compact sequence;
//! strings and other long values as a list of the distinct ones where they are few; and, where that
//! is shorter, all of it compressed. The layout in memory is the one that `operators` expects: a
//! type byte and a word for each value, and bytes for long values.

use super::ints;
use crate::format::record::{read_varint, varint};
use model::Tag;
use rustc_hash::FxHashMap;

/// Replaces the type of a value for which the document has to be read.
pub const APART: u8 = 0xEE;

const PLAIN: u8 = 1;
const ZSTD: u8 = 2;
const LEVEL: i32 = 3;
/// Bytes below which nothing is compressed.
const COMPRESSED_MIN: usize = 64;
/// Upper limit for the bytes of a column; more is damage.
const BYTES_MAX: usize = 1 << 28;
/// Distinct values are listed when they are at most one in this many.
const LISTED_ONE_OF: usize = 4;

/// The values of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentColumn {
    /// The type of each value.
    pub tags: Vec<u8>,
    /// A number itself, or start (above 32 bits) and length of a long value in `bytes`.
    pub words: Vec<u64>,
    /// The bytes of long values.
    pub bytes: Vec<u8>,
}

/// How the word of a type is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Nothing,
    Whole,
    Double,
    Long,
}

fn class(tag: u8) -> Class {
    match Tag(tag) {
        Tag::MISSING | Tag::NULL | Tag::UNDEFINED | Tag::MIN_KEY | Tag::MAX_KEY | Tag(APART) => {
            Class::Nothing
        }
        Tag::BOOL | Tag::INT32 | Tag::INT64 | Tag::DATE | Tag::TIMESTAMP => Class::Whole,
        Tag::DOUBLE => Class::Double,
        _ => Class::Long,
    }
}

/// The whole number that a double is, if converting it back gives the same bits.
fn read_integer(bits: u64) -> Option<i64> {
    let n = f64::from_bits(bits);
    let is_whole = n.abs() < 9_007_199_254_740_992.0 && (n as i64 as f64).to_bits() == bits;
    is_whole.then_some(n as i64)
}

impl SegmentColumn {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.tags.len()
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// Appends a long value of this type.
    pub fn push_long(&mut self, tag: Tag, payload: &[u8]) {
        let start = self.bytes.len() as u64;
        self.bytes.extend_from_slice(payload);
        self.tags.push(tag.0);
        self.words.push(start << 32 | payload.len() as u64);
    }

    /// The bytes of the long value of row `at`.
    pub fn long(&self, at: usize) -> &[u8] {
        self.words.get(at).map_or(&[], |word| self.slice(*word))
    }

    fn slice(&self, word: u64) -> &[u8] {
        let (start, len) = ((word >> 32) as usize, word as u32 as usize);
        self.bytes.get(start..start + len).unwrap_or_default()
    }

    /// Encodes the column for storage.
    pub fn encode(&self) -> Vec<u8> {
        let mut plain = Vec::new();
        self.put_tags(&mut plain);
        let of = |wanted: Class| {
            let all = self.tags.iter().zip(&self.words);
            all.filter(move |(tag, _)| class(**tag) == wanted)
                .map(|(_, word)| *word)
        };
        let numbers: Vec<i64> = of(Class::Whole).map(|word| word as i64).collect();
        ints::write(&mut plain, &numbers);
        let doubles: Option<Vec<i64>> = of(Class::Double).map(read_integer).collect();
        match doubles {
            Some(doubles) => {
                plain.push(1);
                ints::write(&mut plain, &doubles);
            }
            None => {
                plain.push(0);
                of(Class::Double).for_each(|bits| plain.extend_from_slice(&bits.to_le_bytes()));
            }
        }
        self.put_long(&mut plain, &of(Class::Long).collect::<Vec<u64>>());
        let mut out = vec![PLAIN];
        if plain.len() >= COMPRESSED_MIN
            && let Ok(packed) = zstd::bulk::compress(&plain, LEVEL)
            && packed.len() + 10 < plain.len()
        {
            out = vec![ZSTD];
            varint(&mut out, plain.len() as u64);
            out.extend_from_slice(&packed);
            return out;
        }
        out.extend_from_slice(&plain);
        out
    }

    /// Runs of types: their number, then the length and type of each.
    fn put_tags(&self, out: &mut Vec<u8>) {
        let runs = || self.tags.chunk_by(|a, b| a == b);
        varint(out, runs().count() as u64);
        for run in runs() {
            varint(out, run.len() as u64);
            out.extend(run.first());
        }
    }

    /// The distinct values and the number of each row's value, or all values.
    fn put_long(&self, out: &mut Vec<u8>, words: &[u64]) {
        let mut listed = Vec::new();
        let mut numbers = Vec::with_capacity(words.len());
        let mut known = FxHashMap::default();
        for word in words {
            let value = self.slice(*word);
            let next = listed.len();
            let number = *known.entry(value).or_insert(next);
            if number == next {
                listed.push(*word);
            }
            numbers.push(number as i64);
        }
        let is_listed = listed.len() * LISTED_ONE_OF <= words.len();
        let values = if is_listed { &listed[..] } else { words };
        out.push(u8::from(is_listed));
        if is_listed {
            varint(out, listed.len() as u64);
            ints::write(out, &numbers);
        }
        let lengths: Vec<i64> = values.iter().map(|w| i64::from(*w as u32)).collect();
        ints::write(out, &lengths);
        values
            .iter()
            .for_each(|word| out.extend_from_slice(self.slice(*word)));
    }

    /// Reads a column of this many values; `None` when it is damaged.
    pub fn decode(bytes: &[u8], rows: usize) -> Option<SegmentColumn> {
        match bytes {
            [PLAIN, plain @ ..] => SegmentColumn::of_plain(plain, rows),
            [ZSTD, rest @ ..] => {
                let (len, packed) = read_varint(rest)?;
                let len = usize::try_from(len).ok().filter(|len| *len <= BYTES_MAX)?;
                let plain = zstd::bulk::decompress(packed, len).ok()?;
                SegmentColumn::of_plain(&plain, rows)
            }
            _ => None,
        }
    }

    fn of_plain(plain: &[u8], rows: usize) -> Option<SegmentColumn> {
        let (tags, rest) = take_tags(plain, rows)?;
        let count = |wanted| tags.iter().filter(|t| class(**t) == wanted).count();
        let (wholes, rest) = ints::read(rest, count(Class::Whole))?;
        let (is_whole, rest) = rest.split_first()?;
        let (doubles, rest) = match is_whole {
            1 => {
                let (numbers, rest) = ints::read(rest, count(Class::Double))?;
                let bits = numbers.into_iter().map(|n| (n as f64).to_bits()).collect();
                (bits, rest)
            }
            _ => {
                let len = count(Class::Double).checked_mul(8)?;
                let (bits, rest) = rest.split_at_checked(len)?;
                let (bits, _) = bits.as_chunks::<8>();
                let bits: Vec<u64> = bits.iter().map(|b| u64::from_le_bytes(*b)).collect();
                (bits, rest)
            }
        };
        let (long, bytes) = take_long(rest, count(Class::Long))?;
        let (mut wholes, mut doubles, mut long) =
            (wholes.into_iter(), doubles.into_iter(), long.into_iter());
        let words: Option<Vec<u64>> = tags
            .iter()
            .map(|tag| match class(*tag) {
                Class::Nothing => Some(0),
                Class::Whole => wholes.next().map(|n| n as u64),
                Class::Double => doubles.next(),
                Class::Long => long.next(),
            })
            .collect();
        let (words, bytes) = (words?, bytes.to_vec());
        Some(SegmentColumn { tags, words, bytes })
    }
}

fn take_tags(bytes: &[u8], rows: usize) -> Option<(Vec<u8>, &[u8])> {
    let (runs, mut rest) = read_varint(bytes)?;
    let mut tags = Vec::with_capacity(rows);
    for _ in 0..runs {
        let (len, behind) = read_varint(rest)?;
        let (tag, behind) = behind.split_first()?;
        rest = behind;
        let end = tags.len().checked_add(usize::try_from(len).ok()?)?;
        if end > rows {
            return None;
        }
        tags.resize(end, *tag);
    }
    (tags.len() == rows).then_some((tags, rest))
}

/// The words of long values, and the bytes in which they lie.
fn take_long(bytes: &[u8], count: usize) -> Option<(Vec<u64>, &[u8])> {
    let (is_listed, mut rest) = bytes.split_first()?;
    let (mut values, mut numbers) = (count, None);
    if *is_listed == 1 {
        let (listed, behind) = read_varint(rest)?;
        let (list, behind) = ints::read(behind, count)?;
        rest = behind;
        values = usize::try_from(listed).ok().filter(|n| *n <= count)?;
        numbers = Some(list);
    }
    let (lengths, rest) = ints::read(rest, values)?;
    let mut start = 0u64;
    let mut words = Vec::with_capacity(values);
    for len in lengths {
        let len = u64::from(u32::try_from(len).ok()?);
        words.push(start << 32 | len);
        start += len;
    }
    if start != rest.len() as u64 || start > u64::from(u32::MAX) {
        return None;
    }
    let Some(numbers) = numbers else {
        return Some((words, rest));
    };
    let of = |n: i64| words.get(usize::try_from(n).ok()?).copied();
    let all: Option<Vec<u64>> = numbers.into_iter().map(of).collect();
    Some((all?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The values of a column, independent of the order of their bytes.
    fn column_values(column: &SegmentColumn) -> Vec<(u8, u64, Vec<u8>)> {
        (0..column.len())
            .map(|at| match class(column.tags[at]) {
                Class::Long => (column.tags[at], 0, column.long(at).to_vec()),
                _ => (column.tags[at], column.words[at], Vec::new()),
            })
            .collect()
    }

    fn round(column: &SegmentColumn) -> usize {
        let bytes = column.encode();
        let back = SegmentColumn::decode(&bytes, column.len()).expect("a column");
        assert_eq!(column_values(&back), column_values(column));
        for cut in 0..bytes.len() {
            assert!(SegmentColumn::decode(&bytes[..cut], column.len()).is_none());
        }
        assert!(SegmentColumn::decode(&bytes, column.len() + 1).is_none());
        bytes.len()
    }

    fn push(column: &mut SegmentColumn, tag: Tag, word: u64) {
        column.tags.push(tag.0);
        column.words.push(word);
    }

    #[test]
    fn few_values_take_few_bytes() {
        let mut kinds = SegmentColumn::default();
        let mut times = SegmentColumn::default();
        for n in 0..1000u64 {
            let kind = ["commit", "identity", "account"][n as usize % 3];
            kinds.push_long(Tag::STRING, kind.as_bytes());
            push(&mut times, Tag::DATE, 1_700_000_000_000 + n * 1000);
        }
        assert!(round(&kinds) < 150);
        assert!(round(&times) < 40);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(values in proptest::collection::vec(
            (0usize..12, any::<u64>(), proptest::collection::vec(any::<u8>(), 0..9)), 0..60)) {
            let mut column = SegmentColumn::default();
            for (kind, word, bytes) in &values {
                match kind {
                    0 => push(&mut column, Tag::MISSING, 0),
                    1 => push(&mut column, Tag::NULL, 0),
                    2 => push(&mut column, Tag(APART), 0),
                    3 => push(&mut column, Tag::MIN_KEY, 0),
                    4 => push(&mut column, Tag::BOOL, word & 1),
                    5 => push(&mut column, Tag::INT32, i64::from(*word as i32) as u64),
                    6 => push(&mut column, Tag::TIMESTAMP, *word),
                    7 => push(&mut column, Tag::DOUBLE, *word),
                    8 => push(&mut column, Tag::DOUBLE, f64::from(*word as i16).to_bits()),
                    9 => column.push_long(Tag::STRING, &bytes[..bytes.len().min(1)]),
                    10 => column.push_long(Tag::DOCUMENT, bytes),
                    _ => column.push_long(Tag::OBJECT_ID, &[*word as u8 & 3; 12]),
                }
            }
            round(&column);
        }

        #[test]
        fn damage_is_told_or_read_as_other_values(
            bytes in proptest::collection::vec(any::<u8>(), 0..80), rows in 0usize..40) {
            if let Some(column) = SegmentColumn::decode(&bytes, rows) {
                prop_assert_eq!(column.len(), rows);
                column_values(&column);
            }
        }
    }
}
