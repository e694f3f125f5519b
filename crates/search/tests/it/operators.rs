//! Which documents each operator finds, and what it refuses.

use crate::{dynamic, index_of, search, search_positions};
use model::{DocBuf, Value, doc};

fn texts() -> Vec<DocBuf> {
    vec![
        doc! { "title": "the quick brown fox", "body": "lazy dog", "n": 1i32 },
        doc! { "title": "slow green turtle", "body": "quick nap", "n": 5i32 },
        doc! { "title": "a quick quick quick rabbit", "n": 10.5, "at": Value::Date(1000) },
        doc! { "title": "literal dollar", "sub": { "tags": ["red", "blue"] }, "ok": true },
        doc! { "title": ["green fox", "brown bear"], "n": [7i32, 90i32], "at": Value::Date(2000) },
    ]
}

#[test]
fn operators_find_what_they_say() {
    let index = dynamic(&texts());
    for (spec, wanted) in [
        (
            doc! { "text": { "query": "quick", "path": "title" } },
            vec![0, 2],
        ),
        (
            doc! { "text": { "query": "QUICK", "path": ["title", "body"] } },
            vec![0, 1, 2],
        ),
        (
            doc! { "text": { "query": "quick", "path": { "wildcard": "*" } } },
            vec![0, 1, 2],
        ),
        (
            doc! { "text": { "query": "quick rabbit", "path": "title" } },
            vec![0, 2],
        ),
        (
            doc! { "text": { "query": "quick rabbit", "path": "title", "matchCriteria": "all" } },
            vec![2],
        ),
        (
            doc! { "text": { "query": ["turtle", "dollar"], "path": "title" } },
            vec![1, 3],
        ),
        (
            doc! { "text": { "query": "blue", "path": "sub.tags" } },
            vec![3],
        ),
        (
            doc! { "text": { "query": "qiuck", "path": "title" } },
            vec![],
        ),
        (
            doc! { "text": { "query": "qiuck", "path": "title", "fuzzy": { "maxEdits": 1i32 } } },
            vec![0, 2],
        ),
        (
            doc! { "text": { "query": "qiuck", "path": "title",
            "fuzzy": { "maxEdits": 1i32, "prefixLength": 2i32 } } },
            vec![],
        ),
        (
            doc! { "phrase": { "query": "brown fox", "path": "title" } },
            vec![0],
        ),
        (
            doc! { "phrase": { "query": "quick fox", "path": "title" } },
            vec![],
        ),
        (
            doc! { "phrase": { "query": "quick fox", "path": "title", "slop": 1i32 } },
            vec![0],
        ),
        (
            doc! { "phrase": { "query": "fox brown", "path": "title" } },
            vec![],
        ),
        (
            doc! { "range": { "path": "n", "gte": 5i32, "lt": 10.5 } },
            vec![1, 4],
        ),
        (doc! { "range": { "path": "n", "gt": 10i64 } }, vec![2, 4]),
        (
            doc! { "range": { "path": "at", "lte": Value::Date(1000) } },
            vec![2],
        ),
        (doc! { "range": { "path": "n", "gte": "5" } }, vec![]),
        (doc! { "range": { "path": "n", "gte": f64::NAN } }, vec![]),
        (doc! { "equals": { "path": "n", "value": 5.0 } }, vec![1]),
        (doc! { "equals": { "path": "ok", "value": true } }, vec![3]),
        (
            doc! { "in": { "path": "n", "value": [1i32, 90i32] } },
            vec![0, 4],
        ),
        (doc! { "exists": { "path": "at" } }, vec![2, 4]),
        (doc! { "exists": { "path": "sub" } }, vec![3]),
        (
            doc! { "wildcard": { "query": "t*e", "path": "title", "allowAnalyzedField": true } },
            vec![0, 1],
        ),
        (
            doc! { "regex": { "query": "(fox|bea.)", "path": "title",
            "allowAnalyzedField": true } },
            vec![0, 4],
        ),
        (
            doc! { "compound": {
            "must": [{ "text": { "query": "quick", "path": "title" } }],
            "mustNot": { "text": { "query": "rabbit", "path": "title" } } } },
            vec![0],
        ),
        (
            doc! { "compound": { "mustNot": [{ "text": { "query": "quick", "path": "title" } }] } },
            vec![1, 3, 4],
        ),
        (
            doc! { "compound": { "should": [
            { "text": { "query": "quick", "path": "title" } },
            { "text": { "query": "brown", "path": "title" } },
            { "exists": { "path": "at" } }], "minimumShouldMatch": 2i32 } },
            vec![0, 2, 4],
        ),
    ] {
        assert_eq!(search_positions(&index, &spec), wanted, "{spec:?}");
    }
}

