//! Options of `$search`, as clients see them: metadata, `$$SEARCH_META`, stored fields, and
//! `$scoreFusion`.

use crate::search::{Server, aggregate};
use model::{DocBuf, doc};

fn fruits() -> Server {
    let mut s = Server::new();
    s.insert(&[
        doc! { "_id": 1i32, "t": "red apple", "k": "b", "v": [1i32, 0i32] },
        doc! { "_id": 2i32, "t": "red", "k": "a", "v": [0i32, 1i32] },
        doc! { "_id": 3i32, "t": "blue plum", "k": "c", "v": [1i32, 1i32] },
    ]);
    let definition = doc! { "mappings": { "dynamic": true, "fields": {
    "k": { "type": "token" } } }, "storedSource": { "include": ["k"] } };
    s.create(doc! { "definition": &definition });
    let vectors = doc! { "fields": [{ "type": "vector", "path": "v", "numDimensions": 2i32,
    "similarity": "cosine" }] };
    s.create(doc! { "name": "vectors", "type": "vectorSearch", "definition": &vectors });
    s.wait_ready("default");
    s.wait_ready("vectors");
    s
}

fn red(options: DocBuf) -> DocBuf {
    let spec = DocBuf::build(|w| {
        w.put("text", &doc! { "query": "red", "path": "t" });
        w.put_all(options.doc());
    });
    doc! { "$search": &spec }
}

#[test]
fn metadata_of_a_search_is_there_for_later_stages() {
    let mut s = fruits();
    let project = doc! { "$project": {
        "highlights": { "$meta": "searchHighlights" },
        "details": { "$meta": "searchScoreDetails" },
        "token": { "$meta": "searchSequenceToken" },
        "found": "$$SEARCH_META.count.total"
    } };
    let options = doc! { "highlight": { "path": "t" }, "scoreDetails": true,
    "sort": { "k": 1i32 }, "count": { "type": "total" } };
    let found = s.aggregate(
        "c",
        &[red(options), doc! { "$limit": 5i32 }, project.clone()],
    );
    assert_eq!(found.len(), 2);
    let first = found[0].doc();
    assert_eq!(first.field("_id").as_i64_exact(), Some(2));
    assert_eq!(first.field("found").as_i64_exact(), Some(2));
    let highlights = first.field("highlights").as_array().expect("highlights");
    let one = highlights
        .get(0)
        .and_then(|v| v.as_doc().map(|d| d.to_buf()));
    let one = one.expect("one");
    assert_eq!(one.doc().field("path").as_str(), Some("t"));
    let texts = one.doc().field("texts").as_array().expect("texts");
    assert_eq!(texts.iter().count(), 1);
    let details = first.field("details").as_doc().expect("details");
    assert!(details.field("value").as_f64().expect("a score") > 0.0);
    let token = first.field("token").as_str().expect("a token").to_owned();
    let next = doc! { "sort": { "k": 1i32 }, "searchAfter": token.as_str() };
    let found = s.aggregate("c", &[red(next), doc! { "$project": { "_id": 1i32 } }]);
    assert_eq!(found, [doc! { "_id": 1i32 }]);
    let counted = s.aggregate(
        "c",
        &[
            red(doc! {}),
            doc! { "$limit": 1i32 },
            doc! { "$replaceWith": "$$SEARCH_META" },
        ],
    );
    assert_eq!(counted, [doc! { "count": { "lowerBound": 2i64 } }]);
    let stored = s.aggregate("c", &[red(doc! { "returnStoredSource": true })]);
    assert_eq!(
        stored,
        [
            doc! { "_id": 2i32, "k": "a" },
            doc! { "_id": 1i32, "k": "b" }
        ]
    );
    // Without a search, the variable is missing.
    let project = doc! { "$project": { "_id": 0i32, "m": "$$SEARCH_META" } };
    let none = s.aggregate("c", &[doc! { "$match": { "_id": 1i32 } }, project]);
    assert_eq!(none, [doc! {}]);
}

fn near() -> DocBuf {
    doc! { "$vectorSearch": { "index": "vectors", "path": "v", "queryVector": [1i32, 0i32],
    "limit": 3i32, "exact": true } }
}

fn fusion(normalization: &str, combination: DocBuf) -> DocBuf {
    let text = red(doc! {});
    let near = near();
    doc! { "$scoreFusion": { "input": { "pipelines": { "near": [&near], "text": [&text] },
    "normalization": normalization }, "combination": &combination, "scoreDetails": true } }
}

