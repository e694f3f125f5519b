//! Documents of the stages that list objects of the server.

use crate::ddl::describe::describe;
use crate::ddl::names;
use access::user::digest;
use auth::UserName;
use model::{Binary, Doc, DocBuf, Namespace, Result, Value, bail, code};
use operation::ClockReading;
use query::explain::write_cached;
use query::plan::{CachedPlan, PlanCache};
use state::operations;
use state::service::Service;
use std::sync::Arc;

/// The documents of `stage`, run on `db` with the argument `spec`.
///
/// # Errors
/// Those of the catalog.
pub(crate) fn list(
    service: &Service,
    stage: &str,
    db: &str,
    spec: Doc<'_>,
    viewer: &[u8; 32],
) -> Result<Vec<DocBuf>> {
    let all_users = !service.access.is_enabled() || spec.field("allUsers").truthy();
    match stage {
        "$currentOp" => Ok(operations::list(
            service,
            operations::IdleSelection {
                connections: spec.field("idleConnections").truthy(),
                cursors: spec.field("idleCursors").truthy(),
                sessions: spec.field("idleSessions").as_bool() != Some(false),
            },
            (!all_users).then_some(viewer),
        )),
        "$listSessions" | "$listLocalSessions" => {
            Ok(sessions(service, spec, (!all_users).then_some(viewer)))
        }
        "$listClusterCatalog" => catalog(service, db, spec.field("shards").truthy()),
        "$listCatalog" => entries(service, db, spec.field("collection").as_str()),
        "$querySettings" => Ok(settings(service, spec)),
        // Without `configureQueryAnalyzer`, which does not exist yet, no queries are sampled.
        "$listSampledQueries" if service.config.replica_set.is_some() => Ok(Vec::new()),
        "$listSampledQueries" => bail!(
            code::ILLEGAL_OPERATION,
            "{stage} is not supported on a standalone mongod"
        ),
        _ => Ok(Vec::new()),
    }
}

fn settings(service: &Service, spec: Doc<'_>) -> Vec<DocBuf> {
    let all = service.state.query_settings.list();
    let debug = spec.field("showDebugQueryShape").truthy();
    let one = |(hash, row): (String, state::query_settings::ShapeSettings)| {
        DocBuf::build(|w| {
            w.put("queryShapeHash", hash.as_str())
                .put("settings", &row.settings)
                .put("representativeQuery", &row.representative);
            if debug {
                w.put("debugQueryShape", &row.representative);
            }
        })
    };
    all.into_iter().map(one).collect()
}

/// The sessions of the given users; without users those of the viewer; without a viewer all.
fn sessions(service: &Service, spec: Doc<'_>, viewer: Option<&[u8; 32]>) -> Vec<DocBuf> {
    let named = spec.field("users").as_array();
    let named: Vec<[u8; 32]> = named
        .into_iter()
        .flat_map(|u| u.iter())
        .filter_map(|v| UserName::of_doc(v.as_doc()?).ok())
        .map(|name| digest(&name))
        .collect();
    let given = spec
        .field("users")
        .as_array()
        .is_some_and(|u| u.iter().any(|v| !v.is_nullish()));
    let wanted = |owner: &[u8; 32]| match viewer {
        _ if given => named.contains(owner),
        Some(viewer) => viewer == owner,
        None => true,
    };
    let one = |id: [u8; 16], owner: [u8; 32], last_use: ClockReading| {
        let uid = Binary {
            subtype: 0,
            bytes: &owner,
        };
        model::doc! { "_id": { "id": Binary { subtype: 4, bytes: &id }, "uid": uid },
        "lastUse": Value::Date(last_use.wall_ms) }
    };
    service
        .state
        .sessions
        .list()
        .into_iter()
        .filter(|(_, s)| wanted(&s.owner))
        .map(|(id, s)| one(id, s.owner, s.last_use))
        .collect()
}

/// The collections of the database; of all databases for `admin`.
fn catalog(service: &Service, db: &str, shards: bool) -> Result<Vec<DocBuf>> {
    let databases = if db == "admin" {
        service.database_names()?
    } else {
        vec![db.to_owned()]
    };
    let mut all = Vec::new();
    for db in databases {
        for e in service.store.list_collections(&db)? {
            let ns = Namespace::new(&db, &e.name)?;
            let listed = describe(&ns, &e.row, false);
            let d = listed.doc();
            all.push(DocBuf::build(|w| {
                w.put("ns", ns.to_string().as_str()).put("db", db.as_str());
                for name in ["type", "options", "info", "idIndex"] {
                    w.put(name, d.field(name));
                }
                w.put("sharded", false);
                if shards {
                    // There is one server, and it is not a shard.
                    w.array("shards");
                }
            }));
        }
    }
    Ok(all)
}

/// The catalog entries of one collection, or of all.
fn entries(service: &Service, db: &str, coll: Option<&str>) -> Result<Vec<DocBuf>> {
    let databases = match coll {
        Some(_) => vec![db.to_owned()],
        None => service.database_names()?,
    };
    let mut all = Vec::new();
    for db in databases {
        for e in service.store.list_collections(&db)? {
            if coll.is_some_and(|name| name != e.name) {
                continue;
            }
            let ns = Namespace::new(&db, &e.name)?;
            let listed = describe(&ns, &e.row, false);
            let (d, name) = (listed.doc(), ns.to_string());
            all.push(DocBuf::build(|w| {
                w.put("db", db.as_str())
                    .put("name", e.name.as_str())
                    .put("type", d.field("type"));
                if d.field("type").as_str() == Some("view") {
                    w.put_all(d.field("options").as_doc().unwrap_or(Doc::EMPTY));
                } else {
                    let mut md = w.doc("md");
                    md.put("ns", name.as_str());
                    let mut options = md.doc("options");
                    let info = d.field("info").as_doc().unwrap_or(Doc::EMPTY);
                    options.put("uuid", info.field("uuid"));
                    options.put_all(d.field("options").as_doc().unwrap_or(Doc::EMPTY));
                    drop(options);
                    let mut indexes = md.array("indexes");
                    let id = d.field("idIndex").as_doc();
                    let own = e.row.indexes.iter().map(|i| (i.spec.doc(), i.ready));
                    for (spec, ready) in id.map(|d| (d, true)).into_iter().chain(own) {
                        indexes.doc().put("spec", spec).put("ready", ready);
                    }
                }
                w.put("ns", name.as_str());
            }));
        }
    }
    Ok(all)
}

/// The cached plans of a collection, for `$planCacheStats`.
///
/// # Errors
/// 40602 for a time-series collection; those of the catalog.
pub(super) fn cached_plans(service: &Service, ns: &Namespace) -> Result<Vec<DocBuf>> {
    let Some(coll) = service.store.collection(ns)? else {
        return Ok(Vec::new());
    };
    if names::is_timeseries(&coll) {
        bail!(
            40602,
            "$planCacheStats is only valid as the first stage in a pipeline, and {ns} is a \
                time-series collection, read through stages of its own"
        );
    }
    let host = service.config.host.as_str();
    let entries = PlanCache::of(&coll).list(&coll);
    let shown = |e: &Arc<CachedPlan>| DocBuf::build(|w| write_cached(e, host, w));
    Ok(entries.iter().map(shown).collect())
}
