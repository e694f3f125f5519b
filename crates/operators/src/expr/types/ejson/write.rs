//! Values to extended JSON: which types get a wrapper, in the canonical and the relaxed form.

use super::super::digits::double_text;
use crate::expr::date;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::MAX_DEPTH;
use model::{ArrayWriter, Doc, DocWriter, MongoError, Result, Value, code};

/// The binary subtype whose stored bytes begin with their own length, which extended JSON omits.
pub(super) const OLD_BINARY: u8 = 2;
/// Times written as text in the relaxed form: the years 1970 to 9999.
const WITH_TEXT: std::ops::Range<i64> = 0..253_402_300_800_000;

/// Puts a value into a document.
///
/// # Errors
/// 241 ConversionFailure for a result that is nested too deeply.
pub(super) fn put(
    w: &mut DocWriter<'_>,
    name: &str,
    v: &Value<'_>,
    relaxed: bool,
    depth: usize,
) -> Result<()> {
    match v {
        Value::Document(d) => fields(&mut w.doc(name), *d, relaxed, deeper(depth)?),
        Value::Array(a) => elements(&mut w.array(name), *a, relaxed, deeper(depth)?),
        v if stays(v, relaxed) => {
            w.put(name, v);
            Ok(())
        }
        v => wrap(&mut w.doc(name), v, relaxed, deeper(depth)?),
    }
}

fn fields(w: &mut DocWriter<'_>, d: Doc<'_>, relaxed: bool, depth: usize) -> Result<()> {
    d.iter()
        .try_for_each(|(n, v)| put(w, n, &v, relaxed, depth))
}

fn elements(
    w: &mut ArrayWriter<'_>,
    a: model::Array<'_>,
    relaxed: bool,
    depth: usize,
) -> Result<()> {
    for v in a.iter() {
        match v {
            Value::Document(d) => fields(&mut w.doc(), d, relaxed, deeper(depth)?)?,
            Value::Array(a) => {
                elements(&mut ArrayWriter::array(w), a, relaxed, deeper(depth)?)?;
            }
            v if stays(&v, relaxed) => _ = w.push(v),
            v => wrap(&mut w.doc(), &v, relaxed, deeper(depth)?)?,
        }
    }
    Ok(())
}

/// Whether JSON has the type, or a number for it in the relaxed form.
fn stays(v: &Value<'_>, relaxed: bool) -> bool {
    match v {
        Value::Missing | Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Int32(_) | Value::Int64(_) => relaxed,
        Value::Double(x) => relaxed && x.is_finite(),
        _ => false,
    }
}

/// The fields of a wrapper.
fn wrap(w: &mut DocWriter<'_>, v: &Value<'_>, relaxed: bool, depth: usize) -> Result<()> {
    match v {
        Value::Int32(n) => _ = w.put("$numberInt", n.to_string().as_str()),
        Value::Int64(n) => _ = w.put("$numberLong", n.to_string().as_str()),
        Value::Double(x) => _ = w.put("$numberDouble", double_text(*x).as_str()),
        Value::Decimal128(n) => _ = w.put("$numberDecimal", n.to_string().as_str()),
        Value::ObjectId(id) => _ = w.put("$oid", id.to_hex().as_str()),
        Value::Date(ms) if relaxed && WITH_TEXT.contains(ms) => {
            w.put("$date", date::text_of_moment(*ms)?.as_str());
        }
        Value::Date(ms) => {
            deeper(depth)?;
            w.doc("$date").put("$numberLong", ms.to_string().as_str());
        }
        Value::Timestamp(t) => {
            deeper(depth)?;
            w.doc("$timestamp")
                .put("t", i64::from(t.time))
                .put("i", i64::from(t.increment));
        }
        Value::Binary(b) => {
            deeper(depth)?;
            let bytes = match b.subtype {
                OLD_BINARY => b.bytes.get(4..).unwrap_or(&[]),
                _ => b.bytes,
            };
            w.doc("$binary")
                .put("base64", STANDARD.encode(bytes).as_str())
                .put("subType", format!("{:02x}", b.subtype).as_str());
        }
        Value::Regex(r) => {
            deeper(depth)?;
            w.doc("$regularExpression")
                .put("pattern", r.pattern)
                .put("options", r.options);
        }
        Value::DbPointer(ns, id) => {
            deeper(deeper(depth)?)?;
            let mut pointer = w.doc("$dbPointer");
            pointer.put("$ref", *ns);
            pointer.doc("$id").put("$oid", id.to_hex().as_str());
        }
        Value::Code(c) => _ = w.put("$code", *c),
        Value::CodeWithScope(c, scope) => {
            w.put("$code", *c);
            let scope = Doc::from_prefix(scope);
            // The scope is canonical in both forms.
            fields(&mut w.doc("$scope"), scope, false, deeper(depth)?)?;
        }
        Value::Symbol(s) => _ = w.put("$symbol", *s),
        Value::Undefined => _ = w.put("$undefined", true),
        Value::MinKey => _ = w.put("$minKey", 1i32),
        Value::MaxKey => _ = w.put("$maxKey", 1i32),
        v => _ = w.put("", v),
    }
    Ok(())
}

/// A conversion that fails for its input.
pub(super) fn failure(why: impl std::fmt::Display) -> MongoError {
    MongoError::new(code::CONVERSION_FAILURE, why.to_string())
}

/// Counts a level of nesting.
pub(super) fn deeper(depth: usize) -> Result<usize> {
    if depth + 1 >= MAX_DEPTH {
        return Err(failure(format!(
            "the result would be nested deeper than {} levels",
            MAX_DEPTH - 1
        )));
    }
    Ok(depth + 1)
}