#[test]
fn a_query_string_is_read_as_it_is_written() {
    let index = dynamic(&texts());
    for (query, wanted) in [
        ("quick", vec![0, 2]),
        ("quick turtle", vec![0, 1, 2]),
        ("quick OR turtle", vec![0, 1, 2]),
        ("quick AND rabbit", vec![2]),
        ("quick AND NOT rabbit", vec![0]),
        ("+quick -rabbit", vec![0]),
        ("NOT quick", vec![]),
        ("body:quick", vec![1]),
        ("body:(lazy OR nap)", vec![0, 1]),
        ("(quick OR green) AND fox", vec![0, 4]),
        ("\"brown fox\"", vec![0]),
        ("\"quick fox\"~1", vec![0]),
        ("tur*", vec![1]),
        ("t?e", vec![0]),
        ("qiuck~1", vec![0, 2]),
        ("[rabbit TO slow]", vec![1, 2]),
        ("{rabbit TO slow]", vec![1]),
        ("QUICK AND body:LAZY", vec![0]),
    ] {
        let spec = doc! { "queryString": { "defaultPath": "title", "query": query } };
        assert_eq!(search_positions(&index, &spec), wanted, "{query}");
    }
    for query in [
        "",
        "\"open",
        "(quick",
        "quick)",
        "AND",
        "quick AND",
        "[a TO",
        "field:",
    ] {
        let spec = doc! { "queryString": { "defaultPath": "title", "query": query } };
        let refused = search(&index, spec.doc()).err().map(|e| e.code());
        assert_eq!(refused, Some(8), "{query}");
    }
}

#[test]
fn spans_are_found_by_order_and_distance() {
    let index = dynamic(&texts());
    let term = |query: &str| doc! { "term": { "path": "title", "query": query } };
    let (quick, fox, brown) = (term("quick"), term("fox"), term("brown"));
    let near = |clauses: [&DocBuf; 2], slop: i32, in_order: bool| {
        let [a, b] = clauses;
        doc! { "near": { "clauses": [a, b], "slop": slop, "inOrder": in_order } }
    };
    let of = |span: &DocBuf| doc! { "span": span };
    let quick_fox = near([&quick, &fox], 1, true);
    for (span, wanted) in [
        (quick.clone(), vec![0, 2]),
        (
            doc! { "or": { "clauses": [&fox, &term("turtle")] } },
            vec![0, 1, 4],
        ),
        (
            doc! { "first": { "operator": &quick, "endPositionLte": 2i32 } },
            vec![0, 2],
        ),
        (
            doc! { "first": { "operator": &quick, "endPositionLte": 1i32 } },
            vec![],
        ),
        (near([&quick, &fox], 0, true), vec![]),
        (quick_fox.clone(), vec![0]),
        (near([&fox, &quick], 1, true), vec![]),
        (near([&fox, &quick], 1, false), vec![0]),
        (
            doc! { "subtract": { "include": &fox, "exclude": &term("green") } },
            vec![0, 4],
        ),
        (
            doc! { "subtract": { "include": &quick_fox, "exclude": &brown } },
            vec![],
        ),
        (
            doc! { "contains": { "spanToReturn": "inner", "little": &brown, "big": &quick_fox } },
            vec![0],
        ),
        (
            doc! { "contains": { "spanToReturn": "outer", "little": &term("bear"),
            "big": &quick_fox } },
            vec![],
        ),
    ] {
        assert_eq!(search_positions(&index, &of(&span)), wanted, "{span:?}");
    }
    let other = doc! { "term": { "path": "body", "query": "nap" } };
    for span in [
        doc! {},
        doc! { "term": { "query": "a" } },
        doc! { "near": { "clauses": [] } },
        doc! { "or": { "clauses": [&fox, &other] } },
        doc! { "contains": { "little": &fox, "big": &fox } },
    ] {
        let refused = search(&index, of(&span).doc()).err().map(|e| e.code());
        assert_eq!(refused, Some(8), "{span:?}");
    }
}

