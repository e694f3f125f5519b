//! Scores, computed by hand.

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
