//! Which requests a server without the database executes itself: reads of documents outside of
//! transactions, whose results depend only on stored rows. Must not know: how they run.

use model::{Array, Doc, Namespace, Value};
use query::stage::{RequiredPrivilege, pipeline_needs};
use query::stages::collection_options;
use request::Request;
use state::service::Service;

/// The kind of a request that is executed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The request reads a state of the data.
    Read,
    /// The request continues or ends cursors that were opened here.
    OwnCursor,
    /// The request asks for the status of this server.
    Status,
}

/// Databases with the server's own data.
const OWN_DATABASES: &[&str] = &["admin", "config", "local"];

/// Prefix of the collections with the server's own data.
const OWN_COLLECTIONS: &str = "system.";

/// The kind of a request; `None` when it has to be forwarded.
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
            let is_read = !body.contains("explain") && reads_only(db, own.as_str()?, pipeline);
            is_read.then_some(Kind::Read)
        }
        "count" | "distinct" | "listIndexes" => Some(Kind::Read),
        _ => None,
    }
}

/// Whether the read concern reads the current state. Only the holder knows the state of a given
/// time.
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

/// Whether a pipeline over a collection needs nothing but documents of the database's collections.
fn reads_only(db: &str, coll: &str, pipeline: Array<'_>) -> bool {
    let Ok(ns) = Namespace::new(db, coll) else {
        return false;
    };
    let is_read = |need: &RequiredPrivilege| match need {
        RequiredPrivilege::Read(ns) => ns.db() == db && !ns.coll().starts_with(OWN_COLLECTIONS),
        _ => false,
    };
    let needs = pipeline_needs(pipeline, &collection_options(ns));
    needs.is_ok_and(|needs| needs.iter().all(is_read))
}
