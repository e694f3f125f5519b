//! `$vectorSearch`: the nearest vectors, filters, and refused arguments.

use crate::{index_of, nearest};
use model::{DocBuf, Value, doc};
use search::Index;
use std::sync::Arc;

fn index() -> Arc<Index> {
    let definition = doc! { "fields": [
        { "type": "vector", "path": "v", "numDimensions": 2i32, "similarity": "cosine" },
        { "type": "vector", "path": "in.e", "numDimensions": 2i32, "similarity": "euclidean" },
        { "type": "filter", "path": "kind" },
        { "type": "filter", "path": "n" }
    ] };
    let docs = [
        doc! { "v": [1.0, 0.0], "in": { "e": [1i32, 1i32] }, "kind": "a", "n": 1i32 },
        doc! { "v": [0.0, 2.0], "kind": "b", "n": 2i32 },
        doc! { "v": [3.0, 4.0], "in": { "e": [4i32, 5i32] }, "kind": "a", "n": 3i32 },
        doc! { "v": [1.0, 0.0, 0.0], "kind": "a" },
        doc! { "v": "none", "kind": "a" },
        doc! { "v": [1.0, 0.0], "n": Value::Null },
    ];
    index_of("vectorSearch", &definition, &docs)
}

fn query(extra: &DocBuf) -> DocBuf {
    DocBuf::build(|w| {
        w.put("index", "i");
        for (name, v) in doc! { "path": "v", "queryVector": [1i32, 0i32], "limit": 10i32,
        "numCandidates": 100i32 }
        .doc()
        .iter()
        {
            if !extra.doc().contains(name) {
                w.put(name, v);
            }
        }
        w.put_all(extra.doc());
    })
}

#[test]
fn the_most_alike_come_first() {
    let index = index();
    let found = |extra: DocBuf| nearest(&index, query(&extra).doc()).expect("hits");
    let all = found(doc! {});
    assert_eq!(all, [(0, 1.0), (5, 1.0), (2, 0.8), (1, 0.5)]);
    assert_eq!(found(doc! { "limit": 2i32 }), all[..2]);
    // 1 / (1 + 9 + 16)
    let near = found(doc! { "path": "in.e", "queryVector": [1i32, 1i32] });
    assert_eq!(near, [(0, 1.0), (2, 1.0 / 26.0)]);
}

#[test]
fn filters_narrow_what_is_compared() {
    let index = index();
    for (filter, wanted) in [
        (doc! { "kind": "a" }, vec![0, 2]),
        (doc! { "kind": { "$ne": "a" } }, vec![5, 1]),
        (doc! { "n": { "$gte": 2i32, "$lt": 3i32 } }, vec![1]),
        (doc! { "n": { "$in": [1i32, 3.0] } }, vec![0, 2]),
        (doc! { "n": { "$not": { "$gt": 1i32 } } }, vec![0, 5]),
        (doc! { "n": Value::Null }, vec![5]),
        (
            doc! { "$or": [{ "n": 2i32 }, { "$and": [{ "kind": "a" }, { "n": 3i32 }] }] },
            vec![2, 1],
        ),
        (doc! { "kind": { "$exists": false } }, vec![5]),
    ] {
        let spec = query(&doc! { "filter": &filter });
        let found = nearest(&index, spec.doc()).unwrap_or_else(|e| panic!("{}", e.message()));
        let found: Vec<u8> = found.into_iter().map(|(n, _)| n).collect();
        assert_eq!(found, wanted, "{filter:?}");
    }
}

#[test]
fn bad_arguments_are_refused_each_with_its_code() {
    let index = index();
    for (extra, code) in [
        (doc! { "limit": "5" }, 8_575_100),
        (doc! { "limit": Value::Null }, 8_575_100),
        (doc! { "limit": 0i32 }, 7_912_700),
        (doc! { "limit": 0.5 }, 7_912_700),
        (doc! { "limit": f64::NAN }, 7_912_700),
        (doc! { "limit": 1.5 }, 8),
        (doc! { "limit": 2_147_483_648i64 }, 8),
        (doc! { "filter": Value::Null }, 10_065),
        (doc! { "path": Value::Null }, 8),
        (doc! { "path": "kind" }, 8),
        (doc! { "queryVector": Value::Null }, 8),
        (doc! { "queryVector": [1i32] }, 8),
        (doc! { "queryVector": [0i32, 0i32] }, 8),
        (doc! { "queryVector": ["a", "b"] }, 8),
        (doc! { "numCandidates": Value::Null }, 8),
        (doc! { "numCandidates": 5i32 }, 8),
        (doc! { "numCandidates": 10_001i32 }, 8),
        (doc! { "exact": true }, 8),
        (doc! { "bogus": 1i32 }, 8),
        (doc! { "filter": { "other": 1i32 } }, 8),
        (doc! { "filter": { "n": { "$mod": [2i32, 0i32] } } }, 8),
    ] {
        let spec = query(&extra);
        let refused = nearest(&index, spec.doc()).err().map(|e| e.code());
        assert_eq!(refused, Some(code), "{extra:?}");
    }
    let exact = query(&doc! { "exact": true, "numCandidates": Value::Null });
    assert!(nearest(&index, exact.doc()).is_ok());
}
