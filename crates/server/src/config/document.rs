//! Values of a configuration file as BSON, and lists of names separated by commas. Promises: a
//! value that BSON does not have is refused, and so is one that is nested too deeply.

use model::{ArrayWriter, DocWriter};
use serde_yaml_ng::{Mapping, Value};

/// Deepest nesting.
const DEPTH_MAX: usize = 100;

/// Splits a list of names at its commas.
pub(super) fn list(text: &str) -> Vec<String> {
    text.split(',')
        .map(|s| s.trim().to_owned())
        .filter(|s| !s.is_empty())
        .collect()
}

/// Writes the fields of a mapping; `what` names its option in error messages.
pub(super) fn put_fields(
    w: &mut DocWriter<'_>,
    fields: &Mapping,
    what: &str,
    depth: usize,
) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("{what} is nested too deeply"));
    }
    for (name, value) in fields {
        let Some(name) = name.as_str() else {
            return Err(format!("{what} has a name that is no string: {name:?}"));
        };
        match value {
            Value::Null => _ = w.put(name, model::Value::Null),
            Value::Bool(b) => _ = w.put(name, *b),
            Value::String(s) => _ = w.put(name, s.as_str()),
            Value::Number(n) => _ = w.put(name, number(n)),
            Value::Mapping(m) => put_fields(&mut w.doc(name), m, what, depth + 1)?,
            Value::Sequence(s) => put_items(&mut w.array(name), s, what, depth + 1)?,
            Value::Tagged(_) => return Err(format!("{what} has a YAML tag at {name}")),
        }
    }
    Ok(())
}

/// Writes the items of a sequence.
pub(super) fn put_items(
    w: &mut ArrayWriter<'_>,
    items: &[Value],
    what: &str,
    depth: usize,
) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("{what} is nested too deeply"));
    }
    for value in items {
        match value {
            Value::Null => _ = w.push(model::Value::Null),
            Value::Bool(b) => _ = w.push(*b),
            Value::String(s) => _ = w.push(s.as_str()),
            Value::Number(n) => _ = w.push(number(n)),
            Value::Mapping(m) => put_fields(&mut w.doc(), m, what, depth + 1)?,
            Value::Sequence(s) => put_items(&mut w.array(), s, what, depth + 1)?,
            Value::Tagged(_) => return Err(format!("{what} has a YAML tag")),
        }
    }
    Ok(())
}

fn number(n: &serde_yaml_ng::Number) -> model::Value<'static> {
    match (n.as_i64(), n.as_f64()) {
        (Some(n), _) => i32::try_from(n).map_or(model::Value::Int64(n), model::Value::Int32),
        (None, f) => model::Value::Double(f.unwrap_or(f64::NAN)),
    }
}
