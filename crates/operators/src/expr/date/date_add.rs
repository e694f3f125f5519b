//! `$dateAdd`, `$dateSubtract`: `{startDate, unit, amount, timezone}`. Days and longer units are
//! added in local time (a day past the end of a month becomes its last day), shorter units to the
//! UTC time. Null for a nullish operand. Errors: 5166400 no document, 5166401 unknown argument,
//! 5166402 missing argument, 5439013 / 9 bad unit, 5166403 no date, 5166405 amount no integer,
//! 5976500 amount too large, 5166406 overflow, 6045000 amount cannot be negated, 40517 / 40485 bad
//! zone.

use super::arguments::{Unit, ZoneArg, moment, refuse_unknown};
use super::calendar::{DAY_MS, days_of_month_number};
use super::zone::Zone;
use crate::Cx;
use crate::expr::args::missing_error;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use model::{MongoError, Number, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$dateAdd",
        parse: parse_add,
    },
    Operator {
        name: "$dateSubtract",
        parse: parse_add,
    },
];

struct DateAdd {
    name: &'static str,
    start: BoxExpr,
    unit: BoxExpr,
    amount: BoxExpr,
    zone: ZoneArg,
}

fn parse_add(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(
            5166400,
            "{name} expects an object as its argument, found {}",
            spec.type_name()
        );
    };
    refuse_unknown(
        d,
        &["startDate", "unit", "amount", "timezone"],
        name,
        5166401,
    )?;
    let mut required = |field: &str| {
        parse(
            cx,
            d.get(field)
                .ok_or_else(|| missing_error(5166402, name, field))?,
        )
    };
    let (start, unit, amount) = (
        required("startDate")?,
        required("unit")?,
        required("amount")?,
    );
    if let Some(v) = unit.constant().filter(|v| !v.is_nullish()) {
        Unit::of(&v, name)?;
    }
    Ok(Box::new(DateAdd {
        name,
        start,
        unit,
        amount,
        zone: ZoneArg::parse(cx, d.get("timezone"))?,
    }))
}

impl Expr for DateAdd {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let start = self.start.eval(cx)?;
        if start.is_nullish() {
            return Ok(Value::Null);
        }
        let unit = self.unit.eval(cx)?;
        if unit.is_nullish() {
            return Ok(Value::Null);
        }
        let unit = Unit::of(&unit, self.name)?;
        let amount = self.amount.eval(cx)?;
        if amount.is_nullish() {
            return Ok(Value::Null);
        }
        let Some(zone) = self.zone.zone(cx)? else {
            return Ok(Value::Null);
        };
        let Some(ms) = moment(&start) else {
            bail!(
                5166403,
                "{} requires startDate to be convertible to a date, found {}",
                self.name,
                start.type_name()
            );
        };
        let Some(mut n) = Number::of(&amount).and_then(Number::to_i64_exact) else {
            bail!(
                5166405,
                "{} expects integer amount of time units, found {amount}",
                self.name
            );
        };
        if self.name == "$dateSubtract" {
            n = n.checked_neg().ok_or_else(|| {
                MongoError::new(
                    6045000,
                    format!("invalid $dateSubtract 'amount' parameter value: {n}"),
                )
            })?;
        }
        Ok(Value::Date(add(ms, unit, n, &zone)?))
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        [&self.start, &self.unit, &self.amount]
            .into_iter()
            .for_each(|e| each(e.as_ref()));
        self.zone.visit(each);
    }
}

/// Largest amount of a unit: more would exceed the range of dates.
fn largest(unit: Unit) -> i64 {
    const YEARS: i64 = 584_556_019;
    match unit {
        Unit::Year => YEARS,
        Unit::Quarter => YEARS * 4,
        Unit::Month => YEARS * 12,
        Unit::Millisecond => i64::MAX,
        fixed => (u64::MAX / fixed.fixed_ms().unwrap_or(1) as u64) as i64,
    }
}

