//! What commands need of the query language beside running queries: compiled filters, checked validators and collations.

use crate::service::Service;
use model::{Doc, MongoError, Namespace, Result, bail, code};
use store::Predicate;

impl Service {
    /// Compiles a filter over listings.
    ///
    /// # Errors
    /// The filter parser's.
    pub fn predicate(&self, filter: Doc<'_>) -> Result<Predicate> {
        self.hooks.predicate(filter)
    }

    /// Checks a collation.
    ///
    /// # Errors
    /// The collation parser's.
    pub fn check_collation(&self, spec: Doc<'_>) -> Result<()> {
        self.hooks.collator(spec).map(|_| ())
    }

    /// Checks a validator for a namespace.
    ///
    /// # Errors
    /// 72 where validators are not allowed, those of the filter parser, 2 and 5626500 for operators no validator may use.
    pub fn check_validator(&self, ns: &Namespace, validator: Doc<'_>) -> Result<()> {
        if ns.is_system() || matches!(ns.db(), "admin" | "local" | "config") {
            bail!(code::INVALID_OPTIONS, "Document validators are not allowed on system collection {ns} or in the database {}", ns.db());
        }
        refuse_operators(validator)?;
        self.hooks.predicate(validator).map(|_| ())
    }
}

/// Operators that need an index or a server of scripts.
fn refuse_operators(filter: Doc<'_>) -> Result<()> {
    for (name, value) in filter.iter() {
        match name {
            "$text" | "$where" => return Err(MongoError::bad_value(format!("{name} is not allowed in a validator"))),
            "$near" | "$nearSphere" | "$geoNear" => bail!(5_626_500, "{name} is not allowed in a validator"),
            _ => {}
        }
        match value {
            model::Value::Document(d) if name != "$expr" && name != "$jsonSchema" => refuse_operators(d)?,
            model::Value::Array(a) if name.starts_with('$') => {
                for d in a.iter().filter_map(|v| v.as_doc()) {
                    refuse_operators(d)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
