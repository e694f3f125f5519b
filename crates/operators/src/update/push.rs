//! `$push`: appends a value, or with `$each` several, optionally at a `$position`, sorted by
//! `$sort` and cut to `$slice`. A missing field becomes an array. Errors: 2 throughout (not an
//! array, unknown clause, malformed modifier).

use super::modifier::{Modifier, Outcome, Site, identical};
use model::{Array, Collate, FieldPath, OwnedValue, Result, Value, bail, code, compare_with};
use std::cmp::Ordering;

pub(super) struct Push {
    values: Vec<OwnedValue>,
    position: Option<i64>,
    slice: Option<i64>,
    sort: Option<Sort>,
}

/// The sort order of the array.
enum Sort {
    /// By the elements themselves.
    Whole { descending: bool },
    /// By fields of documents.
    Fields(Vec<(FieldPath, bool)>),
}

impl Push {
    pub(super) fn parse(field: &str, v: Value<'_>) -> Result<Push> {
        let mut push = Push {
            values: Vec::new(),
            position: None,
            slice: None,
            sort: None,
        };
        let Some(clauses) = v.as_doc().filter(|d| d.contains("$each")) else {
            push.values.push(v.to_owned_value());
            return Ok(push);
        };
        for (name, v) in clauses.iter() {
            match name {
                "$each" => {
                    let Value::Array(items) = v else {
                        bail!(
                            code::BAD_VALUE,
                            "The argument to $each in $push must be an array but it was of type: \
                                {}",
                            v.type_name()
                        )
                    };
                    push.values = items.iter().map(|v| v.to_owned_value()).collect();
                }
                "$slice" => push.slice = Some(integer(name, v)?),
                "$position" => push.position = Some(integer(name, v)?),
                "$sort" => push.sort = Some(Sort::parse(v)?),
                _ => bail!(
                    code::BAD_VALUE,
                    "Unrecognized clause in $push: {name} of '{field}'"
                ),
            }
        }
        Ok(push)
    }
}

fn integer(name: &str, v: Value<'_>) -> Result<i64> {
    match v.as_i64_exact() {
        Some(n) => Ok(n),
        None => bail!(
            code::BAD_VALUE,
            "The value for {name} must be an integer value but was given type: {}",
            v.type_name()
        ),
    }
}

impl Sort {
    fn parse(v: Value<'_>) -> Result<Sort> {
        let direction = |v: Value<'_>| match v.as_i64_exact() {
            Some(1) => Some(false),
            Some(-1) => Some(true),
            _ => None,
        };
        match v {
            Value::Document(d) => {
                if d.is_empty() {
                    bail!(
                        code::BAD_VALUE,
                        "The $sort pattern is empty when it should be a set of fields."
                    );
                }
                let mut fields = Vec::new();
                for (name, v) in d.iter() {
                    if name.is_empty() {
                        bail!(code::BAD_VALUE, "The $sort field cannot be empty");
                    }
                    if name.split('.').any(str::is_empty) {
                        bail!(
                            code::BAD_VALUE,
                            "The $sort field is a dotted field but has an empty part: {name}"
                        );
                    }
                    let Some(descending) = direction(v) else {
                        bail!(
                            code::BAD_VALUE,
                            "The $sort element value must be either 1 or -1"
                        )
                    };
                    fields.push((FieldPath::new(name), descending));
                }
                Ok(Sort::Fields(fields))
            }
            v if v.is_number() => match direction(v) {
                Some(descending) => Ok(Sort::Whole { descending }),
                None => bail!(
                    code::BAD_VALUE,
                    "The $sort element value must be either 1 or -1"
                ),
            },
            _ => bail!(
                code::BAD_VALUE,
                "The $sort is invalid: use 1/-1 to sort the whole element, or {{field:1/-1}} to \
                    sort embedded fields"
            ),
        }
    }

    fn apply(&self, items: &mut [Value<'_>], collate: Option<&dyn Collate>) {
        match self {
            Sort::Whole { descending } => {
                items.sort_by(|a, b| apply_direction(compare_with(a, b, collate), *descending))
            }
            Sort::Fields(fields) => items.sort_by(|a, b| {
                fields
                    .iter()
                    .fold(Ordering::Equal, |so_far, (path, descending)| {
                        so_far.then_with(|| {
                            let order =
                                compare_with(&sort_key(a, path), &sort_key(b, path), collate);
                            apply_direction(order, *descending)
                        })
                    })
            }),
        }
    }
}

fn apply_direction(o: Ordering, descending: bool) -> Ordering {
    if descending { o.reverse() } else { o }
}

/// The value at a path of a document; null when there is none.
fn sort_key<'a>(v: &Value<'a>, path: &FieldPath) -> Value<'a> {
    let found = path.parts().iter().fold(*v, |v, part| match v {
        Value::Document(d) => d.field(&part.name),
        Value::Array(a) => part.index.and_then(|i| a.get(i)).unwrap_or(Value::Missing),
        _ => Value::Missing,
    });
    if found.is_missing() {
        Value::Null
    } else {
        found
    }
}

fn insertion_point(position: Option<i64>, len: usize) -> usize {
    match position {
        None => len,
        Some(p) if p >= 0 => usize::try_from(p).unwrap_or(len).min(len),
        Some(p) => len.saturating_sub(usize::try_from(p.unsigned_abs()).unwrap_or(len)),
    }
}

impl Modifier for Push {
    fn apply<'a>(&'a self, current: Value<'a>, at: &Site<'_, 'a>) -> Result<Outcome<'a>> {
        let mut items: Vec<Value<'a>> = match current {
            Value::Array(a) => a.iter().collect(),
            Value::Missing => Vec::new(),
            v => bail!(
                code::BAD_VALUE,
                "The field must be an array but is of type {} in document {}",
                v.type_name(),
                at.document_id()
            ),
        };
        let at_index = insertion_point(self.position, items.len());
        items.splice(at_index..at_index, self.values.iter().map(|v| v.get()));
        if let Some(sort) = &self.sort {
            sort.apply(&mut items, at.cx.env.collate());
        }
        if let Some(n) = self.slice {
            let keep = usize::try_from(n.unsigned_abs())
                .unwrap_or(usize::MAX)
                .min(items.len());
            if n >= 0 {
                items.truncate(keep);
            } else {
                items.drain(..items.len() - keep);
            }
        }
        let new = Value::Array(Array::from_values_in(at.arena(), items));
        Ok(if identical(&current, &new) {
            Outcome::Keep
        } else {
            Outcome::Set(new)
        })
    }
}
