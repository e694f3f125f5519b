//! Checks of a request before its command is known: the database, valid BSON, `admin`.

use model::{MongoError, Result, Value, bail, code};
use request::Request;
use request::args;
use request::spec::{Spec, flag};

/// Refuses a command that has to run on the database `admin` and is sent to another one.
///
/// # Errors
/// 13 Unauthorized.
pub(super) fn check_admin(command: &Spec, db: &str) -> Result<()> {
    if !command.is(flag::ADMIN) || db == "admin" {
        return Ok(());
    }
    Err(MongoError::new(
        code::UNAUTHORIZED,
        format!(
            "{} may only be run against the admin database",
            command.name
        ),
    ))
}

/// The database of a request.
///
/// # Errors
/// 40571 without one, 14 TypeMismatch, 73 InvalidNamespace.
pub(super) fn database<'a>(request: &Request<'a>) -> Result<&'a str> {
    let db = match request.body.field("$db") {
        Value::String(db) => db,
        Value::Missing => match request.legacy_db {
            Some(db) => db,
            None => bail!(40_571, "OP_MSG requests require a $db argument"),
        },
        v => return Err(args::wrong_type("$db", &v, &[model::Tag::STRING])),
    };
    model::namespace::check_db(db)?;
    Ok(db)
}

/// Validates that every document of a request is valid BSON.
pub(super) fn validate(request: &Request<'_>) -> Result<()> {
    model::validate(request.body.as_bytes())?;
    for s in request.sequences {
        let mut seen = 0;
        for doc in s.iter() {
            model::validate(doc.as_bytes())?;
            seen += doc.len_bytes();
        }
        if seen != s.documents.len() {
            bail!(
                code::INVALID_BSON,
                "the document sequence '{}' does not hold whole documents only",
                s.name
            );
        }
    }
    Ok(())
}

/// Whether a write may concern the system collections of `admin`, which hold users and roles.
pub(super) fn names_system(request: &Request<'_>, db: &str) -> bool {
    if db != "admin" {
        return false;
    }
    let mut names = request.body.iter().filter_map(|(_, v)| v.as_str());
    let own = request.body.first().map(|(_, v)| v);
    let several =
        request.body.contains("nsInfo") || request.sequences.iter().any(|s| s.name == "nsInfo");
    let listed = || {
        let arrays = request.body.field("nsInfo").as_array();
        let inline = arrays
            .into_iter()
            .flat_map(|a| a.iter())
            .filter_map(|v| v.as_doc());
        let sent = request.sequences.iter().filter(|s| s.name == "nsInfo");
        inline.chain(sent.flat_map(|s| s.iter())).any(|d| {
            d.field("ns")
                .as_str()
                .is_some_and(|ns| ns.starts_with("admin.system."))
        })
    };
    names.any(|name| name.contains("system."))
        || (several && listed())
        || (!several && own.is_none_or(|v| v.as_str().is_none()))
}
