//! Which requests a server executes without holding the database: reads of documents outside of
//! transactions. Their answers depend on stored rows only. Must not know: how they run.

use crate::request::Request;
use crate::state::service::Service;
use model::{Array, Doc, Value};

/// What a request is that is executed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It reads a state of the data.
    Read,
    /// It goes on with cursors that were opened here, or ends them.
    OwnCursor,
    /// It tells of this server.
    Status,
}

/// Databases that hold what the server keeps for itself.
const OWN_DATABASES: &[&str] = &["admin", "config", "local"];

/// Collections of a database that the server keeps for itself begin so.
const OWN_COLLECTIONS: &str = "system.";

/// Stages that make documents of documents, without asking anything else of the server.
const PLAIN_STAGES: &[&str] = &[
    "$addFields",
    "$bucket",
    "$bucketAuto",
    "$count",
    "$densify",
    "$facet",
    "$fill",
    "$geoNear",
    "$graphLookup",
    "$group",
    "$limit",
    "$lookup",
    "$match",
    "$project",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$sample",
    "$set",
    "$setWindowFields",
    "$skip",
    "$sort",
    "$sortByCount",
    "$unionWith",
    "$unset",
    "$unwind",
];

/// What the request is; `None` for one that is handed on.
pub(super) fn kind_of(service: &Service, request: &Request<'_>) -> Option<Kind> {
    let body = request.body;
    let (name, own) = body.first()?;
    let is_plain = request.legacy_db.is_none() && !request.more_to_come;
    let in_transaction = ["txnNumber", "startTransaction", "autocommit"];
    if !is_plain || in_transaction.iter().any(|field| body.contains(field)) {
        return None;
    }
    let db = body.field("$db").as_str()?;
    match name {
        "getMore" => service
            .cursors
            .owner(own.as_i64_exact()?)
            .map(|_| Kind::OwnCursor),
        "killCursors" => {
            let ids = body.field("cursors").as_array()?;
            let is_own = |id: Value<'_>| {
                let id = id.as_i64_exact();
                id.is_some_and(|id| service.cursors.owner(id).is_some())
            };
            (ids.iter().next().is_some() && ids.iter().all(is_own)).then_some(Kind::OwnCursor)
        }
        "serverStatus" => Some(Kind::Status),
        _ if OWN_DATABASES.contains(&db) || !reads_now(body) => None,
        "listCollections" => Some(Kind::Read),
        _ if own
            .as_str()
            .is_none_or(|coll| coll.starts_with(OWN_COLLECTIONS)) =>
        {
            None
        }
        "find" => {
            let tails = ["tailable", "awaitData", "oplogReplay"];
            (!tails.iter().any(|field| body.field(field).truthy())).then_some(Kind::Read)
        }
        "aggregate" => {
            let pipeline = body.field("pipeline").as_array()?;
            let is_read = !body.contains("explain") && is_plain_pipeline(pipeline);
            is_read.then_some(Kind::Read)
        }
        "count" | "distinct" | "listIndexes" => Some(Kind::Read),
        _ => None,
    }
}

/// The read concern asks for the state of now. One of a given time is known to the holder alone.
fn reads_now(body: Doc<'_>) -> bool {
    let Some(concern) = body.field("readConcern").as_doc() else {
        return !body.contains("readConcern");
    };
    let level = concern.field("level");
    let is_now = level.is_missing()
        || level.as_str().is_some_and(|level| {
            matches!(level, "local" | "available" | "majority" | "linearizable")
        });
    is_now && !concern.contains("atClusterTime")
}

fn is_plain_pipeline(pipeline: Array<'_>) -> bool {
    pipeline.iter().all(|stage| {
        let stage = stage.as_doc().and_then(|stage| stage.first());
        stage.is_some_and(|(name, value)| {
            PLAIN_STAGES.contains(&name) && has_plain_parts(name, &value)
        })
    })
}

/// The pipelines within a stage are plain, and it reads collections of this database.
fn has_plain_parts(name: &str, value: &Value<'_>) -> bool {
    let Some(parts) = value.as_doc() else {
        return true;
    };
    match name {
        "$facet" => parts
            .elements()
            .all(|e| e.value().as_array().is_some_and(is_plain_pipeline)),
        "$lookup" | "$unionWith" | "$graphLookup" => {
            let other = |field: &str| {
                let value = parts.field(field);
                value.is_missing() || value.as_str().is_some()
            };
            let inner = parts.field("pipeline");
            other("from")
                && other("coll")
                && (inner.is_missing() || inner.as_array().is_some_and(is_plain_pipeline))
        }
        _ => true,
    }
}