#[test]
fn scores_of_several_searches_become_one() {
    let mut s = fruits();
    let project = doc! { "$project": { "s": { "$meta": "score" },
    "d": { "$meta": "scoreDetails" } } };
    let mut scores = |stage: DocBuf| -> Vec<(i64, f64)> {
        let found = s.aggregate("c", &[stage, project.clone()]);
        let one = |d: &DocBuf| {
            let d = d.doc();
            let details = d.field("d").as_doc().expect("details");
            assert_eq!(details.field("value").as_f64(), d.field("s").as_f64());
            let id = d.field("_id").as_i64_exact().expect("an _id");
            (id, d.field("s").as_f64().expect("a score"))
        };
        found.iter().map(one).collect()
    };
    let near = |found: Vec<(i64, f64)>, wanted: &[(i64, f64)]| {
        assert_eq!(found.len(), wanted.len());
        for (f, w) in found.iter().zip(wanted) {
            assert!(
                f.0 == w.0 && (f.1 - w.1).abs() < 1e-6,
                "{found:?} {wanted:?}"
            );
        }
    };
    // Similarity to the vector: 1, 1/2, (1 + 1/sqrt 2) / 2. Text: BM25 of one word in three texts.
    let third = (1.0 + 0.5f64.sqrt()) / 2.0;
    let average = 5.0 / 3.0;
    let text =
        |length: f64| (1.0f64 + 1.5 / 2.5).ln() / (1.0 + 1.2 * (0.25 + 0.75 * length / average));
    let (one, two) = (text(2.0), text(1.0));
    near(
        scores(fusion("none", doc! {})),
        &[
            (1, (1.0 + one) / 2.0),
            (3, third / 2.0),
            (2, (0.5 + two) / 2.0),
        ],
    );
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    near(
        scores(fusion("sigmoid", doc! { "weights": { "text": 0i32 } })),
        &[
            (1, sigmoid(1.0) / 2.0),
            (3, sigmoid(third) / 2.0),
            (2, sigmoid(0.5) / 2.0),
        ],
    );
    let sum = doc! { "method": "expression", "expression": {
    "$add": ["$$near", { "$multiply": ["$$text", 10i32] }] } };
    // The smallest score becomes 0, the largest 1.
    near(
        scores(fusion("minMaxScaler", sum)),
        &[(2, 10.0), (1, 1.0), (3, (third - 0.5) / 0.5)],
    );
}

#[test]
fn what_cannot_be_fused_is_refused() {
    let mut s = fruits();
    let stage = |spec: DocBuf| aggregate("c", &[doc! { "$scoreFusion": &spec }]);
    let input = |stages: DocBuf| doc! { "pipelines": { "p": [&stages] }, "normalization": "none" };
    let near = near();
    for (spec, code) in [
        (doc! {}, 40414),
        (doc! { "input": { "pipelines": { "p": [&near] } } }, 40414),
        (
            doc! { "input": { "pipelines": {}, "normalization": "none" } },
            2,
        ),
        (
            doc! { "input": { "pipelines": { "p": [&near] }, "normalization": "x" } },
            2,
        ),
        (
            doc! { "input": &input(doc! { "$sort": { "k": 1i32 } }) },
            9191100,
        ),
        (
            doc! { "input": &input(doc! { "$project": { "k": 1i32 } }) },
            9191103,
        ),
        (
            doc! { "input": &input(near.clone()), "combination": { "method": "x" } },
            2,
        ),
        (
            doc! { "input": &input(near.clone()), "combination": { "expression": 1i32 } },
            2,
        ),
        (
            doc! { "input": &input(near.clone()), "combination": { "method": "expression" } },
            2,
        ),
        (
            doc! { "input": &input(near.clone()), "combination": { "method": "expression",
            "expression": "$$other" } },
            17276,
        ),
        (
            doc! { "input": &input(near.clone()), "combination": { "weights": { "q": 1i32 } } },
            9967500,
        ),
        (doc! { "input": &input(near.clone()), "bogus": 1i32 }, 40415),
    ] {
        assert_eq!(s.code(&stage(spec.clone())), code, "{spec:?}");
    }
    let later = [doc! { "$match": {} }, fusion("none", doc! {})];
    assert_eq!(s.code(&aggregate("c", &later)), 10170100);
}
