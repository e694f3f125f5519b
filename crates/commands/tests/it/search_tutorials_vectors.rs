//! The examples in the manual's tutorials of `$vectorSearch` and of hybrid search, with our own
//! data and values computed by hand.

use crate::search::Server;
use model::{Binary, DocBuf, Value, doc};

/// Five points on and off the axes, with fields for filters.
fn points() -> Server {
    let mut s = Server::new();
    // int8 values 3 and 4 after their type and padding; bits 1010 0000.
    let whole = [[0x03, 0, 3, 4], [0x03, 0, 4, 3], [0x03, 0, 252, 3]];
    let bits = [
        [0x10, 0, 0b1010_0000],
        [0x10, 0, 0b1010_0001],
        [0x10, 0, 0b0101_1111],
    ];
    let binary = |bytes: &'static [u8]| Value::Binary(Binary { subtype: 9, bytes });
    let whole: &'static [[u8; 4]; 3] = Box::leak(Box::new(whole));
    let bits: &'static [[u8; 3]; 3] = Box::leak(Box::new(bits));
    s.insert(&[
        doc! { "_id": 1i32, "v": [1.0, 0.0], "w": binary(&whole[0]), "b": binary(&bits[0]),
        "year": 2000i32, "genre": "drama", "t": "red harbor" },
        doc! { "_id": 2i32, "v": [0.0, 1.0], "w": binary(&whole[1]), "b": binary(&bits[1]),
        "year": 2005i32, "genre": "drama", "t": "blue harbor harbor" },
        doc! { "_id": 3i32, "v": [0.6, 0.8], "w": binary(&whole[2]), "b": binary(&bits[2]),
        "year": 2010i32, "genre": "action", "t": "blue sky" },
        doc! { "_id": 4i32, "v": [-1.0, 0.0], "year": 2015i32, "genre": "action" },
        doc! { "_id": 5i32, "v": "no vector", "year": 2015i32 },
    ]);
    let vector = |path: &str, dimensions: i32, similarity: &str| {
        doc! { "type": "vector", "path": path, "numDimensions": dimensions,
        "similarity": similarity }
    };
    let definition = doc! { "fields": [
        &vector("v", 2, "cosine"), &vector("w", 2, "dotProduct"), &vector("b", 8, "euclidean"),
        { "type": "filter", "path": "year" }, { "type": "filter", "path": "genre" }
    ] };
    s.create(doc! { "name": "vectors", "type": "vectorSearch", "definition": &definition });
    s.create(doc! { "definition": { "mappings": { "dynamic": true } } });
    s.wait_ready("vectors");
    s.wait_ready("default");
    s
}

fn stage(options: DocBuf) -> DocBuf {
    let spec = DocBuf::build(|w| {
        w.put("index", "vectors");
        w.put_all(options.doc());
    });
    doc! { "$vectorSearch": &spec }
}

/// The `_id` values and scores of a pipeline.
fn scores(s: &mut Server, stages: &[DocBuf], name: &str) -> Vec<(i64, f64)> {
    let mut all = stages.to_vec();
    all.push(doc! { "$project": { "s": { "$meta": name } } });
    let found = s.aggregate("c", &all);
    let read = |d: &DocBuf| {
        let d = d.doc();
        let score = d.field("s").as_f64().unwrap_or(f64::NAN);
        (d.field("_id").as_i64_exact().unwrap_or(-1), score)
    };
    found.iter().map(read).collect()
}

fn check(found: &[(i64, f64)], wanted: &[(i64, f64)]) {
    assert_eq!(found.len(), wanted.len(), "{found:?} is not {wanted:?}");
    for ((id, score), (wanted_id, value)) in found.iter().zip(wanted) {
        assert_eq!(id, wanted_id, "{found:?} is not {wanted:?}");
        assert!((score - value).abs() < 1e-6, "{found:?} is not {wanted:?}");
    }
}

#[test]
fn nearest_exactly_and_nearly() {
    let mut s = points();
    // Cosine as (1 + cos) / 2: 1, (1 + 0.6) / 2, 1 / 2, 0.
    let wanted = [(1, 1.0), (3, 0.8), (2, 0.5), (4, 0.0)];
    let exact = doc! { "path": "v", "queryVector": [2i32, 0i32], "exact": true, "limit": 4i32 };
    check(
        &scores(&mut s, &[stage(exact)], "vectorSearchScore"),
        &wanted,
    );
    let near = doc! { "path": "v", "queryVector": [2.0, 0.0], "numCandidates": 10i32,
    "limit": 3i32 };
    check(
        &scores(&mut s, &[stage(near)], "vectorSearchScore"),
        &wanted[..3],
    );
}

