//! `$dateToParts`: `{date, timezone, iso8601}` to a document of its fields. Null for a nullish
//! operand. Errors: 40524 no document, 40520 unknown argument, 40522 no `date`, 40521 iso8601 no
//! boolean, 16006 no date, 40517 / 40485 bad zone.

use super::arguments::{ZoneArg, refuse_unknown, to_moment};
use crate::Cx;
use crate::expr::args::missing_error;
use crate::expr::{BoxExpr, Constant, Expr, Operator, ParseCx, parse};
use model::{Doc, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$dateToParts",
    parse: parse_to_parts,
}];

struct DateToParts {
    date: BoxExpr,
    zone: ZoneArg,
    iso: BoxExpr,
}

fn parse_to_parts(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(
            40524,
            "{name} only supports an object as its argument, found {}",
            spec.type_name()
        );
    };
    refuse_unknown(d, &["date", "timezone", "iso8601"], name, 40520)?;
    let date = d
        .get("date")
        .ok_or_else(|| missing_error(40522, name, "date"))?;
    let iso = d
        .get("iso8601")
        .map_or(Ok(Constant::new_boxed(Value::Bool(false))), |v| {
            parse(cx, v)
        })?;
    Ok(Box::new(DateToParts {
        date: parse(cx, date)?,
        zone: ZoneArg::parse(cx, d.get("timezone"))?,
        iso,
    }))
}

impl Expr for DateToParts {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let date = self.date.eval(cx)?;
        let Some(zone) = self.zone.zone(cx)? else {
            return Ok(Value::Null);
        };
        let iso = match self.iso.eval(cx)? {
            Value::Bool(b) => b,
            v if v.is_nullish() => return Ok(Value::Null),
            v => bail!(
                40521,
                "iso8601 must evaluate to a bool, found {}",
                v.type_name()
            ),
        };
        if date.is_nullish() {
            return Ok(Value::Null);
        }
        let c = zone.civil(to_moment(&date)?);
        let first = if iso {
            let week = c.iso_week();
            [
                ("isoWeekYear", week.year),
                ("isoWeek", week.week),
                ("isoDayOfWeek", c.iso_weekday()),
            ]
        } else {
            [
                ("year", c.year),
                ("month", i64::from(c.month)),
                ("day", i64::from(c.day)),
            ]
        };
        let time = [
            ("hour", c.hour()),
            ("minute", c.minute()),
            ("second", c.second()),
            ("millisecond", c.millisecond()),
        ];
        Ok(Value::Document(Doc::build_in(cx.arena, |w| {
            for (name, n) in first.into_iter().chain(time) {
                w.put(name, i32::try_from(n).map_or(Value::Int64(n), Value::Int32));
            }
        })))
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.date.as_ref());
        each(self.iso.as_ref());
        self.zone.visit(each);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        let doc = "{'d': {'$date': {'$numberLong': '1483234149123'}}}";
        crate::expr::check::table(&[
            (
                "{'$dateToParts': {'date': '$d'}}",
                doc,
                "{'year': 2017, 'month': 1, 'day': 1, 'hour': 1, 'minute': 29, 'second': 9, \
                 'millisecond': 123}",
            ),
            (
                "{'$dateToParts': {'date': '$d', 'iso8601': true, 'timezone': '-02:00'}}",
                doc,
                "{'isoWeekYear': 2016, 'isoWeek': 52, 'isoDayOfWeek': 6, 'hour': 23, 'minute': 29, \
                 'second': 9, 'millisecond': 123}",
            ),
            ("{'$dateToParts': {'date': '$none'}}", doc, "null"),
            (
                "{'$dateToParts': {'date': '$d', 'iso8601': null}}",
                doc,
                "null",
            ),
            (
                "{'$dateToParts': {'date': '$d', 'iso8601': 1}}",
                doc,
                "!40521",
            ),
            ("{'$dateToParts': {'date': 1}}", doc, "!16006"),
            ("{'$dateToParts': {'date': '$d', 'x': 1}}", doc, "!40520"),
            ("{'$dateToParts': {}}", doc, "!40522"),
            ("{'$dateToParts': '$d'}", doc, "!40524"),
        ]);
    }
}
