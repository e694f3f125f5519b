//! Describes collections and their `_id` index for listings.

use model::{Binary, Doc, DocBuf, Namespace};
use store::catalog::{CatalogRow, Kind};

/// The entry of a collection in `listCollections`, in the format that clients and dump tools
/// expect.
pub fn describe(ns: &Namespace, row: &CatalogRow, name_only: bool) -> DocBuf {
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

/// The entry for the buckets of a time-series collection.
pub fn describe_buckets(ns: &Namespace, row: &CatalogRow, name_only: bool) -> DocBuf {
    let options = row.options.doc();
    DocBuf::build(|w| {
        w.put("name", format!("system.buckets.{}", ns.coll()).as_str())
            .put("type", "collection");
        if name_only {
            return;
        }
        let mut shown = w.doc("options");
        shown.put("validator", &bucket_validator(options));
        shown.put("clusteredIndex", true);
        for name in ["timeseries", "expireAfterSeconds", "collation"] {
            shown.put(name, options.field(name));
        }
        drop(shown);
        w.doc("info").put("readOnly", false).put(
            "uuid",
            Binary {
                subtype: 4,
                bytes: &row.uuid,
            },
        );
    })
}

/// The validator that tools expect in the options of buckets; it describes the format of a bucket.
fn bucket_validator(options: Doc<'_>) -> DocBuf {
    let time = options.field("timeseries").as_doc();
    let time = time.map_or("", |t| t.field("timeField").as_str().unwrap_or(""));
    let times = model::doc! { "bsonType": "object", "required": [time],
    "properties": { time: { "bsonType": "date" } } };
    let control = model::doc! { "bsonType": "object", "required": ["version", "min", "max"],
    "properties": { "version": { "bsonType": "number" }, "min": &times, "max": &times,
        "closed": { "bsonType": "bool" }, "count": { "bsonType": "number", "minimum": 1i32 } } };
    model::doc! { "$jsonSchema": { "bsonType": "object", "required": ["_id", "control", "data"],
    "properties": { "_id": { "bsonType": "objectId" }, "control": &control,
        "data": { "bsonType": "object" }, "meta": {} } } }
}

/// The specification of `_id_`, which has the collation of its collection.
pub fn id_index(options: Doc<'_>) -> DocBuf {
    DocBuf::build(|w| {
        w.put("v", 2i32);
        w.doc("key").put("_id", 1i32);
        w.put("name", "_id_")
            .put("collation", options.field("collation"));
    })
}
