//! What is returned of found documents, in which order, and from which position.

use crate::index_of;
use model::{Doc, DocBuf, Value, doc};
use search::{Index, Search};
use std::sync::Arc;

fn fruits() -> Arc<Index> {
    let definition = doc! { "mappings": { "dynamic": true, "fields": {
        "name": [{ "type": "string" }, { "type": "token" }],
        "start": { "type": "autocomplete" },
        "size": { "type": "number" },
        "text": { "type": "string", "multi": { "en": { "type": "string",
            "analyzer": "lucene.english" } } }
    } } };
    let docs = [
        doc! { "name": "pear", "n": 3i32, "at": Value::Date(10), "start": "Green pear",
        "text": "Pears are sweet. A bowl of pears! Who would not like a pear?" },
        doc! { "name": "apple", "n": 1i32, "text": ["A pear in an array", "None here."] },
        doc! { "name": "fig", "n": [2i32, 9i32], "ok": true, "text": "pear" },
        doc! { "name": "kiwi", "text": "pear and plum" },
    ];
    index_of("search", &definition, &docs)
}

/// Positions of documents in result order.
fn places(index: &Index, spec: &DocBuf) -> Vec<u8> {
    tokens(index, spec).into_iter().map(|(n, _)| n).collect()
}

fn tokens(index: &Index, spec: &DocBuf) -> Vec<(u8, String)> {
    let search = Search::parse("$search", spec.doc()).expect("a specification");
    let mut hits = search.run(index, &mut || Ok(())).expect("no failure");
    let mut found = Vec::new();
    while let Some(hit) = hits.pop().expect("no failure") {
        found.push((hit.id[0], hit.token));
    }
    found
}

fn sort_names(sort: DocBuf) -> DocBuf {
    doc! { "exists": { "path": "name" }, "sort": &sort }
}

#[test]
fn documents_come_in_the_order_of_fields() {
    let index = fruits();
    for (sort, wanted) in [
        (doc! { "name": 1i32 }, [1, 2, 3, 0]),
        (doc! { "name": -1i32 }, [0, 3, 2, 1]),
        // The least of several values ascending, the greatest descending; documents without a value
        // are lowest.
        (doc! { "n": 1i32 }, [3, 1, 2, 0]),
        (doc! { "n": -1i32 }, [2, 0, 1, 3]),
        (
            doc! { "n": { "order": 1i32, "noData": "highest" } },
            [1, 2, 0, 3],
        ),
        (
            doc! { "n": { "order": -1i32, "noData": "highest" } },
            [3, 2, 0, 1],
        ),
        (doc! { "ok": -1i32, "name": 1i32 }, [2, 1, 3, 0]),
        (doc! { "at": -1i32, "n": -1i32 }, [0, 2, 1, 3]),
    ] {
        assert_eq!(
            places(&index, &sort_names(sort.clone())),
            wanted,
            "{sort:?}"
        );
    }
    let text = |sort: DocBuf| {
        doc! { "text": { "query": "pear", "path": "text" }, "sort": &sort }
    };
    // Shorter texts score higher.
    let by_score = doc! { "best": { "$meta": "searchScore" } };
    assert_eq!(places(&index, &text(by_score)), [2, 3, 1, 0]);
    let rising = doc! { "best": { "$meta": "searchScore", "order": 1i32 } };
    assert_eq!(places(&index, &text(rising)), [0, 1, 3, 2]);
}

#[test]
fn a_search_goes_on_after_and_before_a_token() {
    let index = fruits();
    for sort in [
        doc! { "name": 1i32 },
        doc! { "n": 1i32 },
        doc! { "ok": 1i32 },
    ] {
        let all = tokens(&index, &sort_names(sort.clone()));
        let order: Vec<u8> = all.iter().map(|(n, _)| *n).collect();
        for (at, (_, token)) in all.iter().enumerate() {
            let from = |side: &str| {
                DocBuf::build(|w| {
                    w.put_all(sort_names(sort.clone()).doc());
                    w.put(side, token.as_str());
                })
            };
            assert_eq!(places(&index, &from("searchAfter")), order[at + 1..]);
            let mut before = places(&index, &from("searchBefore"));
            before.reverse();
            assert_eq!(before, order[..at], "the nearest first");
        }
    }
    // By score, with several equal scores.
    let exists = doc! { "exists": { "path": "name" } };
    let all = tokens(&index, &exists);
    let after = DocBuf::build(|w| {
        w.put_all(exists.doc());
        w.put("searchAfter", all[1].1.as_str());
    });
    assert_eq!(places(&index, &after), [2, 3]);
}

