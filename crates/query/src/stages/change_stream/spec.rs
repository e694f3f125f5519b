//! The argument of `$changeStream`, checked. Errors: 6188500 no object, 40415 unknown field, 14
//! wrong type, 2 unknown mode, 50865 and 40674 several places to begin at, 260 a token of an
//! invalidation to resume after, 72 and 73 a namespace that has no streams.

use super::super::fields::Fields;
use crate::exec::ResumeToken;
use crate::stage::{
    NeedsContext, ParseOptions, PipelineContext, PipelineSource, RequiredPrivilege,
};
use model::{Doc, DocBuf, MongoError, Result, Timestamp, Value, bail, code};
use store::NamespaceHash;

const KNOWN: &[&str] = &[
    "fullDocument",
    "fullDocumentBeforeChange",
    "resumeAfter",
    "startAfter",
    "startAtOperationTime",
    "allChangesForCluster",
    "showExpandedEvents",
    "showMigrationEvents",
    "showSystemEvents",
    "allowToRunOnConfigDB",
    "allowToRunOnSystemNS",
    "showRawUpdateDescription",
    "ignoreRemovedShards",
    "version",
];

/// Which pre-image or post-image an event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Image {
    /// None that must be looked up.
    Off,
    /// The document as it is when the event is read.
    Lookup,
    /// The document at the time of the change, or null.
    WhenAvailable,
    /// The document at the time of the change, or an error.
    Required,
}

/// Where a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamStart {
    Now,
    /// At the entries of this time.
    At(Timestamp),
    /// After this position.
    Behind(ResumeToken),
}

/// The collections that are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Collection { db: String, coll: String },
    Database(String),
    Deployment,
}

impl Scope {
    pub(super) fn namespace_hash(&self) -> NamespaceHash {
        match self {
            Scope::Collection { db, coll } => NamespaceHash::hash(db, Some(coll)),
            Scope::Database(db) => NamespaceHash::hash(db, None),
            Scope::Deployment => NamespaceHash::ALL,
        }
    }
}

/// A checked argument.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) scope: Scope,
    pub(super) start: StreamStart,
    pub(super) after: Image,
    pub(super) before: Image,
    pub(super) expanded: bool,
    /// Events of system collections are shown.
    pub(super) system: bool,
    /// Show the update as it is in the log instead of its description.
    pub(super) raw_update: bool,
    /// The argument as given, for explain.
    pub(super) given: DocBuf,
}

fn specification<'a>(name: &'static str, arg: Value<'a>) -> Result<Fields<'a>> {
    let Value::Document(given) = arg else {
        bail!(
            6_188_500,
            "{name} stage expects a document as argument, found: {}",
            arg.type_name()
        );
    };
    Fields::new(name, given, KNOWN)
}

/// The privilege to see the changes of the stage's collection or database, or of everything.
pub(super) fn needs(cx: &mut NeedsContext<'_>, name: &'static str, arg: Value<'_>) -> Result<()> {
    let all = specification(name, arg)?.boolean("allChangesForCluster")?;
    let target = cx.options.target.clone();
    cx.add(RequiredPrivilege::Changes(
        (all != Some(true)).then_some(target),
    ));
    Ok(())
}

impl Spec {
    pub(super) fn parse(name: &'static str, arg: Value<'_>, at: &ParseOptions) -> Result<Spec> {
        let fields = specification(name, arg)?;
        let flag = |name: &str| fields.strict_boolean(name).map(|b| b.unwrap_or(false));
        if at.inside == PipelineContext::View {
            bail!(
                code::OPTION_NOT_SUPPORTED_ON_VIEW,
                "{name} cannot be used in a view definition"
            );
        }
        Ok(Spec {
            start: start(&fields)?,
            after: parse_after_image(&fields)?,
            before: parse_before_image(&fields)?,
            expanded: flag("showExpandedEvents")?,
            system: flag("showSystemEvents")?,
            raw_update: flag("showRawUpdateDescription")?,
            scope: scope(
                name,
                at,
                flag("allChangesForCluster")?,
                flag("allowToRunOnConfigDB")?,
                flag("allowToRunOnSystemNS")?,
            )?,
            given: arg.as_doc().unwrap_or(Doc::EMPTY).to_buf(),
        })
    }
}

