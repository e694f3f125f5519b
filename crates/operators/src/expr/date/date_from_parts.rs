//! `$dateFromParts`: `{year, month, day, hour, minute, second, millisecond, timezone}` or
//! `{isoWeekYear, isoWeek, isoDayOfWeek, ...}`; parts beyond their range carry over. Null for a
//! nullish operand. Errors: 40519 no document, 40518 unknown argument, 40516 neither kind of year,
//! 40489 / 40525 both kinds mixed, 40515 no integer, 31034 beyond 16 bits, 40523 / 31095 year
//! outside 1-9999, 159 overflow, 40517 / 40485 bad zone.

use super::arguments::{ZoneArg, refuse_unknown};
use super::calendar::{DAY_MS, days_of_month_number, iso_year_start};
use crate::Cx;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use model::{MongoError, Number, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$dateFromParts",
    parse: parse_from_parts,
}];

const TIME: [&str; 4] = ["hour", "minute", "second", "millisecond"];
const NATURAL: [&str; 3] = ["year", "month", "day"];
const ISO: [&str; 3] = ["isoWeekYear", "isoWeek", "isoDayOfWeek"];

struct DateFromParts {
    /// Year, month and day, or their ISO counterparts.
    date: [Option<BoxExpr>; 3],
    iso: bool,
    time: [Option<BoxExpr>; 4],
    zone: ZoneArg,
}

fn parse_from_parts(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(
            40519,
            "{name} only supports an object as its argument, found {}",
            spec.type_name()
        );
    };
    let known: Vec<&str> = NATURAL
        .into_iter()
        .chain(ISO)
        .chain(TIME)
        .chain(["timezone"])
        .collect();
    refuse_unknown(d, &known, name, 40518)?;
    let (has_year, has_iso) = (d.contains("year"), d.contains("isoWeekYear"));
    if !has_year && !has_iso {
        bail!(
            40516,
            "{name} requires either 'year' or 'isoWeekYear' to be present"
        );
    }
    if has_year && ISO.iter().any(|f| d.contains(f)) {
        bail!(
            40489,
            "{name} does not allow mixing natural dates with ISO dates"
        );
    }
    if has_iso && NATURAL.iter().any(|f| d.contains(f)) {
        bail!(
            40525,
            "{name} does not allow mixing ISO dates with natural dates"
        );
    }
    let mut part = |field: &str| d.get(field).map(|v| parse(cx, v)).transpose();
    let [year, month, day] = if has_iso { ISO } else { NATURAL };
    let [hour, minute, second, millisecond] = TIME;
    let date = [part(year)?, part(month)?, part(day)?];
    let time = [
        part(hour)?,
        part(minute)?,
        part(second)?,
        part(millisecond)?,
    ];
    Ok(Box::new(DateFromParts {
        date,
        iso: has_iso,
        time,
        zone: ZoneArg::parse(cx, d.get("timezone"))?,
    }))
}

/// One part; `None` when it is nullish.
fn part<'a>(
    e: Option<&'a BoxExpr>,
    field: &str,
    default: i64,
    cx: &Cx<'_, 'a>,
) -> Result<Option<i64>> {
    let Some(e) = e else { return Ok(Some(default)) };
    let v = e.eval(cx)?;
    if v.is_nullish() {
        return Ok(None);
    }
    let Some(n) = Number::of(&v).and_then(Number::to_i64_exact) else {
        bail!(
            40515,
            "'{field}' must evaluate to an integer, found {} with value {v}",
            v.type_name()
        );
    };
    let bounded = !matches!(field, "year" | "isoWeekYear" | "second" | "millisecond");
    if bounded && i16::try_from(n).is_err() {
        bail!(
            31034,
            "'{field}' must evaluate to a value in the range [-32768, 32767]; value {n} \
            is not in range"
        );
    }
    Ok(Some(n))
}

impl Expr for DateFromParts {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let mut time = [0i64; 4];
        for ((slot, e), field) in time.iter_mut().zip(&self.time).zip(TIME) {
            let Some(n) = part(e.as_ref(), field, 0, cx)? else {
                return Ok(Value::Null);
            };
            *slot = n;
        }
        let Some(zone) = self.zone.zone(cx)? else {
            return Ok(Value::Null);
        };
        let fields = if self.iso { ISO } else { NATURAL };
        let mut date = [1i64; 3];
        for ((slot, e), field) in date.iter_mut().zip(&self.date).zip(fields) {
            let Some(n) = part(e.as_ref(), field, 1, cx)? else {
                return Ok(Value::Null);
            };
            *slot = n;
        }
        let [year, month, day] = date;
        if !(1..=9999).contains(&year) {
            let (code, field) = if self.iso {
                (31095, "isoWeekYear")
            } else {
                (40523, "year")
            };
            bail!(
                code,
                "'{field}' must evaluate to an integer in the range 1 to 9999, found \
                {year}"
            );
        }
        let days = if self.iso {
            iso_year_start(year) + (month - 1) * 7 + day - 1
        } else {
            days_of_month_number(year * 12 + month - 1) + day - 1
        };
        let [hour, minute, second, millisecond] = time;
        let overflow = || MongoError::new(159, "Overflow while making a date of its parts");
        let local = second
            .checked_mul(1000)
            .and_then(|ms| ms.checked_add(millisecond))
            .and_then(|ms| ms.checked_add(days * DAY_MS + hour * 3_600_000 + minute * 60_000))
            .ok_or_else(overflow)?;
        Ok(Value::Date(zone.utc_ms(local).ok_or_else(overflow)?))
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        self.date
            .iter()
            .chain(&self.time)
            .flatten()
            .for_each(|e| each(e.as_ref()));
        self.zone.visit(each);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        let date = |ms: &str| format!("{{'$date': {{'$numberLong': '{ms}'}}}}");
        let rows = [
            (
                "{'year': 2017, 'month': 2, 'day': 8, 'hour': 12, 'timezone': 'America/New_York'}",
                date("1486573200000"),
            ),
            (
                "{'year': 2017, 'month': 14, 'day': 0}",
                date("1517356800000"),
            ),
            (
                "{'year': 2017, 'month': 0, 'second': -1, 'millisecond': 5}",
                date("1480550399005"),
            ),
            (
                "{'isoWeekYear': 2017, 'isoWeek': 6, 'isoDayOfWeek': 3}",
                date("1486512000000"),
            ),
            ("{'year': '$none'}", "null".into()),
            ("{'year': 2017, 'timezone': null}", "null".into()),
            ("{'year': 10000}", "!40523".into()),
            ("{'isoWeekYear': 0}", "!31095".into()),
            ("{'year': 'x'}", "!40515".into()),
            ("{'year': 1, 'month': 1.5}", "!40515".into()),
            ("{'year': 1, 'day': 32768}", "!31034".into()),
            (
                "{'year': 1, 'second': {'$numberLong': '9223372036854775807'}}",
                "!159".into(),
            ),
            ("{'month': 1}", "!40516".into()),
            ("{'year': 1, 'isoWeek': 1}", "!40489".into()),
            ("{'isoWeekYear': 1, 'day': 1}", "!40525".into()),
            ("{'year': 1, 'x': 1}", "!40518".into()),
            ("1", "!40519".into()),
        ];
        for (spec, want) in &rows {
            crate::expr::check::table(&[(&format!("{{'$dateFromParts': {spec}}}"), "{}", want)]);
        }
    }
}
