//! The values an operator considered, and the report on them.

use crate::filter::walk::{self, walk_doc};
use model::{Doc, DocWriter, FieldPath, Value};
use std::ops::ControlFlow;

/// Most values shown.
const VALUES_MAX: usize = 10;

/// Which values of an array at the end of a path are considered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaf {
    /// Only its elements.
    Elements,
    /// Its elements and the array.
    Both,
    /// Only the array.
    Whole,
}

impl Leaf {
    pub(super) fn of(operator: &str) -> Leaf {
        match operator {
            "$size" | "$all" | "$elemMatch" => Leaf::Whole,
            "$type" => Leaf::Both,
            _ => Leaf::Elements,
        }
    }
}

/// Values at a path; `None` when the path does not exist.
pub(super) struct PathValues<'d>(Option<Vec<Value<'d>>>);

/// Names of the types an operator accepts; empty for all.
fn expected_types(operator: &str) -> &'static [&'static str] {
    match operator {
        "$mod" => NUMBERS,
        "$regex" => &["regex", "string", "symbol"],
        "$size" | "$all" | "$elemMatch" => &["array"],
        "$bitsAllSet" | "$bitsAllClear" | "$bitsAnySet" | "$bitsAnyClear" => {
            &["binData", "decimal", "double", "int", "long"]
        }
        _ => &[],
    }
}

/// Names of the numeric types.
pub(super) const NUMBERS: &[&str] = &["decimal", "double", "int", "long"];

impl<'d> PathValues<'d> {
    pub(super) fn at(doc: Doc<'d>, path: &str, leaf: Leaf) -> PathValues<'d> {
        let path = FieldPath::new(path);
        let mut values = Vec::new();
        let mut found = false;
        let how = if leaf == Leaf::Whole {
            walk::Leaf::Whole
        } else {
            walk::Leaf::Traverse
        };
        let _ = walk_doc(doc, path.parts(), how, None, &mut |v, _| {
            found |= !v.is_missing();
            match v {
                Value::Missing => {}
                Value::Array(_) if leaf == Leaf::Elements => {}
                v => values.push(v),
            }
            ControlFlow::Continue(())
        });
        PathValues(found.then_some(values))
    }

    /// Writes the reason and the values.
    pub(super) fn write(&self, operator: &str, reason: &str, w: &mut DocWriter<'_>) {
        let Some(values) = &self.0 else {
            w.put("reason", "field was missing");
            return;
        };
        let expected = expected_types(operator);
        if !expected.is_empty()
            && !values.is_empty()
            && !values.iter().any(|v| expected.contains(&v.type_name()))
        {
            mismatch(values, expected, w);
        } else {
            w.put("reason", reason);
        }
        match values.as_slice() {
            [only] => {
                w.put("consideredValue", *only);
            }
            many => {
                let mut list = w.array("consideredValues");
                many.iter().take(VALUES_MAX).for_each(|v| {
                    list.push(*v);
                });
                drop(list);
                if many.len() > VALUES_MAX {
                    w.put("consideredValuesTruncated", true);
                }
            }
        }
        if operator == "$type" {
            types(values, w);
        }
    }
}

/// Reports that the values have types the operator does not accept.
pub(super) fn mismatch(values: &[Value<'_>], expected: &[&str], w: &mut DocWriter<'_>) {
    w.put("reason", "type did not match");
    types(values, w);
    match expected {
        [only] => {
            w.put("expectedType", *only);
        }
        many => {
            let mut list = w.array("expectedTypes");
            many.iter().for_each(|t| {
                list.push(*t);
            });
        }
    }
}

/// The types of values, each once, by name.
fn types(values: &[Value<'_>], w: &mut DocWriter<'_>) {
    let mut names: Vec<&str> = values.iter().map(Value::type_name).collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [] => {}
        [only] => {
            w.put("consideredType", *only);
        }
        many => {
            let mut list = w.array("consideredTypes");
            many.iter().for_each(|t| {
                list.push(*t);
            });
        }
    }
}
