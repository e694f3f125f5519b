//! `$currentDate`: the operation's time as a date (`true`, `false`, `{$type: "date"}`) or as a
//! timestamp. Errors: 2 for anything else.

use super::modifier::{Modifier, Outcome, Site};
use model::{Result, Timestamp, Value, bail, code};

pub(super) struct CurrentDate {
    as_timestamp: bool,
}

impl CurrentDate {
    pub(super) fn parse(v: Value<'_>) -> Result<CurrentDate> {
        match v {
            Value::Bool(_) => Ok(CurrentDate {
                as_timestamp: false,
            }),
            Value::Document(d) => {
                if let Some((name, _)) = d.iter().find(|(name, _)| *name != "$type") {
                    bail!(code::BAD_VALUE, "Unrecognized $currentDate option: {name}");
                }
                match d.field("$type") {
                    Value::String("date") => Ok(CurrentDate {
                        as_timestamp: false,
                    }),
                    Value::String("timestamp") => Ok(CurrentDate { as_timestamp: true }),
                    _ => bail!(
                        code::BAD_VALUE,
                        "The '$type' string field is required to be 'date' or 'timestamp': \
                            {{$currentDate: {{field: {{$type: \
                         'date'}}}}}}"
                    ),
                }
            }
            v => bail!(
                code::BAD_VALUE,
                "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type \
                    expression ({{$type: \
                 'timestamp/date'}}).",
                v.type_name()
            ),
        }
    }
}

impl Modifier for CurrentDate {
    fn apply<'a>(&'a self, _: Value<'a>, at: &Site<'_, 'a>) -> Result<Outcome<'a>> {
        let ms = at.cx.env.now_ms;
        Ok(Outcome::Set(if self.as_timestamp {
            let seconds = u32::try_from(ms.div_euclid(1000)).unwrap_or(u32::MAX);
            Value::Timestamp(Timestamp {
                time: seconds,
                increment: 1,
            })
        } else {
            Value::Date(ms)
        }))
    }
}
