//! `$dateFromString`: `{dateString, format, timezone, onError, onNull}`. `onNull` (else null) for a
//! nullish text, null for another nullish operand, `onError` when the text is no date. Errors:
//! 40540 no document, 40541 unknown argument, 40542 no `dateString`, 40684 format no string, 18535
//! / 18536 bad format, 241 no date, 40517 / 40485 bad zone.

use super::arguments::{ZoneArg, refuse_unknown};
use super::parse_text::{free, parse_by_format};
use super::zone::Zone;
use crate::Cx;
use crate::expr::args::missing_error;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$dateFromString",
    parse: parse_from_string,
}];

/// ConversionFailure.
const CONVERSION_FAILURE: i32 = 241;

struct DateFromString {
    text: BoxExpr,
    format: Option<BoxExpr>,
    zone: ZoneArg,
    on_error: Option<BoxExpr>,
    on_null: Option<BoxExpr>,
}

fn parse_from_string(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(
            40540,
            "{name} only supports an object as an argument, found: {}",
            spec.type_name()
        );
    };
    refuse_unknown(
        d,
        &["dateString", "format", "timezone", "onError", "onNull"],
        name,
        40541,
    )?;
    let text = d
        .get("dateString")
        .ok_or_else(|| missing_error(40542, name, "dateString"))?;
    let text = parse(cx, text)?;
    let mut optional = |field: &str| d.get(field).map(|v| parse(cx, v)).transpose();
    let (format, on_error, on_null) = (
        optional("format")?,
        optional("onError")?,
        optional("onNull")?,
    );
    if let Some(v) = format.as_ref().and_then(|e| e.constant()) {
        format_of(v)?;
    }
    Ok(Box::new(DateFromString {
        text,
        format,
        zone: ZoneArg::parse(cx, d.get("timezone"))?,
        on_error,
        on_null,
    }))
}

/// A checked format; `None` when it is nullish.
fn format_of<'a>(v: Value<'a>) -> Result<Option<&'a str>> {
    let format = match v {
        Value::String(s) => s,
        v if v.is_nullish() => return Ok(None),
        v => bail!(
            40684,
            "$dateFromString requires that 'format' be a string, found: {} with \
            value {v}",
            v.type_name()
        ),
    };
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c == '%' {
            match chars.next() {
                Some(
                    'b' | 'B' | 'd' | 'G' | 'H' | 'j' | 'L' | 'm' | 'M' | 'S' | 'u' | 'V' | 'Y'
                    | 'z' | 'Z' | '%',
                ) => {}
                Some(c) => bail!(18536, "Invalid format character '%{c}' in format string"),
                None => bail!(18535, "Unmatched '%' at end of format string"),
            }
        }
    }
    Ok(Some(format))
}

/// Parses a date text. A time zone in the text and one in the arguments exclude each other, except
/// for UTC.
///
/// # Errors
/// 241 ConversionFailure.
pub(super) fn moment_of(text: &str, format: Option<&str>, zone: &Zone) -> Result<i64> {
    let found = match format {
        Some(format) => parse_by_format(text, format),
        None => free(text),
    };
    let local = found.and_then(|found| Ok((found.local_ms()?, found.zone)));
    let (local, own_zone) = match local {
        Ok(found) => found,
        Err(why) => bail!(CONVERSION_FAILURE, "{why}"),
    };
    if own_zone.is_some() && !zone.is_utc() {
        bail!(
            CONVERSION_FAILURE,
            "you cannot pass in a date/time string with time zone \
            information ('{text}') together with a timezone argument"
        );
    }
    match own_zone.as_ref().unwrap_or(zone).utc_ms(local) {
        Some(ms) => Ok(ms),
        None => bail!(
            CONVERSION_FAILURE,
            "Error parsing date string '{text}'; it is out of range"
        ),
    }
}

