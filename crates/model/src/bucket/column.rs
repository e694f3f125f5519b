//! Reading a compressed column (binary data of subtype 7): a sequence of values, each stored in
//! full or as the difference to the previous one. Values may still be invalid BSON: code that
//! builds documents from them must validate these.
//!
//! A control byte says what comes next. `00`: the end of the column. The type byte of a value: this
//! value, with an empty name. `80` to `DF`: up to 16 words of differences (the high half is the
//! scale of doubles, the low half the number of words minus one). `F0`, `F1` and `F2`: a document
//! with the structure of the following ones; each of its fields is a column of its own until the
//! next `00`.

use super::simple8b::Words;
use crate::bson::Elements;
use crate::{Decimal128, Doc, DocBuf, Element, MongoError, Result, Tag, Value};

/// One value of a column: type and payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// BSON type.
    pub tag: Tag,
    /// Payload, with the length of the type.
    pub payload: Vec<u8>,
}

/// Scales of doubles for control bytes from `90`; `80` stores the bits of doubles.
const SCALES: [f64; 5] = [1.0, 10.0, 100.0, 10_000.0, 100_000_000.0];
/// Largest whole number up to which all whole numbers are doubles.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

fn damage_error(why: &str) -> MongoError {
    MongoError::bad_value(format!("a compressed column {why}"))
}

/// The values of a column, `None` where a measurement has no value; at most `most`.
///
/// # Errors
/// 2 BadValue for bytes that are no column, or a column with more values.
pub fn decode_column(bytes: &[u8], most: usize) -> Result<Vec<Option<Cell>>> {
    let mut reader = Reader { rest: bytes };
    let mut out = Vec::new();
    let mut state = State::default();
    loop {
        match reader.control()? {
            0 if reader.rest.len() == 1 => return Ok(out),
            0 => return Err(damage_error("goes on behind its end")),
            form @ 0xF0..=0xF2 => {
                let last = decode_interleaved(&mut reader, form, &mut out, most)?;
                state = State {
                    last,
                    ..State::default()
                };
            }
            _ => {
                let mut cell = state.load(&mut reader)?;
                loop {
                    if out.len() >= most {
                        return Err(damage_error("has more values than its bucket measurements"));
                    }
                    out.push(cell);
                    match state.next()? {
                        Some(next) => cell = next,
                        None => break,
                    }
                }
            }
        }
    }
}

/// The bytes not yet read.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn control(&self) -> Result<u8> {
        let first = self.rest.first().copied();
        first.ok_or_else(|| damage_error("has no end"))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let taken = self.rest.split_at_checked(len);
        let (taken, rest) = taken.ok_or_else(|| damage_error("ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// A value with an empty name.
    fn literal(&mut self) -> Result<Element<'a>> {
        let mut elements = Elements::new(self.rest);
        let element = elements.next().filter(|e| e.name.is_empty());
        let element = element.ok_or_else(|| damage_error("has a damaged value"))?;
        self.rest = elements.unread_bytes();
        Ok(element)
    }
}

/// The state of decoding one column of values and differences.
#[derive(Default)]
struct State<'a> {
    last: Option<Cell>,
    /// The last value as a number; for times and ids, which store differences of differences, the
    /// last difference.
    number: i128,
    /// The last value of such a type.
    base: i64,
    scale: Option<usize>,
    words: Option<Words<'a>>,
}

impl<'a> State<'a> {
    /// Begins with a value stored in full.
    fn set(&mut self, e: Element<'_>) {
        let cell = Cell {
            tag: e.tag,
            payload: e.payload.to_vec(),
        };
        let number = number_of(&cell);
        (self.number, self.base) = match differs_twice(cell.tag) {
            true => (0, number as i64),
            false => (number, 0),
        };
        self.last = Some(cell);
        self.words = None;
    }

    /// Reads a control byte and its data, and returns the first value.
    fn load(&mut self, reader: &mut Reader<'a>) -> Result<Option<Cell>> {
        let control = reader.control()?;
        if control & 0xE0 == 0 || control == Tag::MIN_KEY.0 || control == Tag::MAX_KEY.0 {
            let literal = reader.literal()?;
            self.set(literal);
            return Ok(self.last.clone());
        }
        let scale = match control >> 4 {
            8 => None,
            n @ 9..=13 => Some(usize::from(n) - 9),
            _ => return Err(damage_error(&format!("has a control byte {control}"))),
        };
        match &self.last {
            Some(last) if last.tag == Tag::DOUBLE => {
                let Value::Double(v) = decode(last) else {
                    return Err(damage_error("has a damaged double"));
                };
                self.number = scale_double(v, scale)?;
            }
            _ if scale.is_some() => return Err(damage_error("scales what is no double")),
            _ => {}
        }
        self.scale = scale;
        reader.take(1)?;
        let words = reader.take((usize::from(control & 15) + 1) * 8)?;
        let before = self.words.as_ref().map_or(Some(0), Words::last);
        self.words = Some(Words::new(words, before));
        self.next()?
            .ok_or_else(|| damage_error("has an empty word"))
    }

