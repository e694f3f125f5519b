//! One column: the values of many documents at one path, as type bytes, words, and bytes for values
//! longer than a word; with the set of types that occur. Must not know: paths.

use model::{DocBuf, Element, Tag, Value};

/// A set of BSON types.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Types(u32);

impl Types {
    /// The set of one type.
    pub const fn of(tag: Tag) -> Types {
        // Type bytes go up to 0x13; MinKey and MaxKey are handled separately.
        Types(match tag.0 {
            0xFF => 1 << 31,
            0x7F => 1 << 30,
            low => 1 << (low & 0x1F),
        })
    }

    /// The union of both sets.
    #[must_use]
    pub const fn union(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    /// Whether every type of the set is one of `other`.
    pub const fn is_within(self, other: Types) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether a type is in the set.
    pub const fn has(self, tag: Tag) -> bool {
        self.0 & Types::of(tag).0 != 0
    }
}

/// Values of many documents; `Missing` for a document without a value.
#[derive(Default)]
pub struct Column {
    tags: Vec<u8>,
    /// A number or date itself; for other types the position of the payload in `bytes`.
    words: Vec<u64>,
    bytes: Vec<u8>,
    types: Types,
}

/// The length of a payload that fits in a word.
const fn word_len(tag: Tag) -> Option<usize> {
    Some(match tag {
        Tag::MISSING | Tag::NULL | Tag::UNDEFINED | Tag::MIN_KEY | Tag::MAX_KEY => 0,
        Tag::BOOL => 1,
        Tag::INT32 => 4,
        Tag::INT64 | Tag::DOUBLE | Tag::DATE | Tag::TIMESTAMP => 8,
        _ => return None,
    })
}

/// The set of the types of the values.
fn types_of(tags: &[u8]) -> Types {
    let mut types = Types::default();
    for run in tags.chunk_by(|a, b| a == b) {
        types = types.union(run.first().map_or(types, |tag| Types::of(Tag(*tag))));
    }
    types
}

impl Column {
    /// A column of values in stored form: numbers as their words; for longer values start (above 32
    /// bits) and length in `bytes`.
    pub fn of_stored(tags: Vec<u8>, words: Vec<u64>, bytes: Vec<u8>) -> Column {
        let types = types_of(&tags);
        Column {
            tags,
            words,
            bytes,
            types,
        }
    }

    /// Appends the given rows of another column.
    pub(super) fn extend(&mut self, from: &Column, rows: std::ops::Range<usize>) {
        let tags = from.tags.get(rows.clone()).unwrap_or_default();
        let words = from.words.get(rows).unwrap_or_default();
        self.tags.extend_from_slice(tags);
        self.types = self.types.union(types_of(tags));
        if from.bytes.is_empty() {
            self.words.extend_from_slice(words);
            return;
        }
        for (tag, word) in tags.iter().zip(words) {
            let word = match word_len(Tag(*tag)) {
                Some(_) => *word,
                None => {
                    let (start, long) = (self.bytes.len() as u64, from.long(*word));
                    self.bytes.extend_from_slice(long);
                    start << 32 | long.len() as u64
                }
            };
            self.words.push(word);
        }
    }

    /// Appends missing values, as many as `rows`.
    pub(super) fn extend_missing(&mut self, rows: usize) {
        self.tags.resize(self.tags.len() + rows, Tag::MISSING.0);
        self.words.resize(self.words.len() + rows, 0);
        self.types = self.types.union(Types::of(Tag::MISSING));
    }

    /// Removes the values and keeps the memory.
    pub fn clear(&mut self) {
        self.tags.clear();
        self.words.clear();
        self.bytes.clear();
        self.types = Types::default();
    }

    /// Number of values, missing ones included.
    pub fn len(&self) -> usize {
        self.tags.len()
    }

    /// True without values.
    pub fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// Bytes of values that do not fit in a word.
    pub(super) fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes held in memory.
    pub fn capacity_bytes(&self) -> usize {
        self.bytes.capacity() + 9 * self.tags.capacity()
    }

    /// The types that occur.
    pub fn types(&self) -> Types {
        self.types
    }

    /// The type bytes.
    pub fn tags(&self) -> &[u8] {
        &self.tags
    }

    /// The words: ints and longs with sign extension, doubles and dates as their bits.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Appends a value in BSON form.
    pub fn push_raw(&mut self, tag: Tag, payload: &[u8]) {
        let word = match word_len(tag) {
            Some(0) => 0,
            Some(1) => u64::from(payload.first().copied().unwrap_or(0)),
            Some(4) => {
                let n = i32::from_le_bytes(payload.first_chunk().copied().unwrap_or_default());
                i64::from(n) as u64
            }
            Some(_) => u64::from_le_bytes(payload.first_chunk().copied().unwrap_or_default()),
            None => {
                let start = self.bytes.len() as u64;
                self.bytes.extend_from_slice(payload);
                start << 32 | payload.len() as u64
            }
        };
        self.tags.push(tag.0);
        self.words.push(word);
        self.types = self.types.union(Types::of(tag));
    }

