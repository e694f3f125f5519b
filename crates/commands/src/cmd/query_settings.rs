//! `setQuerySettings` and `removeQuerySettings`: they select a shape by a query, or by the hash of
//! a shape that has settings.

use context::command::Command;
use context::ctx::Ctx;
use context::read::settings::{self, SETTINGS};
use context::read::shape;
use model::{Doc, DocBuf, Result, Tag, Value, bail, code, namespace};
use request::Outcome;
use request::args::{Kind, arg, missing_field, wrong_type};
use request::spec::{Privilege, flag};
use state::query_settings::ShapeSettings;

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "setQuerySettings",
        "sets which indexes queries of a shape may use, or that they are rejected",
        Privilege::Cluster(&[auth::Action::QuerySettings]),
        flag::ADMIN,
        &[arg("settings", Kind::Object).required()],
        set,
    )
    .value(Kind::Any),
    Command::new(
        "removeQuerySettings",
        "removes the settings of a query shape",
        Privilege::Cluster(&[auth::Action::QuerySettings]),
        flag::ADMIN,
        &[],
        remove,
    )
    .value(Kind::Any),
];

/// Digits of a shape's hash.
const HASH_DIGITS: usize = 64;

/// The shape that a command selects, by a query or by its hash.
enum Shape<'a> {
    Query(String, Doc<'a>),
    Hash(String),
}

impl<'a> Shape<'a> {
    /// # Errors
    /// 14 neither text nor document; 16 InvalidLength and 2 for a hash of another length or with
    /// other digits; 7746402 not a query, 40414 IDLMissingField and 73 for its database, 8584900
    /// and 8584901 for internal databases and system collections, 7746606 for a find by `_id`.
    fn of(cx: &Ctx<'a, '_>) -> Result<Shape<'a>> {
        let query = match cx.value() {
            Value::String(hash) if hash.len() != HASH_DIGITS => bail!(
                code::INVALID_LENGTH,
                "a hash of a query shape has {HASH_DIGITS} digits, given {}",
                hash.len()
            ),
            Value::String(hash) if hash.bytes().any(|b| !b.is_ascii_hexdigit()) => bail!(
                code::BAD_VALUE,
                "a hash of a query shape has hexadecimal digits, given {hash}"
            ),
            Value::String(hash) => return Ok(Shape::Hash(hash.to_ascii_uppercase())),
            Value::Document(d) => d,
            v => {
                let path = format!("{0}.{0}", cx.command.name);
                return Err(wrong_type(&path, &v, &[Tag::STRING, Tag::DOCUMENT]));
            }
        };
        let Some((name @ ("find" | "aggregate" | "distinct"), own)) = query.first() else {
            bail!(
                7746402,
                "query settings are of find, aggregate and distinct, given {query}"
            )
        };
        let db = match query.field("$db") {
            Value::String(db) => db,
            Value::Missing | Value::Null => return Err(missing_field(&format!("{name}.$db"))),
            v => return Err(wrong_type(&format!("{name}.$db"), &v, &[Tag::STRING])),
        };
        namespace::check_db(db)?;
        // Settings that cannot be set can still be removed.
        if cx.command.name == "removeQuerySettings" {
            return Ok(Shape::Query(shape::hash(db, query), query));
        }
        if matches!(db, "admin" | "config" | "local") {
            bail!(
                8584900,
                "setQuerySettings command cannot be used on internal databases"
            );
        }
        if own.as_str().is_some_and(|coll| coll.starts_with("system.")) {
            bail!(
                8584901,
                "setQuerySettings command cannot be used on system collections"
            );
        }
        if name == "find" && settings::is_by_id(query.field("filter")) {
            bail!(
                7746606,
                "setQuerySettings command cannot be used on a find of one document by its _id"
            );
        }
        Ok(Shape::Query(shape::hash(db, query), query))
    }
}

/// Checks settings, and that they set anything.
fn check(settings: Doc<'_>) -> Result<()> {
    if settings.is_empty() {
        bail!(
            8727502,
            "settings field in setQuerySettings command cannot be empty"
        );
    }
    if !settings::check("setQuerySettings.settings", settings)? {
        bail!(
            7746604,
            "the resulting settings cannot be empty or contain only default values"
        );
    }
    Ok(())
}

fn set(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let shape = Shape::of(cx)?;
    let given = cx.args.doc("settings").unwrap_or(Doc::EMPTY);
    check(given)?;
    let all = &cx.service.state.query_settings;
    let (hash, representative) = match shape {
        Shape::Query(hash, query) => (hash, query.to_buf()),
        Shape::Hash(hash) => match all.get(&hash) {
            Some(row) => (hash, row.representative),
            None => bail!(
                7746401,
                "New query settings can only be created with a query instance, but a query hash \
                    was given."
            ),
        },
    };
    // Fields that the command does not have keep their values.
    let before = all.get(&hash).map(|row| row.settings).unwrap_or_default();
    let settings = DocBuf::build(|w| {
        for row in SETTINGS {
            let new = given.field(row.name);
            let kept = if new.is_missing() {
                before.doc().field(row.name)
            } else {
                new
            };
            w.put(row.name, kept);
        }
    });
    all.set(
        &cx.service.store,
        &hash,
        ShapeSettings {
            settings: settings.clone(),
            representative: representative.clone(),
        },
    )?;
    cx.reply
        .put("queryShapeHash", hash.as_str())
        .put("representativeQuery", &representative)
        .put("settings", &settings);
    Ok(Outcome::Reply)
}

fn remove(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let (Shape::Query(hash, _) | Shape::Hash(hash)) = Shape::of(cx)?;
    let store = &cx.service.store;
    cx.service.state.query_settings.remove(store, &hash)?;
    Ok(Outcome::Reply)
}
