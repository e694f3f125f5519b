//! `$indexOfBytes` and `$indexOfCP`: `[string, substring, start, end]`: the first position of a
//! substring, or -1; in bytes or code points. A null or missing string gives null. 28667 two to
//! four operands, 40091 / 40093 string and 40092 / 40094 substring not a string (by bytes / by code
//! points), 40096 an index that is no int, 40097 a negative one.

use crate::Cx;
use crate::expr::{Operator, nary};
use model::{Number, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$indexOfBytes",
        parse: |cx, name, spec| nary(cx, name, spec, 2..=4, bytes),
    },
    Operator {
        name: "$indexOfCP",
        parse: |cx, name, spec| nary(cx, name, spec, 2..=4, code_points),
    },
];

/// The checked operands; `None` for a null string.
struct Search<'a> {
    text: &'a str,
    wanted: &'a str,
    start: usize,
    end: Option<usize>,
}

impl<'a> Search<'a> {
    fn new(
        name: &str,
        no_text: i32,
        no_wanted: i32,
        v: &[Value<'a>],
    ) -> Result<Option<Search<'a>>> {
        let at = |i: usize| v.get(i).copied().unwrap_or_default();
        let (text, wanted) = (at(0), at(1));
        if text.is_nullish() {
            return Ok(None);
        }
        let Value::String(text) = text else {
            bail!(
                no_text,
                "{name} requires a string as the first argument, found: {}",
                text.type_name()
            );
        };
        let Value::String(wanted) = wanted else {
            bail!(
                no_wanted,
                "{name} requires a string as the second argument, found: {}",
                wanted.type_name()
            );
        };
        let start = if v.len() > 2 {
            index(name, "starting", &at(2))?
        } else {
            0
        };
        let end = if v.len() > 3 {
            Some(index(name, "ending", &at(3))?)
        } else {
            None
        };
        Ok(Some(Search {
            text,
            wanted,
            start,
            end,
        }))
    }
}

fn index(name: &str, which: &str, v: &Value<'_>) -> Result<usize> {
    let n = Number::of(v)
        .and_then(Number::to_i64_exact)
        .and_then(|n| i32::try_from(n).ok());
    let Some(n) = n else {
        bail!(
            40096,
            "{name} requires an integral {which} index, found a value of type: {}, with value: {}",
            v.type_name(),
            v
        );
    };
    match usize::try_from(n) {
        Ok(n) => Ok(n),
        Err(_) => bail!(
            40097,
            "{name} requires a nonnegative {which} index, found: {n}"
        ),
    }
}

fn answer<'a>(found: Option<usize>) -> Value<'a> {
    Value::Int32(found.and_then(|n| i32::try_from(n).ok()).unwrap_or(-1))
}

fn bytes<'a>(_: &Cx<'_, 'a>, v: &[Value<'a>]) -> Result<Value<'a>> {
    let Some(s) = Search::new("$indexOfBytes", 40091, 40092, v)? else {
        return Ok(Value::Null);
    };
    let text = s.text.as_bytes();
    let end = s.end.unwrap_or(text.len()).min(text.len());
    Ok(answer(
        text.get(s.start..end)
            .and_then(|part| find_bytes(part, s.wanted.as_bytes()))
            .map(|at| at + s.start),
    ))
}

/// Positions inside a code point are allowed here, so `str` methods cannot search.
fn find_bytes(text: &[u8], wanted: &[u8]) -> Option<usize> {
    if wanted.is_empty() {
        Some(0)
    } else {
        text.windows(wanted.len()).position(|w| w == wanted)
    }
}

fn code_points<'a>(_: &Cx<'_, 'a>, v: &[Value<'a>]) -> Result<Value<'a>> {
    let Some(s) = Search::new("$indexOfCP", 40093, 40094, v)? else {
        return Ok(Value::Null);
    };
    // The empty string has no positions, but the empty substring is found in it.
    if s.text.is_empty() && s.wanted.is_empty() {
        return Ok(answer(Some(0)));
    }
    // `end` limits where a match begins, not where it ends.
    let places = s.text.char_indices().map(|(byte, _)| byte).enumerate();
    let found = places
        .take(s.end.unwrap_or(usize::MAX))
        .skip(s.start)
        .find(|(_, byte)| s.text.get(*byte..).is_some_and(|t| t.starts_with(s.wanted)))
        .map(|(place, _)| place);
    Ok(answer(found))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$indexOfBytes": ["éa", "a"]}"#, "int 2"),
            (r#"{"$indexOfCP": ["éa", "a"]}"#, "int 1"),
            (r#"{"$indexOfBytes": ["hello", "", 5]}"#, "int 5"),
            (r#"{"$indexOfCP": ["hello", "", 4]}"#, "int 4"),
            (r#"{"$indexOfCP": ["hello", "", 5]}"#, "int -1"),
            (r#"{"$indexOfCP": ["hello", "", 6]}"#, "int -1"),
            (r#"{"$indexOfCP": ["hello", "", 2, 2]}"#, "int -1"),
            (r#"{"$indexOfCP": ["", "", 3]}"#, "int 0"),
            (r#"{"$indexOfCP": ["hello", "lo", 0, 4]}"#, "int 3"),
            (r#"{"$indexOfCP": ["hello", "lo", 0, 3]}"#, "int -1"),
            (r#"{"$indexOfCP": ["hello", "l", 3, 4]}"#, "int 3"),
            (r#"{"$indexOfBytes": ["hello", "l", 4, 2]}"#, "int -1"),
            (r#"{"$indexOfCP": ["$missing", 1]}"#, "null null"),
            (r#"{"$indexOfBytes": [1, "a"]}"#, "error 40091"),
            (r#"{"$indexOfBytes": ["a", "$n"]}"#, "error 40092"),
            (r#"{"$indexOfCP": [1, "a"]}"#, "error 40093"),
            (r#"{"$indexOfCP": ["a", 1]}"#, "error 40094"),
            (r#"{"$indexOfCP": ["a", "a", 0.5]}"#, "error 40096"),
            (r#"{"$indexOfCP": ["a", "a", 0, -1]}"#, "error 40097"),
            (r#"{"$indexOfCP": ["a"]}"#, "error 28667"),
        ]);
    }
}
