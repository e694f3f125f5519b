//! Operands of date expressions: dates (also timestamps and object ids), time zones, units and days
//! of the week.

use super::zone::Zone;
use crate::Cx;
use crate::expr::{BoxExpr, Expr, ParseCx, parse};
use model::{Doc, Result, Value, bail, code};

/// The time of a date, timestamp or object id; `None` for other types.
pub(super) fn moment(v: &Value<'_>) -> Option<i64> {
    Some(match v {
        Value::Date(ms) => *ms,
        Value::Timestamp(t) => i64::from(t.time) * 1000,
        // MongoDB treats the seconds of an object id as signed here.
        Value::ObjectId(id) => {
            let [a, b, c, d, ..] = id.0;
            i64::from(i32::from_be_bytes([a, b, c, d])) * 1000
        }
        _ => return None,
    })
}

/// The time of a date, timestamp or object id.
///
/// # Errors
/// 16006 for other types.
pub(super) fn to_moment(v: &Value<'_>) -> Result<i64> {
    match moment(v) {
        Some(ms) => Ok(ms),
        None => bail!(
            16006,
            "can't convert from BSON type {} to Date",
            v.type_name()
        ),
    }
}

/// An optional time zone argument; a constant one is resolved while parsing.
pub(super) enum ZoneArg {
    Known(Zone),
    Computed(BoxExpr),
}

impl ZoneArg {
    /// Parses the field `timezone`.
    ///
    /// # Errors
    /// 40517 constant of another type, 40485 unknown constant.
    pub(super) fn parse(cx: &mut ParseCx<'_>, arg: Option<Value<'_>>) -> Result<ZoneArg> {
        let Some(arg) = arg else {
            return Ok(ZoneArg::Known(Zone::Utc));
        };
        let e = parse(cx, arg)?;
        if let Some(zone) = e.constant().map(zone_of).transpose()?.flatten() {
            return Ok(ZoneArg::Known(zone));
        }
        Ok(ZoneArg::Computed(e))
    }

    /// The zone; `None` when the argument is nullish.
    ///
    /// # Errors
    /// 40517 of another type, 40485 unknown.
    pub(super) fn zone<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Option<Zone>> {
        match self {
            ZoneArg::Known(zone) => Ok(Some(zone.clone())),
            ZoneArg::Computed(e) => zone_of(e.eval(cx)?),
        }
    }

    pub(super) fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        if let ZoneArg::Computed(e) = self {
            each(e.as_ref());
        }
    }
}

fn zone_of(v: Value<'_>) -> Result<Option<Zone>> {
    match v {
        Value::String(s) => Zone::parse(s).map(Some),
        v if v.is_nullish() => Ok(None),
        v => bail!(
            40517,
            "timezone must evaluate to a string, found {}",
            v.type_name()
        ),
    }
}

/// A unit of time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
}

impl std::fmt::Display for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Unit::Year => "year",
            Unit::Quarter => "quarter",
            Unit::Month => "month",
            Unit::Week => "week",
            Unit::Day => "day",
            Unit::Hour => "hour",
            Unit::Minute => "minute",
            Unit::Second => "second",
            Unit::Millisecond => "millisecond",
        })
    }
}

impl Unit {
    /// The unit a value names.
    ///
    /// # Errors
    /// 5439013 no string, 9 unknown.
    pub(super) fn of(v: &Value<'_>, operator: &str) -> Result<Unit> {
        let Value::String(name) = v else {
            bail!(
                5439013,
                "{operator} requires 'unit' to be a string, but got {}",
                v.type_name()
            );
        };
        Ok(match *name {
            "year" => Unit::Year,
            "quarter" => Unit::Quarter,
            "month" => Unit::Month,
            "week" => Unit::Week,
            "day" => Unit::Day,
            "hour" => Unit::Hour,
            "minute" => Unit::Minute,
            "second" => Unit::Second,
            "millisecond" => Unit::Millisecond,
            _ => bail!(
                code::FAILED_TO_PARSE,
                "{operator} parameter 'unit' value parsing failed :: caused by :: unknown time \
                    unit value: {name}"
            ),
        })
    }

    /// Milliseconds of a unit of fixed length; `None` for months and longer units.
    pub(super) fn fixed_ms(self) -> Option<i64> {
        Some(match self {
            Unit::Year | Unit::Quarter | Unit::Month => return None,
            Unit::Week => 7 * 86_400_000,
            Unit::Day => 86_400_000,
            Unit::Hour => 3_600_000,
            Unit::Minute => 60_000,
            Unit::Second => 1000,
            Unit::Millisecond => 1,
        })
    }

    /// The number of months of a unit; `None` for weeks and shorter units.
    pub(super) fn months(self) -> Option<i64> {
        match self {
            Unit::Year => Some(12),
            Unit::Quarter => Some(3),
            Unit::Month => Some(1),
            _ => None,
        }
    }
}

/// The day of the week a value names, 0 is Sunday.
///
/// # Errors
/// 5439015 no string, 5439016 unknown.
pub(super) fn weekday_of(v: &Value<'_>, operator: &str) -> Result<i64> {
    const NAMES: [&str; 7] = [
        "sunday",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
    ];
    let Value::String(name) = v else {
        bail!(
            5439015,
            "{operator} requires 'startOfWeek' to be a string, but got {}",
            v.type_name()
        );
    };
    let lower = name.to_ascii_lowercase();
    match NAMES
        .iter()
        .position(|n| *n == lower || n.get(..3) == Some(&lower))
    {
        Some(day) => Ok(day as i64),
        None => bail!(
            5439016,
            "{operator} parameter 'startOfWeek' value cannot be recognized as a day of a week: \
                {name}"
        ),
    }
}

/// Refuses fields of `d` that are not in `known`.
///
/// # Errors
/// `code`.
pub(super) fn refuse_unknown(d: Doc<'_>, known: &[&str], operator: &str, code: i32) -> Result<()> {
    match d.iter().find(|(n, _)| !known.contains(n)) {
        Some((unknown, _)) => bail!(code, "Unrecognized argument to {operator}: {unknown}"),
        None => Ok(()),
    }
}
