//! What a component does not say of its value. Components of equal values are equal, so the type of
//! a number and more is told beside them: an entry carries a mark for each field of its index, one
//! for `_id` and one for the order of the fields in the document, as far as they are not the usual
//! ones. A reader makes of key and marks what the document has, or learns that it must read the
//! document. Must not know: entries, the engine.

use super::{FieldKind, IndexField};
use crate::format::decode;
use model::{Decimal128, Doc, DocWriter, Value};
use smallvec::SmallVec;

/// What the component decodes to.
const PLAIN: u8 = 0;
/// A whole number that has more room than it needs.
const INT64: u8 = 1;
/// A whole number.
const DOUBLE: u8 = 2;
/// The bits of a double (8) follow.
const BITS: u8 = 3;
/// The bytes of a decimal (16) follow.
const DECIMAL: u8 = 4;
/// There is no such field.
const MISSING: u8 = 5;
/// Only the document says it.
const UNKNOWN: u8 = 6;
/// The numbers of the fields in the order of the document follow, to the end.
const ORDER: u8 = 7;
/// In place of all: only the document says anything.
const NOTHING: u8 = 8;

/// Appends the mark of a value; `known` is false when the value is not all that the document has
/// there.
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
    // What an integer of 64 bits may be as well.
    let whole = d.fract() == 0.0
        && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&d);
    out.push(if whole { DOUBLE } else { PLAIN });
}

/// How a document has the fields of an index.
#[derive(PartialEq, Eq)]
pub(super) struct Layout {
    /// Their numbers, as they come.
    order: SmallVec<[u8; 8]>,
    /// Each once, and `_id`, if there is one, in front of all.
    is_plain: bool,
}

/// How `doc` has the fields of an index.
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

/// Ends the marks of a key, which begin at `start`: adds those of `_id` and of the order of the
/// fields and takes the usual ones off the end.
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

/// One mark with what follows it.
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

    /// Writes the value of a component, which is an ascending one; gives its length.
    fn write(&self, component: &[u8], name: &str, w: &mut DocWriter<'_>) -> Option<usize> {
        match self.code {
            PLAIN => return decode::write(component, name, w),
            INT64 => _ = w.put(name, decode::whole(component)?),
            DOUBLE => _ = w.put(name, decode::whole(component)? as f64),
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

/// The parts of an entry.
#[derive(Clone, Copy)]
pub(super) struct EntryFields<'e> {
    /// Behind the identifier of the index.
    pub(super) components: &'e [u8],
    pub(super) id: &'e [u8],
    pub(super) marks: &'e [u8],
}

/// What is wanted of an entry's document.
#[derive(Clone, Debug, Default)]
pub struct WantedFields {
    /// Numbers of fields of the index.
    pub fields: SmallVec<[usize; 4]>,
    /// `_id`, too, which is none of them.
    pub id: bool,
}

/// Writes what an entry says of its document, in the order of the document. `None` when it does not
/// say all that is wanted; something may have been written then.
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
