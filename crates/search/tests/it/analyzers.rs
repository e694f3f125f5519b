//! Custom analyzers: the effect of their parts, tested through search results.

use crate::{index_of, search, search_positions};
use model::{DocBuf, doc};
use search::Definition;

/// The definition of one text field with its own analyzer.
fn with_analyzer(analyzer: &DocBuf) -> DocBuf {
    let named = DocBuf::build(|w| {
        w.put("name", "own");
        w.put_all(analyzer.doc());
    });
    doc! { "analyzers": [&named], "mappings": { "fields": {
    "t": { "type": "string", "analyzer": "own", "searchAnalyzer": "lucene.keyword" } } } }
}

fn part(kind: &str, options: &DocBuf) -> DocBuf {
    DocBuf::build(|w| {
        w.put("type", kind);
        w.put_all(options.doc());
    })
}

/// Checks which tokens are found in a text, and which are not.
fn check(analyzer: &DocBuf, text: &str, there: &[&str], gone: &[&str]) {
    let index = index_of("search", &with_analyzer(analyzer), &[doc! { "t": text }]);
    let has = |token: &str| {
        !search_positions(&index, &doc! { "text": { "path": "t", "query": token } }).is_empty()
    };
    for token in there {
        assert!(has(token), "{analyzer:?} makes {token} of {text}");
    }
    for token in gone {
        assert!(!has(token), "{analyzer:?} makes no {token} of {text}");
    }
}

fn chars(kind: &str, options: &DocBuf) -> DocBuf {
    doc! { "tokenizer": { "type": "standard" }, "charFilters": [&part(kind, options)] }
}

fn tokenizer(kind: &str, options: &DocBuf) -> DocBuf {
    doc! { "tokenizer": &part(kind, options) }
}

/// The filter after a tokenizer that splits at spaces.
fn filter(kind: &str, options: &DocBuf) -> DocBuf {
    doc! { "tokenizer": { "type": "whitespace" }, "tokenFilters": [&part(kind, options)] }
}

#[test]
fn character_filters_change_what_is_cut() {
    let none = DocBuf::new();
    let html = "<p>The <b>quick</b>est &amp; b&#114;own</p><p>fox</p><script>run()</script>";
    check(
        &chars("htmlStrip", &none),
        html,
        &["quickest", "brown", "fox"],
        &["p", "b", "run", "amp"],
    );
    check(
        &chars("htmlStrip", &doc! { "ignoredTags": ["b"] }),
        html,
        &["quick", "est", "b"],
        &["p"],
    );
    check(
        &chars("icuNormalize", &none),
        "\u{fb01}ne STRA\u{df}E \u{2167}",
        &["fine", "strasse", "viii"],
        &["STRA\u{df}E"],
    );
    let mapping = doc! { "mappings": { "-": "", "ph": "f", "phi": "fi " } };
    check(
        &chars("mapping", &mapping),
        "555-1234 photo phile",
        &["5551234", "foto", "fi", "le"],
        &["555"],
    );
    check(
        &chars("persian", &none),
        "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}",
        &["\u{645}\u{6cc}", "\u{62e}\u{648}"],
        &[],
    );
}

#[test]
fn tokenizers_cut_where_they_say() {
    check(
        &tokenizer("regexSplit", &doc! { "pattern": "[-. ]+" }),
        "555-123.45 67",
        &["555", "123", "45", "67"],
        &["555-123"],
    );
    let group = doc! { "pattern": "(\\w+)@(\\w+)", "group": 2i32 };
    check(
        &tokenizer("regexCaptureGroup", &group),
        "me@here you@there",
        &["here", "there"],
        &["me", "me@here"],
    );
    check(
        &tokenizer("uaxUrlEmail", &DocBuf::new()),
        "write to lewinsky@example.com, or see https://www.example.com/a?b=1.",
        &[
            "write",
            "lewinsky@example.com",
            "https://www.example.com/a?b=1",
            "or",
        ],
        &["example.com", "https"],
    );
    check(
        &tokenizer("standard", &doc! { "maxTokenLength": 4i32 }),
        "abcdefgh",
        &["abcd", "efgh"],
        &["abcdefgh"],
    );
    check(
        &tokenizer("edgeGram", &doc! { "minGram": 2i32, "maxGram": 4i32 }),
        "quick",
        &["qu", "qui", "quic"],
        &["quick", "ui"],
    );
}