impl Expr for DateFromString {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let text = self.text.eval(cx)?;
        let format = self
            .format
            .as_ref()
            .map(|e| format_of(e.eval(cx)?))
            .transpose()?;
        let zone = self.zone.zone(cx)?;
        if text.is_nullish() {
            return self
                .on_null
                .as_ref()
                .map_or(Ok(Value::Null), |e| e.eval(cx));
        }
        let moment = match text {
            Value::String(text) => {
                let (Some(zone), false) = (&zone, format == Some(None)) else {
                    return Ok(Value::Null);
                };
                moment_of(text, format.flatten(), zone)
            }
            v => Err(model::MongoError::new(
                CONVERSION_FAILURE,
                format!(
                    "$dateFromString requires that 'dateString' be a string, found: {} with \
                    value {v}",
                    v.type_name()
                ),
            )),
        };
        match (moment, &self.on_error) {
            (Ok(ms), _) => Ok(Value::Date(ms)),
            (Err(e), Some(on_error)) if e.code() == CONVERSION_FAILURE => on_error.eval(cx),
            (Err(e), _) => Err(e),
        }
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.text.as_ref());
        self.format
            .iter()
            .chain(&self.on_error)
            .chain(&self.on_null)
            .for_each(|e| each(e.as_ref()));
        self.zone.visit(each);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        let parse = |rest: &str| format!("{{'$dateFromString': {{{rest}}}}}");
        let date = |text: &str| format!("{{'$date': '{text}Z'}}");
        let rows = [
            (
                parse("'dateString': '2017-02-08T12:10:40.787'"),
                date("2017-02-08T12:10:40.787"),
            ),
            (
                parse("'dateString': '2017-02-08T12:10:40.787', 'timezone': 'America/New_York'"),
                date("2017-02-08T17:10:40.787"),
            ),
            (
                parse("'dateString': '2017-02-08 12:00:00+01:00'"),
                date("2017-02-08T11:00:00"),
            ),
            (
                parse("'dateString': '06-15-2018 07h', 'format': '%m-%d-%Y %Hh'"),
                date("2018-06-15T07:00:00"),
            ),
            (
                parse("'dateString': '2018 Jun 15 -0300', 'format': '%Y %b %d %z'"),
                date("2018-06-15T03:00:00"),
            ),
            (
                parse("'dateString': '2017 10 3', 'format': '%G %V %u'"),
                date("2017-03-08T00:00:00"),
            ),
            (parse("'dateString': '$none', 'onNull': 1"), "1".into()),
            (parse("'dateString': '$none'"), "null".into()),
            (
                parse("'dateString': '2018-01-01', 'timezone': null"),
                "null".into(),
            ),
            (parse("'dateString': 'x', 'onError': 'bad'"), "'bad'".into()),
            (parse("'dateString': 5, 'onError': 'bad'"), "'bad'".into()),
            (parse("'dateString': '12:00'"), "!241".into()),
            (parse("'dateString': 5"), "!241".into()),
            (
                parse("'dateString': '2018-01-01T00:00:00Z', 'timezone': 'Europe/Paris'"),
                "!241".into(),
            ),
            (
                parse("'dateString': '2018-01-01', 'format': '%Y-%m'"),
                "!241".into(),
            ),
            (
                parse("'dateString': '2018-01-01', 'format': '%Y-%n'"),
                "!18536".into(),
            ),
            (
                parse("'dateString': '2018-01-01', 'format': '%Y-%'"),
                "!18535".into(),
            ),
            (
                parse("'dateString': '2018-01-01', 'format': 1"),
                "!40684".into(),
            ),
            (
                parse("'dateString': '2018-01-01', 'timezone': 'x'"),
                "!40485".into(),
            ),
            (parse("'dateString': '2018-01-01', 'x': 1"), "!40541".into()),
            (parse("'format': '%Y'"), "!40542".into()),
            ("{'$dateFromString': 1}".into(), "!40540".into()),
        ];
        for (expr, want) in &rows {
            crate::expr::check::table(&[(expr, "{}", want)]);
        }
    }
}
