//! `getClusterParameter` and `setClusterParameter`.

use context::command::Command;
use context::ctx::Ctx;
use model::{Doc, DocBuf, MongoError, Result, Tag, Value, bail, code, doc};
use request::Outcome;
use request::args::{Arg, Kind, arg, check_doc, wrong_type};
use request::spec::{Privilege, flag};

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "getClusterParameter",
        "reads cluster parameters",
        Privilege::Cluster(&[auth::Action::GetClusterParameter]),
        flag::ADMIN | flag::LENIENT,
        &[],
        get,
    ),
    Command::new(
        "setClusterParameter",
        "sets one cluster parameter",
        Privilege::Cluster(&[auth::Action::SetClusterParameter]),
        flag::ADMIN | flag::LENIENT | flag::WRITE,
        &[],
        set,
    )
    .value(Kind::Object),
];

struct Parameter {
    name: &'static str,
    default: fn() -> DocBuf,
    /// Checks a new value and completes it.
    check: fn(Doc<'_>) -> Result<DocBuf>,
}

static PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "changeStreamOptions",
        default: || doc! { "preAndPostImages": { "expireAfterSeconds": "off" } },
        check: stream_options,
    },
    Parameter {
        name: "changeStreams",
        default: || doc! { "expireAfterSeconds": 3600i64 },
        check: streams,
    },
    Parameter {
        name: "defaultMaxTimeMS",
        default: || doc! { "readOperations": 0i64 },
        check: max_time,
    },
    Parameter {
        name: "fleDisableSubstringPreviewParameterLimits",
        default: || doc! { "enabled": false },
        check: pause,
    },
    Parameter {
        name: "pauseMigrationsDuringMultiUpdates",
        default: || doc! { "enabled": false },
        check: pause,
    },
];

fn find(name: &str) -> Result<&'static Parameter> {
    PARAMETERS.iter().find(|p| p.name == name).ok_or_else(|| {
        MongoError::new(
            code::NO_SUCH_KEY,
            format!("Unknown server parameter: {name}"),
        )
    })
}

fn get(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let mut wanted: Vec<&Parameter> = Vec::new();
    match cx.value() {
        Value::String("*") => wanted.extend(PARAMETERS),
        Value::String(name) => wanted.push(find(name)?),
        Value::Array(names) if names.is_empty() => bail!(
            code::BAD_VALUE,
            "Must supply at least one cluster server parameter name to getClusterParameter"
        ),
        Value::Array(names) => {
            for v in names.iter() {
                let name = v
                    .as_str()
                    .ok_or_else(|| wrong_type("getClusterParameter", &v, &[Tag::STRING]))?;
                let row = find(name)?;
                if !wanted.iter().any(|w| w.name == name) {
                    wanted.push(row);
                }
            }
        }
        v => {
            return Err(wrong_type(
                "getClusterParameter.getClusterParameter",
                &v,
                &[Tag::STRING, Tag::ARRAY],
            ));
        }
    }
    let set = &cx.service.state.cluster_parameters;
    let mut list = cx.reply.array("clusterParameters");
    for p in wanted {
        let value = set.get(p.name).unwrap_or_else(p.default);
        list.doc().put("_id", p.name).put_all(value.doc());
    }
    Ok(Outcome::Reply)
}

fn set(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let change = cx.value().as_doc().unwrap_or(Doc::EMPTY);
    let Some((name, value)) = change.first() else {
        bail!(
            code::NO_SUCH_KEY,
            "setClusterParameter needs one parameter, none given"
        )
    };
    if change.count() > 1 {
        bail!(
            code::INVALID_OPTIONS,
            "setClusterParameter only supports setting exactly one parameter, given {}",
            change.count()
        );
    }
    let row = find(name)?;
    let Value::Document(value) = value else {
        bail!(
            code::BAD_VALUE,
            "Cluster parameter value must be an object, given {}",
            value.type_name()
        );
    };
    if let Some((field, _)) = value.iter().find(|(k, _)| k.starts_with('$')) {
        bail!(
            code::DOLLAR_PREFIXED_FIELD_NAME,
            "The dollar ($) prefixed field '{field}' is not valid for storage"
        );
    }
    let new = (row.check)(value)?;
    let all = &cx.service.state.cluster_parameters;
    let old = all.set(&cx.service.store, row.name, new.clone())?;
    let old = old.unwrap_or_else(row.default);
    cx.service
        .audit(cx.operation.connection(), "setClusterParameter", 0, |w| {
            w.doc("originalParameter").put(row.name, &old);
            w.doc("updatedParameter").put(row.name, &new);
        });
    Ok(Outcome::Reply)
}

fn stream_options(d: Doc<'_>) -> Result<DocBuf> {
    let refused = |what: &str| {
        Err(MongoError::bad_value(format!(
            "changeStreamOptions: {what}"
        )))
    };
    if let Some((field, _)) = d.iter().find(|(k, _)| *k != "preAndPostImages") {
        return refused(&format!(
            "unknown field '{field}', there is preAndPostImages"
        ));
    }
    let Value::Document(images) = d.field("preAndPostImages") else {
        return refused("preAndPostImages must be a document");
    };
    if let Some((field, _)) = images.iter().find(|(k, _)| *k != "expireAfterSeconds") {
        return refused(&format!(
            "unknown field 'preAndPostImages.{field}', there is expireAfterSeconds"
        ));
    }
    match images.field("expireAfterSeconds") {
        Value::String("off") | Value::Missing => {
            Ok(doc! { "preAndPostImages": { "expireAfterSeconds": "off" } })
        }
        v => match request::args::to_i64(&v) {
            Some(n) if n > 0 => Ok(doc! { "preAndPostImages": { "expireAfterSeconds": n } }),
            _ => refused("expireAfterSeconds must be 'off' or a positive number"),
        },
    }
}

fn streams(d: Doc<'_>) -> Result<DocBuf> {
    static TABLE: &[Arg] = &[arg("expireAfterSeconds", Kind::Number)];
    let args = check_doc("changeStreams", TABLE, d)?;
    match args.int("expireAfterSeconds") {
        None => Ok(doc! { "expireAfterSeconds": 3600i64 }),
        Some(n) if n > 0 => Ok(doc! { "expireAfterSeconds": n }),
        Some(n) => bail!(
            code::BAD_VALUE,
            "expireAfterSeconds must be at least 1, given {n}"
        ),
    }
}

fn max_time(d: Doc<'_>) -> Result<DocBuf> {
    static TABLE: &[Arg] = &[arg("readOperations", Kind::Number)];
    match check_doc("defaultMaxTimeMS", TABLE, d)?
        .int("readOperations")
        .unwrap_or(0)
    {
        n @ 0.. => Ok(doc! { "readOperations": n }),
        n => bail!(
            code::BAD_VALUE,
            "readOperations must not be negative, given {n}"
        ),
    }
}

fn pause(d: Doc<'_>) -> Result<DocBuf> {
    static TABLE: &[Arg] = &[arg("enabled", Kind::Bool)];
    let enabled = check_doc("pauseMigrationsDuringMultiUpdates", TABLE, d)?.bool("enabled", false);
    Ok(doc! { "enabled": enabled })
}
