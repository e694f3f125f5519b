//! The validation level `constraint` (9.0): every document of the collection is valid. A collection
//! is created with the level, or gets it by `collMod` in two steps: the first,
//! `prepareConstraintValidationLevel`, makes every write be checked as under the level; the second
//! checks all documents and sets the level.

use crate::ctx::Ctx;
use crate::rules::validator::Validator;
pub use crate::rules::validator::{LEVEL, PREPARED};
use model::{DocBuf, MongoError, Result, Value, bail, code};
use query::physical::each_match;
use query::plan::Plan;
use request::args::{Args, unknown_field};
use std::sync::Arc;
use store::Collection;

/// The code of the error for a document that is not valid.
const NOT_ALL_VALID: i32 = 12370902;

/// Checks that the action of a new collection fits its level.
///
/// # Errors
/// 72 InvalidOptions for the level with the action `warn`.
pub fn check_new(a: &Args<'_>) -> Result<()> {
    check_action(a.str("validationLevel"), a.str("validationAction"))
}

fn check_action(level: Option<&str>, action: Option<&str>) -> Result<()> {
    if level == Some(LEVEL) && action == Some("warn") {
        bail!(
            code::INVALID_OPTIONS,
            "the validation level 'constraint' takes the actions 'error' and 'errorAndLog', given \
                'warn'"
        );
    }
    Ok(())
}

/// Checks a `collMod` that concerns the level, and checks all documents when it sets the level.
///
/// # Errors
/// 40415 IDLFailedToParse for the option under 8.2; 72 InvalidOptions for rules changed while the
/// level is in force or being set, for an action that does not fit the level, and for a level that
/// was not prepared or not `strict` before; 12370902 for a document that is not valid.
pub fn check_change(cx: &Ctx<'_, '_>, c: &Arc<Collection>) -> Result<()> {
    let a = &cx.args;
    if a.has(PREPARED) && !cx.service.config.profile.has_constraints() {
        return Err(unknown_field(&format!("collMod.{PREPARED}")));
    }
    let options = c.options();
    let old = options.doc();
    let before = old.field("validationLevel").as_str().unwrap_or("strict");
    let after = a.str("validationLevel").unwrap_or(before);
    if after != LEVEL {
        return Ok(());
    }
    if a.has("validator") {
        bail!(
            code::INVALID_OPTIONS,
            "the validator cannot be changed under the validation level 'constraint'; set the \
                level 'strict' first"
        );
    }
    let action = a.str("validationAction");
    check_action(
        Some(LEVEL),
        action.or(old.field("validationAction").as_str()),
    )?;
    if before == LEVEL {
        return Ok(());
    }
    if before != "strict" {
        bail!(
            code::INVALID_OPTIONS,
            "the validation level can become 'constraint' from 'strict', not from '{before}'"
        );
    }
    if !old.field(PREPARED).truthy() {
        bail!(
            code::INVALID_OPTIONS,
            "run collMod with {PREPARED}: true before setting the validation level 'constraint'"
        );
    }
    check_documents(cx, c)
}

fn check_documents(cx: &Ctx<'_, '_>, c: &Arc<Collection>) -> Result<()> {
    let Some(validator) = Validator::of(cx.service, cx.operation.connection(), c, false)? else {
        return Ok(());
    };
    let env = crate::env::environment(cx, &crate::env::CollationArg::Default(None))?;
    let mut invalid = None;
    each_match(c, &Plan::scan(), None, &env, &mut |row| {
        if !validator.accepts(row.doc) {
            invalid = Some(row.doc.field("_id").to_owned_value());
        }
        Ok(invalid.is_none())
    })?;
    let Some(id) = invalid else {
        return Ok(());
    };
    let ns = c.ns();
    Err(MongoError::new(
        NOT_ALL_VALID,
        format!(
            "Cannot upgrade validationLevel to 'constraint': documents of {ns} are not valid, \
                among them that with _id {id}; find them by {}.{}.find({{$nor: [validator]}})",
            ns.db(),
            ns.coll()
        ),
    ))
}

/// Sets the level and its preparation in the options after a `collMod`.
pub fn settle(a: &Args<'_>, new: DocBuf) -> DocBuf {
    let level = new.doc().field("validationLevel").as_str() == Some(LEVEL);
    let keeps = |name: &str| name != PREPARED;
    let prepared = match a.has(PREPARED) {
        true => a.bool(PREPARED, false),
        false => new.doc().field(PREPARED).truthy(),
    };
    DocBuf::build(|w| {
        for (name, v) in new.doc().iter().filter(|(name, _)| keeps(name)) {
            w.put(name, v);
        }
        if prepared && !level {
            w.put(PREPARED, true);
        }
        // The preparation sets the level to strict if it was not specified.
        if a.bool(PREPARED, false) && !new.doc().contains("validationLevel") {
            w.put("validationLevel", Value::String("strict"));
        }
    })
}
