//! `$dateToString`: `{date, format, timezone, onNull}`. `onNull` (else null) for a nullish date,
//! null for another nullish operand. Without a format: `%Y-%m-%dT%H:%M:%S.%L`, with `Z` in UTC.
//! Errors: 18629 no document, 18534 unknown argument, 18628 no `date`, 18533 format no string,
//! 18535 / 18536 bad format, 18537 year outside 0-9999, 16006 no date, 40517 / 40485 bad zone.

use super::arguments::{ZoneArg, refuse_unknown, to_moment};
use super::zone::Zone;
use crate::Cx;
use crate::expr::args::missing_error;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use model::{Result, Value, bail};
use std::fmt::Write;

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$dateToString",
    parse: parse_to_string,
}];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

struct DateToString {
    date: BoxExpr,
    format: Option<BoxExpr>,
    zone: ZoneArg,
    on_null: Option<BoxExpr>,
}

fn parse_to_string(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(
            18629,
            "{name} only supports an object as its argument, found {}",
            spec.type_name()
        );
    };
    refuse_unknown(d, &["date", "format", "timezone", "onNull"], name, 18534)?;
    let date = d
        .get("date")
        .ok_or_else(|| missing_error(18628, name, "date"))?;
    let mut optional = |field: &str| d.get(field).map(|v| parse(cx, v)).transpose();
    let (format, on_null) = (optional("format")?, optional("onNull")?);
    if let Some(v) = format.as_ref().and_then(|e| e.constant()) {
        format_of(v)?;
    }
    Ok(Box::new(DateToString {
        date: parse(cx, date)?,
        format,
        zone: ZoneArg::parse(cx, d.get("timezone"))?,
        on_null,
    }))
}

/// A checked format; `None` when it is nullish.
fn format_of<'a>(v: Value<'a>) -> Result<Option<&'a str>> {
    let format = match v {
        Value::String(s) => s,
        v if v.is_nullish() => return Ok(None),
        v => bail!(
            18533,
            "$dateToString requires that 'format' be a string, found: {} with value \
            {v}",
            v.type_name()
        ),
    };
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c == '%' {
            match chars.next() {
                Some(
                    'b' | 'B' | 'd' | 'G' | 'H' | 'j' | 'L' | 'm' | 'M' | 'S' | 'u' | 'U' | 'V'
                    | 'w' | 'Y' | 'z' | 'Z' | '%',
                ) => {}
                Some(c) => bail!(18536, "Invalid format character '%{c}' in format string"),
                None => bail!(18535, "Unmatched '%' at end of format string"),
            }
        }
    }
    Ok(Some(format))
}

/// Writes a moment in a checked format.
pub(super) fn write(format: &str, utc_ms: i64, zone: &Zone) -> Result<String> {
    let c = zone.civil(utc_ms);
    let four_digits = |year: i64| -> Result<i64> {
        if !(0..=9999).contains(&year) {
            bail!(
                18537,
                "$dateToString is only defined on year 0-9999, tried to use year {year}"
            );
        }
        Ok(year)
    };
    let month = MONTHS.get(c.month as usize - 1).copied().unwrap_or("");
    let mut out = String::with_capacity(format.len() + 8);
    let mut chars = format.chars();
    while let Some(ch) = chars.next() {
        if ch != '%' {
            out.push(ch);
            continue;
        }
        // Writing to a string cannot fail.
        let _ = match chars.next() {
            Some('b') => write!(out, "{}", month.get(..3).unwrap_or(month)),
            Some('B') => write!(out, "{month}"),
            Some('d') => write!(out, "{:02}", c.day),
            Some('G') => write!(out, "{:04}", four_digits(c.iso_week().year)?),
            Some('H') => write!(out, "{:02}", c.hour()),
            Some('j') => write!(out, "{:03}", c.day_of_year()),
            Some('L') => write!(out, "{:03}", c.millisecond()),
            Some('m') => write!(out, "{:02}", c.month),
            Some('M') => write!(out, "{:02}", c.minute()),
            Some('S') => write!(out, "{:02}", c.second()),
            Some('u') => write!(out, "{}", c.iso_weekday()),
            Some('U') => write!(out, "{:02}", c.week()),
            Some('V') => write!(out, "{:02}", c.iso_week().week),
            Some('w') => write!(out, "{}", c.weekday() + 1),
            Some('Y') => write!(out, "{:04}", four_digits(c.year)?),
            Some('z') => {
                let minutes = zone.offset_ms(utc_ms) / 60_000;
                let sign = if minutes < 0 { '-' } else { '+' };
                write!(
                    out,
                    "{sign}{:02}{:02}",
                    minutes.abs() / 60,
                    minutes.abs() % 60
                )
            }
            Some('Z') => write!(out, "{}", zone.offset_ms(utc_ms) / 60_000),
            _ => write!(out, "%"),
        };
    }
    Ok(out)
}