#[test]
fn token_filters_change_tokens() {
    let none = DocBuf::new();
    for (kind, options, text, there, gone) in [
        (
            "asciiFolding",
            doc! { "originalTokens": "include" },
            "caf\u{e9} \u{f8}l",
            vec!["cafe", "caf\u{e9}", "ol"],
            vec![],
        ),
        (
            "asciiFolding",
            none.clone(),
            "caf\u{e9}",
            vec!["cafe"],
            vec!["caf\u{e9}"],
        ),
        (
            "icuFolding",
            none.clone(),
            "R\u{e9}SUM\u{c9}",
            vec!["resume"],
            vec!["RESUME"],
        ),
        (
            "icuNormalizer",
            doc! { "normalizationForm": "nfkc" },
            "\u{fb01}ne",
            vec!["fine"],
            vec![],
        ),
        (
            "daitchMokotoffSoundex",
            none.clone(),
            "Moskowitz",
            vec!["645740", "Moskowitz"],
            vec![],
        ),
        (
            "daitchMokotoffSoundex",
            doc! { "originalTokens": "omit" },
            "Peters",
            vec!["739400", "734000"],
            vec!["Peters"],
        ),
        (
            "edgeGram",
            doc! { "minGram": 3i32, "maxGram": 4i32, "termNotInBounds": "include" },
            "ab quick",
            vec!["ab", "qui", "quic", "quick"],
            vec!["quickly", "qu"],
        ),
        ("flattenGraph", none.clone(), "a b", vec!["a", "b"], vec![]),
        (
            "regex",
            doc! { "pattern": "[0-9]", "replacement": "#", "matches": "first" },
            "a12",
            vec!["a#2"],
            vec!["a##"],
        ),
        (
            "regex",
            doc! { "pattern": "([0-9])", "replacement": "<$1>", "matches": "all" },
            "a12",
            vec!["a<1><2>"],
            vec![],
        ),
        (
            "shingle",
            doc! { "minShingleSize": 2i32, "maxShingleSize": 3i32 },
            "quick brown fox jumps",
            vec![
                "quick",
                "quick brown",
                "quick brown fox",
                "brown fox jumps",
                "jumps",
            ],
            vec!["quick brown fox jumps"],
        ),
        (
            "stopword",
            doc! { "tokens": ["The"] },
            "the THE fox",
            vec!["fox"],
            vec!["the", "THE"],
        ),
        (
            "stopword",
            doc! { "tokens": ["The"], "ignoreCase": false },
            "the The",
            vec!["the"],
            vec!["The"],
        ),
        (
            "wordDelimiterGraph",
            none.clone(),
            "PowerShot-500's wi2fi",
            vec!["Power", "Shot", "500", "wi", "2", "fi"],
            vec!["PowerShot", "s"],
        ),
        (
            "wordDelimiterGraph",
            doc! { "delimiterOptions": { "generateWordParts": false, "concatenateWords": true,
            "preserveOriginal": true, "splitOnCaseChange": false } },
            "wi-fi PowerShot",
            vec!["wifi", "wi-fi", "PowerShot"],
            vec!["wi"],
        ),
        (
            "wordDelimiterGraph",
            doc! { "protectedWords": { "words": ["WI-FI"] } },
            "wi-fi",
            vec!["wi-fi"],
            vec!["wi"],
        ),
    ] {
        check(&filter(kind, &options), text, &there, &gone);
    }
    // A repeated token is protected from the stemmer once, and not counted twice.
    let repeat = doc! { "tokenizer": { "type": "whitespace" }, "tokenFilters": [
        { "type": "keywordRepeat" }, { "type": "porterStemming" }, { "type": "removeDuplicates" }
    ] };
    check(&repeat, "running fox", &["running", "run", "fox"], &[]);
}

#[test]
fn phrases_know_where_the_parts_of_a_word_are() {
    let words = filter("wordDelimiterGraph", &DocBuf::new());
    let named = DocBuf::build(|w| {
        w.put("name", "own");
        w.put_all(words.doc());
    });
    let definition = doc! { "analyzers": [&named], "mappings": { "fields": {
    "t": { "type": "string", "analyzer": "own" } } } };
    let docs = [doc! { "t": "a wi-fi router" }, doc! { "t": "a fi router" }];
    let index = index_of("search", &definition, &docs);
    let phrase = |query: &str| doc! { "phrase": { "path": "t", "query": query } };
    assert_eq!(search_positions(&index, &phrase("wi fi router")), [0]);
    assert_eq!(search_positions(&index, &phrase("fi router")), [0, 1]);
    assert_eq!(
        search_positions(&index, &phrase("wi router")),
        [] as [u8; 0]
    );
}

#[test]
fn pairs_of_neighbours_are_found_in_scripts_without_spaces() {
    let definition = doc! { "mappings": { "fields": {
    "t": { "type": "string", "analyzer": "lucene.cjk" } } } };
    let docs = [
        doc! { "t": "\u{6771}\u{4eac}\u{90fd} hello" },
        doc! { "t": "\u{4eac}\u{6771}" },
    ];
    let index = index_of("search", &definition, &docs);
    let text = |query: &str| doc! { "text": { "path": "t", "query": query } };
    assert_eq!(search_positions(&index, &text("\u{6771}\u{4eac}")), [0]);
    assert_eq!(search_positions(&index, &text("\u{4eac}\u{90fd}")), [0]);
    assert_eq!(search_positions(&index, &text("hello")), [0]);
}

