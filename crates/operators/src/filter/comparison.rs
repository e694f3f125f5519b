//! `$eq $ne $gt $gte $lt $lte $in $nin`: type-bracketed comparison. Null equals missing (not
//! undefined); NaN equals only NaN; MinKey and MaxKey are below and above all values. A regular
//! expression inside `$in` matches strings. Errors: 2 for undefined or a regular expression as
//! operand of an ordering, for `$in` without an array, and for operators nested in `$in`.

use super::regex::Pattern;
use model::{Collate, Element, Number, OwnedValue, Result, Tag, Value, bail, code, compare_with};
use rustc_hash::FxHashSet;
use std::cmp::Ordering;

/// The kind of comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum CompareOp {
    Eq,
    Gt,
    Gte,
    Lt,
    Lte,
}

/// A comparison with a constant.
pub struct Compare {
    /// The kind of comparison.
    pub op: CompareOp,
    /// The constant.
    pub value: OwnedValue,
    /// The constant is null, and absence inside arrays matches, too (`super::absent`).
    pub finds_absent: bool,
    quick: EncodedConstant,
}

/// The constant in a form that can be compared with stored bytes before they are decoded.
enum EncodedConstant {
    Int(i64),
    /// Not NaN.
    Double(f64),
    Text(Box<[u8]>),
    None,
}

impl EncodedConstant {
    fn of(v: &Value<'_>) -> EncodedConstant {
        match v {
            Value::Int32(n) => EncodedConstant::Int(i64::from(*n)),
            Value::Int64(n) => EncodedConstant::Int(*n),
            Value::Double(n) if !n.is_nan() => EncodedConstant::Double(*n),
            Value::String(s) => EncodedConstant::Text(s.as_bytes().into()),
            _ => EncodedConstant::None,
        }
    }

    /// The order of a stored value and the constant, when both have the same simple type.
    #[inline]
    fn order(&self, e: &Element<'_>, simple: bool) -> Option<Ordering> {
        match (self, e.tag) {
            (EncodedConstant::Int(b), Tag::INT32) => {
                Some(i64::from(i32::from_le_bytes(*e.payload.first_chunk()?)).cmp(b))
            }
            (EncodedConstant::Int(b), Tag::INT64) => {
                Some(i64::from_le_bytes(*e.payload.first_chunk()?).cmp(b))
            }
            (EncodedConstant::Double(b), Tag::DOUBLE) => {
                f64::from_le_bytes(*e.payload.first_chunk()?).partial_cmp(b)
            }
            (EncodedConstant::Double(b), Tag::INT32) => {
                f64::from(i32::from_le_bytes(*e.payload.first_chunk()?)).partial_cmp(b)
            }
            (EncodedConstant::Text(b), Tag::STRING) if simple => {
                Some(e.payload.get(4..e.payload.len().checked_sub(1)?)?.cmp(b))
            }
            _ => None,
        }
    }
}

impl Compare {
    /// A comparison.
    ///
    /// # Errors
    /// 2 BadValue for operands that do not allow comparison.
    pub(super) fn new(op: CompareOp, value: Value<'_>, path: &str) -> Result<Compare> {
        if matches!(value, Value::Undefined) {
            bail!(code::BAD_VALUE, "cannot compare to undefined");
        }
        if op != CompareOp::Eq && matches!(value, Value::Regex(_)) {
            bail!(
                code::BAD_VALUE,
                "Can't have RegEx as arg to predicate over field '{path}'."
            );
        }
        Ok(Compare {
            op,
            value: value.to_owned_value(),
            finds_absent: false,
            quick: EncodedConstant::of(&value),
        })
    }

    /// Compares one stored element that is no array.
    #[inline]
    pub(crate) fn matches_element(&self, e: &Element<'_>, collate: Option<&dyn Collate>) -> bool {
        match self.quick.order(e, collate.is_none()) {
            Some(order) => holds(self.op, order),
            None => self.matches(&e.value(), collate),
        }
    }

    pub(crate) fn matches(&self, v: &Value<'_>, collate: Option<&dyn Collate>) -> bool {
        matches(self.op, v, &self.value.get(), collate)
    }
}

/// Compares one value with the constant.
pub(crate) fn matches(
    op: CompareOp,
    v: &Value<'_>,
    rhs: &Value<'_>,
    collate: Option<&dyn Collate>,
) -> bool {
    use CompareOp::{Eq, Gt, Gte, Lt, Lte};
    if let (Value::Int32(a), Value::Int32(b)) = (v, rhs) {
        return holds(op, a.cmp(b));
    }
    let (a, b) = (model::compare::class(v), model::compare::class(rhs));
    if a != b {
        return match (v, rhs) {
            (Value::Missing, Value::Null) => matches!(op, Eq | Gte | Lte),
            (_, Value::MinKey) => matches!(op, Gt | Gte),
            (_, Value::MaxKey) => matches!(op, Lt | Lte),
            _ => false,
        };
    }
    if let (Some(x), Some(y)) = (Number::of(v), Number::of(rhs))
        && (x.is_nan() || y.is_nan())
    {
        return x.is_nan() && y.is_nan() && matches!(op, Eq | Gte | Lte);
    }
    holds(op, compare_with(v, rhs, collate))
}

