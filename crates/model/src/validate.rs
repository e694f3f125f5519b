//! Validation of untrusted bytes: one pass proves that they are a well-formed BSON document, after
//! which every reader may trust lengths, terminators, types, UTF-8 and depth.

use crate::bson::{Doc, Elements, Tag, Value, payload_len};
use crate::{MongoError, Result, code};

/// Deepest nesting the parser accepts; the outermost document is level 1 (MongoDB counts it as
/// level 0 and allows 200).
pub const MAX_DEPTH: usize = 201;
/// Deepest nesting of a stored document.
pub const MAX_STORED_DEPTH: usize = 180;

/// Validates `bytes` as one document.
///
/// # Errors
/// 22 InvalidBSON for malformed bytes, 15 Overflow when nested deeper than [`MAX_DEPTH`].
pub fn validate(bytes: &[u8]) -> Result<Doc<'_>> {
    validate_with_limit(bytes, MAX_DEPTH)
}

/// Validates with another depth limit (at most [`MAX_DEPTH`]).
///
/// # Errors
/// The errors of [`validate`].
pub fn validate_with_limit(bytes: &[u8], depth: usize) -> Result<Doc<'_>> {
    check_doc(bytes, depth.min(MAX_DEPTH))?;
    Doc::new(bytes).ok_or_else(|| report_invalid("document length does not match its bytes"))
}

/// Whether a well-formed document is nested in more levels than these. The outermost document is
/// level 1; the scope of code is a level as in [`validate`].
///
/// # Cost
/// Looks only into elements that are large enough: a level has at least 8 bytes.
pub fn is_deeper_than(d: Doc<'_>, levels: usize) -> bool {
    let Some(left) = levels.checked_sub(1) else {
        return true;
    };
    if d.len_bytes() < levels * 8 {
        return false;
    }
    d.elements().any(|e| {
        let inner = match e.tag {
            Tag::DOCUMENT | Tag::ARRAY => Doc::new(e.payload),
            Tag::CODE_WITH_SCOPE => match e.value() {
                Value::CodeWithScope(_, scope) => Doc::new(scope),
                _ => None,
            },
            _ => None,
        };
        inner.is_some_and(|d| is_deeper_than(d, left))
    })
}

fn report_invalid(what: &str) -> MongoError {
    MongoError::new(code::INVALID_BSON, format!("invalid BSON: {what}"))
}

fn check_doc(bytes: &[u8], depth: usize) -> Result<()> {
    if Doc::new(bytes).is_none() {
        return Err(report_invalid("document length does not match its bytes"));
    }
    if depth == 0 {
        return Err(MongoError::new(
            code::OVERFLOW,
            format!(
                "BSONObj exceeds maximum nested object depth: {}",
                MAX_DEPTH - 1
            ),
        ));
    }
    let body = bytes.get(4..bytes.len() - 1).unwrap_or(&[]);
    let mut it = Elements::new(body);
    for e in it.by_ref() {
        utf8(e.name)?;
        check_payload(e.tag, e.payload, depth)?;
    }
    match it.unread_bytes().split_first() {
        None => Ok(()),
        Some((&t, rest)) => Err(report_invalid(&match payload_len(Tag(t), rest) {
            None if Tag(t).name() == "invalid" || t == 0 => format!("unknown type byte 0x{t:02x}"),
            _ => "an element runs past the end of its document".to_owned(),
        })),
    }
}

fn utf8(b: &[u8]) -> Result<()> {
    std::str::from_utf8(b)
        .map(|_| ())
        .map_err(|_| report_invalid("text is not UTF-8"))
}

/// `len(4) | bytes | 0` where len counts the zero.
fn check_string(b: &[u8]) -> Result<()> {
    match b.get(4..) {
        Some([text @ .., 0]) => utf8(text),
        _ => Err(report_invalid("a string does not end with a zero byte")),
    }
}

