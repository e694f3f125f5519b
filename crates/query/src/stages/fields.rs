//! Argument documents of stages: every field must be known and given once; null counts as absent.

use model::{Array, Doc, Result, Value, bail, code};

/// The argument document of a stage.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    stage: &'static str,
    doc: Doc<'a>,
}

impl<'a> Fields<'a> {
    /// Checks the names.
    ///
    /// # Errors
    /// 40415 IDLFailedToParse for an unknown field, 40413 IDLDuplicateField for one given twice.
    pub(super) fn new(stage: &'static str, doc: Doc<'a>, known: &[&str]) -> Result<Fields<'a>> {
        for (i, (name, _)) in doc.iter().enumerate() {
            if !known.contains(&name) {
                bail!(
                    40415,
                    "BSON field '{stage}.{name}' is an unknown field. Known are {}",
                    known.join(", ")
                );
            }
            if doc.iter().take(i).any(|(n, _)| n == name) {
                bail!(40413, "BSON field '{stage}.{name}' is a duplicate field");
            }
        }
        Ok(Fields { stage, doc })
    }

    /// A field; `Missing` when absent or null.
    pub(super) fn get(&self, name: &str) -> Value<'a> {
        match self.doc.field(name) {
            Value::Null | Value::Undefined => Value::Missing,
            v => v,
        }
    }

    /// A required field.
    ///
    /// # Errors
    /// 40414 IDLMissingField when it is missing.
    pub(super) fn required(&self, name: &str) -> Result<Value<'a>> {
        match self.get(name) {
            Value::Missing => bail!(
                40414,
                "BSON field '{}.{name}' is missing but a required field",
                self.stage
            ),
            v => Ok(v),
        }
    }

    /// Error 14 with the given and the allowed types.
    pub(super) fn wrong_type<T>(&self, name: &str, v: Value<'_>, allowed: &str) -> Result<T> {
        bail!(
            code::TYPE_MISMATCH,
            "BSON field '{}.{name}' is the wrong type '{}', expected type '{allowed}'",
            self.stage,
            v.type_name()
        )
    }

    /// An optional boolean for which null is a wrong type.
    ///
    /// # Errors
    /// 14 TypeMismatch.
    pub(super) fn strict_boolean(&self, name: &str) -> Result<Option<bool>> {
        match self.doc.field(name) {
            Value::Missing => Ok(None),
            Value::Bool(b) => Ok(Some(b)),
            v => self.wrong_type(name, v, "bool"),
        }
    }

    /// An optional string.
    ///
    /// # Errors
    /// 14 TypeMismatch.
    pub(super) fn string(&self, name: &str) -> Result<Option<&'a str>> {
        match self.get(name) {
            Value::Missing => Ok(None),
            Value::String(s) => Ok(Some(s)),
            v => self.wrong_type(name, v, "string"),
        }
    }

    /// An optional document.
    ///
    /// # Errors
    /// 14 TypeMismatch.
    pub(super) fn document(&self, name: &str) -> Result<Option<Doc<'a>>> {
        match self.get(name) {
            Value::Missing => Ok(None),
            Value::Document(d) => Ok(Some(d)),
            v => self.wrong_type(name, v, "object"),
        }
    }

    /// An optional array.
    ///
    /// # Errors
    /// 14 TypeMismatch.
    pub(super) fn array(&self, name: &str) -> Result<Option<Array<'a>>> {
        match self.get(name) {
            Value::Missing => Ok(None),
            Value::Array(a) => Ok(Some(a)),
            v => self.wrong_type(name, v, "array"),
        }
    }

    /// An optional boolean.
    ///
    /// # Errors
    /// 14 TypeMismatch.
    pub(super) fn boolean(&self, name: &str) -> Result<Option<bool>> {
        match self.get(name) {
            Value::Missing => Ok(None),
            Value::Bool(b) => Ok(Some(b)),
            v => self.wrong_type(name, v, "bool"),
        }
    }
}