fn holds(op: CompareOp, order: Ordering) -> bool {
    match op {
        CompareOp::Eq => order == Ordering::Equal,
        CompareOp::Gt => order == Ordering::Greater,
        CompareOp::Gte => order != Ordering::Less,
        CompareOp::Lt => order == Ordering::Less,
        CompareOp::Lte => order != Ordering::Greater,
    }
}

/// The operand of `$in`.
pub struct In {
    /// Sorted by the operation's order, without duplicates.
    pub values: Vec<OwnedValue>,
    /// Regular expressions among the operands.
    pub patterns: Vec<Pattern>,
    /// True when null is among the values.
    pub has_null: bool,
    /// True when absence inside arrays matches, too.
    pub finds_absent: bool,
    /// The values, when all are integers: most lists have one type, and comparing integers is fast.
    integers: Option<Vec<i64>>,
    /// The values, when all are strings and only identical bytes are equal.
    texts: Option<FxHashSet<Box<str>>>,
}

impl In {
    /// Parses the array.
    ///
    /// # Errors
    /// 2 BadValue for anything but an array, for nested operators and undefined; the errors of
    /// regular expressions.
    pub(super) fn parse(name: &str, spec: Value<'_>, collate: Option<&dyn Collate>) -> Result<In> {
        let Value::Array(items) = spec else {
            bail!(code::BAD_VALUE, "{name} needs an array")
        };
        let (mut values, mut patterns) = (Vec::new(), Vec::new());
        for v in items.iter() {
            match v {
                Value::Document(d) if is_operator_document(d) => {
                    bail!(code::BAD_VALUE, "cannot nest $ under {name}")
                }
                Value::Undefined => bail!(
                    code::BAD_VALUE,
                    "InMatchExpression equality cannot be undefined"
                ),
                Value::Regex(r) => patterns.push(Pattern::new(r.pattern, r.options)?),
                v => values.push(v.to_owned_value()),
            }
        }
        Ok(In::of(values, patterns, collate))
    }

    /// Makes the list from operands that are allowed in `$in`.
    pub(super) fn of(
        mut values: Vec<OwnedValue>,
        patterns: Vec<Pattern>,
        collate: Option<&dyn Collate>,
    ) -> In {
        values.sort_by(|a, b| compare_with(&a.get(), &b.get(), collate));
        values.dedup_by(|a, b| compare_with(&a.get(), &b.get(), collate) == Ordering::Equal);
        let has_null = values.iter().any(|v| matches!(v.get(), Value::Null));
        let integers = values.iter().map(|v| match v.get() {
            Value::Int32(n) => Some(i64::from(n)),
            Value::Int64(n) => Some(n),
            _ => None,
        });
        let integers = integers.collect::<Option<Vec<i64>>>();
        let texts = values.iter().map(|v| {
            v.get()
                .as_str()
                .filter(|_| collate.is_none())
                .map(Box::from)
        });
        let texts = texts.collect::<Option<FxHashSet<Box<str>>>>();
        In {
            values,
            patterns,
            has_null,
            finds_absent: false,
            integers,
            texts,
        }
    }

    pub(super) fn matches(&self, v: &Value<'_>, collate: Option<&dyn Collate>) -> Result<bool> {
        if v.is_missing() {
            return Ok(self.has_null);
        }
        if self.holds(v, collate) {
            return Ok(true);
        }
        for p in &self.patterns {
            if p.matches(v)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl In {
    fn holds(&self, v: &Value<'_>, collate: Option<&dyn Collate>) -> bool {
        match (v, &self.integers, &self.texts) {
            (Value::Int32(n), Some(list), _) => return list.binary_search(&i64::from(*n)).is_ok(),
            (Value::Int64(n), Some(list), _) => return list.binary_search(n).is_ok(),
            (Value::String(s) | Value::Symbol(s), _, Some(set)) => return set.contains(*s),
            _ => {}
        }
        self.values
            .binary_search_by(|x| compare_with(&x.get(), v, collate))
            .is_ok()
    }
}

/// True for `{$gt: 1}`; false for `{}`, `{a: 1}` and for references (`$ref`, `$id`, `$db`).
pub(super) fn is_operator_document(d: model::Doc<'_>) -> bool {
    d.first()
        .is_some_and(|(name, _)| name.starts_with('$') && !matches!(name, "$ref" | "$id" | "$db"))
}

#[cfg(test)]
mod tests {
    use super::CompareOp::{Eq, Gt, Gte, Lt, Lte};
    use super::*;

    #[test]
    fn brackets_nulls_and_nan() {
        let nan = Value::Double(f64::NAN);
        for (op, v, rhs, wanted) in [
            (Eq, Value::Int32(1), Value::Double(1.0), true),
            (Eq, Value::Missing, Value::Null, true),
            (Eq, Value::Undefined, Value::Null, false),
            (Gte, Value::Missing, Value::Null, true),
            (Gt, Value::Missing, Value::Null, false),
            (Lt, Value::String("a"), Value::Int32(5), false),
            (Eq, nan, nan, true),
            (Lte, nan, nan, true),
            (Lt, nan, Value::Int32(1), false),
            (Gt, Value::Int32(1), Value::MinKey, true),
            (Gte, Value::MaxKey, Value::MaxKey, true),
            (Lt, Value::Bool(true), Value::MaxKey, true),
            (Gt, Value::Bool(true), Value::MaxKey, false),
        ] {
            assert_eq!(matches(op, &v, &rhs, None), wanted, "{op:?} {v:?} {rhs:?}");
        }
    }
}