impl Expr for DateToString {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let date = self.date.eval(cx)?;
        let format = self
            .format
            .as_ref()
            .map(|e| format_of(e.eval(cx)?))
            .transpose()?;
        let zone = self.zone.zone(cx)?;
        if date.is_nullish() {
            return self
                .on_null
                .as_ref()
                .map_or(Ok(Value::Null), |e| e.eval(cx));
        }
        let Some(zone) = zone else {
            return Ok(Value::Null);
        };
        let format = match format {
            Some(Some(format)) => format,
            Some(None) => return Ok(Value::Null),
            None if zone.is_utc() => "%Y-%m-%dT%H:%M:%S.%LZ",
            None => "%Y-%m-%dT%H:%M:%S.%L",
        };
        Ok(Value::String(cx.arena.alloc_str(&write(
            format,
            to_moment(&date)?,
            &zone,
        )?)))
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.date.as_ref());
        self.format
            .iter()
            .chain(&self.on_null)
            .for_each(|e| each(e.as_ref()));
        self.zone.visit(each);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        let doc = "{'d': {'$date': {'$numberLong': '1388564139736'}}, 'late': {'$date': \
            {'$numberLong': '253402300800000'}}}";
        crate::expr::check::table(&[
            ("{'$dateToString': {'date': '$d'}}", doc, "'2014-01-01T08:15:39.736Z'"),
            ("{'$dateToString': {'date': '$d', 'timezone': '+01:00'}}", doc,
                "'2014-01-01T09:15:39.736'"),
            ("{'$dateToString': {'date': '$d', 'format': '%b %B %d %G %H %j %L %m %M %S %u %U %V \
                %w %Y %z %Z %%',
                'timezone': 'America/New_York'}}", doc,
             "'Jan January 01 2014 03 001 736 01 15 39 3 00 01 4 2014 -0500 -300 %'"),
            ("{'$dateToString': {'date': '$none', 'onNull': 7}}", doc, "7"),
            ("{'$dateToString': {'date': '$none'}}", doc, "null"),
            ("{'$dateToString': {'date': '$d', 'format': '$none'}}", doc, "null"),
            ("{'$dateToString': {'date': '$none', 'format': '%x'}}", doc, "!18536"),
            ("{'$dateToString': {'date': '$d', 'format': '%'}}", doc, "!18535"),
            ("{'$dateToString': {'date': '$d', 'format': 1}}", doc, "!18533"),
            ("{'$dateToString': {'date': '$late', 'format': '%Y'}}", doc, "!18537"),
            ("{'$dateToString': {'date': 1}}", doc, "!16006"),
            ("{'$dateToString': {'format': '%Y'}}", doc, "!18628"),
            ("{'$dateToString': {'date': '$d', 'x': 1}}", doc, "!18534"),
            ("{'$dateToString': '$d'}", doc, "!18629"),
        ]);
    }
}