/// A time plus an amount of units.
///
/// # Errors
/// 5976500, 5166406.
pub(super) fn add(ms: i64, unit: Unit, amount: i64, zone: &Zone) -> Result<i64> {
    if amount.checked_abs().is_none_or(|n| n > largest(unit)) && unit != Unit::Millisecond {
        bail!(
            5976500,
            "invalid dateAdd 'amount' parameter value: {amount} {unit}s"
        );
    }
    let added = match unit {
        Unit::Hour | Unit::Minute | Unit::Second | Unit::Millisecond => unit
            .fixed_ms()
            .and_then(|each| amount.checked_mul(each))
            .and_then(|by| ms.checked_add(by)),
        Unit::Day | Unit::Week => unit
            .fixed_ms()
            .and_then(|each| amount.checked_mul(each))
            .and_then(|by| zone.local_ms(ms).checked_add(by))
            .and_then(|local| zone.utc_ms(local)),
        Unit::Month | Unit::Quarter | Unit::Year => {
            let c = zone.civil(ms);
            let months = c.year * 12 + i64::from(c.month) - 1 + amount * unit.months().unwrap_or(1);
            let (first, next) = (
                days_of_month_number(months),
                days_of_month_number(months + 1),
            );
            let day = (first + i64::from(c.day) - 1).min(next - 1);
            day.checked_mul(DAY_MS)
                .and_then(|ms| ms.checked_add(c.of_day_ms))
                .and_then(|local| zone.utc_ms(local))
        }
    };
    added.ok_or_else(|| MongoError::new(5166406, "dateAdd overflowed"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn moments() {
        let doc = "{'d': {'$date': '2020-12-31T12:10:05Z'}, 'dst': {'$date': \
            '2021-11-07T11:00:00Z'}}";
        crate::expr::check::table(&[
            (
                "{'$dateAdd': {'startDate': '$d', 'unit': 'month', 'amount': 2}}",
                doc,
                "{'$date': \
                '2021-02-28T12:10:05Z'}",
            ),
            (
                "{'$dateSubtract': {'startDate': '$d', 'unit': 'quarter', 'amount': 1.0}}",
                doc,
                "{'$date': '2020-09-30T12:10:05Z'}",
            ),
            (
                "{'$dateSubtract': {'startDate': '$dst', 'unit': 'day', 'amount': 1, 'timezone': \
                'America/New_York'}}",
                doc,
                "{'$date': '2021-11-06T10:00:00Z'}",
            ),
            (
                "{'$dateSubtract': {'startDate': '$dst', 'unit': 'hour', 'amount': 24, 'timezone': \
                'America/New_York'}}",
                doc,
                "{'$date': '2021-11-06T11:00:00Z'}",
            ),
            (
                "{'$dateAdd': {'startDate': '$d', 'unit': null, 'amount': 'x'}}",
                doc,
                "null",
            ),
            (
                "{'$dateAdd': {'startDate': '$none', 'unit': 'day', 'amount': 1}}",
                doc,
                "null",
            ),
        ]);
    }

    #[test]
    fn refusals() {
        let doc = "{'d': {'$date': '2020-12-31T12:10:05Z'}}";
        let big = "{'$numberLong': '9223372036854775807'}";
        crate::expr::check::table(&[
            (
                "{'$dateAdd': {'startDate': 1, 'unit': 'day', 'amount': 1}}",
                doc,
                "!5166403",
            ),
            (
                "{'$dateAdd': {'startDate': '$d', 'unit': 'day', 'amount': 1.5}}",
                doc,
                "!5166405",
            ),
            (
                "{'$dateAdd': {'startDate': '$d', 'unit': 'days', 'amount': 1}}",
                doc,
                "!9",
            ),
            (
                "{'$dateAdd': {'startDate': '$d', 'unit': 1, 'amount': 1}}",
                doc,
                "!5439013",
            ),
            (
                &format!("{{'$dateAdd': {{'startDate': '$d', 'unit': 'day', 'amount': {big}}}}}"),
                doc,
                "!5976500",
            ),
            (
                &format!(
                    "{{'$dateAdd': {{'startDate': '$d', 'unit': 'millisecond', 'amount': \
                {big}}}}}"
                ),
                doc,
                "!5166406",
            ),
            (
                "{'$dateAdd': {'startDate': '$d', 'unit': 'year', 'amount': 584556019}}",
                doc,
                "!5166406",
            ),
            (
                "{'$dateSubtract': {'startDate': '$d', 'unit': 'day', 'amount': {'$numberLong': \
                '-9223372036854775808'}}}",
                doc,
                "!6045000",
            ),
            (
                "{'$dateAdd': {'unit': 'day', 'amount': 1}}",
                doc,
                "!5166402",
            ),
            (
                "{'$dateAdd': {'startDate': '$d', 'unit': 'day', 'amount': 1, 'x': 1}}",
                doc,
                "!5166401",
            ),
            ("{'$dateAdd': 1}", doc, "!5166400"),
        ]);
    }
}