#[test]
fn filters_come_before_the_comparison() {
    let mut s = points();
    for (filter, wanted) in [
        (
            doc! { "year": { "$gte": 2005i32 } },
            vec![(3, 0.8), (2, 0.5)],
        ),
        (doc! { "genre": "drama" }, vec![(1, 1.0), (2, 0.5)]),
        (
            doc! { "$and": [{ "genre": { "$ne": "drama" } }, { "year": { "$lt": 2015i32 } }] },
            vec![(3, 0.8)],
        ),
        (
            doc! { "$or": [{ "year": 2000i32 }, { "genre": { "$in": ["action"] } }] },
            vec![(1, 1.0), (3, 0.8)],
        ),
        (
            doc! { "year": { "$not": { "$lte": 2010i32 } } },
            vec![(4, 0.0)],
        ),
        (doc! { "genre": "western" }, vec![]),
    ] {
        for exact in [true, false] {
            let spec = DocBuf::build(|w| {
                w.put("path", "v").put("limit", 2i32).put("filter", &filter);
                w.put("queryVector", doc! { "v": [1.0, 0.0] }.doc().field("v"));
                match exact {
                    true => w.put("exact", true),
                    false => w.put("numCandidates", 10i32),
                };
            });
            check(
                &scores(&mut s, &[stage(spec)], "vectorSearchScore"),
                &wanted,
            );
        }
    }
}

#[test]
fn whole_numbers_and_bits() {
    let mut s = points();
    let query = |bytes: &'static [u8]| Value::Binary(Binary { subtype: 9, bytes });
    // The products of (3, 4) with (3, 4), (4, 3), (-4, 3) are 25, 24, 0; the scores have the same
    // order.
    let spec = doc! { "path": "w", "queryVector": query(&[0x03, 0, 3, 4]), "exact": true,
    "limit": 3i32 };
    let found = scores(&mut s, &[stage(spec)], "vectorSearchScore");
    let ids: Vec<i64> = found.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [1, 2, 3], "{found:?}");
    assert!(
        found[0].1 > found[1].1 && found[1].1 > found[2].1,
        "{found:?}"
    );
    // 0, 1 and 8 of 8 bits differ: 1 - 0, 1 - 1 / 8, 0.
    let spec = doc! { "path": "b", "queryVector": query(&[0x10, 0, 0b1010_0000]), "exact": true,
    "limit": 3i32 };
    let found = scores(&mut s, &[stage(spec)], "vectorSearchScore");
    check(&found, &[(1, 1.0), (2, 0.875), (3, 0.0)]);
}

/// A text search on one side, a vector search on the other.
fn hybrid() -> DocBuf {
    let near = stage(
        doc! { "path": "v", "queryVector": [1.0, 0.0], "exact": true,
        "limit": 3i32 },
    );
    let text = doc! { "$search": { "text": { "query": "harbor", "path": "t",
    "score": { "constant": { "value": 2i32 } } } } };
    doc! { "vector": [&near], "text": [&text, { "$limit": 5i32 }] }
}

#[test]
fn words_and_vectors_by_rank() {
    let mut s = points();
    let spec = doc! { "input": { "pipelines": &hybrid() },
    "combination": { "weights": { "vector": 0.5, "text": 2i32 } } };
    let found = scores(&mut s, &[doc! { "$rankFusion": &spec }], "score");
    // Order by vector: 1, 3, 2; by text: 1, 2.
    let rank = |n: f64| 1.0 / (60.0 + n);
    check(
        &found,
        &[
            (1, 0.5 * rank(1.0) + 2.0 * rank(1.0)),
            (2, 0.5 * rank(3.0) + 2.0 * rank(2.0)),
            (3, 0.5 * rank(2.0)),
        ],
    );
}

