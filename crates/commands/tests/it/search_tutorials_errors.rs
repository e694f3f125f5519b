//! Every argument of every operator, option and stage of search is refused when it is invalid.

use crate::interrupts::json;
use crate::search::{Server, aggregate};
use model::{DocBuf, doc};

fn server() -> Server {
    let mut s = Server::new();
    s.insert(&[doc! { "_id": 1i32, "t": "a red fox", "n": 1i32, "v": [1i32, 0i32] }]);
    let fields = doc! { "a": { "type": "autocomplete" }, "at": { "type": "geo" },
    "e": { "type": "embeddedDocuments", "dynamic": true } };
    s.create(doc! { "definition": { "mappings": { "dynamic": true, "fields": &fields } } });
    let vectors = doc! { "fields": [
        { "type": "vector", "path": "v", "numDimensions": 2i32, "similarity": "cosine" },
        { "type": "filter", "path": "n" }
    ] };
    s.create(doc! { "name": "vectors", "type": "vectorSearch", "definition": &vectors });
    s.wait_ready("default");
    s.wait_ready("vectors");
    s
}

fn check_refused(s: &mut Server, stage: &DocBuf, code: i64, part: &str) {
    let reply = s.run(&aggregate("c", std::slice::from_ref(stage)));
    let message = reply.doc().field("errmsg").as_str().unwrap_or_default();
    let found = reply.doc().field("code").as_i64_exact().unwrap_or(0);
    assert_eq!(found, code, "{stage:?}: {message}");
    assert!(message.contains(part), "{stage:?}: {message}");
}

