//! Elements of arrays, each matched by itself.

use crate::{index_of, search, search_positions};
use model::{DocBuf, doc};
use search::Index;
use std::sync::Arc;

fn schools() -> Arc<Index> {
    let definition = doc! { "mappings": { "fields": {
        "name": { "type": "string" },
        "teachers": { "type": "embeddedDocuments", "dynamic": true, "fields": {
            "classes": { "type": "embeddedDocuments", "dynamic": true }
        } }
    } } };
    index_of(
        "search",
        &definition,
        &[
            doc! { "name": "north", "teachers": [
                { "first": "Jane", "last": "Smith", "years": 3i32, "classes": [
                    { "subject": "art", "grade": 9i32 }, { "subject": "math", "grade": 12i32 }
                ] },
                { "first": "Bob", "last": "Green", "years": 20i32 }
            ] },
            doc! { "name": "south", "teachers": [
                { "first": "Jane", "last": "Green", "years": 5i32, "classes": [
                    { "subject": "art", "grade": 12i32 }
                ] }
            ] },
            doc! { "name": "west", "teachers": [] },
        ],
    )
}

fn embed_operator(path: &str, operator: &DocBuf) -> DocBuf {
    doc! { "embeddedDocument": { "path": path, "operator": operator } }
}

fn text(path: &str, query: &str) -> DocBuf {
    doc! { "text": { "path": path, "query": query } }
}

fn require_both(a: &DocBuf, b: &DocBuf) -> DocBuf {
    doc! { "compound": { "must": [a, b] } }
}

#[test]
fn all_of_an_operator_is_found_in_one_element() {
    let index = schools();
    let (jane, green) = (
        text("teachers.first", "jane"),
        text("teachers.last", "green"),
    );
    let experienced = doc! { "range": { "path": "teachers.years", "gte": 10i32 } };
    let no_jane = doc! { "compound": { "mustNot": [&jane] } };
    let old_art = require_both(
        &text("teachers.classes.subject", "art"),
        &doc! { "range": { "path": "teachers.classes.grade", "gte": 10i32 } },
    );
    let nested = require_both(&jane, &embed_operator("teachers.classes", &old_art));
    for (spec, wanted) in [
        (embed_operator("teachers", &jane), vec![0, 1]),
        (
            embed_operator("teachers", &require_both(&jane, &green)),
            vec![1],
        ),
        (
            embed_operator("teachers", &require_both(&experienced, &green)),
            vec![0],
        ),
        (embed_operator("teachers", &no_jane), vec![0]),
        (embed_operator("teachers", &nested), vec![1]),
        (embed_operator("teachers.classes", &old_art), vec![1]),
        (
            embed_operator("teachers", &doc! { "exists": { "path": "teachers.years" } }),
            vec![0, 1],
        ),
        // Elements are separate from their documents.
        (jane.clone(), vec![]),
        (
            doc! { "compound": { "mustNot": [&embed_operator("teachers", &jane)] } },
            vec![2],
        ),
        (
            doc! { "compound": { "must": [&text("name", "north")],
            "mustNot": [&embed_operator("teachers", &green)] } },
            vec![],
        ),
    ] {
        assert_eq!(search_positions(&index, &spec), wanted, "{spec:?}");
    }
    assert_eq!(index.documents(), 3, "elements are no documents");
}

#[test]
fn scores_of_elements_become_one() {
    let index = schools();
    let constant = |value: i32, path: &str, query: &str| {
        doc! { "text": { "path": path, "query": query,
        "score": { "constant": { "value": value } } } }
    };
    // Jane Smith 1, Bob Green 3; Jane Green 1 + 3.
    let either = doc! { "compound": { "should": [
        &constant(1, "teachers.first", "jane"), &constant(3, "teachers.last", "green")
    ] } };
    let scores = |score: Option<DocBuf>| {
        let spec = DocBuf::build(|w| {
            let mut e = w.doc("embeddedDocument");
            e.put("path", "teachers").put("operator", &either);
            if let Some(score) = &score {
                e.put("score", score);
            }
        });
        let mut found = search(&index, spec.doc()).expect("found");
        found.sort_by_key(|(n, _)| *n);
        found.into_iter().map(|(_, s)| s).collect::<Vec<f32>>()
    };
    let by = |aggregate: &str| Some(doc! { "embedded": { "aggregate": aggregate } });
    assert_eq!(scores(None), [4.0, 4.0]);
    assert_eq!(scores(by("sum")), [4.0, 4.0]);
    assert_eq!(scores(by("maximum")), [3.0, 4.0]);
    assert_eq!(scores(by("minimum")), [1.0, 4.0]);
    assert_eq!(scores(by("mean")), [2.0, 4.0]);
    let outer = doc! { "embedded": { "aggregate": "mean",
    "outerScore": { "boost": { "value": 10i32 } } } };
    assert_eq!(scores(Some(outer)), [20.0, 40.0]);
    assert_eq!(
        scores(Some(doc! { "boost": { "value": 2i32 } })),
        [8.0, 8.0]
    );
    // A number in the element itself.
    let years = doc! { "text": { "path": "teachers.first", "query": "jane",
    "score": { "function": { "path": "teachers.years" } } } };
    let found = search(&index, embed_operator("teachers", &years).doc()).expect("found");
    assert_eq!(found, [(1, 5.0), (0, 3.0)]);
}

#[test]
fn a_changed_document_leaves_no_elements_behind() {
    let index = schools();
    let mut writer = index.writer().expect("a writer");
    let new = doc! { "name": "north", "teachers": [{ "first": "Ann" }, { "first": "Eve" }] };
    writer.put(&[0], new.doc()).expect("a document");
    writer.remove(&[1]);
    writer.commit(2).expect("a commit");
    let named = |name: &str| embed_operator("teachers", &text("teachers.first", name));
    assert_eq!(search_positions(&index, &named("jane")), [] as [u8; 0]);
    assert_eq!(search_positions(&index, &named("eve")), [0]);
    assert_eq!(index.documents(), 2);
    writer.finish().expect("merged");
    assert_eq!(search_positions(&index, &named("eve")), [0]);
}

#[test]
fn bad_arguments_of_embedded_documents_are_refused() {
    let index = schools();
    let jane = text("teachers.first", "jane");
    let other = text("name", "north");
    let like = doc! { "moreLikeThis": { "like": { "teachers": { "first": "jane" } } } };
    for (spec, part) in [
        (doc! { "operator": &jane }, "path\" is required"),
        (doc! { "path": "teachers" }, "operator\" is required"),
        (
            doc! { "path": "teachers", "operator": 1i32 },
            "must be an operator",
        ),
        (
            doc! { "path": "teachers", "operator": {} },
            "exactly one operator",
        ),
        (
            doc! { "path": "name", "operator": &jane },
            "not indexed as embeddedDocuments",
        ),
        (
            doc! { "path": "teachers", "operator": &other },
            "must begin with teachers",
        ),
        (
            doc! { "path": "teachers", "operator": &like },
            "cannot be used in embeddedDocument",
        ),
        (
            doc! { "path": "teachers", "operator": &jane,
            "score": { "embedded": { "aggregate": "product" } } },
            "sum, maximum, minimum, mean",
        ),
        (
            doc! { "path": "teachers", "operator": &jane,
            "score": { "embedded": {}, "boost": { "value": 1i32 } } },
            "Unrecognized field \"boost\"",
        ),
    ] {
        let whole = doc! { "embeddedDocument": &spec };
        let e = search(&index, whole.doc()).expect_err("refused");
        assert_eq!(e.code(), 8);
        assert!(e.message().contains(part), "{spec:?}: {}", e.message());
    }
}
