//! `$inc` and `$mul`: numbers only. The result has the wider type of the two; int overflows to
//! long. A missing field counts as zero of the operand's type. Errors: 14 for operands or fields
//! that are no numbers, 2 for long overflow.

use super::modifier::{Modifier, Outcome, Site};
use model::{Number, Result, Value, bail, code};

/// Which operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Inc,
    Mul,
}

pub(super) struct Arithmetic {
    op: Op,
    by: Number,
}

impl Arithmetic {
    pub(super) fn parse(op: Op, field: &str, v: Value<'_>) -> Result<Arithmetic> {
        let Some(by) = Number::of(&v) else {
            let verb = if op == Op::Inc {
                "increment"
            } else {
                "multiply"
            };
            bail!(
                code::TYPE_MISMATCH,
                "Cannot {verb} with non-numeric argument: {{{field}: {}}}",
                v
            )
        };
        Ok(Arithmetic { op, by })
    }

    fn zero(&self) -> Number {
        match self.by {
            Number::Int32(_) => Number::Int32(0),
            Number::Int64(_) => Number::Int64(0),
            Number::Double(_) => Number::Double(0.0),
            Number::Decimal(_) => Number::Decimal(model::Decimal128::ZERO),
        }
    }
}

/// Adds or multiplies; `None` when a long overflows.
fn combine(op: Op, a: Number, b: Number) -> Option<Number> {
    let inc = op == Op::Inc;
    Some(match (a, b) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            let (x, y) = (a.to_decimal(), b.to_decimal());
            Number::Decimal(if inc { x + y } else { x * y })
        }
        (Number::Double(_), _) | (_, Number::Double(_)) => {
            let (x, y) = (a.to_f64(), b.to_f64());
            Number::Double(if inc { x + y } else { x * y })
        }
        _ => {
            let (x, y) = (a.to_i64_exact()?, b.to_i64_exact()?);
            let n = if inc {
                x.checked_add(y)?
            } else {
                x.checked_mul(y)?
            };
            match (a, b, i32::try_from(n)) {
                (Number::Int32(_), Number::Int32(_), Ok(n)) => Number::Int32(n),
                _ => Number::Int64(n),
            }
        }
    })
}

impl Modifier for Arithmetic {
    fn apply<'a>(&'a self, current: Value<'a>, at: &Site<'_, 'a>) -> Result<Outcome<'a>> {
        let name = if self.op == Op::Inc { "$inc" } else { "$mul" };
        if current.is_missing() {
            let n = if self.op == Op::Inc {
                self.by
            } else {
                combine(self.op, self.zero(), self.by).unwrap_or(self.zero())
            };
            return Ok(Outcome::Set(n.value()));
        }
        let Some(old) = Number::of(&current) else {
            bail!(
                code::TYPE_MISMATCH,
                "Cannot apply {name} to a value of non-numeric type. {} has the field of \
                    non-numeric type {}",
                at.document_id(),
                current.type_name()
            )
        };
        let Some(new) = combine(self.op, old, self.by) else {
            bail!(
                code::BAD_VALUE,
                "Failed to apply {name} operations to current value ({}) for document {}",
                current,
                at.document_id()
            )
        };
        let new = new.value();
        // Compared by value, so that adding zero leaves a negative zero unchanged.
        let same = current.tag() == new.tag() && model::compare(&current, &new).is_eq();
        Ok(if same {
            Outcome::Keep
        } else {
            Outcome::Set(new)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_promote() {
        for (op, a, b, wanted) in [
            (
                Op::Inc,
                Number::Int32(i32::MAX),
                Number::Int32(1),
                Some(Value::Int64(1 << 31)),
            ),
            (Op::Inc, Number::Int64(i64::MAX), Number::Int32(1), None),
            (
                Op::Mul,
                Number::Int32(2),
                Number::Int64(3),
                Some(Value::Int64(6)),
            ),
            (
                Op::Mul,
                Number::Int32(2),
                Number::Double(1.5),
                Some(Value::Double(3.0)),
            ),
        ] {
            let got = combine(op, a, b).map(|n| n.value().to_owned_value());
            assert_eq!(got, wanted.map(|v| v.to_owned_value()), "{a:?} {b:?}");
        }
    }
}
