//! `$dateTrunc`: `{date, unit, binSize, timezone, startOfWeek}`, the start of the bin that contains
//! a date; bins are counted from local 2000-01-01 (weeks from the first start of a week on or after
//! it). Null for a nullish operand. Errors: 5439007 no document, 5439008 unknown argument, 5439009
//! / 5439010 no `date` / `unit`, 5166307 no date, 5439017 / 5439018 bad binSize, 5439013 / 9 bad
//! unit, 5439015 / 5439016 bad day, 5439002 / 5439006 a bin too large, 5439019 overflow, 40517 /
//! 40485 bad zone.

use super::arguments::{Unit, ZoneArg, moment, refuse_unknown, weekday_of};
use super::calendar::{DAY_MS, days_from_civil, days_of_month_number};
use super::zone::Zone;
use crate::Cx;
use crate::expr::args::missing_error;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use model::{MongoError, Number, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$dateTrunc",
    parse: parse_trunc,
}];

struct DateTrunc {
    date: BoxExpr,
    unit: BoxExpr,
    bin: Option<BoxExpr>,
    week_start: Option<BoxExpr>,
    zone: ZoneArg,
}

fn parse_trunc(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(
            5439007,
            "{name} only supports an object as its argument, found {}",
            spec.type_name()
        );
    };
    refuse_unknown(
        d,
        &["date", "unit", "binSize", "timezone", "startOfWeek"],
        name,
        5439008,
    )?;
    let mut required = |field, code| {
        parse(
            cx,
            d.get(field)
                .ok_or_else(|| missing_error(code, name, field))?,
        )
    };
    let (date, unit) = (required("date", 5439009)?, required("unit", 5439010)?);
    let bin = d.get("binSize").map(|v| parse(cx, v)).transpose()?;
    let week_start = d.get("startOfWeek").map(|v| parse(cx, v)).transpose()?;
    if let Some(v) = unit.constant().filter(|v| !v.is_nullish()) {
        Unit::of(&v, name)?;
    }
    Ok(Box::new(DateTrunc {
        date,
        unit,
        bin,
        week_start,
        zone: ZoneArg::parse(cx, d.get("timezone"))?,
    }))
}

fn bin_size(v: &Value<'_>) -> Result<i64> {
    let Some(n) = Number::of(v).and_then(Number::to_i64_exact) else {
        bail!(
            5439017,
            "$dateTrunc requires 'binSize' to be a 64-bit integer, but got value \
            '{v}' of type {}",
            v.type_name()
        );
    };
    if n <= 0 {
        bail!(
            5439018,
            "$dateTrunc requires 'binSize' to be greater than 0, but got value {n}"
        );
    }
    Ok(n)
}

/// Largest bin size for months and longer units.
const CALENDAR_BINS_MAX: i64 = 100_000_000_000;

/// Refuses bins that are too large to compute with.
fn check_bin(unit: Unit, bin: i64) -> Result<()> {
    match unit.fixed_ms() {
        Some(ms) if bin.checked_mul(ms).is_none() => bail!(
            5439002,
            "dateTrunc 'binSize' value too large: {bin} units of {ms} milliseconds"
        ),
        None if bin > CALENDAR_BINS_MAX => {
            bail!(5439006, "dateTrunc 'binSize' value too large: {bin}")
        }
        _ => Ok(()),
    }
}

impl Expr for DateTrunc {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let name = "$dateTrunc";
        let date = self.date.eval(cx)?;
        if date.is_nullish() {
            return Ok(Value::Null);
        }
        let mut bin = 1;
        if let Some(e) = &self.bin {
            let v = e.eval(cx)?;
            if v.is_nullish() {
                return Ok(Value::Null);
            }
            bin = bin_size(&v)?;
        }
        let unit = self.unit.eval(cx)?;
        if unit.is_nullish() {
            return Ok(Value::Null);
        }
        let unit = Unit::of(&unit, name)?;
        let mut week_start = 0;
        if let Some(e) = &self.week_start {
            let v = e.eval(cx)?;
            // For a constant date, a nullish `startOfWeek` matters only for bins of weeks.
            if v.is_nullish() && (unit == Unit::Week || self.date.constant().is_none()) {
                return Ok(Value::Null);
            }
            if unit == Unit::Week {
                week_start = weekday_of(&v, name)?;
            }
        }
        let Some(zone) = self.zone.zone(cx)? else {
            return Ok(Value::Null);
        };
        let Some(ms) = moment(&date) else {
            bail!(
                5166307,
                "{name} requires 'date' to be a date, but got {}",
                date.type_name()
            );
        };
        check_bin(unit, bin)?;
        let start = truncate(ms, unit, bin, &zone, week_start);
        Ok(Value::Date(start.ok_or_else(|| {
            MongoError::new(5439019, "dateTrunc overflowed")
        })?))
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        [&self.date, &self.unit]
            .into_iter()
            .chain(&self.bin)
            .chain(&self.week_start)
            .for_each(|e| each(e.as_ref()));
        self.zone.visit(each);
    }
}