    /// Appends a value.
    pub fn push(&mut self, v: Value<'_>) {
        let tag = v.tag();
        match v {
            Value::Int32(n) => self.push_raw(tag, &n.to_le_bytes()),
            Value::Int64(n) | Value::Date(n) => self.push_raw(tag, &n.to_le_bytes()),
            Value::Double(n) => self.push_raw(tag, &n.to_le_bytes()),
            Value::Document(d) => self.push_raw(tag, d.as_bytes()),
            Value::Array(a) => self.push_raw(tag, a.as_bytes()),
            Value::Missing | Value::Null | Value::Undefined | Value::MinKey | Value::MaxKey => {
                self.push_raw(tag, &[]);
            }
            v => {
                let one = DocBuf::build(|w| {
                    w.put("", v);
                });
                let stored = one.doc().elements().next();
                self.push_raw(tag, stored.map_or(&[], |e| e.payload));
            }
        }
    }

    /// The bytes of value number `at`; a number is written into `word`.
    pub fn payload<'c>(&'c self, at: usize, word: &'c mut [u8; 8]) -> (Tag, &'c [u8]) {
        let (Some(tag), Some(bits)) = (self.tags.get(at), self.words.get(at)) else {
            return (Tag::MISSING, &[]);
        };
        let tag = Tag(*tag);
        match word_len(tag) {
            Some(len) => {
                *word = bits.to_le_bytes();
                (tag, word.get(..len).unwrap_or_default())
            }
            None => (tag, self.long(*bits)),
        }
    }

    fn long(&self, word: u64) -> &[u8] {
        let (start, len) = ((word >> 32) as usize, word as u32 as usize);
        self.bytes.get(start..start + len).unwrap_or_default()
    }

    /// Value number `at`; missing past the end.
    #[inline]
    pub fn value(&self, at: usize) -> Value<'_> {
        let (Some(&tag), Some(&word)) = (self.tags.get(at), self.words.get(at)) else {
            return Value::Missing;
        };
        match Tag(tag) {
            Tag::MISSING => Value::Missing,
            Tag::INT32 => Value::Int32(word as i32),
            Tag::INT64 => Value::Int64(word as i64),
            Tag::DOUBLE => Value::Double(f64::from_bits(word)),
            Tag::DATE => Value::Date(word as i64),
            Tag::NULL => Value::Null,
            Tag::BOOL => Value::Bool(word != 0),
            tag => self.decode_word(tag, word),
        }
    }

    fn decode_word(&self, tag: Tag, word: u64) -> Value<'_> {
        let own = |payload| {
            Element {
                name: &[],
                tag,
                payload,
            }
            .value()
        };
        match word_len(tag) {
            Some(len) => {
                // A value that fits in a word borrows nothing.
                let bytes = word.to_le_bytes();
                match (tag, bytes.get(..len)) {
                    (Tag::UNDEFINED, _) => Value::Undefined,
                    (Tag::MIN_KEY, _) => Value::MinKey,
                    (Tag::MAX_KEY, _) => Value::MaxKey,
                    _ => Value::Timestamp(model::Timestamp::from_u64(word)),
                }
            }
            None => own(self.long(word)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::check::json;

    #[test]
    fn values_of_every_type_come_back() {
        let all = json(
            "[1, {'$numberLong': '-5'}, 2.5, 'text', '', {'a': [1]}, [], [1, 'x'], true, false, \
             null, {'$undefined': true}, {'$minKey': 1}, {'$maxKey': 1}, \
             {'$numberDecimal': '1.50'}, {'$oid': '0123456789abcdef01234567'}, \
             {'$date': {'$numberLong': '-1'}}, {'$timestamp': {'t': 4294967295, 'i': 7}}, \
             {'$regularExpression': {'pattern': 'a', 'options': 'i'}}, {'$symbol': 's'}, \
             {'$binary': {'base64': 'AAEC', 'subType': '00'}}, {'$code': 'x'}]",
        );
        let array = all.get().as_array().expect("an array");
        let (mut raw, mut decoded) = (Column::default(), Column::default());
        for e in array.elements() {
            raw.push_raw(e.tag, e.payload);
            decoded.push(e.value());
        }
        decoded.push(Value::Missing);
        for (i, v) in array.iter().enumerate() {
            assert_eq!(format!("{:?}", raw.value(i)), format!("{v:?}"));
            assert_eq!(format!("{:?}", decoded.value(i)), format!("{v:?}"));
            assert!(raw.types().has(v.tag()), "{v:?}");
        }
        assert!(!raw.types().has(Tag::MISSING) && decoded.types().has(Tag::MISSING));
        assert!(decoded.value(array.len()).is_missing() && decoded.value(99).is_missing());
        let ints = Types::of(Tag::INT32).union(Types::of(Tag::INT64));
        assert!(Types::of(Tag::INT64).is_within(ints) && !raw.types().is_within(ints));
    }
}
