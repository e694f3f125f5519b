//! `$dateDiff`: `{startDate, endDate, unit, timezone, startOfWeek}`, the number of unit boundaries
//! between the dates, a long. Null for a nullish operand. Errors: 5166301 no document, 5166302
//! unknown argument, 5166303 / 5166304 / 5166305 no `startDate` / `endDate` / `unit`, 5166307 no
//! date, 5439013 / 9 bad unit, 5439015 / 5439016 bad day, 5166308 overflow, 40517 / 40485 bad zone.

use super::arguments::{Unit, ZoneArg, moment, refuse_unknown, weekday_of};
use super::zone::Zone;
use crate::Cx;
use crate::expr::args::missing_error;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use model::{MongoError, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$dateDiff",
    parse: parse_diff,
}];

struct DateDiff {
    start: BoxExpr,
    end: BoxExpr,
    unit: BoxExpr,
    week_start: Option<BoxExpr>,
    zone: ZoneArg,
}

fn parse_diff(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(
            5166301,
            "{name} only supports an object as its argument, found {}",
            spec.type_name()
        );
    };
    refuse_unknown(
        d,
        &["startDate", "endDate", "unit", "timezone", "startOfWeek"],
        name,
        5166302,
    )?;
    let mut required = |field, code| {
        parse(
            cx,
            d.get(field)
                .ok_or_else(|| missing_error(code, name, field))?,
        )
    };
    let (start, end, unit) = (
        required("startDate", 5166303)?,
        required("endDate", 5166304)?,
        required("unit", 5166305)?,
    );
    let week_start = d.get("startOfWeek").map(|v| parse(cx, v)).transpose()?;
    if let Some(v) = unit.constant().filter(|v| !v.is_nullish()) {
        Unit::of(&v, name)?;
    }
    let zone = ZoneArg::parse(cx, d.get("timezone"))?;
    Ok(Box::new(DateDiff {
        start,
        end,
        unit,
        week_start,
        zone,
    }))
}

impl Expr for DateDiff {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let name = "$dateDiff";
        let start = self.start.eval(cx)?;
        if start.is_nullish() {
            return Ok(Value::Null);
        }
        let end = self.end.eval(cx)?;
        if end.is_nullish() {
            return Ok(Value::Null);
        }
        let unit = self.unit.eval(cx)?;
        if unit.is_nullish() {
            return Ok(Value::Null);
        }
        let unit = Unit::of(&unit, name)?;
        let mut week_start = 0;
        if let (Unit::Week, Some(e)) = (unit, &self.week_start) {
            let v = e.eval(cx)?;
            if v.is_nullish() {
                return Ok(Value::Null);
            }
            week_start = weekday_of(&v, name)?;
        }
        let Some(zone) = self.zone.zone(cx)? else {
            return Ok(Value::Null);
        };
        let date = |v: &Value<'_>, field: &str| {
            moment(v).ok_or_else(|| {
                MongoError::new(
                    5166307,
                    format!(
                        "{name} requires '{field}' to \
                be a date, but got {}",
                        v.type_name()
                    ),
                )
            })
        };
        let (start, end) = (date(&start, "startDate")?, date(&end, "endDate")?);
        Ok(Value::Int64(difference(
            start, end, unit, &zone, week_start,
        )?))
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        [&self.start, &self.end, &self.unit]
            .into_iter()
            .chain(&self.week_start)
            .for_each(|e| each(e.as_ref()));
        self.zone.visit(each);
    }
}

fn difference(start: i64, end: i64, unit: Unit, zone: &Zone, week_start: i64) -> Result<i64> {
    if unit == Unit::Millisecond {
        return end
            .checked_sub(start)
            .ok_or_else(|| MongoError::new(5166308, "dateDiff overflowed"));
    }
    // The number of the unit that contains a time, counted from a fixed origin.
    let number = |ms: i64| {
        let c = zone.civil(ms);
        match unit {
            Unit::Year => c.year,
            Unit::Quarter => c.year * 4 + i64::from(c.month - 1) / 3,
            Unit::Month => c.year * 12 + i64::from(c.month),
            // Day 0 of the epoch is a Thursday.
            Unit::Week => (c.days + 4 - week_start).div_euclid(7),
            Unit::Day => c.days,
            // Hours begin in local time, but are counted in elapsed time.
            Unit::Hour => {
                let offset = zone.offset_ms(ms);
                c.days * 24 + c.hour() - offset.div_euclid(3_600_000)
            }
            Unit::Minute => ms.div_euclid(60_000),
            Unit::Second | Unit::Millisecond => ms.div_euclid(1000),
        }
    };
    Ok(number(end) - number(start))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        let doc = "{'a': {'$date': '2020-12-31T23:59:59.999Z'}, 'b': {'$date': \
            '2021-01-01T00:00:00Z'}, 'c': {'$date': '2021-01-31T00:00:00Z'}}";
        let diff = |from: &str, to: &str, rest: &str| {
            format!(
                "{{'$dateDiff': {{'startDate': \
            {from}, 'endDate': {to}{rest}}}}}"
            )
        };
        let long = |n: i32| format!("{{'$numberLong': '{n}'}}");
        let rows = [
            (diff("'$a'", "'$b'", ", 'unit': 'year'"), long(1)),
            (diff("'$b'", "'$a'", ", 'unit': 'quarter'"), long(-1)),
            (diff("'$a'", "'$b'", ", 'unit': 'hour'"), long(1)),
            (diff("'$a'", "'$b'", ", 'unit': 'millisecond'"), long(1)),
            (
                diff("'$a'", "'$b'", ", 'unit': 'day', 'timezone': '+02:00'"),
                long(0),
            ),
            (diff("'$b'", "'$c'", ", 'unit': 'week'"), long(5)),
            (
                diff("'$b'", "'$c'", ", 'unit': 'week', 'startOfWeek': 'Mon'"),
                long(4),
            ),
            (
                diff("'$b'", "'$c'", ", 'unit': 'day', 'startOfWeek': 1"),
                long(30),
            ),
            (diff("'$none'", "'$c'", ", 'unit': 'day'"), "null".into()),
            (diff("'$b'", "'$c'", ", 'unit': null"), "null".into()),
            (diff("1", "'$c'", ", 'unit': 'day'"), "!5166307".into()),
            (diff("'$b'", "'$c'", ", 'unit': 'DAY'"), "!9".into()),
            (diff("'$b'", "'$c'", ", 'unit': 1"), "!5439013".into()),
            (
                diff("'$b'", "'$c'", ", 'unit': 'week', 'startOfWeek': 1"),
                "!5439015".into(),
            ),
            (
                diff("'$b'", "'$c'", ", 'unit': 'week', 'startOfWeek': 'x'"),
                "!5439016".into(),
            ),
            (diff("'$b'", "'$c'", ""), "!5166305".into()),
            (
                diff("'$b'", "'$c'", ", 'unit': 'day', 'x': 1"),
                "!5166302".into(),
            ),
            (
                "{'$dateDiff': {'endDate': 1, 'unit': 'day'}}".into(),
                "!5166303".into(),
            ),
            (
                "{'$dateDiff': {'startDate': 1, 'unit': 'day'}}".into(),
                "!5166304".into(),
            ),
            ("{'$dateDiff': 1}".into(), "!5166301".into()),
        ];
        for (expr, want) in &rows {
            crate::expr::check::table(&[(expr, doc, want)]);
        }
    }
}