/// The error of a server without a log.
pub(super) fn no_log() -> MongoError {
    MongoError::new(
        40_573,
        "The $changeStream stage is only supported on replica sets",
    )
}

fn start(fields: &Fields<'_>) -> Result<StreamStart> {
    let resume = fields.document("resumeAfter")?;
    let behind = fields.document("startAfter")?;
    let at = match fields.get("startAtOperationTime") {
        Value::Missing => None,
        Value::Timestamp(t) => Some(t),
        v => return fields.wrong_type("startAtOperationTime", v, "timestamp"),
    };
    if resume.is_some() && behind.is_some() {
        bail!(
            50865,
            "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage"
        );
    }
    if at.is_some() && (resume.is_some() || behind.is_some()) {
        bail!(
            40674,
            "Only one type of resume option is allowed, but multiple were found"
        );
    }
    let parse = |d: Doc<'_>| ResumeToken::parse(d);
    if let Some(token) = resume.map(parse).transpose()? {
        if token.invalidates {
            bail!(
                code::INVALID_RESUME_TOKEN,
                "Attempting to resume a change stream using 'resumeAfter' is not allowed from an \
                    invalidate notification"
            );
        }
        return Ok(StreamStart::Behind(token));
    }
    if let Some(token) = behind.map(parse).transpose()? {
        return Ok(StreamStart::Behind(token));
    }
    Ok(at.map_or(StreamStart::Now, StreamStart::At))
}

fn unknown<T>(field: &str, given: &str) -> Result<T> {
    bail!(
        code::BAD_VALUE,
        "Enumeration value '{given}' for field '$changeStream.{field}' is not a valid value."
    )
}

fn parse_after_image(fields: &Fields<'_>) -> Result<Image> {
    Ok(match fields.string("fullDocument")? {
        None | Some("default") => Image::Off,
        Some("updateLookup") => Image::Lookup,
        Some("whenAvailable") => Image::WhenAvailable,
        Some("required") => Image::Required,
        Some(other) => return unknown("fullDocument", other),
    })
}

fn parse_before_image(fields: &Fields<'_>) -> Result<Image> {
    Ok(match fields.string("fullDocumentBeforeChange")? {
        None | Some("off") => Image::Off,
        Some("whenAvailable") => Image::WhenAvailable,
        Some("required") => Image::Required,
        Some(other) => return unknown("fullDocumentBeforeChange", other),
    })
}

fn scope(
    name: &str,
    at: &ParseOptions,
    cluster: bool,
    config: bool,
    system: bool,
) -> Result<Scope> {
    let (db, coll) = match &at.target {
        PipelineSource::Collection(ns) => (ns.db(), Some(ns.coll())),
        PipelineSource::Database(db) => (db.as_str(), None),
    };
    if cluster {
        if db != "admin" || coll.is_some() {
            bail!(
                code::INVALID_OPTIONS,
                "A {name} with 'allChangesForCluster:true' may only be opened on the 'admin' \
                    database, and with no collection name"
            );
        }
        return Ok(Scope::Deployment);
    }
    if matches!(db, "admin" | "local") || db == "config" && !config {
        bail!(
            code::INVALID_NAMESPACE,
            "{name} may not be opened on the internal {db} database"
        );
    }
    match coll {
        Some(coll) if coll.starts_with("system.") && !system => bail!(
            code::INVALID_NAMESPACE,
            "{name} may not be opened on the internal {db}.{coll} collection"
        ),
        Some(coll) => Ok(Scope::Collection {
            db: db.to_owned(),
            coll: coll.to_owned(),
        }),
        None => Ok(Scope::Database(db.to_owned())),
    }
}
