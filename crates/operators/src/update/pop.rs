//! `$pop`: removes the last (1) or first (-1) element. Errors: 9 for another operand, 14 for fields
//! that are no arrays, 28 for a path that leads through a value without fields.

use super::modifier::{Modifier, Outcome, Site};
use model::{Array, Result, Value, bail, code};

pub(super) struct Pop {
    from_front: bool,
}

impl Pop {
    pub(super) fn parse(field: &str, v: Value<'_>) -> Result<Pop> {
        match v.as_i64_exact() {
            Some(1) => Ok(Pop { from_front: false }),
            Some(-1) => Ok(Pop { from_front: true }),
            Some(n) => bail!(code::FAILED_TO_PARSE, "$pop expects 1 or -1, found: {n}"),
            None => bail!(
                code::FAILED_TO_PARSE,
                "Expected a number in: {field}: {}",
                v
            ),
        }
    }
}

impl Modifier for Pop {
    fn apply<'a>(&'a self, current: Value<'a>, at: &Site<'_, 'a>) -> Result<Outcome<'a>> {
        let a = match current {
            Value::Missing => return Ok(Outcome::Keep),
            Value::Array(a) if a.is_empty() => return Ok(Outcome::Keep),
            Value::Array(a) => a,
            v => bail!(
                code::TYPE_MISMATCH,
                "Path contains an element of non-array type '{}' in document {}",
                v.type_name(),
                at.document_id()
            ),
        };
        let (skip, keep) = (usize::from(self.from_front), a.len() - 1);
        Ok(Outcome::Set(Value::Array(Array::from_values_in(
            at.arena(),
            a.iter().skip(skip).take(keep),
        ))))
    }

    fn wants_viable_path(&self) -> bool {
        true
    }
}
