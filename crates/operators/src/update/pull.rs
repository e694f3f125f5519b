//! `$pull` (a condition or a value) and `$pullAll` (a list of values). A condition that is a plain
//! document filters elements that are documents; operators and regular expressions test the
//! elements themselves. Errors: 2 for fields that are no arrays and for operands of `$pullAll` that
//! are none.

use super::modifier::{Modifier, Outcome, Site};
use crate::expr::{Members, ParseCx};
use crate::filter::Filter;
use model::{Array, Doc, DocBuf, OwnedValue, Result, Value, bail, code, compare_with};

pub(super) enum Pull {
    /// A filter on document elements.
    Documents(Filter),
    /// A filter on `{"": element}`.
    Elements(Filter),
    /// Equality.
    Value(OwnedValue),
}

impl Pull {
    pub(super) fn parse(cx: &mut ParseCx<'_>, v: Value<'_>) -> Result<Pull> {
        let tests_element = match v {
            Value::Document(d) => d.first().is_some_and(|(name, _)| {
                name.starts_with('$')
                    && !matches!(
                        name,
                        "$and"
                            | "$or"
                            | "$nor"
                            | "$ref"
                            | "$id"
                            | "$db"
                            | "$expr"
                            | "$jsonSchema"
                            | "$comment"
                    )
            }),
            Value::Regex(_) => true,
            v => return Ok(Pull::Value(v.to_owned_value())),
        };
        if tests_element {
            let wrapped = DocBuf::build(|w| {
                w.put("", v);
            });
            return Ok(Pull::Elements(Filter::parse_without_near(
                cx,
                wrapped.doc(),
            )?));
        }
        Ok(Pull::Documents(Filter::parse_without_near(
            cx,
            v.as_doc().unwrap_or(Doc::EMPTY),
        )?))
    }

    fn takes<'a>(&'a self, v: Value<'a>, at: &Site<'_, 'a>) -> Result<bool> {
        match self {
            Pull::Value(wanted) => Ok(compare_with(&v, &wanted.get(), at.cx.env.collate()).is_eq()),
            Pull::Documents(f) => match v {
                Value::Document(d) => f.matches(d, at.arena(), at.cx.env),
                _ => Ok(false),
            },
            Pull::Elements(f) => {
                let wrapped = Doc::build_in(at.arena(), |w| {
                    w.put("", v);
                });
                f.matches(wrapped, at.arena(), at.cx.env)
            }
        }
    }
}

/// The array without the elements for which `takes` is true.
fn remove_elements<'a>(
    name: &str,
    current: Value<'a>,
    at: &Site<'_, 'a>,
    mut takes: impl FnMut(Value<'a>) -> Result<bool>,
) -> Result<Outcome<'a>> {
    let a = match current {
        Value::Missing => return Ok(Outcome::Keep),
        Value::Array(a) => a,
        _ => bail!(code::BAD_VALUE, "Cannot apply {name} to a non-array value"),
    };
    let mut kept = Vec::new();
    let mut taken = false;
    for v in a.iter() {
        if takes(v)? {
            taken = true;
        } else {
            kept.push(v);
        }
    }
    Ok(if taken {
        Outcome::Set(Value::Array(Array::from_values_in(at.arena(), kept)))
    } else {
        Outcome::Keep
    })
}

impl Modifier for Pull {
    fn apply<'a>(&'a self, current: Value<'a>, at: &Site<'_, 'a>) -> Result<Outcome<'a>> {
        remove_elements("$pull", current, at, |v| self.takes(v, at))
    }
}

/// From this many values on they are hashed instead of compared pairwise.
const MANY: usize = 16;

pub(super) struct PullAll(Vec<OwnedValue>);

impl PullAll {
    pub(super) fn parse(v: Value<'_>) -> Result<PullAll> {
        let Value::Array(items) = v else {
            bail!(
                code::BAD_VALUE,
                "$pullAll requires an array argument but was given a {}",
                v.type_name()
            )
        };
        Ok(PullAll(items.iter().map(|v| v.to_owned_value()).collect()))
    }
}

impl Modifier for PullAll {
    fn apply<'a>(&'a self, current: Value<'a>, at: &Site<'_, 'a>) -> Result<Outcome<'a>> {
        let collate = at.cx.env.collate();
        if self.0.len() < MANY {
            return remove_elements("$pullAll", current, at, |v| {
                Ok(self
                    .0
                    .iter()
                    .any(|w| compare_with(&v, &w.get(), collate).is_eq()))
            });
        }
        let mut unwanted = Members::new(collate);
        self.0.iter().for_each(|w| _ = unwanted.insert(&w.get()));
        remove_elements("$pullAll", current, at, |v| Ok(unwanted.contains(&v)))
    }
}
