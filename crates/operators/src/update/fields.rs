//! `$set`, `$setOnInsert`, `$unset`. Setting the identical value (type and bytes) changes nothing.

use super::modifier::{Modifier, Outcome, Site, identical};
use model::{OwnedValue, Result, Value};

/// `$set` and `$setOnInsert`.
pub(super) struct Set {
    value: OwnedValue,
    only_on_insert: bool,
}

impl Set {
    pub(super) fn new(v: Value<'_>, only_on_insert: bool) -> Set {
        Set {
            value: v.to_owned_value(),
            only_on_insert,
        }
    }
}

impl Modifier for Set {
    fn apply<'a>(&'a self, current: Value<'a>, at: &Site<'_, 'a>) -> Result<Outcome<'a>> {
        if self.only_on_insert && !at.cx.inserting || identical(&current, &self.value.get()) {
            return Ok(Outcome::Keep);
        }
        Ok(Outcome::Set(self.value.get()))
    }
}

/// `$unset`; the operand is ignored.
pub(super) struct Unset;

impl Modifier for Unset {
    fn apply<'a>(&'a self, current: Value<'a>, _: &Site<'_, 'a>) -> Result<Outcome<'a>> {
        Ok(if current.is_missing() {
            Outcome::Keep
        } else {
            Outcome::Remove
        })
    }
}
