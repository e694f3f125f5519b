//! The information about a value that its component lacks. Equal values have equal components, so
//! the type of a number and more is stored as marks: an entry has a mark for each field of its
//! index, one for `_id` and one for the order of the fields in the document; the usual ones are
//! left out. From key and marks a reader restores the document's values, or learns that it must
//! read the document. Must not know: entries, the engine.

use super::{FieldKind, IndexField};
use crate::format::decode;
use model::{Decimal128, Doc, DocWriter, Value};
use smallvec::SmallVec;

/// The value is the one that the component decodes to.
const PLAIN: u8 = 0;
/// A 64-bit integer whose value would fit into 32 bits.
const INT64: u8 = 1;
/// A double that is a whole number.
const DOUBLE: u8 = 2;
/// The bits of a double (8) follow.
const BITS: u8 = 3;
/// The bytes of a decimal (16) follow.
const DECIMAL: u8 = 4;
/// The field is missing.
const MISSING: u8 = 5;
/// The value is only in the document.
const UNKNOWN: u8 = 6;
/// The numbers of the fields in document order follow, up to the end.
const ORDER: u8 = 7;
/// Replaces all marks: all values are only in the document.
const NOTHING: u8 = 8;

/// Appends the mark of a value; `known` is false when the document has more at that path than this
/// value.
pub(super) fn put(v: &Value<'_>, known: bool, out: &mut Vec<u8>) {
    match v {
        _ if !known => out.push(UNKNOWN),
        Value::Missing => out.push(MISSING),
        Value::Int64(n) => out.push(if i32::try_from(*n).is_ok() {
            INT64
        } else {
            PLAIN
        }),
        Value::Double(d) => put_double(*d, out),
        Value::Decimal128(d) => {
            out.push(DECIMAL);
            out.extend_from_slice(&d.to_le_bytes());
        }
        Value::Int32(_)
        | Value::Null
        | Value::String(_)
        | Value::ObjectId(_)
        | Value::Bool(_)
        | Value::Date(_)
        | Value::Timestamp(_)
        | Value::Binary(_)
        | Value::MinKey
        | Value::MaxKey => out.push(PLAIN),
        _ => out.push(UNKNOWN),
    }
}

fn put_double(d: f64, out: &mut Vec<u8>) {
    let odd = d.is_nan() && d.to_bits() != f64::NAN.to_bits() || d == 0.0 && d.is_sign_negative();
    if odd {
        out.push(BITS);
        out.extend_from_slice(&d.to_bits().to_be_bytes());
        return;
    }
    // The double equals a 64-bit integer.
    let whole = d.fract() == 0.0
        && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&d);
    out.push(if whole { DOUBLE } else { PLAIN });
}

/// The order in which a document has the fields of an index.
#[derive(PartialEq, Eq)]
pub(super) struct Layout {
    /// The numbers of the fields in document order.
    order: SmallVec<[u8; 8]>,
    /// Each field occurs once, and `_id`, if there is one, comes first.
    is_plain: bool,
}

/// The layout of the fields of an index in `doc`.
pub(super) fn layout(fields: &[IndexField], doc: Doc<'_>) -> Layout {
    let (mut order, mut is_plain) = (SmallVec::<[u8; 8]>::new(), true);
    for (n, e) in doc.elements().enumerate() {
        is_plain &= n == 0 || e.name != b"_id";
        let is_it = |f: &IndexField| f.path.first().as_bytes() == e.name;
        if let Some(at) = fields.iter().position(is_it) {
            is_plain &= !order.contains(&(at as u8));
            order.push(at as u8);
        }
    }
    Layout { order, is_plain }
}

/// Completes the marks of a key, which begin at `start`: adds the marks of `_id` and of the field
/// order and removes the usual marks at the end.
pub(super) fn end(fields: &[IndexField], doc: Doc<'_>, start: usize, out: &mut Vec<u8>) {
    put(&doc.field("_id"), true, out);
    let layout = layout(fields, doc);
    if !layout.is_plain {
        out.truncate(start);
        out.push(NOTHING);
    } else if !layout.order.is_sorted() {
        out.push(ORDER);
        out.extend_from_slice(&layout.order);
    } else {
        let mut left = out.get(start..).unwrap_or_default();
        let mut unusual = left.len();
        while !left.is_empty() {
            if Mark::read(&mut left).code != PLAIN {
                unusual = left.len();
            }
        }
        out.truncate(out.len() - unusual);
    }
}

