//! `system.views`: MongoDB stores the definitions of a database's views in a collection of that
//! name. Here they are in the catalog, and listings and reads of the collection get them from
//! there.
//!
//! Promises: the collection exists exactly as long as the database has a view or a time series;
//! documents have MongoDB's form and are ordered by `_id`. Must not know: commands, how views are
//! read.

use crate::ddl::session_records;
use crate::ddl::{describe, names};
use md5::{Digest, Md5};
use model::{Binary, Doc, DocBuf, Namespace, Result};
use state::service::Service;
use store::catalog::CatalogRow;
use store::{Collection, CollectionEntry, ReadView};

/// The name of the collection.
pub const NAME: &str = "system.views";

/// Whether the namespace is the `system.views` of a database that has views in the state `view`.
///
/// # Errors
/// Those of the catalog.
pub fn is_there(service: &Service, view: &ReadView, ns: &Namespace) -> Result<bool> {
    let store = &service.store;
    Ok(ns.coll() == NAME && is_among(&store.list_collections_in(view, ns.db())?))
}

/// Whether `system.views` exists in a database with these collections: it has a view, and no stored
/// collection has that name.
pub fn is_among(all: &[CollectionEntry]) -> bool {
    all.iter().any(|e| names::is_view_row(&e.row)) && all.iter().all(|e| e.name != NAME)
}

/// Whether a namespace is read by a pipeline: a view, or without a stored collection the buckets of
/// a time series, `system.views` or `config.transactions`.
///
/// # Errors
/// Those of the catalog.
pub fn is_read_by_pipeline(
    service: &Service,
    view: &ReadView,
    ns: &Namespace,
    coll: Option<&Collection>,
) -> Result<bool> {
    if let Some(coll) = coll {
        return Ok(coll.is_view());
    }
    Ok(session_records::is_theirs(ns)
        || names::series_of_buckets(service, view, ns)?.is_some()
        || is_there(service, view, ns)?)
}

/// `{_id, viewOn, pipeline, collation}` of each view of a database in the state `state`.
///
/// # Errors
/// Those of the catalog.
pub fn documents(service: &Service, state: &ReadView, db: &str) -> Result<Vec<DocBuf>> {
    let mut views = service.store.list_collections_in(state, db)?;
    views.retain(|e| names::is_view_row(&e.row));
    views.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(views
        .iter()
        .map(|e| document(db, &e.name, &e.row))
        .collect())
}

fn document(db: &str, name: &str, row: &CatalogRow) -> DocBuf {
    let options = row.options.doc();
    DocBuf::build(|w| {
        w.put("_id", format!("{db}.{name}").as_str());
        if let Some(series) = options.field("timeseries").as_doc() {
            w.put("viewOn", format!("system.buckets.{name}").as_str());
            let mut pipeline = w.array("pipeline");
            let mut stage = pipeline.doc();
            let mut unpack = stage.doc("$_internalUnpackBucket");
            for field in ["timeField", "metaField", "bucketMaxSpanSeconds"] {
                unpack.put(field, series.field(field));
            }
        } else {
            w.put("viewOn", options.field("viewOn"));
            w.put("pipeline", options.field("pipeline"));
        }
        w.put("collation", options.field("collation"));
    })
}

/// The UUID of the collection. It is derived from the database's name, because none is stored.
pub fn uuid(db: &str) -> [u8; 16] {
    Md5::digest(format!("{db}.{NAME}")).into()
}

/// The entry of the collection in `listCollections`.
pub fn entry(db: &str, name_only: bool) -> DocBuf {
    DocBuf::build(|w| {
        w.put("name", NAME).put("type", "collection");
        if name_only {
            return;
        }
        w.doc("options");
        w.doc("info").put("readOnly", false).put(
            "uuid",
            Binary {
                subtype: 4,
                bytes: &uuid(db),
            },
        );
        w.put("idIndex", &describe::id_index(Doc::EMPTY));
    })
}
