//! `$bit: {field: {and|or|xor: integer, ...}}`, applied in order; a missing field counts as zero.
//! The result has the wider of the two types. Errors: 2 throughout.

use super::modifier::{Modifier, Outcome, Site, identical};
use model::{Number, Result, Value, bail, code};

#[derive(Clone, Copy)]
enum Op {
    And,
    Or,
    Xor,
}

pub(super) struct Bit(Vec<(Op, Number)>);

impl Bit {
    pub(super) fn parse(field: &str, v: Value<'_>) -> Result<Bit> {
        let Value::Document(d) = v else {
            bail!(
                code::BAD_VALUE,
                "The $bit modifier is not compatible with a {}. You must pass in an embedded \
                    document: {{$bit: {{{field}: \
                 {{and/or/xor: #}}}}}}",
                v.type_name()
            )
        };
        if d.is_empty() {
            bail!(
                code::BAD_VALUE,
                "You must pass in at least one bitwise operation. The format is: {{$bit: \
                    {{{field}: {{and/or/xor: #}}}}}}"
            );
        }
        let mut ops = Vec::new();
        for (name, v) in d.iter() {
            let op = match name {
                "and" => Op::And,
                "or" => Op::Or,
                "xor" => Op::Xor,
                _ => bail!(
                    code::BAD_VALUE,
                    "The $bit modifier only supports 'and', 'or', and 'xor', not '{name}' which is \
                        an unknown operator"
                ),
            };
            match Number::of(&v) {
                Some(n @ (Number::Int32(_) | Number::Int64(_))) => ops.push((op, n)),
                _ => bail!(
                    code::BAD_VALUE,
                    "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not \
                        supported here",
                    v.type_name()
                ),
            }
        }
        Ok(Bit(ops))
    }
}

fn combine(op: Op, a: Number, b: Number) -> Number {
    let f = |x: i64, y: i64| match op {
        Op::And => x & y,
        Op::Or => x | y,
        Op::Xor => x ^ y,
    };
    let n = f(a.to_i64_exact().unwrap_or(0), b.to_i64_exact().unwrap_or(0));
    match (a, b, i32::try_from(n)) {
        (Number::Int32(_), Number::Int32(_), Ok(n)) => Number::Int32(n),
        _ => Number::Int64(n),
    }
}

impl Modifier for Bit {
    fn apply<'a>(&'a self, current: Value<'a>, at: &Site<'_, 'a>) -> Result<Outcome<'a>> {
        let start = match (Number::of(&current), current) {
            (Some(n @ (Number::Int32(_) | Number::Int64(_))), _) => n,
            (_, Value::Missing) => Number::Int32(0),
            _ => bail!(
                code::BAD_VALUE,
                "Cannot apply $bit to a value of non-integral type. {} has the field of \
                    non-integer type {}",
                at.document_id(),
                current.type_name()
            ),
        };
        let new = self
            .0
            .iter()
            .fold(start, |n, (op, by)| combine(*op, n, *by))
            .value();
        Ok(if identical(&current, &new) {
            Outcome::Keep
        } else {
            Outcome::Set(new)
        })
    }
}