    /// The next value from the loaded words; `None` after the last one.
    fn next(&mut self) -> Result<Option<Option<Cell>>> {
        let Some(words) = &mut self.words else {
            return Ok(None);
        };
        let Some(slot) = words.next()? else {
            return Ok(None);
        };
        let (Some(slot), Some(last)) = (slot, &self.last) else {
            return Ok(Some(None));
        };
        let twice = differs_twice(last.tag);
        if slot == 0 && !twice {
            return Ok(Some(self.last.clone()));
        }
        // The sign is the lowest bit.
        let delta = ((slot >> 1) as i128) ^ -((slot & 1) as i128);
        if is_wide(last.tag) {
            self.number = self.number.wrapping_add(delta);
        } else {
            self.number = i128::from((self.number as i64).wrapping_add(delta as i64));
        }
        if twice {
            self.base = self.base.wrapping_add(self.number as i64);
        }
        let number = match twice {
            true => i128::from(self.base),
            false => self.number,
        };
        self.last = Some(rebuild(last, number, self.scale)?);
        Ok(Some(self.last.clone()))
    }
}

fn decode<'c>(cell: &'c Cell) -> Value<'c> {
    let element = Element {
        name: b"",
        tag: cell.tag,
        payload: &cell.payload,
    };
    element.value()
}

/// Types that store differences of differences.
fn differs_twice(tag: Tag) -> bool {
    matches!(tag, Tag::OBJECT_ID | Tag::DATE | Tag::TIMESTAMP)
}

/// Types that are encoded as numbers of 128 bits.
fn is_wide(tag: Tag) -> bool {
    matches!(tag, Tag::DECIMAL128 | Tag::BINARY | Tag::STRING | Tag::CODE)
}

/// A value as a number; 0 for a value that is none.
fn number_of(cell: &Cell) -> i128 {
    match decode(cell) {
        Value::Int32(n) => n.into(),
        Value::Int64(n) | Value::Date(n) => n.into(),
        Value::Bool(b) => b.into(),
        Value::Timestamp(t) => i128::from(t.as_u64() as i64),
        Value::ObjectId(id) => i128::from(id_number(&id.0)),
        Value::Decimal128(d) => i128::from_le_bytes(d.to_le_bytes()),
        Value::Binary(b) if b.bytes.len() <= 16 => from_bytes(b.bytes.iter()),
        Value::String(s) | Value::Code(s) if s.len() <= 16 && !s.starts_with('\0') => {
            from_bytes(s.as_bytes().iter().rev())
        }
        _ => 0,
    }
}

fn from_bytes<'b>(bytes: impl Iterator<Item = &'b u8>) -> i128 {
    let mut whole = [0; 16];
    whole.iter_mut().zip(bytes).for_each(|(to, b)| *to = *b);
    i128::from_le_bytes(whole)
}

/// Positions of an id's bytes in its number, the lowest first: counter and time alternate.
const ID_BYTES: [usize; 7] = [11, 3, 10, 2, 9, 1, 0];

fn id_number(id: &[u8; 12]) -> i64 {
    let bytes = ID_BYTES.iter().enumerate();
    bytes.fold(0, |n, (i, at)| n | i64::from(id[*at]) << (8 * i))
}

/// A double as a whole number with a scale.
fn scale_double(v: f64, scale: Option<usize>) -> Result<i128> {
    let Some(scale) = scale else {
        return Ok(i128::from(v.to_bits() as i64));
    };
    let whole = v * SCALES[scale];
    if !(-EXACT_MAX..=EXACT_MAX).contains(&whole) {
        return Err(damage_error("scales a double that is too large"));
    }
    Ok(i128::from(whole.round() as i64))
}

