//! `$substrBytes` (and its old name `$substr`) and `$substrCP`: `[string, start, length]`, the part
//! of a text by bytes or code points; past the end it is empty. The string is coerced (null to the
//! empty one).
//!
//! Bytes: 16007 not coercible, 16034 / 16035 start / length not a number, 31109 a double that is no
//! long, 50752 a negative start, 28656 / 28657 a start / an end inside a code point; a negative
//! length is the rest. Code points: 34450 / 34452 not a number, 34451 / 34453 no int, 34455 / 34454
//! negative.

use crate::Cx;
use crate::expr::{Operator, nary};
use model::{Number, Result, Rounding, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$substr",
        parse: |cx, name, spec| nary(cx, name, spec, 3..=3, bytes),
    },
    Operator {
        name: "$substrBytes",
        parse: |cx, name, spec| nary(cx, name, spec, 3..=3, bytes),
    },
    Operator {
        name: "$substrCP",
        parse: |cx, name, spec| nary(cx, name, spec, 3..=3, code_points),
    },
];

fn bytes<'a>(cx: &Cx<'_, 'a>, v: &[Value<'a>]) -> Result<Value<'a>> {
    let [text, start, length] = v else {
        return Ok(Value::Null);
    };
    let text = super::coerce(cx.arena, text)?;
    let (Some(start_number), length_number) = (Number::of(start), Number::of(length)) else {
        bail!(
            16034,
            "$substrBytes: starting index must be a numeric type (is BSON type {})",
            start.type_name()
        );
    };
    let Some(length_number) = length_number else {
        bail!(
            16035,
            "$substrBytes: length must be a numeric type (is BSON type {})",
            length.type_name()
        );
    };
    let Ok(start) = usize::try_from(to_long(start_number)?) else {
        bail!(
            50752,
            "$substrBytes: starting index must be non-negative (got: {})",
            start
        );
    };
    let length = usize::try_from(to_long(length_number)?).unwrap_or(text.len());
    if start >= text.len() {
        return Ok(Value::String(""));
    }
    let end = start.saturating_add(length).min(text.len());
    if !text.is_char_boundary(start) {
        bail!(
            28656,
            "$substrBytes: Invalid range, starting index is a UTF-8 continuation byte"
        );
    }
    match text.get(start..end) {
        Some(part) => Ok(Value::String(part)),
        None => bail!(
            28657,
            "$substrBytes: Invalid range, ending index is in the middle of a \
            UTF-8 character"
        ),
    }
}

/// Doubles are truncated, decimals are rounded (ties to even).
fn to_long(n: Number) -> Result<i64> {
    let long = match n {
        Number::Double(x) => Number::Double(x.trunc()).to_i64_exact(),
        // Decimals out of range saturate instead of failing.
        Number::Decimal(d) => Some(d.to_i64(Rounding::HalfEven).unwrap_or(i64::MIN)),
        n => n.to_i64_exact(),
    };
    match long {
        Some(n) => Ok(n),
        None => bail!(
            31109,
            "Can't coerce out of range value {} to long",
            n.value()
        ),
    }
}

fn code_points<'a>(cx: &Cx<'_, 'a>, v: &[Value<'a>]) -> Result<Value<'a>> {
    let [text, start, length] = v else {
        return Ok(Value::Null);
    };
    let text = super::coerce(cx.arena, text)?;
    let start = integer(start, "starting index", 34450, 34451)?;
    let length = integer(length, "length", 34452, 34453)?;
    let length = check_not_negative(length, "length", 34454)?;
    let start = check_not_negative(start, "starting index", 34455)?;
    let rest = text
        .char_indices()
        .nth(start)
        .and_then(|(at, _)| text.get(at..))
        .unwrap_or("");
    let end = rest
        .char_indices()
        .nth(length)
        .map_or(rest.len(), |(at, _)| at);
    Ok(Value::String(rest.get(..end).unwrap_or("")))
}

fn integer(v: &Value<'_>, what: &str, no_number: i32, no_int: i32) -> Result<i32> {
    let Some(n) = Number::of(v) else {
        bail!(
            no_number,
            "$substrCP: {what} must be a numeric type (is BSON type {})",
            v.type_name()
        );
    };
    match n.to_i64_exact().and_then(|n| i32::try_from(n).ok()) {
        Some(n) => Ok(n),
        None => bail!(
            no_int,
            "$substrCP: {what} cannot be represented as a 32-bit integral value: {}",
            v
        ),
    }
}

fn check_not_negative(n: i32, what: &str, number: i32) -> Result<usize> {
    match usize::try_from(n) {
        Ok(n) => Ok(n),
        Err(_) => bail!(number, "$substrCP: {what} must be non-negative (got: {n})"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$substrBytes": ["hello", 1, 2]}"#, "string \"el\""),
            (r#"{"$substr": ["hello", 1, -1]}"#, "string \"ello\""),
            (r#"{"$substrBytes": ["$missing", 0, 1]}"#, "string \"\""),
            (r#"{"$substrBytes": [true, "x", 1]}"#, "error 16007"),
            (r#"{"$substrBytes": ["é", "$n", 1]}"#, "error 16034"),
            (r#"{"$substrBytes": ["é", 0, "$n"]}"#, "error 16035"),
            (r#"{"$substrBytes": ["é", 1, 1]}"#, "error 28656"),
            (r#"{"$substrBytes": ["é", 0, 1]}"#, "error 28657"),
            (r#"{"$substrBytes": ["é", -1, 1]}"#, "error 50752"),
            (r#"{"$substrBytes": ["é", 1e20, 1]}"#, "error 31109"),
            (r#"{"$substrCP": ["aéb", 1, 1]}"#, "string \"é\""),
            (r#"{"$substrCP": ["aéb", 3, 1]}"#, "string \"\""),
            (r#"{"$substrCP": ["a", "$n", 1]}"#, "error 34450"),
            (r#"{"$substrCP": ["a", 0.5, 1]}"#, "error 34451"),
            (r#"{"$substrCP": ["a", 0, "$n"]}"#, "error 34452"),
            (r#"{"$substrCP": ["a", 0, 1.5]}"#, "error 34453"),
            (r#"{"$substrCP": ["a", 0, -1]}"#, "error 34454"),
            (r#"{"$substrCP": ["a", -1, 1]}"#, "error 34455"),
            (r#"{"$substrCP": ["a", -1, -1]}"#, "error 34454"),
            (r#"{"$substrCP": ["a", -1, 1.5]}"#, "error 34453"),
        ]);
    }
}
