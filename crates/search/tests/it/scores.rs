//! Scores, calculated by hand.

use crate::{dynamic, search};
use model::doc;

fn near(a: f32, b: f64) {
    assert!((f64::from(a) - b).abs() < 1e-5, "{a} is not {b}");
}

/// ln(1 + (N - n + 0.5) / (n + 0.5)) * f / (f + 1.2 (1 - 0.75 + 0.75 length / average))
fn bm25(all: f64, having: f64, often: f64, length: f64, average: f64) -> f64 {
    let rarity = (1.0 + (all - having + 0.5) / (having + 0.5)).ln();
    rarity * often / (often + 1.2 * (0.25 + 0.75 * length / average))
}

#[test]
fn a_text_scores_by_bm25_over_the_texts_at_its_path() {
    let index = dynamic(&[
        doc! { "t": "red fox", "u": "a b c d e f g" },
        doc! { "t": "red red red bear in the wood" },
        doc! { "t": "blue" },
        doc! { "u": "red" },
    ]);
    let found = search(
        &index,
        doc! { "text": { "query": "red", "path": "t" } }.doc(),
    );
    let found = found.expect("hits");
    assert_eq!(found.iter().map(|h| h.0).collect::<Vec<_>>(), [1, 0]);
    let average = (2.0 + 7.0 + 1.0) / 3.0;
    near(found[0].1, bm25(3.0, 2.0, 3.0, 7.0, average));
    near(found[1].1, bm25(3.0, 2.0, 1.0, 2.0, average));
    let both = doc! { "text": { "query": "red fox", "path": "t" } };
    let found = search(&index, both.doc()).expect("hits");
    let red = bm25(3.0, 2.0, 1.0, 2.0, average);
    near(found[0].1, red + bm25(3.0, 1.0, 1.0, 2.0, average));
    assert_eq!(found[0].0, 0, "the rarer word decides");
}

#[test]
fn options_of_scores_have_their_effect() {
    let index = dynamic(&[doc! { "n": 10i32, "t": "x" }, doc! { "n": 14i32 }]);
    let scores = |spec: model::DocBuf| search(&index, spec.doc()).expect("hits");
    let near_ten = |score: model::DocBuf| {
        scores(doc! { "near": { "path": "n", "origin": 10i32, "pivot": 4i32, "score": &score } })
    };
    let plain = scores(doc! { "near": { "path": "n", "origin": 10i32, "pivot": 4i32 } });
    assert_eq!(plain, [(0, 1.0), (1, 0.5)]);
    let boosted = near_ten(doc! { "boost": { "value": 3i32 } });
    assert_eq!(boosted, [(0, 3.0), (1, 1.5)]);
    let constant = near_ten(doc! { "constant": { "value": 2.5 } });
    assert_eq!(constant, [(0, 2.5), (1, 2.5)]);
    let filtered = scores(doc! { "compound": {
    "filter": [{ "exists": { "path": "n" } }],
    "should": [{ "exists": { "path": "t" } }] } });
    assert_eq!(filtered, [(0, 1.0), (1, 0.0)]);
}

#[test]
fn scores_are_computed_from_fields() {
    let index = dynamic(&[
        doc! { "n": 10i32, "at": model::Value::Date(5) },
        doc! { "n": 1000i32 },
    ]);
    let scored = |score: model::DocBuf| {
        let near = doc! { "near": { "path": "n", "origin": 10i32, "pivot": 10i32,
        "score": &score } };
        let mut found = search(&index, near.doc()).expect("hits");
        found.sort_by_key(|(n, _)| *n);
        (found[0].1, found[1].1)
    };
    let (first, second) = (1.0, 0.01);
    let both = |score: model::DocBuf, wanted: [f64; 2]| {
        let found = scored(score);
        near(found.0, wanted[0]);
        near(found.1, wanted[1]);
    };
    both(doc! { "boost": { "path": "n" } }, [10.0, 10.0]);
    both(
        doc! { "boost": { "path": "at", "undefined": 3i32 } },
        [5.0, 0.03],
    );
    let function = |f: model::DocBuf| doc! { "function": &f };
    both(function(doc! { "score": "relevance" }), [first, second]);
    both(function(doc! { "constant": 7i32 }), [7.0, 7.0]);
    both(function(doc! { "path": "n" }), [10.0, 1000.0]);
    both(
        function(doc! { "path": { "value": "no", "undefined": 4i32 } }),
        [4.0, 4.0],
    );
    both(function(doc! { "log": { "path": "n" } }), [1.0, 3.0]);
    both(
        function(doc! { "log1p": { "path": "n" } }),
        [11f64.log10(), 1001f64.log10()],
    );
    both(function(doc! { "log": { "path": "no" } }), [0.0, 0.0]);
    both(
        function(doc! { "add": [{ "path": "n" }, { "score": "relevance" }] }),
        [11.0, 1000.01],
    );
    both(
        function(doc! { "multiply": [{ "path": "n" }, { "constant": 2i32 }] }),
        [20.0, 2000.0],
    );
    // At `scale` beyond the offset the bell curve has the value `decay`.
    let bell = doc! { "gauss": { "path": "n", "origin": 0i32, "scale": 990i32, "offset": 10i32,
    "decay": 0.25 } };
    both(function(bell), [1.0, 0.25]);
}

