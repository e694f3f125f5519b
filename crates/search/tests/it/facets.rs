//! `$searchMeta`: counts and facets.

use crate::index_of;
use model::{DocBuf, Value, doc};
use search::{Index, Search};

fn meta(index: &Index, spec: &DocBuf) -> model::Result<DocBuf> {
    Search::parse("$searchMeta", spec.doc())?.count(index, &mut || Ok(()))
}

#[test]
fn values_are_counted_in_buckets() {
    let definition = doc! { "mappings": { "fields": {
        "genre": { "type": "token" }, "year": { "type": "number" }, "at": { "type": "date" },
        "title": { "type": "string" }
    } } };
    let docs = [
        doc! { "genre": ["war", "drama"], "year": 1950i32, "at": Value::Date(5), "title": "a" },
        doc! { "genre": "war", "year": [1960i32, 1965i32], "title": "a" },
        doc! { "genre": "comedy", "year": 2000i32, "at": Value::Date(15), "title": "b" },
        doc! { "genre": "drama", "title": "a" },
    ];
    let index = index_of("search", &definition, &docs);
    let facets = doc! {
        "g": { "type": "string", "path": "genre", "numBuckets": 2i32 },
        "y": { "type": "number", "path": "year", "boundaries": [1950i32, 1960i32, 1970i32],
            "default": "other" },
        "d": { "type": "date", "path": "at", "boundaries": [Value::Date(0), Value::Date(10)] }
    };
    let all = meta(&index, &doc! { "facet": { "facets": &facets } }).expect("counts");
    let wanted = doc! {
        "count": { "lowerBound": 4i64 },
        "facet": {
            "g": { "buckets": [{ "_id": "drama", "count": 2i64 },
                { "_id": "war", "count": 2i64 }] },
            "y": { "buckets": [{ "_id": 1950i32, "count": 1i64 }, { "_id": 1960i32, "count": 1i64 },
                { "_id": "other", "count": 1i64 }] },
            "d": { "buckets": [{ "_id": Value::Date(0), "count": 1i64 }] }
        }
    };
    assert_eq!(all, wanted);
    let some = doc! { "facet": {
    "operator": { "text": { "query": "a", "path": "title" } },
    "facets": { "g": { "type": "string", "path": "genre" } } },
    "count": { "type": "total" } };
    let wanted = doc! {
        "count": { "total": 3i64 },
        "facet": { "g": { "buckets": [{ "_id": "drama", "count": 2i64 },
            { "_id": "war", "count": 2i64 }] } }
    };
    assert_eq!(meta(&index, &some).expect("counts"), wanted);
    for facet in [
        doc! { "type": "string", "path": "title" },
        doc! { "type": "string", "path": "genre", "numBuckets": 0i32 },
        doc! { "type": "number", "path": "year", "boundaries": [1i32] },
        doc! { "type": "number", "path": "year", "boundaries": [2i32, 1i32] },
        doc! { "type": "number", "path": "year", "boundaries": ["a", "b"] },
        doc! { "type": "other", "path": "year" },
        doc! { "path": "year" },
    ] {
        let spec = doc! { "facet": { "facets": { "f": &facet } } };
        let refused = meta(&index, &spec).err().map(|e| e.code());
        assert_eq!(refused, Some(8), "{facet:?}");
    }
}

#[test]
fn a_lower_bound_stops_behind_its_threshold() {
    let docs: Vec<DocBuf> = (0..20).map(|n: i32| doc! { "n": n }).collect();
    let index = crate::dynamic(&docs);
    let count = |count: DocBuf| {
        let spec = doc! { "exists": { "path": "n" }, "count": &count };
        meta(&index, &spec).expect("a count")
    };
    let bound = doc! { "type": "lowerBound", "threshold": 5i32 };
    assert_eq!(count(bound), doc! { "count": { "lowerBound": 6i64 } });
    let total = doc! { "type": "total" };
    assert_eq!(count(total), doc! { "count": { "total": 20i64 } });
}