#[test]
fn options_of_fields_decide_what_is_kept() {
    let definition = doc! { "mappings": { "fields": {
        "short": { "type": "string", "ignoreAbove": 5i32 },
        "flat": { "type": "string", "norms": "omit" },
        "once": { "type": "string", "indexOptions": "docs" },
        "same": { "type": "string", "similarity": { "type": "boolean" } },
        "hidden": { "type": "string", "store": false },
        "whole": { "type": "number", "representation": "int64" },
        "doubles": { "type": "number", "indexIntegers": false },
        "ends": { "type": "autocomplete", "tokenization": "rightEdgeGram" }
    } } };
    let docs = [
        doc! { "short": "a fox", "flat": "fox", "once": "fox fox", "same": "fox", "hidden": "fox",
        "whole": 1.9, "doubles": 1i32, "ends": "quick" },
        doc! { "short": "a fox too", "flat": "fox and more words", "once": "fox dog",
        "same": "fox fox and more", "whole": 2i32, "doubles": 1.0 },
    ];
    let index = index_of("search", &definition, &docs);
    let text = |path: &str| doc! { "text": { "path": path, "query": "fox" } };
    assert_eq!(search_positions(&index, &text("short")), [0]);
    for (path, same) in [("flat", true), ("once", true), ("same", true)] {
        let scores = search(&index, text(path).doc()).expect("found");
        assert_eq!(scores.len(), 2);
        assert_eq!(scores[0].1 == scores[1].1, same, "{path}: {scores:?}");
    }
    assert_eq!(search(&index, text("same").doc()).expect("found")[0].1, 1.0);
    let equal = |path: &str, n: f64| doc! { "equals": { "path": path, "value": n } };
    assert_eq!(search_positions(&index, &equal("whole", 1.0)), [0]);
    assert_eq!(search_positions(&index, &equal("doubles", 1.0)), [1]);
    let ends = |query: &str| doc! { "autocomplete": { "path": "ends", "query": query } };
    assert_eq!(search_positions(&index, &ends("ick")), [0]);
    assert_eq!(search_positions(&index, &ends("qui")), [] as [u8; 0]);
    let phrase = doc! { "phrase": { "path": "once", "query": "fox dog" } };
    let e = search(&index, phrase.doc()).expect_err("refused");
    assert!(e.message().contains("without positions"), "{}", e.message());
    let shown = doc! { "text": { "path": "hidden", "query": "fox" },
    "highlight": { "path": "hidden" } };
    let e = search(&index, shown.doc()).expect_err("refused");
    assert!(e.message().contains("store: false"), "{}", e.message());
}

#[test]
fn bad_parts_are_refused() {
    for (analyzer, wanted) in [
        (doc! {}, "tokenizer\" is required"),
        (tokenizer("icu", &DocBuf::new()), "no tokenizer \"icu\""),
        (
            tokenizer("regexSplit", &doc! { "pattern": "(" }),
            "no usable pattern",
        ),
        (
            tokenizer("regexCaptureGroup", &doc! { "pattern": "a", "group": 1i32 }),
            "between 0 and 0",
        ),
        (
            tokenizer("standard", &doc! { "maxTokenLength": 0i32 }),
            "between 1",
        ),
        (
            tokenizer("nGram", &doc! { "minGram": 3i32, "maxGram": 2i32 }),
            "more than maxGram",
        ),
        (
            chars("shout", &DocBuf::new()),
            "no character filter \"shout\"",
        ),
        (chars("mapping", &DocBuf::new()), "mappings\" is required"),
        (
            chars("mapping", &doc! { "mappings": { "a": 1i32 } }),
            "must be a string",
        ),
        (
            chars("htmlStrip", &doc! { "ignoredTags": 1i32 }),
            "array of strings",
        ),
        (
            filter("kStemming", &DocBuf::new()),
            "\"kStemming\" is not supported",
        ),
        (
            filter("asciiFolding", &doc! { "originalTokens": "both" }),
            "include, omit",
        ),
        (
            filter(
                "shingle",
                &doc! { "minShingleSize": 1i32, "maxShingleSize": 2i32 },
            ),
            "between 2 and",
        ),
        (
            filter("regex", &doc! { "pattern": "a", "replacement": "b" }),
            "matches\" is required",
        ),
        (
            filter("icuNormalizer", &doc! { "normalizationForm": "nfx" }),
            "nfc, nfd, nfkc, nfkd",
        ),
        (
            filter(
                "wordDelimiterGraph",
                &doc! { "delimiterOptions": { "split": true } },
            ),
            "Unrecognized field \"split\"",
        ),
    ] {
        let spec = with_analyzer(&analyzer);
        let e = Definition::parse("search", spec.doc()).expect_err("refused");
        assert_eq!(e.code(), 8);
        assert!(
            e.message().contains(wanted),
            "{analyzer:?}: {}",
            e.message()
        );
    }
}
