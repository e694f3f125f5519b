//! Query settings: their fields, and the settings that apply to a query: those of its shape and,
//! since 9.0, those of the command itself.

use model::{Doc, DocBuf, MongoError, Namespace, OwnedValue, Result, Tag, Value, bail, code};
use query::plan::AllowedIndexes;
use request::args::{Arg, Args, Kind, arg, check_doc, wrong_type};
use state::plan_filters::ShapeParts;
use state::service::Service;

/// The fields of query settings.
pub static SETTINGS: &[Arg] = &[
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

/// Checks the fields of settings; returns whether they set anything.
///
/// # Errors
/// 14 TypeMismatch, 40414 IDLMissingField and 40415 for the fields; 2 BadValue for an unknown
/// framework, 8727500, 8727501, 9646000 and 9 for a hint.
pub fn check(scope: &str, settings: Doc<'_>) -> Result<bool> {
    let a = check_doc(scope, SETTINGS, settings)?;
    if let Some(framework) = a.str("queryFramework")
        && !matches!(framework, "classic" | "sbe")
    {
        bail!(
            code::BAD_VALUE,
            "Enumeration value '{framework}' for field '{scope}.queryFramework' is not a valid \
                value"
        );
    }
    match a.value("indexHints") {
        Value::Array(hints) => {
            for (i, v) in hints.iter().enumerate() {
                let scope = format!("{scope}.indexHints.{i}");
                let Value::Document(d) = v else {
                    return Err(wrong_type(&scope, &v, &[Tag::DOCUMENT]));
                };
                check_hint(&scope, d)?;
            }
        }
        Value::Document(d) => check_hint(&format!("{scope}.indexHints"), d)?,
        _ => {}
    }
    let says_something = ["indexHints", "queryFramework"].iter().any(|n| a.has(n));
    Ok(says_something || a.bool("reject", false))
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

/// Whether a filter is `{_id: value}`, which needs no plan.
pub fn is_by_id(filter: Value<'_>) -> bool {
    let Some(d) = filter.as_doc().filter(|d| d.count() == 1) else {
        return false;
    };
    match d.field("_id") {
        Value::Missing | Value::Regex(_) => false,
        Value::Document(v) => v.first().is_none_or(|(name, _)| !name.starts_with('$')),
        _ => true,
    }
}

/// The settings in the command itself.
///
/// # Errors
/// Under 8.2, which has no such field, 7746900, 7923000 and 7923001; otherwise those of [`check`]
/// and 7746608 for two hints for one collection.
fn read_inline<'q>(service: &Service, ns: &Namespace, query: Doc<'q>) -> Result<Option<Doc<'q>>> {
    let Some(settings) = query.field("querySettings").as_doc() else {
        return Ok(None);
    };
    let (name, _) = query.first().unwrap_or(("", Value::Missing));
    if !service.config.profile.takes_query_settings() {
        let number = match name {
            "find" => 7746900,
            "aggregate" => 7923000,
            _ => 7923001,
        };
        bail!(
            number,
            "BSON field '{name}.querySettings' is an unknown field."
        );
    }
    let internal = matches!(ns.db(), "admin" | "config" | "local") || ns.is_system();
    let unplanned = name == "find" && is_by_id(query.field("filter"));
    if internal || unplanned || query.contains("encryptionInformation") {
        return Ok(None);
    }
    check(&format!("{name}.querySettings"), settings)?;
    if let Value::Array(hints) = settings.field("indexHints") {
        let of = |v: Value<'_>| v.as_doc().map(|d| d.field("ns").to_owned_value());
        let spaces: Vec<_> = hints.iter().map(of).collect();
        let twice = |(i, ns)| spaces.iter().take(i).any(|other| other == ns);
        if spaces.iter().enumerate().any(twice) {
            bail!(
                7746608,
                "the index hints of a query name each collection once: {}",
                settings.field("indexHints")
            );
        }
    }
    Ok(Some(settings))
}

/// The settings that apply to a query; a field of its shape's settings takes precedence over the
/// command's.
///
/// # Errors
/// Those of the command's own settings; 411 QueryRejectedBySettings.
fn find_settings(service: &Service, ns: &Namespace, query: Doc<'_>) -> Result<Option<DocBuf>> {
    let all = &service.state.query_settings;
    let own = read_inline(service, ns, query)?;
    let of_shape = match all.has_any() {
        true => all.get(&super::shape::hash(ns.db(), query)),
        false => None,
    };
    if own.is_none() && of_shape.is_none() {
        return Ok(None);
    }
    let of_shape = of_shape.map(|row| row.settings).unwrap_or_default();
    let own = own.unwrap_or(Doc::EMPTY);
    let settings = DocBuf::build(|w| {
        for row in SETTINGS {
            let set = of_shape.doc().field(row.name);
            w.put(
                row.name,
                if set.is_missing() {
                    own.field(row.name)
                } else {
                    set
                },
            );
        }
    });
    if settings.doc().field("reject").truthy() {
        return Err(MongoError::new(
            code::QUERY_REJECTED_BY_SETTINGS,
            "Query rejected by admin query settings",
        ));
    }
    Ok(Some(settings))
}

/// The indexes that settings, or else an index filter, allow for a query; `None` without either.
///
/// # Errors
/// Those of the settings of the query; 411 QueryRejectedBySettings.
pub fn allowed_indexes(
    service: &Service,
    ns: &Namespace,
    query: Doc<'_>,
    shape: &ShapeParts<'_>,
) -> Result<Option<AllowedIndexes>> {
    let hinted = find_settings(service, ns, query)?;
    Ok(
        match hinted.and_then(|set| hinted_indexes(set.doc(), ns.db(), query)) {
            Some(list) => Some(AllowedIndexes {
                list,
                filter: false,
            }),
            None => service.state.plan_filters.allowed(ns, shape),
        },
    )
}

/// The indexes in the hints for a query's collection.
fn hinted_indexes(set: Doc<'_>, db: &str, query: Doc<'_>) -> Option<Vec<OwnedValue>> {
    let coll = query.first().and_then(|(_, v)| v.as_str());
    let of_here = |hint: Doc<'_>| {
        let ns = hint.field("ns").as_doc()?;
        let here = ns.field("db").as_str() == Some(db) && ns.field("coll").as_str() == coll;
        let allowed = hint.field("allowedIndexes").as_array().filter(|_| here)?;
        Some(allowed.iter().map(|v| v.to_owned_value()).collect())
    };
    match set.field("indexHints") {
        Value::Array(hints) => hints.iter().find_map(|h| of_here(h.as_doc()?)),
        Value::Document(hint) => of_here(hint),
        _ => None,
    }
}
