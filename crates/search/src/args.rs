//! Reads the fields of a specification. A null field counts as absent; an unknown field is refused.
//! Must not know: what the fields mean.

use crate::error::invalid;
use model::{Doc, Result, Value};

/// The fields of one document of a specification.
#[derive(Clone)]
pub(crate) struct Args<'d> {
    /// Path to the document, for error messages.
    pub(crate) path: String,
    pub(crate) doc: Doc<'d>,
}

impl<'d> Args<'d> {
    /// The document at `path`; fields not in `allowed` are refused.
    pub(crate) fn new(path: &str, value: Value<'d>, allowed: &[&str]) -> Result<Args<'d>> {
        let Value::Document(doc) = value else {
            return Err(invalid(format!(
                "\"{path}\" must be a document, not {}",
                value.type_name()
            )));
        };
        if let Some((name, _)) = doc.iter().find(|(name, _)| !allowed.contains(name)) {
            return Err(invalid(format!(
                "Unrecognized field \"{name}\" in \"{path}\". Allowed are {}",
                allowed.join(", ")
            )));
        }
        Ok(Args {
            path: path.to_owned(),
            doc,
        })
    }

    /// The name of a field, for messages.
    pub(crate) fn name(&self, field: &str) -> String {
        format!("{}.{field}", self.path)
    }

    /// An optional field.
    pub(crate) fn get(&self, field: &str) -> Option<Value<'d>> {
        self.doc.get(field).filter(|v| !v.is_nullish())
    }

    /// A required field.
    pub(crate) fn required(&self, field: &str) -> Result<Value<'d>> {
        self.get(field)
            .ok_or_else(|| invalid(format!("\"{}\" is required", self.name(field))))
    }

    pub(crate) fn string(&self, field: &str) -> Result<Option<&'d str>> {
        self.get(field)
            .map(|v| self.as_string(field, v))
            .transpose()
    }

    pub(crate) fn as_string(&self, field: &str, v: Value<'d>) -> Result<&'d str> {
        v.as_str()
            .ok_or_else(|| self.wrong_type(field, "a string", v))
    }

    pub(crate) fn boolean(&self, field: &str) -> Result<Option<bool>> {
        let Some(v) = self.get(field) else {
            return Ok(None);
        };
        let found = v.as_bool();
        found
            .map(Some)
            .ok_or_else(|| self.wrong_type(field, "a boolean", v))
    }

    /// A whole number between two bounds.
    pub(crate) fn integer(&self, field: &str, min: i64, max: i64) -> Result<Option<i64>> {
        let Some(v) = self.get(field) else {
            return Ok(None);
        };
        let whole = match v {
            Value::Decimal128(_) => None,
            v => v.as_i64_exact(),
        };
        let n = whole.ok_or_else(|| self.wrong_type(field, "an integer", v))?;
        if n < min || n > max {
            return Err(invalid(format!(
                "\"{}\" must be between {min} and {max}, not {n}",
                self.name(field)
            )));
        }
        Ok(Some(n))
    }

    /// A finite number.
    pub(crate) fn number(&self, field: &str) -> Result<Option<f64>> {
        let Some(v) = self.get(field) else {
            return Ok(None);
        };
        match v.as_f64() {
            Some(n) if n.is_finite() => Ok(Some(n)),
            _ => Err(self.wrong_type(field, "a finite number", v)),
        }
    }

    /// One string, or an array of at least one.
    pub(crate) fn strings(&self, field: &str) -> Result<Vec<&'d str>> {
        let v = self.required(field)?;
        let found = match v {
            Value::String(s) => vec![s],
            Value::Array(list) => list
                .iter()
                .map(|v| self.as_string(field, v))
                .collect::<Result<_>>()?,
            v => return Err(self.wrong_type(field, "a string or an array of strings", v)),
        };
        if found.is_empty() || found.iter().any(|s| s.is_empty()) {
            return Err(invalid(format!("\"{}\" cannot be empty", self.name(field))));
        }
        Ok(found)
    }

    /// One of these words.
    pub(crate) fn word(&self, field: &str, words: &[&'static str]) -> Result<Option<&'static str>> {
        let Some(given) = self.string(field)? else {
            return Ok(None);
        };
        let found = words.iter().find(|w| **w == given);
        found.map(|w| Some(*w)).ok_or_else(|| {
            invalid(format!(
                "\"{}\" must be one of {}, not \"{given}\"",
                self.name(field),
                words.join(", ")
            ))
        })
    }

    pub(crate) fn wrong_type(&self, field: &str, wanted: &str, v: Value<'_>) -> model::MongoError {
        invalid(format!(
            "\"{}\" must be {wanted}, not {}",
            self.name(field),
            v.type_name()
        ))
    }
}
