//! BSON as relaxed extended JSON, appended to a line. Promises: the text is one line of valid JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{Array, Doc, Value};
use std::fmt::Write as _;

/// Nesting beyond this is not followed.
const DEPTH_MAX: usize = 100;

/// Appends a document as a JSON object.
pub fn append_document(out: &mut String, doc: Doc<'_>) {
    document(out, doc, 0);
}

/// Appends a string with its quotes.
pub(crate) fn string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// `2026-01-31T12:00:00.000+00:00`.
pub(crate) fn time(out: &mut String, ms: i64) {
    let (days, in_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (h, m, s) = (in_day / 3_600_000, in_day / 60_000 % 60, in_day / 1000 % 60);
    let milli = in_day % 1000;
    let _ = write!(
        out,
        "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{milli:03}+00:00"
    );
}

/// Year, month and day of a number of days since the epoch, in the Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    // Counted from 1 March of year 0, so that a leap day is the last of its year.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

fn document(out: &mut String, doc: Doc<'_>, depth: usize) {
    if depth > DEPTH_MAX {
        return out.push_str("\"...\"");
    }
    out.push('{');
    for (i, (name, v)) in doc.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        string(out, name);
        out.push(':');
        value(out, &v, depth + 1);
    }
    out.push('}');
}

fn array(out: &mut String, items: Array<'_>, depth: usize) {
    if depth > DEPTH_MAX {
        return out.push_str("\"...\"");
    }
    out.push('[');
    for (i, v) in items.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        value(out, &v, depth + 1);
    }
    out.push(']');
}

fn wrapped(out: &mut String, name: &str, text: &str) {
    let _ = write!(out, "{{\"${name}\":");
    string(out, text);
    out.push('}');
}

fn number(out: &mut String, n: f64) {
    if n.is_finite() {
        // Without a point it would be read as an integer.
        let _ = match n.fract() == 0.0 && n.abs() < 1e15 {
            true => write!(out, "{n:.1}"),
            false => write!(out, "{n:e}"),
        };
        return;
    }
    let text = match n {
        n if n.is_nan() => "NaN",
        n if n > 0.0 => "Infinity",
        _ => "-Infinity",
    };
    wrapped(out, "numberDouble", text);
}

fn binary(out: &mut String, subtype: u8, bytes: &[u8]) {
    if let (4, Ok(b)) = (subtype, <[u8; 16]>::try_from(bytes)) {
        let mut text = String::with_capacity(36);
        for (i, byte) in b.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            let _ = write!(text, "{byte:02x}");
        }
        return wrapped(out, "uuid", &text);
    }
    let text = STANDARD.encode(bytes);
    let _ = write!(
        out,
        "{{\"$binary\":{{\"base64\":\"{text}\",\"subType\":\"{subtype:x}\"}}}}"
    );
}

/// Appends binary data in the form of the first version of extended JSON.
pub(crate) fn old_binary(out: &mut String, subtype: u8, bytes: &[u8]) {
    let text = STANDARD.encode(bytes);
    let _ = write!(
        out,
        "{{\"$binary\":\"{text}\",\"$type\":\"{subtype:02x}\"}}"
    );
}

/// Appends a value.
pub(crate) fn value(out: &mut String, v: &Value<'_>, depth: usize) {
    let _ = match v {
        Value::Missing | Value::Null => write!(out, "null"),
        Value::MinKey => write!(out, "{{\"$minKey\":1}}"),
        Value::MaxKey => write!(out, "{{\"$maxKey\":1}}"),
        Value::Undefined => write!(out, "{{\"$undefined\":true}}"),
        Value::Bool(b) => write!(out, "{b}"),
        Value::Int32(n) => write!(out, "{n}"),
        Value::Int64(n) => write!(out, "{n}"),
        Value::Timestamp(t) => write!(
            out,
            "{{\"$timestamp\":{{\"t\":{},\"i\":{}}}}}",
            t.time, t.increment
        ),
        Value::Date(ms) => {
            out.push_str("{\"$date\":\"");
            time(out, *ms);
            write!(out, "\"}}")
        }
        other => {
            text(out, other, depth);
            Ok(())
        }
    };
}

fn text(out: &mut String, v: &Value<'_>, depth: usize) {
    match v {
        Value::Double(n) => number(out, *n),
        Value::Decimal128(d) => wrapped(out, "numberDecimal", &d.to_string()),
        Value::String(s) => string(out, s),
        Value::Symbol(s) => wrapped(out, "symbol", s),
        Value::Code(s) => wrapped(out, "code", s),
        Value::Document(d) => document(out, *d, depth),
        Value::Array(a) => array(out, *a, depth),
        Value::Binary(b) => binary(out, b.subtype, b.bytes),
        Value::ObjectId(id) => wrapped(out, "oid", &id.to_hex()),
        Value::Regex(r) => {
            out.push_str("{\"$regularExpression\":{\"pattern\":");
            string(out, r.pattern);
            out.push_str(",\"options\":");
            string(out, r.options);
            out.push_str("}}");
        }
        Value::DbPointer(ns, id) => {
            out.push_str("{\"$dbPointer\":{\"$ref\":");
            string(out, ns);
            let _ = write!(out, ",\"$id\":{{\"$oid\":\"{}\"}}}}}}", id.to_hex());
        }
        Value::CodeWithScope(code, scope) => {
            out.push_str("{\"$code\":");
            string(out, code);
            out.push_str(",\"$scope\":");
            document(out, Doc::from_prefix(scope), depth);
            out.push('}');
        }
        _ => out.push_str("null"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(ms: i64) -> String {
        let mut out = String::new();
        time(&mut out, ms);
        out
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(shown(0), "1970-01-01T00:00:00.000+00:00");
        assert_eq!(shown(951_782_400_123), "2000-02-29T00:00:00.123+00:00");
        assert_eq!(shown(1_795_359_599_999), "2026-11-22T14:59:59.999+00:00");
        assert_eq!(shown(-1), "1969-12-31T23:59:59.999+00:00");
    }

    #[test]
    fn every_text_is_one_line_and_numbers_keep_their_kind() {
        let mut out = String::new();
        let d = model::doc! { "a\"\n\u{1}": "x\ty\\", "n": 1i32, "d": 2.0, "e": 0.25,
        "in": { "list": [true, Value::Null] } };
        append_document(&mut out, d.doc());
        assert_eq!(
            out,
            r#"{"a\"\n\u0001":"x\ty\\","n":1,"d":2.0,"e":2.5e-1,"in":{"list":[true,null]}}"#
        );
    }
}
