//! Collections and their `_id` index as listings show them.

use model::{Binary, Doc, DocBuf, Namespace};
use store::catalog::{CatalogRow, Kind};

/// One entry of `listCollections`, as clients and dump tools expect it.
pub(crate) fn describe(ns: &Namespace, row: &CatalogRow, name_only: bool) -> DocBuf {
    let options = row.options.doc();
    let view = row.kind == Kind::View;
    let kind = match () {
        () if options.contains("timeseries") => "timeseries",
        () if view => "view",
        () => "collection",
    };
    DocBuf::build(|w| {
        w.put("name", ns.coll()).put("type", kind);
        if name_only {
            return;
        }
        w.put("options", options);
        let mut info = w.doc("info");
        info.put("readOnly", view);
        if kind == "collection" {
            info.put(
                "uuid",
                Binary {
                    subtype: 4,
                    bytes: &row.uuid,
                },
            );
        }
        drop(info);
        if kind == "collection" && !options.contains("clusteredIndex") {
            w.put("idIndex", &id_index(options));
        }
    })
}

/// The specification of `_id_`, which has the collation of its collection.
pub(crate) fn id_index(options: Doc<'_>) -> DocBuf {
    DocBuf::build(|w| {
        w.put("v", 2i32);
        w.doc("key").put("_id", 1i32);
        w.put("name", "_id_")
            .put("collation", options.field("collation"));
    })
}
