//! `$sortArray`: `{input, sortBy}`, by whole value (1, -1) or by paths of documents; stable. Null
//! for nullish input. Errors: 2942500 no document, 2942501 unknown argument, 2942502 / 2942503
//! missing argument, 2942504 input no array, 2942505-2942507 bad `sortBy`.

use crate::Cx;
use crate::expr::args::missing_error;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use model::{Array, FieldPath, Number, Result, Value, bail, compare_with};
use std::cmp::Ordering;

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$sortArray",
    parse: parse_sort,
}];

enum SortKey {
    Value { descending: bool },
    Paths(Vec<(FieldPath, bool)>),
}

struct SortArray {
    input: BoxExpr,
    by: SortKey,
}

fn parse_sort(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(
            2942500,
            "{name} requires an object as an argument, found: {}",
            spec.type_name()
        );
    };
    if let Some((unknown, _)) = d.iter().find(|(n, _)| !["input", "sortBy"].contains(n)) {
        bail!(2942501, "{name} found an unknown argument: {unknown}");
    }
    let input = d
        .get("input")
        .ok_or_else(|| missing_error(2942502, name, "input"))?;
    let by = d
        .get("sortBy")
        .ok_or_else(|| missing_error(2942503, name, "sortBy"))?;
    Ok(Box::new(SortArray {
        input: parse(cx, input)?,
        by: parse_by(by)?,
    }))
}

/// True for -1, false for 1.
fn direction(v: &Value<'_>) -> Option<bool> {
    match Number::of(v)?.to_i64_exact()? {
        1 => Some(false),
        -1 => Some(true),
        _ => None,
    }
}

fn parse_by(by: Value<'_>) -> Result<SortKey> {
    match by {
        Value::Document(d) => {
            if d.is_empty() {
                bail!(
                    2942505,
                    "The $sort pattern is empty when it should be a set of fields"
                );
            }
            let mut paths = Vec::new();
            for (name, v) in d.iter() {
                let Some(descending) = direction(&v) else {
                    bail!(
                        2942505,
                        "The $sort element value must be either 1 or -1, found {name}: \
                        {v}"
                    );
                };
                if name.is_empty() || name.split('.').any(str::is_empty) {
                    bail!(
                        2942505,
                        "The $sort field must be a valid path, found '{name}'"
                    );
                }
                paths.push((FieldPath::new(name), descending));
            }
            Ok(SortKey::Paths(paths))
        }
        v if v.is_number() => match direction(&v) {
            Some(descending) => Ok(SortKey::Value { descending }),
            None => bail!(
                2942506,
                "The $sort element value must be either 1 or -1, found {v}"
            ),
        },
        v => bail!(
            2942507,
            "The $sort is invalid: use 1/-1 to sort the whole element, or {{field: \
            1/-1}} to sort embedded fields, found {}",
            v.type_name()
        ),
    }
}

/// The value at a path without mapping over arrays (a number does index into one); null when there
/// is none.
fn key<'a>(v: Value<'a>, path: &FieldPath) -> Value<'a> {
    let mut v = v;
    for part in path.parts() {
        v = match v {
            Value::Document(d) => d.field(&part.name),
            Value::Array(a) => part.index.and_then(|i| a.get(i)).unwrap_or(Value::Missing),
            _ => Value::Missing,
        };
    }
    if v.is_missing() { Value::Null } else { v }
}

fn apply_direction(order: Ordering, descending: bool) -> Ordering {
    if descending { order.reverse() } else { order }
}

impl Expr for SortArray {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let array = match self.input.eval(cx)? {
            Value::Array(a) => a,
            v if v.is_nullish() => return Ok(Value::Null),
            v => bail!(
                2942504,
                "The input argument to $sortArray must be an array, but was of \
                type: {}",
                v.type_name()
            ),
        };
        let mut items: Vec<Value<'a>> = array.iter().collect();
        match &self.by {
            SortKey::Value { descending } => {
                items
                    .sort_by(|a, b| apply_direction(compare_with(a, b, cx.collate()), *descending));
            }
            SortKey::Paths(paths) => items.sort_by(|a, b| {
                paths
                    .iter()
                    .fold(Ordering::Equal, |order, (path, descending)| {
                        order.then_with(|| {
                            apply_direction(
                                compare_with(&key(*a, path), &key(*b, path), cx.collate()),
                                *descending,
                            )
                        })
                    })
            }),
        }
        Ok(Value::Array(Array::from_values_in(cx.arena, items)))
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.input.as_ref());
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            (
                "{'$sortArray': {'input': '$a', 'sortBy': 1}}",
                "{'a': [3, 'x', null, 1]}",
                "[null, 1, 3, 'x']",
            ),
            (
                "{'$sortArray': {'input': '$a', 'sortBy': {'x.y': -1, 'z': 1}}}",
                "{'a': [{'z': 2}, {'x': {'y': 1}}, {'z': 1}]}",
                "[{'x': {'y': 1}}, {'z': 1}, {'z': \
                 2}]",
            ),
            (
                "{'$sortArray': {'input': '$a', 'sortBy': -1.0}}",
                "{}",
                "null",
            ),
            (
                "{'$sortArray': {'input': 1, 'sortBy': 1}}",
                "{}",
                "!2942504",
            ),
            (
                "{'$sortArray': {'input': [], 'sortBy': {}}}",
                "{}",
                "!2942505",
            ),
            (
                "{'$sortArray': {'input': [], 'sortBy': 2}}",
                "{}",
                "!2942506",
            ),
            (
                "{'$sortArray': {'input': [], 'sortBy': 'x'}}",
                "{}",
                "!2942507",
            ),
            ("{'$sortArray': {'input': []}}", "{}", "!2942503"),
            ("{'$sortArray': 1}", "{}", "!2942500"),
        ]);
    }
}