fn check_payload(tag: Tag, b: &[u8], depth: usize) -> Result<()> {
    match tag {
        Tag::STRING | Tag::CODE | Tag::SYMBOL => check_string(b),
        Tag::DOCUMENT | Tag::ARRAY => check_doc(b, depth - 1),
        Tag::BOOL => match b {
            [0 | 1] => Ok(()),
            _ => Err(report_invalid("a boolean is neither 0 nor 1")),
        },
        Tag::REGEX => utf8(b),
        Tag::DB_POINTER => check_string(b.get(..b.len().saturating_sub(12)).unwrap_or(&[])),
        Tag::BINARY => match b {
            // The old binary subtype repeats its length inside its data.
            [l0, l1, l2, l3, 2, rest @ ..] => {
                let outer = i32::from_le_bytes([*l0, *l1, *l2, *l3]);
                let inner = rest.first_chunk::<4>().map(|c| i32::from_le_bytes(*c));
                if inner.is_some_and(|n| i64::from(n) + 4 == i64::from(outer)) {
                    Ok(())
                } else {
                    Err(report_invalid("binary subtype 2 has a wrong inner length"))
                }
            }
            _ => Ok(()),
        },
        Tag::CODE_WITH_SCOPE => {
            let code = b.get(4..).unwrap_or(&[]);
            let len = payload_len(Tag::STRING, code).filter(|&n| n <= code.len());
            let Some(len) = len else {
                return Err(report_invalid("code with scope is cut short"));
            };
            check_string(&code[..len])?;
            check_doc(&code[len..], depth - 1)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc;
    use proptest::prelude::*;

    #[test]
    fn accepts_every_type_and_refuses_cuts() {
        let d = doc! { "a": 1i32, "s": "x", "n": { "b": [1i64, 2.5, { "c": true }] } };
        assert!(validate(d.as_bytes()).is_ok());
        for cut in 0..d.as_bytes().len() {
            assert!(validate(&d.as_bytes()[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn the_scope_of_code_counts_as_a_level() {
        let mut d = crate::DocBuf::new();
        d.put("x", 1i32);
        for level in 1..100 {
            assert!(!is_deeper_than(d.doc(), level), "{level}");
            assert!(is_deeper_than(d.doc(), level - 1), "{level}");
            assert!(validate_with_limit(d.as_bytes(), level).is_ok());
            assert!(validate_with_limit(d.as_bytes(), level - 1).is_err());
            let inner = d;
            d = crate::DocBuf::new();
            match level % 2 {
                0 => d.put("a", &inner),
                _ => d.put("c", Value::CodeWithScope("f", inner.as_bytes())),
            };
        }
    }

    #[test]
    fn refuses_deep_nesting() {
        let mut d = crate::DocBuf::new();
        for _ in 1..MAX_DEPTH {
            let inner = d;
            d = crate::DocBuf::new();
            d.put("a", &inner);
        }
        assert!(validate(d.as_bytes()).is_ok());
        let mut deeper = crate::DocBuf::new();
        deeper.put("a", &d);
        assert_eq!(
            validate(deeper.as_bytes()).unwrap_err().code(),
            code::OVERFLOW
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = validate(&bytes);
            // Readers must be total even on bytes that were never validated.
            for (name, v) in Doc::from_prefix(&bytes).iter() {
                let _ = format!("{name}{v:?}");
            }
        }

        #[test]
        fn mutated_documents_are_survived(at in 0usize..60, to in any::<u8>()) {
            let d = doc! { "a": 1i32, "s": "hello", "n": { "b": [1i64, 2.5, { "c": true }] },
                "t": "x" };
            let mut bytes = d.into_bytes();
            let n = bytes.len();
            bytes[at % n] = to;
            if let Ok(ok) = validate(&bytes) {
                for (name, v) in ok.iter() {
                    let _ = format!("{name}{v:?}");
                }
            }
        }
    }
}
