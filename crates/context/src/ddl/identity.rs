//! The identity of collections: `collectionUUID`, by which a client identifies the collection that
//! it expects.

use crate::ctx::Ctx;
use model::{Binary, MongoError, Namespace, Result, Value};
use request::generic;
use state::service::Service;

/// Checks that the namespace's collection has the identity that the client expects, if it expects
/// one.
pub fn check_uuid(cx: &Ctx<'_, '_>, ns: &Namespace, there: Option<[u8; 16]>) -> Result<()> {
    let Value::Binary(_) = cx.args.value("collectionUUID") else {
        return Ok(());
    };
    let wanted = generic::uuid(&cx.args.value("collectionUUID"))?;
    if there == Some(wanted) {
        Ok(())
    } else {
        match_uuid(cx.service, ns, wanted)
    }
}

/// Checks that the namespace's collection has the identity `wanted`.
pub fn match_uuid(service: &Service, ns: &Namespace, wanted: [u8; 16]) -> Result<()> {
    if service
        .store
        .collection(ns)?
        .is_some_and(|c| c.uuid() == wanted)
    {
        return Ok(());
    }
    let owner = service
        .store
        .list_collections(ns.db())?
        .into_iter()
        .find(|e| e.row.uuid == wanted)
        .map(|e| e.name);
    let extra = model::DocBuf::build(|w| {
        w.put("db", ns.db())
            .put(
                "collectionUUID",
                Binary {
                    subtype: 4,
                    bytes: &wanted,
                },
            )
            .put("expectedCollection", ns.coll());
        w.put(
            "actualCollection",
            owner.as_deref().map_or(Value::Null, Value::String),
        );
    });
    Err(MongoError::new(
        361,
        format!("Collection UUID does not match that specified for {ns}"),
    )
    .extra(extra))
}