/// Specifications of `$search`, and a part of the expected message.
const SEARCH: &[(&str, &str)] = &[
    (r#"{}"#, "exactly one operator"),
    (r#"{"bogus": {}}"#, "neither a known operator nor an option"),
    (
        r#"{"exists": {"path": "t"}, "text": {"query": "a", "path": "t"}}"#,
        "exactly one operator",
    ),
    (r#"{"text": 1}"#, "\"text\" must be a document"),
    (r#"{"text": {"path": "t"}}"#, "text.query\" is required"),
    (
        r#"{"text": {"query": 1, "path": "t"}}"#,
        "text.query\" must be",
    ),
    (
        r#"{"text": {"query": "", "path": "t"}}"#,
        "text.query\" cannot be empty",
    ),
    (
        r#"{"text": {"query": [], "path": "t"}}"#,
        "text.query\" cannot be empty",
    ),
    (r#"{"text": {"query": "a"}}"#, "text.path\" is required"),
    (
        r#"{"text": {"query": "a", "path": 1}}"#,
        "text.path\" must be",
    ),
    (
        r#"{"text": {"query": "a", "path": ""}}"#,
        "text.path\" cannot be empty",
    ),
    (
        r#"{"text": {"query": "a", "path": {"value": "t", "multi": "x"}}}"#,
        "no multi analyzer \"x\"",
    ),
    (
        r#"{"text": {"query": "a", "path": {"wildcard": "*", "value": "t"}}}"#,
        "must have a value",
    ),
    (
        r#"{"text": {"query": "a", "path": "t", "fuzzy": 1}}"#,
        "text.fuzzy\" must be a document",
    ),
    (
        r#"{"text": {"query": "a", "path": "t", "fuzzy": {"maxEdits": 3}}}"#,
        "maxEdits\" must be between 1 and 2",
    ),
    (
        r#"{"text": {"query": "a", "path": "t", "fuzzy": {"prefixLength": -1}}}"#,
        "prefixLength\" must be between 0",
    ),
    (
        r#"{"text": {"query": "a", "path": "t", "fuzzy": {"maxExpansions": 1001}}}"#,
        "between 1 and 1000",
    ),
    (
        r#"{"text": {"query": "a", "path": "t", "matchCriteria": "some"}}"#,
        "must be one of any, all",
    ),
    (
        r#"{"text": {"query": "a", "path": "t", "synonyms": "none"}}"#,
        "none",
    ),
    (
        r#"{"text": {"query": "a", "path": "t", "synonyms": "s", "fuzzy": {}}}"#,
        "both fuzzy and synonyms",
    ),
    (
        r#"{"text": {"query": "a", "path": "t", "score": {}}}"#,
        "exactly one of boost, constant, function",
    ),
    (
        r#"{"text": {"query": "a", "path": "t", "score": {"boost": {"value": 0}}}}"#,
        "greater than zero",
    ),
    (
        r#"{"text": {"query": "a", "path": "t", "score": {"constant": {}}}}"#,
        "constant.value\" is required",
    ),
    (
        r#"{"text": {"query": "a", "path": "t", "score": {"function": {"square": 1}}}}"#,
        "Unrecognized field \"square\"",
    ),
    (
        r#"{"text": {"query": "a", "path": "t", "x": 1}}"#,
        "Unrecognized field \"x\"",
    ),
    (
        r#"{"phrase": {"query": "a", "path": "t", "slop": -1}}"#,
        "slop\" must be between 0",
    ),
    (r#"{"phrase": {"path": "t"}}"#, "phrase.query\" is required"),
    (
        r#"{"autocomplete": {"query": "a", "path": "a", "tokenOrder": "first"}}"#,
        "any, sequential",
    ),
    (
        r#"{"autocomplete": {"query": "a", "path": {"wildcard": "*"}}}"#,
        "must be a string or an array of strings",
    ),
    (
        r#"{"wildcard": {"query": "a*", "path": "t"}}"#,
        "allowAnalyzedField",
    ),
    (
        r#"{"regex": {"query": "(", "path": "t", "allowAnalyzedField": true}}"#,
        "no usable pattern",
    ),
    (
        r#"{"regex": {"query": "a", "path": "t", "allowAnalyzedField": 1}}"#,
        "must be a boolean",
    ),
    (r#"{"compound": {}}"#, "at least one of must"),
    (
        r#"{"compound": {"must": []}}"#,
        "compound.must\" cannot be empty",
    ),
    (
        r#"{"compound": {"filter": 1}}"#,
        "compound.filter\" must be operators",
    ),
    (
        r#"{"compound": {"should": [{"exists": {"path": "t"}}], "minimumShouldMatch": 2}}"#,
        "between 0 and 1",
    ),
    (
        r#"{"compound": {"must": {"exists": {}}}}"#,
        "compound.must.exists.path\" is required",
    ),
    (r#"{"equals": {"path": "n"}}"#, "equals.value\" is required"),
    (r#"{"equals": {"path": "n", "value": {}}}"#, "equals.value"),
    (
        r#"{"in": {"path": "n", "value": []}}"#,
        "in.value\" cannot be empty",
    ),
    (r#"{"in": {"path": "n"}}"#, "in.value\" is required"),
    (
        r#"{"exists": {"path": 1}}"#,
        "exists.path\" must be a string",
    ),
    (
        r#"{"range": {"path": "n"}}"#,
        "at least one of gt, gte, lt, lte",
    ),
    (
        r#"{"range": {"path": "n", "gt": 1, "gte": 1}}"#,
        "both gt and gte",
    ),
    (
        r#"{"range": {"path": "n", "gt": 1, "lt": "a"}}"#,
        "of one type",
    ),
    (r#"{"range": {"path": "n", "gt": true}}"#, "of one type"),
    (
        r#"{"near": {"path": "n", "pivot": 1}}"#,
        "near.origin\" is required",
    ),
    (
        r#"{"near": {"path": "n", "origin": 1}}"#,
        "near.pivot\" is required",
    ),
    (
        r#"{"near": {"path": "n", "origin": 1, "pivot": 0}}"#,
        "greater than zero",
    ),
    (
        r#"{"near": {"path": "n", "origin": "a", "pivot": 1}}"#,
        "a number, a date or a point",
    ),
    (r#"{"span": {}}"#, "exactly one of contains"),
    (
        r#"{"span": {"first": {"operator": {"term": {"path": "t", "query": "a"}},
            "endPositionLte": 0}}}"#,
        "endPositionLte\" must be between 1",
    ),
    (
        r#"{"span": {"near": {"clauses": []}}}"#,
        "clauses\" cannot be empty",
    ),
    (
        r#"{"span": {"or": {"clauses": [{"term": {"path": "t", "query": "a"}},
            {"term": {"path": "u", "query": "a"}}]}}}"#,
        "at one path",
    ),
    (
        r#"{"queryString": {"query": "a"}}"#,
        "defaultPath\" is required",
    ),
    (
        r#"{"queryString": {"defaultPath": "t", "query": "a AND"}}"#,
        "a AND",
    ),
    (r#"{"moreLikeThis": {}}"#, "like\" is required"),
    (
        r#"{"moreLikeThis": {"like": "a"}}"#,
        "a document or an array",
    ),
    (
        r#"{"facet": {"operator": {"exists": {"path": "t"}}}}"#,
        "facets\" is required",
    ),
    (r#"{"facet": {"facets": {}}}"#, "facets\" cannot be empty"),
    (
        r#"{"facet": {"facets": {"f": {"type": "words", "path": "t"}}}}"#,
        "string, number, date",
    ),
    (
        r#"{"facet": {"facets": {"f": {"type": "number", "path": "n", "boundaries": [1]}}}}"#,
        "values that rise",
    ),
    (
        r#"{"facet": {"facets": {"f": {"type": "string", "path": "t", "numBuckets": 1001}}}}"#,
        "between 1 and 1000",
    ),
    (
        r#"{"embeddedDocument": {"path": "t", "operator": {"exists": {"path": "t.x"}}}}"#,
        "not indexed as embeddedDocuments",
    ),
    (
        r#"{"geoWithin": {"path": "at", "circle": {"radius": 1}}}"#,
        "circle.center\" is required",
    ),
    (
        r#"{"geoWithin": {"path": "at", "box": {"bottomLeft": {"type": "Point",
            "coordinates": [0, 0]}}}}"#,
        "box.topRight\" is required",
    ),
    (
        r#"{"geoShape": {"path": "at", "relation": "within"}}"#,
        "geometry\" is required",
    ),
    (
        r#"{"exists": {"path": "t"}, "highlight": {}}"#,
        "highlight.path\" is required",
    ),
    (
        r#"{"exists": {"path": "t"}, "highlight": {"path": "t", "maxNumPassages": 0}}"#,
        "maxNumPassages\" must be between 1",
    ),
    (
        r#"{"exists": {"path": "t"}, "highlight": {"path": "t", "maxCharsToExamine": 0}}"#,
        "maxCharsToExamine\" must be between 1",
    ),
    (
        r#"{"exists": {"path": "t"}, "sort": {}}"#,
        "must name 1 to 32 fields",
    ),
    (
        r#"{"exists": {"path": "t"}, "sort": {"n": 2}}"#,
        "must be 1 or -1",
    ),
    (r#"{"exists": {"path": "t"}, "sort": {"a": 1}}"#, "sort.a"),
    (
        r#"{"exists": {"path": "t"}, "searchAfter": "x"}"#,
        "no searchSequenceToken",
    ),
    (
        r#"{"exists": {"path": "t"}, "searchAfter": "x", "searchBefore": "x"}"#,
        "cannot be used together",
    ),
    (
        r#"{"exists": {"path": "t"}, "count": {"type": "upperBound"}}"#,
        "lowerBound, total",
    ),
    (
        r#"{"exists": {"path": "t"}, "count": {"threshold": 0}}"#,
        "threshold\" must be between 1",
    ),
    (
        r#"{"exists": {"path": "t"}, "tracking": {"words": "a"}}"#,
        "Unrecognized field \"words\"",
    ),
    (
        r#"{"exists": {"path": "t"}, "returnStoredSource": true}"#,
        "no storedSource",
    ),
    (
        r#"{"exists": {"path": "t"}, "scoreDetails": 1}"#,
        "must be a boolean",
    ),
    (
        r#"{"exists": {"path": "t"}, "index": 1}"#,
        "index\" must be a string",
    ),
    (
        r#"{"exists": {"path": "t"}, "index": "vectors"}"#,
        "over vectorSearch index",
    ),
];

#[test]
fn every_argument_of_a_search_is_checked() {
    let mut s = server();
    for (spec, part) in SEARCH {
        let stage = doc! { "$search": &json(spec) };
        check_refused(&mut s, &stage, 8, part);
    }
}

#[test]
fn every_argument_of_a_vector_search_is_checked() {
    let mut s = server();
    let base = r#""index": "vectors", "path": "v", "queryVector": [1, 0]"#;
    for (rest, code, part) in [
        (r#""limit": 1"#, 8, "numCandidates\" is required"),
        (r#""exact": true"#, 8, "limit\" is required"),
        (r#""exact": true, "limit": 0"#, 7_912_700, "positive"),
        (r#""exact": true, "limit": "1""#, 8_575_100, "a number"),
        (r#""exact": true, "limit": 1.5"#, 8, "whole number"),
        (
            r#""exact": true, "limit": 1, "numCandidates": 5"#,
            8,
            "left out",
        ),
        (r#""exact": 1, "limit": 1"#, 8, "exact\" must be a boolean"),
        (r#""numCandidates": 1, "limit": 2"#, 8, "numCandidates"),
        (
            r#""numCandidates": 10001, "limit": 2"#,
            8,
            "between 1 and 10000",
        ),
        (
            r#""exact": true, "limit": 1, "filter": 1"#,
            10_065,
            "expected an object",
        ),
        (
            r#""exact": true, "limit": 1, "filter": {"t": 1}"#,
            8,
            "indexed as filter",
        ),
        (
            r#""exact": true, "limit": 1, "filter": {"n": {"$regex": "a"}}"#,
            8,
            "$regex with string is not allowed",
        ),
        (
            r#""exact": true, "limit": 1, "filter": {"$where": "1"}"#,
            8,
            "$where is not allowed",
        ),
        (
            r#""exact": true, "limit": 1, "filter": {"$or": []}"#,
            8,
            "at least one",
        ),
        (
            r#""exact": true, "limit": 1, "k": 1"#,
            8,
            "Unrecognized field \"k\"",
        ),
    ] {
        let spec = json(&format!("{{{base}, {rest}}}"));
        check_refused(&mut s, &doc! { "$vectorSearch": &spec }, code, part);
    }
    for (spec, part) in [
        (
            r#"{"path": "v", "queryVector": [1, 0], "exact": true, "limit": 1}"#,
            "index\" is required",
        ),
        (
            r#"{"index": "vectors", "queryVector": [1, 0], "exact": true, "limit": 1}"#,
            "path\" is required",
        ),
        (
            r#"{"index": "vectors", "path": "n", "queryVector": [1, 0], "exact": true,
                "limit": 1}"#,
            "n",
        ),
        (
            r#"{"index": "vectors", "path": "v", "exact": true, "limit": 1}"#,
            "queryVector\" is required",
        ),
        (
            r#"{"index": "vectors", "path": "v", "queryVector": ["a"], "exact": true,
                "limit": 1}"#,
            "an array of finite numbers",
        ),
        (
            r#"{"index": "vectors", "path": "v", "queryVector": [1], "exact": true,
                "limit": 1}"#,
            "2",
        ),
    ] {
        check_refused(&mut s, &doc! { "$vectorSearch": &json(spec) }, 8, part);
    }
}

#[test]
fn every_argument_of_a_definition_is_checked() {
    let mut s = server();
    for (definition, part) in [
        (r#"{}"#, "mappings\" is required"),
        (r#"{"mappings": 1}"#, "\"mappings\" must be a document"),
        (r#"{"mappings": {"dynamic": 1}}"#, "must be a boolean"),
        (r#"{"mappings": {"fields": 1}}"#, "must be a document"),
        (r#"{"mappings": {"fields": {"a": []}}}"#, "an empty array"),
        (
            r#"{"mappings": {"fields": {"a": {}}}}"#,
            "type\" is required",
        ),
        (
            r#"{"mappings": {"fields": {"a": {"type": "x"}}}}"#,
            "\"x\" are not supported",
        ),
        (
            r#"{"mappings": {"fields": {"a": {"type": "string", "analyzer": "x"}}}}"#,
            "no analyzer \"x\"",
        ),
        (
            r#"{"mappings": {"fields": {"a": {"type": "string", "ignoreAbove": 0}}}}"#,
            "between 1",
        ),
        (
            r#"{"mappings": {"fields": {"a": {"type": "string", "indexOptions": "all"}}}}"#,
            "docs, freqs, positions, offsets",
        ),
        (
            r#"{"mappings": {"fields": {"a": {"type": "string", "norms": "yes"}}}}"#,
            "include, omit",
        ),
        (
            r#"{"mappings": {"fields": {"a": {"type": "string", "similarity": {"type": "x"}}}}}"#,
            "bm25, boolean",
        ),
        (
            r#"{"mappings": {"fields": {"a": {"type": "token", "normalizer": "upper"}}}}"#,
            "none, lowercase",
        ),
        (
            r#"{"mappings": {"fields": {"a": {"type": "autocomplete", "minGrams": 0}}}}"#,
            "between 1 and 255",
        ),
        (
            r#"{"mappings": {"fields": {"a": {"type": "autocomplete", "minGrams": 20}}}}"#,
            "more than maxGrams",
        ),
        (
            r#"{"mappings": {"fields": {"a": {"type": "number", "representation": "int"}}}}"#,
            "int64, double",
        ),
        (
            r#"{"mappings": {"fields": {"a": {"type": "number", "indexIntegers": false,
                "indexDoubles": false}}}}"#,
            "cannot both be false",
        ),
        (
            r#"{"mappings": {"fields": {"a": {"type": "geo", "indexShapes": 1}}}}"#,
            "must be a boolean",
        ),
        (
            r#"{"mappings": {"fields": {"a": {"type": "embeddedDocuments"}}}}"#,
            "must be dynamic or name",
        ),
        (
            r#"{"mappings": {"dynamic": true}, "storedSource": 1}"#,
            "storedSource",
        ),
        (
            r#"{"mappings": {"dynamic": true}, "storedSource": {"include": 1}}"#,
            "array of strings",
        ),
        (
            r#"{"mappings": {"dynamic": true}, "synonyms": [{"name": "a"}]}"#,
            "analyzer\" is required",
        ),
        (
            r#"{"mappings": {"dynamic": true}, "analyzers": [{"name": "lucene.x",
                "tokenizer": {"type": "keyword"}}]}"#,
            "reserved name",
        ),
    ] {
        let index = doc! { "name": "new", "definition": &json(definition) };
        let reply = s.run(&doc! { "createSearchIndexes": "c", "indexes": [&index] });
        let message = reply.doc().field("errmsg").as_str().unwrap_or_default();
        let code = reply.doc().field("code").as_i64_exact();
        assert_eq!(code, Some(8), "{definition}: {message}");
        assert!(message.contains(part), "{definition}: {message}");
    }
    assert!(s.index("new").is_none());
}