#[test]
fn fields_are_found_by_how_they_are_mapped() {
    let definition = doc! { "mappings": { "fields": {
        "tok": { "type": "token" },
        "low": { "type": "token", "normalizer": "lowercase" },
        "auto": { "type": "autocomplete", "minGrams": 2i32, "maxGrams": 4i32 },
        "whole": { "type": "string", "analyzer": "lucene.keyword",
            "multi": { "en": { "type": "string", "analyzer": "lucene.english" } } }
    } } };
    let docs = [
        doc! { "tok": "Mango", "low": "Mango", "auto": "Blue Whale", "whole": "Running late" },
        doc! { "tok": "mango", "low": "papaya", "auto": "blues", "whole": "runs early", "no": "x" },
    ];
    let index = index_of("search", &definition, &docs);
    for (spec, wanted) in [
        (
            doc! { "equals": { "path": "tok", "value": "mango" } },
            vec![1],
        ),
        (
            doc! { "equals": { "path": "low", "value": "MANGO" } },
            vec![0],
        ),
        (
            doc! { "range": { "path": "tok", "gte": "A", "lt": "a" } },
            vec![0],
        ),
        (
            doc! { "autocomplete": { "path": "auto", "query": "blu" } },
            vec![0, 1],
        ),
        (
            doc! { "autocomplete": { "path": "auto", "query": "whales" } },
            vec![0],
        ),
        (
            doc! { "autocomplete": { "path": "auto", "query": "blue wha",
            "tokenOrder": "sequential" } },
            vec![0],
        ),
        (
            doc! { "wildcard": { "path": "whole", "query": "Run*" } },
            vec![0],
        ),
        (
            doc! { "text": { "path": { "value": "whole", "multi": "en" }, "query": "run" } },
            vec![0, 1],
        ),
        (doc! { "text": { "path": "no", "query": "x" } }, vec![]),
    ] {
        assert_eq!(search_positions(&index, &spec), wanted, "{spec:?}");
    }
}

#[test]
fn bad_arguments_are_refused() {
    let index = dynamic(&texts());
    let text = |query: DocBuf| doc! { "text": &query };
    for spec in [
        doc! {},
        doc! { "index": "default" },
        doc! { "Text": { "query": "a", "path": "b" } },
        doc! { "text": { "query": "a", "path": "b" }, "exists": { "path": "b" } },
        doc! { "text": "quick" },
        text(doc! { "path": "title" }),
        text(doc! { "query": "", "path": "title" }),
        text(doc! { "query": [], "path": "title" }),
        text(doc! { "query": 1i32, "path": "title" }),
        text(doc! { "query": "a" }),
        text(doc! { "query": "a", "path": {} }),
        text(doc! { "query": "a", "path": { "value": "title", "multi": "nope" } }),
        text(doc! { "query": "a", "path": "title", "bogus": 1i32 }),
        text(doc! { "query": "a", "path": "title", "matchCriteria": "none" }),
        text(doc! { "query": "a", "path": "title", "fuzzy": { "maxEdits": 3i32 } }),
        text(doc! { "query": "a", "path": "title", "score": { "boost": { "value": -1i32 } } }),
        text(doc! { "query": &"a ".repeat(1025), "path": "title" }),
        doc! { "phrase": { "query": "a", "path": "title", "slop": -1i32 } },
        doc! { "range": { "path": "n" } },
        doc! { "range": { "path": "n", "gt": 1i32, "gte": 1i32 } },
        doc! { "range": { "path": "n", "gt": 1i32, "lt": "a" } },
        doc! { "near": { "path": "n", "origin": 1i32 } },
        doc! { "near": { "path": "n", "origin": 1i32, "pivot": 0i32 } },
        doc! { "in": { "path": "n", "value": [] } },
        doc! { "wildcard": { "query": "a*", "path": "title" } },
        doc! { "regex": { "query": "(", "path": "title", "allowAnalyzedField": true } },
        doc! { "compound": {} },
        doc! { "compound": { "must": [] } },
        doc! { "compound": { "should": [{ "exists": { "path": "n" } }],
        "minimumShouldMatch": 2i32 } },
    ] {
        match search(&index, spec.doc()) {
            Err(e) => assert_eq!(e.code(), 8, "{spec:?}"),
            Ok(found) => panic!("{spec:?} is accepted and finds {}", found.len()),
        }
    }
}