fn highlights(index: &Index, query: &DocBuf, doc: Doc<'_>) -> Vec<(f64, String)> {
    let search = Search::parse("$search", query.doc()).expect("a specification");
    let hits = search.run(index, &mut || Ok(())).expect("no failure");
    let shown = hits.highlights(doc).expect("highlights");
    let list = shown.doc().field("v").as_array().expect("a list");
    let show = |v: Value<'_>| {
        let one = v.as_doc().expect("a document");
        let texts = one.field("texts").as_array().expect("texts");
        let part = |v: Value<'_>| {
            let part = v.as_doc().expect("a part");
            let text = part.field("value").as_str().expect("a text");
            match part.field("type").as_str() {
                Some("hit") => format!("<{text}>"),
                _ => text.to_owned(),
            }
        };
        let texts: Vec<String> = texts.iter().map(part).collect();
        (
            one.field("score").as_f64().expect("a score"),
            texts.concat(),
        )
    };
    list.iter().map(show).collect()
}

#[test]
fn sentences_with_hits_are_shown() {
    let index = fruits();
    let text = "Pears are sweet. A bowl of pears! Who would not like a pear? A pear, a fig.";
    let doc = doc! { "text": text, "start": "Green pear" };
    let shown = |query: DocBuf| -> Vec<String> {
        let found = highlights(&index, &query, doc.doc());
        found.into_iter().map(|(_, text)| text).collect()
    };
    let path = doc! { "path": "text" };
    assert_eq!(
        shown(doc! { "text": { "query": "pear", "path": "text" }, "highlight": &path }),
        ["Who would not like a <pear>? ", "A <pear>, a fig."]
    );
    let english = doc! { "value": "text", "multi": "en" };
    let stems = doc! { "path": { "value": "text", "multi": "en" }, "maxNumPassages": 1i32 };
    let query = doc! { "query": "pear", "path": &english };
    assert_eq!(
        shown(doc! { "text": &query, "highlight": &stems }),
        ["A <pear>, a fig."],
        "the shortest"
    );
    let phrase = doc! { "query": "a pear", "path": "text" };
    assert_eq!(
        shown(doc! { "phrase": &phrase, "highlight": &path }),
        ["Who would not like <a> <pear>? ", "<A> <pear>, a fig."]
    );
    let like = doc! { "query": "p*rs", "path": "text", "allowAnalyzedField": true };
    assert_eq!(
        shown(doc! { "wildcard": &like, "highlight": &path }),
        ["<Pears> are sweet. ", "A bowl of <pears>! "]
    );
    let begun = doc! { "query": "pe", "path": "start" };
    assert_eq!(
        shown(doc! { "autocomplete": &begun, "highlight": { "path": "start" } }),
        ["Green <pear>"]
    );
    let cut = doc! { "path": "text", "maxCharsToExamine": 16i32 };
    let pears = doc! { "query": "pears", "path": "text" };
    assert_eq!(
        shown(doc! { "text": &pears, "highlight": &cut }),
        ["<Pears> are sweet."]
    );
    let without = doc! { "compound": {
    "must": { "text": { "query": "fig", "path": "text" } },
    "mustNot": { "text": { "query": "pear", "path": "text" } } },
    "highlight": &path };
    assert_eq!(shown(without), ["A pear, a <fig>."]);
}

#[test]
fn a_sentence_is_weighed_by_its_length_and_its_place() {
    let index = fruits();
    let query = doc! { "text": { "query": "plum", "path": "text" },
    "highlight": { "path": "text" } };
    let doc = doc! { "text": "pear and plum" };
    let found = highlights(&index, &query, doc.doc());
    // One match in one sentence of 13 characters, at the start of the text.
    let rarity = 2.2 * (1.0 + (1.0 + 13.0 / 87.0 + 0.5) / 1.5f64).ln();
    let weight = 1.0 / (1.0 + 1.2 * (0.25 + 0.75 * 13.0 / 87.0));
    let wanted = rarity * weight * (1.0 + 1.0 / 87f64.ln());
    assert!(
        (found[0].0 - wanted).abs() < 1e-5,
        "{} {wanted}",
        found[0].0
    );
}