/// The value of the type of `last` with this number.
fn rebuild(last: &Cell, number: i128, scale: Option<usize>) -> Result<Cell> {
    let n = number as i64;
    let mut payload = Vec::new();
    match decode(last) {
        Value::Int32(_) => payload.extend_from_slice(&(n as i32).to_le_bytes()),
        Value::Int64(_) | Value::Date(_) | Value::Timestamp(_) => {
            payload.extend_from_slice(&n.to_le_bytes());
        }
        Value::Bool(_) => payload.push(u8::from(n != 0)),
        Value::Double(_) => {
            let v = match scale {
                None => f64::from_bits(n as u64),
                Some(scale) => n as f64 / SCALES[scale],
            };
            payload.extend_from_slice(&v.to_le_bytes());
        }
        Value::ObjectId(mut id) => {
            for (i, at) in ID_BYTES.iter().enumerate() {
                id.0[*at] = (n >> (8 * i)) as u8;
            }
            payload.extend_from_slice(&id.0);
        }
        Value::Decimal128(_) => {
            let v = Decimal128::from_le_bytes(number.to_le_bytes());
            payload.extend_from_slice(&v.to_le_bytes());
        }
        Value::Binary(b) if b.bytes.len() <= 16 => {
            payload.extend_from_slice(last.payload.get(..5).unwrap_or_default());
            payload.extend(number.to_le_bytes().iter().take(b.bytes.len()));
        }
        Value::String(_) | Value::Code(_) => {
            let bytes = number.to_le_bytes();
            let len = 16 - bytes.iter().rev().take_while(|b| **b == 0).count();
            let text: Vec<u8> = bytes.iter().take(len).rev().copied().collect();
            if std::str::from_utf8(&text).is_err() {
                return Err(damage_error("has a string that is not UTF-8"));
            }
            payload.extend_from_slice(&(len as i32 + 1).to_le_bytes());
            payload.extend_from_slice(&text);
            payload.push(0);
        }
        _ => return Err(damage_error("has a difference of what is no number")),
    }
    let tag = last.tag;
    Ok(Cell { tag, payload })
}

/// A step in writing a document with a given structure.
enum Part<'a> {
    Enter {
        name: &'a [u8],
        tag: Tag,
        empty: bool,
    },
    Field {
        name: &'a [u8],
        state: usize,
    },
    Leave,
}

fn parts_of<'a>(
    form: Doc<'a>,
    arrays: bool,
    parts: &mut Vec<Part<'a>>,
    states: &mut Vec<State<'a>>,
) {
    for e in form.elements() {
        match e.tag {
            Tag::DOCUMENT | Tag::ARRAY if arrays || e.tag == Tag::DOCUMENT => {
                let inner = Doc::from_prefix(e.payload);
                let (name, tag, empty) = (e.name, e.tag, inner.is_empty());
                parts.push(Part::Enter { name, tag, empty });
                parts_of(inner, arrays, parts, states);
                parts.push(Part::Leave);
            }
            _ => {
                parts.push(Part::Field {
                    name: e.name,
                    state: states.len(),
                });
                let mut state = State::default();
                state.set(e);
                states.push(state);
            }
        }
    }
}

/// Decodes documents whose fields are columns of their own; returns the last one.
fn decode_interleaved(
    reader: &mut Reader<'_>,
    form: u8,
    out: &mut Vec<Option<Cell>>,
    most: usize,
) -> Result<Option<Cell>> {
    reader.take(1)?;
    let len = Doc::from_prefix(reader.rest).len_bytes();
    let reference = crate::validate(reader.take(len)?)?;
    let root = if form == 0xF2 {
        Tag::ARRAY
    } else {
        Tag::DOCUMENT
    };
    let (mut parts, mut states) = (Vec::new(), Vec::new());
    parts_of(reference, form != 0xF0, &mut parts, &mut states);
    if states.is_empty() {
        return Err(damage_error("has documents without a field"));
    }
    let mut last = None;
    loop {
        let Some(fields) = fields_of(reader, &mut states)? else {
            return Ok(last);
        };
        if out.len() >= most {
            return Err(damage_error("has more values than its bucket measurements"));
        }
        let body = write_parts(&mut parts.iter(), &fields);
        last = (!body.doc().is_empty()).then(|| Cell {
            tag: root,
            payload: body.into_bytes(),
        });
        out.push(last.clone());
    }
}

/// The fields of the next document; `None` at the end of the documents.
fn fields_of<'a>(
    reader: &mut Reader<'a>,
    states: &mut [State<'a>],
) -> Result<Option<Vec<Option<Cell>>>> {
    let mut fields = Vec::with_capacity(states.len());
    for (n, state) in states.iter_mut().enumerate() {
        let next = match state.next()? {
            Some(next) => next,
            None if reader.control()? != 0 => state.load(reader)?,
            None if n == 0 => {
                reader.take(1)?;
                return Ok(None);
            }
            None => return Err(damage_error("ends within a document")),
        };
        fields.push(next);
    }
    Ok(Some(fields))
}

/// Writes the parts up to the end of the current document.
fn write_parts(parts: &mut std::slice::Iter<'_, Part<'_>>, fields: &[Option<Cell>]) -> DocBuf {
    DocBuf::build(|w| {
        while let Some(part) = parts.next() {
            match part {
                Part::Leave => break,
                Part::Field { name, state } => {
                    if let Some(Some(cell)) = fields.get(*state) {
                        w.put_raw(name, cell.tag, &cell.payload);
                    }
                }
                Part::Enter { name, tag, empty } => {
                    let inner = write_parts(parts, fields);
                    if *empty || !inner.doc().is_empty() {
                        w.put_raw(name, *tag, inner.as_bytes());
                    }
                }
            }
        }
    })
}