#[test]
fn a_score_is_explained() {
    let index = dynamic(&[doc! { "t": "red fox" }, doc! { "t": "blue" }]);
    let text = doc! { "text": { "query": "red", "path": "t" }, "scoreDetails": true };
    let search = search::Search::parse("$search", text.doc()).expect("a specification");
    let mut hits = search.run(&index, &mut || Ok(())).expect("hits");
    let hit = hits.pop().expect("no failure").expect("a hit");
    let details = hit.details.expect("details");
    let value = details.doc().field("value").as_f64().expect("a value");
    near(hit.score, value);
    // ln(1 + 1.5 / 1.5) times 1 / (1 + 1.2 (0.25 + 0.75 * 2 / 1.5))
    near(value as f32, bm25(2.0, 1.0, 1.0, 2.0, 1.5));
    let text = format!("{details:?}");
    for part in ["idf", "tf", "number of documents containing term", "avgdl"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_no_score_can_be_is_refused() {
    let index = dynamic(&[doc! { "n": 1i32 }]);
    let function = |f: model::DocBuf| doc! { "function": &f };
    for (score, part) in [
        (doc! {}, "exactly one of boost, constant, function"),
        (
            doc! { "boost": { "value": 0i32 } },
            "greater than zero, not 0",
        ),
        (doc! { "boost": { "value": -1i32 } }, "at least 0, it is -1"),
        (doc! { "boost": {} }, "either a value or a path"),
        (
            doc! { "boost": { "value": 1i32, "path": "n" } },
            "either a value or a path",
        ),
        (
            doc! { "boost": { "value": 1i32, "undefined": 1i32 } },
            "undefined only beside",
        ),
        (doc! { "constant": {} }, "constant.value\" is required"),
        (doc! { "embedded": {} }, "Unrecognized field \"embedded\""),
        (function(doc! {}), "exactly one of add, constant"),
        (function(doc! { "score": "x" }), "must be one of relevance"),
        (
            function(doc! { "add": [{ "constant": 1i32 }] }),
            "at least two expressions, not 1",
        ),
        (
            function(doc! { "add": 1i32 }),
            "an array of expressions, not int",
        ),
        (
            function(doc! { "log": 1i32 }),
            "must be a document, not int",
        ),
        (
            function(doc! { "path": 1i32 }),
            "a string or a document, not int",
        ),
        (
            function(doc! { "gauss": { "path": "n", "origin": 1i32, "scale": 0i32 } }),
            "scale must be greater than 0",
        ),
        (
            function(doc! { "gauss": { "path": "n", "scale": 1i32 } }),
            "origin\" is required",
        ),
        (
            function(
                doc! { "gauss": { "path": "n", "origin": 1i32, "scale": 1i32,
                "decay": 1i32 } },
            ),
            "decay between 0 and 1",
        ),
    ] {
        let spec = doc! { "exists": { "path": "n", "score": &score } };
        let e = search(&index, spec.doc()).expect_err("refused");
        assert_eq!(e.code(), 8);
        assert!(e.message().contains(part), "{score:?}: {}", e.message());
    }
}
