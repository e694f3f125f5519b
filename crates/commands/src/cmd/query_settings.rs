//! `setQuerySettings` and `removeQuerySettings`: by a query of the shape, or by the hash of a shape
//! that has settings.

use crate::dispatch::args::{Arg, Args, Kind, arg, check_doc, missing_field, wrong_type};
use crate::dispatch::command::Command;
use crate::dispatch::ctx::Ctx;
use crate::dispatch::request::Outcome;
use crate::dispatch::spec::{Privilege, flag};
use crate::read::shape;
use crate::state::query_settings::ShapeSettings;
use model::{Doc, DocBuf, Result, Tag, Value, bail, code, namespace};

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

static SETTINGS: &[Arg] = &[
    arg("indexHints", Kind::OneOf(&[Tag::ARRAY, Tag::DOCUMENT])),
    arg("queryFramework", Kind::Str),
    arg("reject", Kind::Bool).strict_null(),
    arg("comment", Kind::Any),
];

static HINT: &[Arg] = &[
    arg("ns", Kind::Object).required(),
    arg("allowedIndexes", Kind::Array).required(),
];

static NAMESPACE: &[Arg] = &[arg("db", Kind::Str), arg("coll", Kind::Str)];

/// Digits of a hash.
const HASH_DIGITS: usize = 64;

/// The shape a command names, by a query or by its hash.
enum Shape<'a> {
    Query(String, Doc<'a>),
    Hash(String),
}

impl<'a> Shape<'a> {
    /// # Errors
    /// 14 neither text nor document; 16 and 2 for a hash of another length or digits; 7746402 no
    /// query, 40414 and 73 for its database, 8584900 and 8584901 for internal ones, 7746606 for a
    /// find by `_id`.
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
        // What cannot be set can be removed.
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
        if name == "find" && is_by_id(query.field("filter")) {
            bail!(
                7746606,
                "setQuerySettings command cannot be used on a find of one document by its _id"
            );
        }
        Ok(Shape::Query(shape::hash(db, query), query))
    }
}

/// Whether a filter is `{_id: value}`, which is answered without a plan.
fn is_by_id(filter: Value<'_>) -> bool {
    let Some(d) = filter.as_doc().filter(|d| d.count() == 1) else {
        return false;
    };
    match d.field("_id") {
        Value::Missing | Value::Regex(_) => false,
        Value::Document(v) => v.first().is_none_or(|(name, _)| !name.starts_with('$')),
        _ => true,
    }
}

/// Checks settings, and that they say something.
fn check(settings: Doc<'_>) -> Result<()> {
    if settings.is_empty() {
        bail!(
            8727502,
            "settings field in setQuerySettings command cannot be empty"
        );
    }
    let a = check_doc("setQuerySettings.settings", SETTINGS, settings)?;
    if let Some(framework) = a.str("queryFramework")
        && !matches!(framework, "classic" | "sbe")
    {
        bail!(
            code::BAD_VALUE,
            "Enumeration value '{framework}' for field 'setQuerySettings.settings.queryFramework' \
                is not a valid value"
        );
    }
    match a.value("indexHints") {
        Value::Array(hints) => {
            for (i, v) in hints.iter().enumerate() {
                let scope = format!("setQuerySettings.settings.indexHints.{i}");
                let Value::Document(d) = v else {
                    return Err(wrong_type(&scope, &v, &[Tag::DOCUMENT]));
                };
                check_hint(&scope, d)?;
            }
        }
        Value::Document(d) => check_hint("setQuerySettings.settings.indexHints", d)?,
        _ => {}
    }
    let says_something = ["indexHints", "queryFramework"].iter().any(|n| a.has(n));
    if !says_something && !a.bool("reject", false) {
        bail!(
            7746604,
            "the resulting settings cannot be empty or contain only default values"
        );
    }
    Ok(())
}

fn check_hint(scope: &str, d: Doc<'_>) -> Result<()> {
    let hint = check_doc(scope, HINT, d)?;
    let ns: Args<'_> = check_doc(
        &format!("{scope}.ns"),
        NAMESPACE,
        hint.doc("ns").unwrap_or(d),
    )?;
    if !ns.has("db") {
        bail!(8727500, "invalid index hint: 'ns.db' field is missing");
    }
    if !ns.has("coll") {
        bail!(8727501, "invalid index hint: 'ns.coll' field is missing");
    }
    for v in hint
        .array("allowedIndexes")
        .into_iter()
        .flat_map(|a| a.iter())
    {
        match v {
            Value::String(_) => {}
            Value::Document(d) if d.is_empty() => {
                bail!(9646000, "key pattern index can't be empty")
            }
            Value::Document(_) => {}
            v => bail!(
                code::FAILED_TO_PARSE,
                "an index hint is a name or a key pattern, not {}",
                v.type_name()
            ),
        }
    }
    Ok(())
}

fn set(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let shape = Shape::of(cx)?;
    let settings = cx.args.doc("settings").unwrap_or(Doc::EMPTY);
    check(settings)?;
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
    // What is not named stays as it was.
    let before = all.get(&hash).map(|row| row.settings).unwrap_or_default();
    let settings = DocBuf::build(|w| {
        for row in SETTINGS {
            let new = settings.field(row.name);
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
