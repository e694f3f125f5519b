//! `$addToSet`: appends values (with `$each` several) that are not yet among the elements, under
//! the collation. Errors: 14 when `$each` is not an array, 2 for unknown clauses and for fields
//! that are no arrays.

use super::modifier::{Modifier, Outcome, Site};
use crate::expr::Members;
use model::{Array, OwnedValue, Result, Value, bail, code, compare_with};

/// From this many values on they are hashed instead of compared pairwise.
const MANY: usize = 16;

pub(super) struct AddToSet(Vec<OwnedValue>);

impl AddToSet {
    pub(super) fn parse(v: Value<'_>) -> Result<AddToSet> {
        let Some(clauses) = v
            .as_doc()
            .filter(|d| d.first().is_some_and(|(name, _)| name == "$each"))
        else {
            return Ok(AddToSet(vec![v.to_owned_value()]));
        };
        if let Some((name, _)) = clauses.iter().nth(1) {
            bail!(
                code::BAD_VALUE,
                "Found unexpected fields after $each in $addToSet: {name}"
            );
        }
        let Value::Array(items) = clauses.field("$each") else {
            bail!(
                code::TYPE_MISMATCH,
                "The argument to $each in $addToSet must be an array but it was of type {}",
                clauses.field("$each").type_name()
            )
        };
        Ok(AddToSet(items.iter().map(|v| v.to_owned_value()).collect()))
    }
}

impl Modifier for AddToSet {
    fn apply<'a>(&'a self, current: Value<'a>, at: &Site<'_, 'a>) -> Result<Outcome<'a>> {
        let mut items: Vec<Value<'a>> = match current {
            Value::Array(a) => a.iter().collect(),
            Value::Missing => Vec::new(),
            v => bail!(
                code::BAD_VALUE,
                "Cannot apply $addToSet to non-array field. Field has non-array type {} in \
                    document {}",
                v.type_name(),
                at.document_id()
            ),
        };
        let before = items.len();
        let collate = at.cx.env.collate();
        if self.0.len() < MANY {
            for v in self.0.iter().map(OwnedValue::get) {
                if !items.iter().any(|i| compare_with(i, &v, collate).is_eq()) {
                    items.push(v);
                }
            }
        } else {
            let mut members = Members::new(collate);
            items.iter().for_each(|i| _ = members.insert(i));
            items.extend(
                self.0
                    .iter()
                    .map(OwnedValue::get)
                    .filter(|v| members.insert(v)),
            );
        }
        if items.len() == before && !current.is_missing() {
            return Ok(Outcome::Keep);
        }
        Ok(Outcome::Set(Value::Array(Array::from_values_in(
            at.arena(),
            items,
        ))))
    }
}