/// One mark with the bytes that belong to it.
#[derive(Clone, Copy)]
struct Mark<'m> {
    code: u8,
    more: &'m [u8],
}

impl<'m> Mark<'m> {
    fn read(marks: &mut &'m [u8]) -> Mark<'m> {
        let Some((code, left)) = marks.split_first() else {
            return Mark {
                code: PLAIN,
                more: &[],
            };
        };
        let len = match *code {
            BITS => 8,
            DECIMAL => 16,
            ORDER => left.len(),
            _ => 0,
        };
        let (more, left) = left.split_at_checked(len).unwrap_or((left, &[]));
        *marks = left;
        Mark { code: *code, more }
    }

    /// Writes the value of an ascending component; returns the length of the component.
    fn write(&self, component: &[u8], name: &str, w: &mut DocWriter<'_>) -> Option<usize> {
        match self.code {
            PLAIN => return decode::write(component, name, w),
            INT64 => _ = w.put(name, decode::read_whole_number(component)?),
            DOUBLE => _ = w.put(name, decode::read_whole_number(component)? as f64),
            BITS => {
                let bits = u64::from_be_bytes(*self.more.first_chunk()?);
                w.put(name, f64::from_bits(bits));
            }
            DECIMAL => {
                let bytes = *self.more.first_chunk()?;
                w.put(name, Decimal128::from_le_bytes(bytes));
            }
            MISSING | UNKNOWN => {}
            _ => return None,
        }
        decode::component_len(component, false)
    }
}

/// The parts of an entry that values are restored from.
#[derive(Clone, Copy)]
pub(super) struct EntryFields<'e> {
    /// The key after the identifier of the index.
    pub(super) components: &'e [u8],
    pub(super) id: &'e [u8],
    pub(super) marks: &'e [u8],
}

/// The fields of an entry's document that a reader wants.
#[derive(Clone, Debug, Default)]
pub struct WantedFields {
    /// Numbers of fields of the index.
    pub fields: SmallVec<[usize; 4]>,
    /// Whether `_id` is wanted, too; it is not among the fields.
    pub id: bool,
}

/// Writes the wanted fields of an entry's document, in the order of the document. `None` when the
/// entry does not contain all of them; part of them may have been written then.
pub(super) fn write(
    fields: &[IndexField],
    wanted: &WantedFields,
    said: EntryFields<'_>,
    w: &mut DocWriter<'_>,
) -> Option<()> {
    let mut left = said.marks;
    let marks: SmallVec<[Mark<'_>; 8]> =
        (0..=fields.len()).map(|_| Mark::read(&mut left)).collect();
    let order = Mark::read(&mut left);
    let is_said = |n: usize| marks.get(n).is_some_and(|m| m.code != UNKNOWN);
    let nothing = marks.first().is_some_and(|m| m.code == NOTHING);
    if nothing || !wanted.fields.iter().all(|n| is_said(*n)) {
        return None;
    }
    let order = match order.code {
        ORDER => order.more,
        _ => &[],
    };
    if wanted.id {
        let mark = marks.get(fields.len()).filter(|m| m.code != UNKNOWN)?;
        mark.write(said.id, "_id", w)?;
    }
    let mut at = 0;
    let mut starts = SmallVec::<[usize; 8]>::new();
    for (field, mark) in fields.iter().zip(&marks) {
        let len = if order.is_empty() {
            put_field(field, mark, said.components.get(at..)?, w)?
        } else {
            let descending = field.kind == FieldKind::Descending;
            decode::component_len(said.components.get(at..)?, descending)?
        };
        starts.push(at);
        at += len;
    }
    for n in order {
        let n = usize::from(*n);
        let (field, mark) = fields.get(n).zip(marks.get(n))?;
        put_field(field, mark, said.components.get(*starts.get(n)?..)?, w)?;
    }
    Some(())
}

fn put_field(
    field: &IndexField,
    mark: &Mark<'_>,
    component: &[u8],
    w: &mut DocWriter<'_>,
) -> Option<usize> {
    let name = field.path.as_str();
    if field.kind != FieldKind::Descending {
        return mark.write(component, name, w);
    }
    let turned: SmallVec<[u8; 64]> = component.iter().map(|b| !b).collect();
    mark.write(&turned, name, w)
}
