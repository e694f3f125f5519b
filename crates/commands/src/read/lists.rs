//! Documents of the stages that list something of the server.

use crate::ddl::describe::describe;
use crate::state::operations;
use crate::state::service::Service;
use model::{Binary, Doc, DocBuf, Namespace, Result, Value};

/// The documents of `stage`, run on `db` with the argument `spec`.
///
/// # Errors
/// Those of the catalog.
pub(super) fn list(service: &Service, stage: &str, db: &str, spec: Doc<'_>) -> Result<Vec<DocBuf>> {
    match stage {
        "$currentOp" => Ok(operations::list(
            service,
            spec.field("idleConnections").truthy(),
            spec.field("idleCursors").truthy(),
        )),
        "$listSessions" | "$listLocalSessions" => Ok(sessions(service, spec)),
        "$listClusterCatalog" => catalog(service, db, spec.field("shards").truthy()),
        "$querySettings" => Ok(settings(service, spec)),
        _ => Ok(Vec::new()),
    }
}

fn settings(service: &Service, spec: Doc<'_>) -> Vec<DocBuf> {
    let all = service.state.query_settings.list();
    let debug = spec.field("showDebugQueryShape").truthy();
    let one = |(hash, row): (String, crate::state::query_settings::ShapeSettings)| {
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

/// Sessions belong to nobody, so none is of one of the users asked for.
fn sessions(service: &Service, spec: Doc<'_>) -> Vec<DocBuf> {
    if spec
        .field("users")
        .as_array()
        .is_some_and(|u| u.iter().any(|v| !v.is_nullish()))
    {
        return Vec::new();
    }
    let one = |id: [u8; 16], last_use_ms: i64| {
        let uid = Binary {
            subtype: 0,
            bytes: crate::dispatch::generic::NO_USER,
        };
        model::doc! { "_id": { "id": Binary { subtype: 4, bytes: &id }, "uid": uid },
        "lastUse": Value::Date(last_use_ms) }
    };
    service
        .state
        .sessions
        .list()
        .into_iter()
        .map(|(id, s)| one(id, s.last_use_ms))
        .collect()
}

/// The collections of the database, of all databases when asked of `admin`.
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
                    // There is one server, and it is no shard.
                    w.array("shards");
                }
            }));
        }
    }
    Ok(all)
}
