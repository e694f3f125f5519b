//! Strings: by bytes and by code points, trimming, searching, replacing, regular expressions.

crate::expr_family! { case, concat, index_of, length, regex, replace, split, strcasecmp, substr,
trim }

use crate::expr::date;
use model::bson::MAX_DOCUMENT_BYTES;
use model::{Bump, Result, Value, bail};

/// The text of a value by MongoDB's coercion: null and missing are empty; numbers, dates and
/// timestamps are formatted.
///
/// # Errors
/// 16007 for the other types.
fn coerce<'a>(arena: &'a Bump, v: &Value<'a>) -> Result<&'a str> {
    let text = match *v {
        v if v.is_nullish() => return Ok(""),
        Value::String(s) | Value::Symbol(s) | Value::Code(s) => return Ok(s),
        Value::Int32(n) => n.to_string(),
        Value::Int64(n) => n.to_string(),
        Value::Double(n) => six_digits(n),
        Value::Decimal128(n) => n.to_string(),
        Value::Timestamp(t) => timestamp_text(t),
        Value::Date(ms) => match date::text_of_moment(ms) {
            Ok(text) => text,
            Err(_) => bail!(
                16007,
                "can't convert the date {ms} to a string: it is outside the years 0 to 9999"
            ),
        },
        v => bail!(
            16007,
            "can't convert from BSON type {} to String",
            v.type_name()
        ),
    };
    Ok(arena.alloc_str(&text))
}

/// Most bytes of text under construction; MongoDB's limit for a buffer.
const BUFFER_BYTES_MAX: usize = 64 << 20;

/// Checks the length of a text under construction.
///
/// # Errors
/// 13548 above 64 MiB.
fn check_buffer(bytes: usize) -> Result<()> {
    if bytes > BUFFER_BYTES_MAX {
        bail!(
            13548,
            "BufBuilder attempted to grow() to {bytes} bytes, past the 64MB limit."
        );
    }
    Ok(())
}

/// A computed string, whose length must be checked: a string read from a document always fits in
/// one.
///
/// # Errors
/// 16493 from 16 MiB on.
pub(in crate::expr) fn check_length<'a>(arena: &'a Bump, text: &str) -> Result<Value<'a>> {
    if text.len() >= MAX_DOCUMENT_BYTES {
        bail!(
            16493,
            "RCString too large. Requires size={} limit={MAX_DOCUMENT_BYTES}",
            text.len()
        );
    }
    Ok(Value::String(arena.alloc_str(text)))
}

/// A double as C's `%g` formats it, which coercion (unlike `$toString`) uses.
fn six_digits(n: f64) -> String {
    if n.is_nan() {
        return "nan".to_owned();
    }
    if n.is_infinite() {
        return if n > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{n:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |s: &str| match s.contains('.') {
        true => s.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => s.to_owned(),
    };
    if n != 0.0 && !(-4..6).contains(&exponent) {
        return format!(
            "{}e{}{:02}",
            trim(mantissa),
            if exponent < 0 { '-' } else { '+' },
            exponent.unsigned_abs()
        );
    }
    trim(&format!(
        "{n:.*}",
        usize::try_from(5 - exponent).unwrap_or(0)
    ))
}

/// `Jul 20 18:40:00:1`: month, day, time and ordinal.
fn timestamp_text(t: model::Timestamp) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let seconds = i64::from(t.time);
    let (month, day) = date::month_and_day(seconds * 1000);
    let of_day = seconds % 86_400;
    let month = MONTHS.get(month as usize - 1).unwrap_or(&"");
    format!(
        "{month} {day:2} {:02}:{:02}:{:02}:{}",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60,
        t.increment
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coerced_doubles_have_six_digits() {
        for (n, text) in [
            (3.0, "3"),
            (2.75, "2.75"),
            (-0.0, "-0"),
            (1e6, "1e+06"),
            (123456.0, "123456"),
            (0.1 + 0.2, "0.3"),
            (9007199254740992.0, "9.0072e+15"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (f64::NAN, "nan"),
            (999999.5, "1e+06"),
        ] {
            assert_eq!(six_digits(n), text);
        }
    }

    #[test]
    fn timestamps_print_without_their_year() {
        assert_eq!(
            timestamp_text(model::Timestamp {
                time: 1_704_067_200,
                increment: 42
            }),
            "Jan  1 00:00:00:42"
        );
    }
}
