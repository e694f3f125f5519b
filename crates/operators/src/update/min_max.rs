//! `$min` and `$max`: sets when the operand comes before (after) the field in BSON order, under the
//! collation.

use super::modifier::{Modifier, Outcome, Site};
use model::{OwnedValue, Result, Value, compare_with};
use std::cmp::Ordering;

pub(super) struct MinMax {
    value: OwnedValue,
    wanted: Ordering,
}

impl MinMax {
    pub(super) fn new(v: Value<'_>, is_min: bool) -> MinMax {
        MinMax {
            value: v.to_owned_value(),
            wanted: if is_min {
                Ordering::Less
            } else {
                Ordering::Greater
            },
        }
    }
}

impl Modifier for MinMax {
    fn apply<'a>(&'a self, current: Value<'a>, at: &Site<'_, 'a>) -> Result<Outcome<'a>> {
        let v = self.value.get();
        let sets =
            current.is_missing() || compare_with(&v, &current, at.cx.env.collate()) == self.wanted;
        Ok(if sets { Outcome::Set(v) } else { Outcome::Keep })
    }
}