/// The largest `origin + k * size` at or below `at`.
fn floor_to(at: i64, origin: i64, size: i64) -> Option<i64> {
    let from_origin = i128::from(at) - i128::from(origin);
    let floor = from_origin.div_euclid(i128::from(size)) * i128::from(size) + i128::from(origin);
    i64::try_from(floor).ok()
}

fn truncate(ms: i64, unit: Unit, bin: i64, zone: &Zone, week_start: i64) -> Option<i64> {
    let origin_days = days_from_civil(2000, 1, 1);
    match unit {
        Unit::Hour | Unit::Minute | Unit::Second | Unit::Millisecond => floor_to(
            ms,
            zone.utc_ms(origin_days * DAY_MS)?,
            unit.fixed_ms()?.checked_mul(bin)?,
        ),
        Unit::Day | Unit::Week => {
            // 2000-01-01 was a Saturday.
            let (size, origin) = match unit {
                Unit::Week => (bin.checked_mul(7)?, origin_days + (week_start + 1) % 7),
                _ => (bin, origin_days),
            };
            zone.utc_ms(floor_to(zone.civil(ms).days, origin, size)?.checked_mul(DAY_MS)?)
        }
        Unit::Month | Unit::Quarter | Unit::Year => {
            let c = zone.civil(ms);
            let month = c.year * 12 + i64::from(c.month) - 1;
            let first = floor_to(month, 2000 * 12, unit.months()?.checked_mul(bin)?)?;
            // Bins can be far larger than the range of the calendar.
            (first.abs() < 12 * 400_000_000)
                .then(|| days_of_month_number(first).checked_mul(DAY_MS))?
                .and_then(|ms| zone.utc_ms(ms))
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        let doc = "{'d': {'$date': '2021-03-20T11:30:05Z'}, 'early': {'$date': \
            '1999-12-31T23:59:59Z'}}";
        let trunc = |date: &str, rest: &str| format!("{{'$dateTrunc': {{'date': {date}{rest}}}}}");
        let date = |text: &str| format!("{{'$date': '{text}Z'}}");
        let rows = [
            (
                trunc("'$d'", ", 'unit': 'month'"),
                date("2021-03-01T00:00:00"),
            ),
            (
                trunc("'$d'", ", 'unit': 'year', 'binSize': 10"),
                date("2020-01-01T00:00:00"),
            ),
            (
                trunc("'$early'", ", 'unit': 'year', 'binSize': 5"),
                date("1995-01-01T00:00:00"),
            ),
            (
                trunc("'$d'", ", 'unit': 'week'"),
                date("2021-03-14T00:00:00"),
            ),
            (
                trunc(
                    "'$d'",
                    ", 'unit': 'week', 'binSize': 2, 'startOfWeek': 'monday'",
                ),
                date("2021-03-15T00:00:00"),
            ),
            (
                trunc(
                    "'$early'",
                    ", 'unit': 'week', 'binSize': 2, 'startOfWeek': 'saturday'",
                ),
                date("1999-12-18T00:00:00"),
            ),
            (
                trunc("'$d'", ", 'unit': 'hour', 'binSize': 2"),
                date("2021-03-20T10:00:00"),
            ),
            (
                trunc("'$d'", ", 'unit': 'day', 'timezone': 'America/New_York'"),
                date("2021-03-20T04:00:00"),
            ),
            (
                trunc("'$d'", ", 'unit': 'hour', 'timezone': '+05:45'"),
                date("2021-03-20T11:15:00"),
            ),
            (trunc("'$none'", ", 'unit': 'hour'"), "null".into()),
            (
                trunc("'$d'", ", 'unit': 'hour', 'binSize': null"),
                "null".into(),
            ),
            (trunc("1", ", 'unit': 'hour'"), "!5166307".into()),
            (
                trunc("'$d'", ", 'unit': 'hour', 'binSize': 1.5"),
                "!5439017".into(),
            ),
            (
                trunc("'$d'", ", 'unit': 'hour', 'binSize': 0"),
                "!5439018".into(),
            ),
            (
                trunc(
                    "'$d'",
                    ", 'unit': 'hour', 'binSize': {'$numberLong': '9223372036854775807'}",
                ),
                "!5439002".into(),
            ),
            (trunc("'$d'", ", 'unit': 'hours'"), "!9".into()),
            (trunc("'$d'", ""), "!5439010".into()),
            (trunc("'$d'", ", 'unit': 'hour', 'x': 1"), "!5439008".into()),
            ("{'$dateTrunc': {'unit': 'hour'}}".into(), "!5439009".into()),
            ("{'$dateTrunc': 1}".into(), "!5439007".into()),
        ];
        for (expr, want) in &rows {
            crate::expr::check::table(&[(expr, doc, want)]);
        }
    }
}