#[test]
fn a_search_says_what_it_has_counted() {
    let index = fruits();
    let meta = |spec: DocBuf| {
        let search = Search::parse("$search", spec.doc()).expect("a specification");
        let hits = search.run(&index, &mut || Ok(())).expect("no failure");
        hits.meta().clone()
    };
    let exists = || doc! { "path": "name" };
    assert_eq!(
        meta(doc! { "exists": &exists() }),
        doc! { "count": { "lowerBound": 4i64 } }
    );
    let total = doc! { "exists": &exists(), "count": { "type": "total" } };
    assert_eq!(meta(total), doc! { "count": { "total": 4i64 } });
    let few = doc! { "exists": &exists(), "count": { "threshold": 2i32 } };
    assert_eq!(meta(few), doc! { "count": { "lowerBound": 3i64 } });
    let facet = doc! { "facet": { "operator": { "exists": &exists() },
    "facets": { "by": { "type": "string", "path": "name", "numBuckets": 1i32 } } } };
    assert_eq!(
        meta(facet),
        doc! { "count": { "lowerBound": 4i64 }, "facet": { "by": { "buckets": [
        { "_id": "apple", "count": 1i64 }] } } }
    );
}

#[test]
fn stored_fields_are_cut_from_documents() {
    let of = |stored: DocBuf| {
        let definition = DocBuf::build(|w| {
            w.put("mappings", &doc! { "dynamic": true });
            w.put("storedSource", stored.doc().field("v"));
        });
        let index = index_of("search", &definition, &[]);
        let doc = doc! { "_id": 1i32, "a": { "b": 2i32, "c": 3i32 },
        "l": [{ "b": 4i32, "c": 5i32 }, 6i32], "d": 7i32 };
        index.definition().stored_source(doc.doc())
    };
    assert_eq!(of(doc! { "v": false }), None);
    let all = doc! { "_id": 1i32, "a": { "b": 2i32, "c": 3i32 },
    "l": [{ "b": 4i32, "c": 5i32 }, 6i32], "d": 7i32 };
    assert_eq!(of(doc! { "v": true }), Some(all));
    assert_eq!(
        of(doc! { "v": { "include": ["a.b", "l.c"] } }),
        Some(doc! { "_id": 1i32, "a": { "b": 2i32 }, "l": [{ "c": 5i32 }] })
    );
    assert_eq!(
        of(doc! { "v": { "exclude": ["a.b", "l.c", "d"] } }),
        Some(doc! { "_id": 1i32, "a": { "c": 3i32 }, "l": [{ "b": 4i32 }, 6i32] })
    );
}

#[test]
fn every_option_is_checked() {
    let index = fruits();
    let exists = doc! { "path": "name" };
    for (option, part) in [
        (doc! { "highlight": 1i32 }, "must be a document, not int"),
        (doc! { "highlight": {} }, "highlight.path\" is required"),
        (doc! { "highlight": { "path": "size" } }, "indexed neither"),
        (
            doc! { "highlight": { "path": "text", "maxNumPassages": 0i32 } },
            "between 1",
        ),
        (
            doc! { "highlight": { "path": "text", "maxCharsToExamine": "x" } },
            "an integer",
        ),
        (
            doc! { "highlight": { "path": "text", "colour": 1i32 } },
            "Unrecognized field \"colour\"",
        ),
        (doc! { "sort": 1i32 }, "\"sort\" must be a document"),
        (doc! { "sort": {} }, "1 to 32 fields, not 0"),
        (doc! { "sort": { "n": 2i32 } }, "1 or -1, not 2"),
        (doc! { "sort": { "text": 1i32 } }, "not indexed as token"),
        (doc! { "sort": { "n": {} } }, "sort.n.order\" is required"),
        (
            doc! { "sort": { "n": { "order": 1i32, "noData": "x" } } },
            "lowest, highest",
        ),
        (
            doc! { "sort": { "n": { "$meta": "textScore" } } },
            "searchScore",
        ),
        (doc! { "searchAfter": 1i32 }, "a string, not int"),
        (doc! { "searchAfter": "abc" }, "no searchSequenceToken"),
        (
            doc! { "searchAfter": "a", "searchBefore": "b" },
            "cannot be used together",
        ),
        (doc! { "scoreDetails": 1i32 }, "a boolean"),
        (doc! { "returnStoredSource": "x" }, "a boolean"),
        (doc! { "returnStoredSource": true }, "has no storedSource"),
        (doc! { "count": { "type": "x" } }, "lowerBound, total"),
        (doc! { "count": { "threshold": 0i32 } }, "between 1"),
        (doc! { "bogus": true }, "\"bogus\" is neither"),
    ] {
        let spec = DocBuf::build(|w| {
            w.put("exists", &exists).put_all(option.doc());
        });
        let run = Search::parse("$search", spec.doc())
            .and_then(|s| s.run(&index, &mut || Ok(())).map(|_| ()));
        let e = run.expect_err("refused");
        assert_eq!(e.code(), 8, "{option:?}");
        assert!(e.message().contains(part), "{option:?}: {}", e.message());
    }
}
