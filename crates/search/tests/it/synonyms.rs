//! Synonyms: equivalent words, one-way synonyms, several words for one.

use crate::index_of;
use model::{DocBuf, doc};
use search::{Index, Search};
use std::sync::Arc;

fn cars() -> Arc<Index> {
    let definition = doc! { "mappings": { "dynamic": true }, "synonyms": [
    { "name": "vehicles", "analyzer": "lucene.standard", "source": { "collection": "s" } }] };
    let docs = [
        doc! { "t": "a car" },
        doc! { "t": "an automobile" },
        doc! { "t": "a motor car" },
        doc! { "t": "motor of a boat" },
        doc! { "t": "beer" },
    ];
    index_of("search", &definition, &docs)
}

fn run(index: &Index, text: &DocBuf) -> model::Result<Vec<u8>> {
    let spec = doc! { "text": text };
    let mut search = Search::parse("$search", spec.doc())?;
    for collection in search.synonym_collections(index) {
        assert_eq!(collection, "s");
        let docs = vec![
            doc! { "_id": 1i32, "mappingType": "equivalent",
            "synonyms": ["car", "automobile"] },
            doc! { "_id": 2i32, "mappingType": "explicit", "input": ["drink"],
            "synonyms": ["beer", "wine"] },
            doc! { "_id": 3i32, "mappingType": "explicit", "input": ["big bike"],
            "synonyms": ["motor car"] },
        ];
        search.give_synonyms(collection, docs);
    }
    let mut hits = search.run(index, &mut || Ok(()))?;
    let mut found = Vec::new();
    while let Some(hit) = hits.pop()? {
        found.push(hit.id[0]);
    }
    found.sort_unstable();
    Ok(found)
}

#[test]
fn words_are_found_by_what_stands_for_them() {
    let index = cars();
    let found = |query: &str| {
        let text = doc! { "query": query, "path": "t", "synonyms": "vehicles" };
        run(&index, &text).expect("hits")
    };
    assert_eq!(found("car"), [0, 1, 2]);
    assert_eq!(found("Automobile"), [0, 1, 2]);
    assert_eq!(found("drink"), [4]);
    assert_eq!(found("beer"), [4], "the other way it is no synonym");
    assert_eq!(found("big bike"), [2], "a phrase");
    assert_eq!(found("bike"), [0u8; 0]);
    let plain = doc! { "query": "car", "path": "t" };
    assert_eq!(run(&index, &plain).expect("hits"), [0, 2]);
    let all = doc! { "query": "motor automobile", "path": "t", "synonyms": "vehicles",
    "matchCriteria": "all" };
    assert_eq!(run(&index, &all).expect("hits"), [2]);
}

#[test]
fn wrong_synonyms_are_refused() {
    let index = cars();
    for (text, part) in [
        (
            doc! { "synonyms": "other" },
            "no synonyms \"other\", only [vehicles]",
        ),
        (doc! { "synonyms": 1i32 }, "a string, not int"),
        (
            doc! { "synonyms": "vehicles", "fuzzy": {} },
            "both fuzzy and synonyms",
        ),
    ] {
        let text = DocBuf::build(|w| {
            w.put("query", "car").put("path", "t").put_all(text.doc());
        });
        let e = run(&index, &text).expect_err("refused");
        assert!(e.message().contains(part), "{}", e.message());
    }
    let search = |docs: DocBuf| {
        let spec = doc! { "text": { "query": "car", "path": "t", "synonyms": "vehicles" } };
        let mut search = Search::parse("$search", spec.doc()).expect("a specification");
        search.give_synonyms("s".to_owned(), vec![docs]);
        search.run(&index, &mut || Ok(())).map(|_| ())
    };
    for (doc, part) in [
        (doc! { "_id": 1i32 }, "mappingType\" is required"),
        (doc! { "mappingType": "x" }, "equivalent, explicit"),
        (
            doc! { "mappingType": "equivalent" },
            "synonyms\" is required",
        ),
        (
            doc! { "mappingType": "explicit", "synonyms": ["a"] },
            "input\" is required",
        ),
    ] {
        let e = search(doc).expect_err("refused");
        assert!(e.message().contains(part), "{}", e.message());
    }
    for (synonyms, part) in [
        (doc! { "v": 1i32 }, "an array"),
        (doc! { "v": [{}] }, "synonyms[0].name\" is required"),
        (doc! { "v": [{ "name": "a" }] }, "analyzer\" is required"),
        (
            doc! { "v": [{ "name": "a", "analyzer": "x", "source": { "collection": "s" } }] },
            "no analyzer \"x\"",
        ),
        (
            doc! { "v": [{ "name": "a", "analyzer": "lucene.standard", "source": {} }] },
            "collection\" is required",
        ),
    ] {
        let definition = DocBuf::build(|w| {
            w.put("mappings", &doc! { "dynamic": true });
            w.put("synonyms", synonyms.doc().field("v"));
        });
        let parsed = search::Definition::parse("search", definition.doc());
        let Err(e) = parsed else {
            panic!("{part} is not refused");
        };
        assert!(e.message().contains(part), "{}", e.message());
    }
}