#[test]
fn words_and_vectors_by_score() {
    let mut s = points();
    let fused = |normalization: &str, combination: DocBuf| {
        doc! { "$scoreFusion": { "input": { "pipelines": &hybrid(),
        "normalization": normalization }, "combination": &combination } }
    };
    // Document 1 has scores 1 and 2; 2 has 0.5 and 2; 3 has only 0.8.
    let found = scores(&mut s, &[fused("none", doc! {})], "score");
    check(&found, &[(1, 1.5), (2, 1.25), (3, 0.4)]);
    let weighted = doc! { "method": "expression", "expression": { "$add": [
    { "$multiply": ["$$vector", 10i32] }, "$$text"] } };
    let found = scores(&mut s, &[fused("none", weighted)], "score");
    check(&found, &[(1, 12.0), (3, 8.0), (2, 7.0)]);
    // Vector scores go from 0.5 to 1; the text scores are all the same and become 0.
    let found = scores(
        &mut s,
        &[fused("minMaxScaler", doc! { "method": "avg" })],
        "score",
    );
    check(&found, &[(1, 0.5), (3, 0.3), (2, 0.0)]);
}

#[test]
fn a_score_of_ones_own() {
    let mut s = points();
    let near = || {
        stage(
            doc! { "path": "v", "queryVector": [1.0, 0.0], "exact": true,
            "limit": 4i32 },
        )
    };
    let score = |spec: DocBuf| doc! { "$score": &spec };
    let by_meta = || doc! { "$multiply": [{ "$meta": "vectorSearchScore" }, 2i32] };
    let found = scores(
        &mut s,
        &[near(), score(doc! { "score": &by_meta() })],
        "score",
    );
    check(&found, &[(1, 2.0), (3, 1.6), (2, 1.0), (4, 0.0)]);
    let sigmoid = doc! { "score": &by_meta(), "normalization": "sigmoid", "weight": 0.5 };
    let found = scores(&mut s, &[near(), score(sigmoid)], "score");
    let of = |x: f64| 0.5 / (1.0 + (-x).exp());
    check(
        &found,
        &[(1, of(2.0)), (3, of(1.6)), (2, of(1.0)), (4, of(0.0))],
    );
    // Documents without a score: years 2000 to 2015.
    let year = || doc! { "score": "$year", "normalization": "minMaxScaler", "scoreDetails": true };
    let sort = doc! { "$sort": { "_id": 1i32 } };
    let found = scores(&mut s, &[sort.clone(), score(year())], "score");
    check(
        &found,
        &[(1, 0.0), (2, 1.0 / 3.0), (3, 2.0 / 3.0), (4, 1.0), (5, 1.0)],
    );
    let details = doc! { "$project": { "d": { "$meta": "scoreDetails" } } };
    let found = s.aggregate("c", &[sort.clone(), score(year()), details]);
    let details = found[1]
        .doc()
        .field("d")
        .as_doc()
        .expect("details")
        .to_buf();
    assert_eq!(details.doc().field("rawScore").as_f64(), Some(2005.0));
    assert_eq!(
        details.doc().field("normalization").as_str(),
        Some("minMaxScaler")
    );
    // The same stage as an input of a fusion.
    let spec = doc! { "input": { "pipelines": { "years": [&sort, &score(year())] },
    "normalization": "none" } };
    let found = scores(&mut s, &[doc! { "$scoreFusion": &spec }], "score");
    check(
        &found,
        &[(4, 1.0), (5, 1.0), (3, 2.0 / 3.0), (2, 1.0 / 3.0), (1, 0.0)],
    );
    for (spec, code) in [
        (doc! {}, 40414),
        (doc! { "score": 1i32, "bogus": 1i32 }, 40415),
        (doc! { "score": 1i32, "weight": 2i32 }, 2),
        (doc! { "score": 1i32, "weight": "much" }, 14),
        (doc! { "score": 1i32, "normalization": "square" }, 2),
        (doc! { "score": 1i32, "normalization": 1i32 }, 14),
        (doc! { "score": 1i32, "scoreDetails": "yes" }, 14),
        (doc! { "score": "$genre" }, 14),
    ] {
        let command = crate::search::aggregate("c", &[score(spec.clone())]);
        assert_eq!(s.code(&command), code, "{spec:?}");
    }
    let command = crate::search::aggregate("c", &[doc! { "$score": 1i32 }]);
    assert_eq!(s.code(&command), 9);
}