#[test]
fn a_search_ends_when_it_is_told_to() {
    let index = dynamic(&texts());
    let spec = doc! { "exists": { "path": "title" } };
    let search = search::Search::parse("$search", spec.doc()).expect("a search");
    let stopped = search.run(&index, &mut || {
        Err(model::MongoError::new(11601, "stopped"))
    });
    assert_eq!(stopped.err().map(|e| e.code()), Some(11601));
}

#[test]
fn documents_like_others_share_their_rare_words() {
    let index = dynamic(&[
        doc! { "t": "the old cat sat", "n": { "u": "zebra" } },
        doc! { "t": "the dog ran" },
        doc! { "t": "an old cat, an old mat" },
        doc! { "t": "nothing", "n": { "u": "zebra" } },
    ]);
    let like = |like: Value<'_>| {
        let spec = doc! { "moreLikeThis": { "like": like } };
        let found = search(&index, spec.doc()).expect("hits");
        found.into_iter().map(|(n, _)| n).collect::<Vec<_>>()
    };
    let cat = doc! { "t": "Old CAT", "other": "dog" };
    assert_eq!(like(Value::Document(cat.doc())), [2, 0]);
    let inner = doc! { "n": [{ "u": "a zebra" }] };
    assert_eq!(like(Value::Document(inner.doc())), [0, 3]);
    let both = doc! { "l": [&cat, &inner] };
    assert_eq!(like(both.doc().field("l")), [0, 2, 3]);
    for (spec, part) in [
        (doc! {}, "like\" is required"),
        (doc! { "like": 1i32 }, "a document or an array"),
        (doc! { "like": [] }, "cannot be empty"),
        (doc! { "like": {}, "x": 1i32 }, "Unrecognized field \"x\""),
    ] {
        let spec = doc! { "moreLikeThis": &spec };
        let e = search(&index, spec.doc()).expect_err("refused");
        assert!(e.message().contains(part), "{}", e.message());
    }
}

#[test]
fn a_query_string_has_patterns_and_worths() {
    let index = dynamic(&[
        doc! { "t": "red fox" },
        doc! { "t": "red bear" },
        doc! { "t": "blue" },
    ]);
    let run = |query: &str| {
        let spec = doc! { "queryString": { "defaultPath": "t", "query": query } };
        search(&index, spec.doc()).map(|f| f.into_iter().map(|h| h.0).collect::<Vec<_>>())
    };
    assert_eq!(run("/f.x|blue/").expect("hits"), [0, 2]);
    assert_eq!(run("t:/be.r/").expect("hits"), [1]);
    assert_eq!(run("fox bear^3").expect("hits"), [1, 0]);
    assert_eq!(run("fox^3 bear").expect("hits"), [0, 1]);
    assert_eq!(run("(fox OR red)^0.1 \"blue\"^4").expect("hits"), [2, 0, 1]);
    for query in ["/open", "fox^", "fox^x", "/(/", "^2"] {
        assert_eq!(run(query).expect_err("refused").code(), 8, "{query}");
    }
}
