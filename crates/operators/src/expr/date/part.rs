//! The getters `$year`, `$month`, `$dayOfMonth`, `$dayOfWeek` (1 is Sunday), `$dayOfYear`, `$week`,
//! `$hour`, `$minute`, `$second`, `$millisecond`, `$isoDayOfWeek` (1 is Monday), `$isoWeek`,
//! `$isoWeekYear` (a long): of a date or of `{date, timezone}`. Null for a nullish date or zone.
//! Errors: 16006 no date, 40535 unknown argument, 40536 not one operand, 40539 no `date`, 40517 /
//! 40485 bad zone.

use super::arguments::{ZoneArg, refuse_unknown, to_moment};
use super::calendar::Civil;
use crate::Cx;
use crate::expr::args::missing_error;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use model::{Result, Value, bail};

macro_rules! getters {
    ($($name:literal => $get:expr;)*) => {
        &[$(Operator { name: $name, parse: |cx, name, spec| parse_part(cx, name, spec, $get) }),*]
    };
}

fn int(n: i64) -> Value<'static> {
    i32::try_from(n).map_or(Value::Int64(n), Value::Int32)
}

pub(super) static OPERATORS: &[Operator] = getters! {
    "$year" => |c| int(c.year);
    "$month" => |c| int(i64::from(c.month));
    "$dayOfMonth" => |c| int(i64::from(c.day));
    "$dayOfWeek" => |c| int(c.weekday() + 1);
    "$dayOfYear" => |c| int(c.day_of_year());
    "$week" => |c| int(c.week());
    "$hour" => |c| int(c.hour());
    "$minute" => |c| int(c.minute());
    "$second" => |c| int(c.second());
    "$millisecond" => |c| int(c.millisecond());
    "$isoDayOfWeek" => |c| int(c.iso_weekday());
    "$isoWeek" => |c| int(c.iso_week().week);
    "$isoWeekYear" => |c| Value::Int64(c.iso_week().year);
};

type Get = fn(&Civil) -> Value<'static>;

struct Part {
    date: BoxExpr,
    zone: ZoneArg,
    get: Get,
}

fn parse_part(
    cx: &mut ParseCx<'_>,
    name: &'static str,
    spec: Value<'_>,
    get: Get,
) -> Result<BoxExpr> {
    let (date, zone) = match spec {
        Value::Document(d) if d.first().is_none_or(|(n, _)| !n.starts_with('$')) => {
            refuse_unknown(d, &["date", "timezone"], name, 40535)?;
            (
                d.get("date")
                    .ok_or_else(|| missing_error(40539, name, "date"))?,
                d.get("timezone"),
            )
        }
        Value::Array(a) => {
            let mut items = a.iter();
            let (Some(date), None) = (items.next(), items.next()) else {
                bail!(
                    40536,
                    "{name} accepts exactly one argument if given an array, but was given \
                    {}",
                    a.len()
                );
            };
            (date, None)
        }
        date => (date, None),
    };
    Ok(Box::new(Part {
        date: parse(cx, date)?,
        zone: ZoneArg::parse(cx, zone)?,
        get,
    }))
}

impl Expr for Part {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let date = self.date.eval(cx)?;
        self.apply(cx, &[date])
    }
    fn applies(&self) -> bool {
        let mut fixed = true;
        self.zone
            .visit(&mut |zone| fixed = fixed && zone.constant().is_some());
        fixed
    }
    fn apply<'a>(&'a self, cx: &Cx<'_, 'a>, operands: &[Value<'a>]) -> Result<Value<'a>> {
        let date = operands.first().copied().unwrap_or_default();
        if date.is_nullish() {
            return Ok(Value::Null);
        }
        let ms = to_moment(&date)?;
        Ok(self
            .zone
            .zone(cx)?
            .map_or(Value::Null, |zone| (self.get)(&zone.civil(ms))))
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.date.as_ref());
        self.zone.visit(each);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        let doc = "{'d': {'$date': {'$numberLong': '1483234149123'}}, 'o': {'$oid': \
            'ffffffff0000000000000000'}}";
        crate::expr::check::table(&[
            (
                "['$year', {'$year': '$d'}, {'$month': ['$d']}, {'$dayOfMonth': {'date': '$d'}}]",
                doc,
                "[null, 2017, 1, 1]",
            ),
            (
                "[{'$hour': '$d'}, {'$minute': '$d'}, {'$second': '$d'}, {'$millisecond': '$d'}]",
                doc,
                "[1, 29, 9, 123]",
            ),
            (
                "[{'$dayOfWeek': '$d'}, {'$isoDayOfWeek': '$d'}, {'$dayOfYear': '$d'}, {'$week': \
                '$d'}]",
                doc,
                "[1, 7, 1, 1]",
            ),
            (
                "[{'$isoWeek': '$d'}, {'$isoWeekYear': '$d'}]",
                doc,
                "[52, {'$numberLong': '2016'}]",
            ),
            (
                "{'$hour': {'date': '$d', 'timezone': 'America/New_York'}}",
                doc,
                "20",
            ),
            ("{'$year': '$o'}", doc, "1969"),
            (
                "{'$year': {'date': '$d', 'timezone': '$none'}}",
                doc,
                "null",
            ),
            ("{'$year': '$none'}", doc, "null"),
            ("{'$year': 'x'}", doc, "!16006"),
            (
                "{'$year': {'date': '$none', 'timezone': 'x'}}",
                doc,
                "!40485",
            ),
            ("{'$year': {'date': '$d', 'timezone': 1}}", doc, "!40517"),
            ("{'$year': []}", doc, "!40536"),
            ("{'$year': {'a': 1}}", doc, "!40535"),
            ("{'$year': {}}", doc, "!40539"),
        ]);
    }
}
