//! Conversions to numbers, dates and booleans.

use super::binary;
use super::target::{Kind, Target, failure, unsupported};
use crate::expr::date;
use model::{Decimal128, Number, Result, Rounding, Value};

/// To int, long, double, decimal or date.
///
/// # Errors
/// 241 ConversionFailure when there is no such conversion or the value is out of range.
pub(super) fn convert<'a>(v: Value<'a>, to: &Target<'_>) -> Result<Value<'a>> {
    if to.kind == Kind::Date {
        return to_date(&v, to).map(Value::Date);
    }
    match v {
        Value::Bool(b) => number(Number::Int32(i32::from(b)), &v, to),
        Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Decimal128(_) => {
            match Number::of(&v) {
                Some(n) => number(n, &v, to),
                None => Err(unsupported(&v, to)),
            }
        }
        Value::Date(ms) if to.kind != Kind::Int => number(Number::Int64(ms), &v, to),
        Value::String(s) => parse(s, &v, to),
        Value::Binary(b) if to.kind != Kind::Decimal => binary::to_number(b.bytes, &v, to),
        _ => Err(unsupported(&v, to)),
    }
}

fn number<'a>(n: Number, v: &Value<'_>, to: &Target<'_>) -> Result<Value<'a>> {
    let overflow = || failure(v, to.name, "Conversion would overflow target type");
    Ok(match to.kind {
        Kind::Int => Value::Int32(
            truncate_number(n)
                .and_then(|n| i32::try_from(n).ok())
                .ok_or_else(overflow)?,
        ),
        Kind::Long => Value::Int64(truncate_number(n).ok_or_else(overflow)?),
        Kind::Decimal => Value::Decimal128(n.to_decimal()),
        _ => {
            let x = n.to_f64();
            if let Number::Decimal(d) = n {
                let lost = x.is_infinite() && !d.is_infinite() || x == 0.0 && !d.is_zero();
                if lost {
                    return Err(overflow());
                }
            }
            Value::Double(x)
        }
    })
}

/// The integer part, if it fits a long.
fn truncate_number(n: Number) -> Option<i64> {
    match n {
        Number::Double(x) => Number::Double(x.trunc()).to_i64_exact(),
        Number::Decimal(d) => d.to_i64(Rounding::Trunc),
        n => n.to_i64_exact(),
    }
}

fn to_date(v: &Value<'_>, to: &Target<'_>) -> Result<i64> {
    match v {
        Value::Date(ms) | Value::Int64(ms) => Ok(*ms),
        Value::Double(_) | Value::Decimal128(_) => Number::of(v)
            .and_then(truncate_number)
            .ok_or_else(|| failure(v, to.name, "Conversion would overflow target type")),
        Value::Timestamp(t) => Ok(i64::from(t.time) * 1000),
        // MongoDB treats the seconds of an object id as signed here.
        Value::ObjectId(id) => Ok(i64::from((id.timestamp_ms() / 1000) as u32 as i32) * 1000),
        Value::String(s) => date::moment_of_text(s).map_err(|e| failure(v, to.name, e.message())),
        _ => Err(unsupported(v, to)),
    }
}

/// The digits of a whole number in a base.
///
/// # Errors
/// 241 ConversionFailure for a number that is not whole or no long.
pub(super) fn text_in_base(v: &Value<'_>, base: u32, to: &Target<'_>) -> Result<String> {
    let Some(n) = Number::of(v).and_then(Number::to_i64_exact) else {
        return Err(failure(
            v,
            to.name,
            "only whole numbers have a text in a base",
        ));
    };
    let digits = n.unsigned_abs();
    let sign = if n < 0 { "-" } else { "" };
    Ok(match base {
        2 => format!("{sign}{digits:b}"),
        8 => format!("{sign}{digits:o}"),
        16 => format!("{sign}{digits:X}"),
        _ => n.to_string(),
    })
}

fn parse<'a>(s: &str, v: &Value<'_>, to: &Target<'_>) -> Result<Value<'a>> {
    let bad = || failure(v, to.name, "Failed to parse number in $convert");
    if let Some(base) = to.base {
        let n = i64::from_str_radix(s, base).map_err(|_| bad())?;
        return number(Number::Int64(n), v, to);
    }
    Ok(match to.kind {
        Kind::Int => Value::Int32(s.parse().map_err(|_| bad())?),
        Kind::Long => Value::Int64(s.parse().map_err(|_| bad())?),
        Kind::Double => Value::Double(parse_double(s, to.subnormal).ok_or_else(bad)?),
        _ => Value::Decimal128(parse_decimal(s).ok_or_else(bad)?),
    })
}

/// Parses decimal or (signed) hexadecimal text of a double. Numbers beyond the range are refused;
/// numbers so small that digits are lost are accepted only with `subnormal`.
fn parse_double(s: &str, subnormal: bool) -> Option<f64> {
    let fits = |x: f64| x.is_normal() || subnormal && x.is_subnormal();
    // MongoDB refuses only "0x" itself; its C library accepts every other spelling.
    if let [b'+' | b'-', b'0', b'x' | b'X', ..] | [b'0', b'X', ..] = s.as_bytes() {
        return parse_hex_double(s, fits);
    }
    let x: f64 = s.parse().ok()?;
    let named = s
        .trim_start_matches(['+', '-'])
        .starts_with(|c: char| c.is_ascii_alphabetic());
    let mantissa = s.split(['e', 'E']).next().unwrap_or(s);
    let zero = !mantissa.bytes().any(|b| (b'1'..=b'9').contains(&b));
    (named || zero || fits(x)).then_some(x)
}

/// Parses `-0x1.8p1`, after the prefix.
fn parse_hex_double(s: &str, fits: impl Fn(f64) -> bool) -> Option<f64> {
    let digits = s.trim_start_matches(['+', '-']).get(2..)?;
    let (mantissa, exponent) = digits
        .split_once(['p', 'P'])
        .map_or((digits, None), |(m, e)| (m, Some(e)));
    let mut exponent: i32 = exponent.map_or(Some(0), |e| e.parse().ok())?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut x = 0.0f64;
    for c in whole.chars().chain(fraction.chars()) {
        x = x * 16.0 + f64::from(c.to_digit(16)?);
    }
    exponent = exponent.checked_sub(i32::try_from(fraction.len()).ok()?.checked_mul(4)?)?;
    let x = x * 2f64.powi(exponent);
    let zero = !mantissa.bytes().any(|b| b.is_ascii_hexdigit() && b != b'0');
    (zero || fits(x)).then_some(if s.starts_with('-') { -x } else { x })
}

fn parse_decimal(s: &str) -> Option<Decimal128> {
    let d = Decimal128::parse_with(s, Rounding::Trunc)?;
    let named = s
        .trim_start_matches(['+', '-'])
        .starts_with(|c: char| c.is_ascii_alphabetic());
    let mantissa = s.split(['e', 'E']).next().unwrap_or(s);
    let lost =
        d.is_infinite() || d.is_zero() && mantissa.bytes().any(|b| (b'1'..=b'9').contains(&b));
    (named || !lost).then_some(d)
}
