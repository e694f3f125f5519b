//! Units of time for stages: adding them to a date, and their length if it is fixed.

use super::arithmetic;
use model::{OwnedValue, Result, Value, bail, code};
use operators::Env;

/// A unit of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DateUnit(&'static str);

/// Names and, for units of fixed length, milliseconds.
const UNITS: &[(&str, Option<i64>)] = &[
    ("year", None),
    ("quarter", None),
    ("month", None),
    ("week", Some(7 * 86_400_000)),
    ("day", Some(86_400_000)),
    ("hour", Some(3_600_000)),
    ("minute", Some(60_000)),
    ("second", Some(1000)),
    ("millisecond", Some(1)),
];

impl DateUnit {
    /// The unit of that name.
    ///
    /// # Errors
    /// 9 FailedToParse.
    pub(super) fn parse(name: &str) -> Result<DateUnit> {
        match UNITS.iter().find(|(n, _)| *n == name) {
            Some((n, _)) => Ok(DateUnit(n)),
            None => bail!(code::FAILED_TO_PARSE, "unknown time unit value: {name}"),
        }
    }

    /// Its length in milliseconds, if it is fixed.
    pub(super) fn fixed_ms(self) -> Option<i64> {
        UNITS
            .iter()
            .find(|(n, _)| *n == self.0)
            .and_then(|(_, ms)| *ms)
    }

    /// The date `amount` units later, by the calendar in UTC.
    ///
    /// # Errors
    /// Those of `$dateAdd`: the result is out of range.
    pub(super) fn add(self, date: Value<'_>, amount: i64, env: &Env) -> Result<OwnedValue> {
        if let (Value::Date(ms), Some(unit_ms)) = (date, self.fixed_ms())
            && let Some(sum) = unit_ms.checked_mul(amount).and_then(|d| ms.checked_add(d))
        {
            return Ok(Value::Date(sum).to_owned_value());
        }
        let spec = model::doc! { "startDate": date, "unit": self.0, "amount": amount };
        arithmetic::apply("$dateAdd", (&spec).into(), env)
    }
}
