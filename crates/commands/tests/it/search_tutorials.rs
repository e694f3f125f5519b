//! The examples in the manual's tutorials of `$search`, with our own data and values computed by
//! hand.

use crate::search::Server;
use model::{Doc, DocBuf, Value, doc};

/// A day of January 2020 as a date.
fn day(n: i64) -> Value<'static> {
    Value::Date(1_577_836_800_000 + (n - 1) * 86_400_000)
}

/// Six films, an index with the field types of the tutorials, and synonyms.
fn films() -> Server {
    let mut s = Server::new();
    let point = |lng: f64, lat: f64| doc! { "type": "Point", "coordinates": [lng, lat] };
    s.insert(&[
        doc! { "_id": 1i32, "title": "The Silent Harbor", "plot": "A sailor returns to the harbor.",
        "genres": ["Drama", "Romance"], "year": 2001i32, "released": day(1), "rating": 8.0,
        "at": &point(0.0, 0.0), "lang": "Die H\u{e4}user am Hafen",
        "cast": [{ "name": "Ada Lind", "lead": true }, { "name": "Bo Sund", "lead": false }] },
        doc! { "_id": 2i32, "title": "Harbor Lights", "plot": "Lights in a storm. A harbor waits.",
        "genres": ["Drama"], "year": 2005i32, "released": day(11), "rating": 6.0,
        "at": &point(0.0, 1.0),
        "cast": [{ "name": "Ada Berg", "lead": false }, { "name": "Cy Lind", "lead": true }] },
        doc! { "_id": 3i32, "title": "Snow Patrol", "plot": "A car slides down an icy road.",
        "genres": ["Action", "Comedy"], "year": 2010i32, "released": day(21), "rating": 7.0,
        "at": &point(0.0, 3.0) },
        doc! { "_id": 4i32, "title": "The Last Automobile", "plot": "An automobile and its owner.",
        "genres": ["Comedy"], "year": 2010i32, "released": day(31), "rating": 5.0 },
        doc! { "_id": 5i32, "title": "Vehicle of Hope", "plot": "One vehicle, many hopes.",
        "genres": ["Drama", "Action"], "year": 1995i32, "rating": 9.0 },
        doc! { "_id": 6i32, "title": "Running North", "plot": "She runs. He ran. They run.",
        "genres": ["Sport"], "year": 1999i32, "rating": 7.5 },
    ]);
    let source = doc! { "insert": "words", "documents": [
        { "mappingType": "equivalent", "synonyms": ["car", "automobile", "vehicle"] },
        { "mappingType": "explicit", "input": ["port"], "synonyms": ["harbor"] }
    ] };
    s.ok(&source);
    let english = doc! { "type": "string", "analyzer": "lucene.english" };
    let title = doc! { "v": [
        { "type": "string", "multi": {
            "whole": { "type": "string", "analyzer": "lucene.keyword" },
            "stem": &english
        } },
        { "type": "autocomplete", "minGrams": 3i32, "maxGrams": 7i32 },
        { "type": "token" }
    ] };
    let fields = doc! {
        "title": title.doc().field("v"),
        "genres": [{ "type": "token" }, { "type": "string" }],
        "lang": { "type": "string", "analyzer": "lucene.german" },
        "at": { "type": "geo" },
        "cast": { "type": "embeddedDocuments", "dynamic": true }
    };
    let definition = doc! {
        "mappings": { "dynamic": true, "fields": &fields },
        "storedSource": { "include": ["title", "year"] },
        "synonyms": [{ "name": "vehicles", "analyzer": "lucene.standard",
        "source": { "collection": "words" } }]
    };
    s.create(doc! { "definition": &definition });
    s.wait_ready("default");
    s
}

impl Server {
    /// The `_id` values of the results of a search, best first.
    fn ids(&mut self, spec: &DocBuf) -> Vec<i64> {
        let found = self.aggregate("c", &[doc! { "$search": spec }]);
        let id = |d: &DocBuf| d.doc().field("_id").as_i64_exact().unwrap_or(-1);
        found.iter().map(id).collect()
    }

    /// The same, ordered by `_id`.
    fn set(&mut self, spec: &DocBuf) -> Vec<i64> {
        let mut ids = self.ids(spec);
        ids.sort_unstable();
        ids
    }

    /// The `_id` values and scores.
    fn scores(&mut self, spec: &DocBuf) -> Vec<(i64, f64)> {
        let score = doc! { "$project": { "s": { "$meta": "searchScore" } } };
        let found = self.aggregate("c", &[doc! { "$search": spec }, score]);
        let read = |d: &DocBuf| {
            let d = d.doc();
            let score = d.field("s").as_f64().unwrap_or(f64::NAN);
            (d.field("_id").as_i64_exact().unwrap_or(-1), score)
        };
        found.iter().map(read).collect()
    }
}

fn text(path: &str, query: &str) -> DocBuf {
    doc! { "text": { "path": path, "query": query } }
}

#[test]
fn words_phrases_and_patterns() {
    let mut s = films();
    for (spec, wanted) in [
        (text("title", "harbor"), vec![1, 2]),
        (
            doc! { "text": { "path": "title", "query": "harvor",
            "fuzzy": { "maxEdits": 1i32, "prefixLength": 3i32 } } },
            vec![1, 2],
        ),
        (
            doc! { "text": { "path": "title", "query": "silent lights", "matchCriteria": "any" } },
            vec![1, 2],
        ),
        (
            doc! { "text": { "path": ["title", "plot"], "query": "automobile" } },
            vec![4],
        ),
        (
            doc! { "text": { "path": { "wildcard": "*" }, "query": "storm" } },
            vec![2],
        ),
        (
            doc! { "phrase": { "path": "title", "query": "silent harbor" } },
            vec![1],
        ),
        (
            doc! { "phrase": { "path": "title", "query": "last of automobile" } },
            vec![],
        ),
        (
            doc! { "phrase": { "path": "plot", "query": "sailor harbor", "slop": 3i32 } },
            vec![1],
        ),
        (
            doc! { "phrase": { "path": "plot", "query": "sailor harbor", "slop": 2i32 } },
            vec![],
        ),
        (
            doc! { "wildcard": { "path": { "value": "title", "multi": "whole" },
            "query": "*Harbor*" } },
            vec![1, 2],
        ),
        (
            doc! { "regex": { "path": { "value": "title", "multi": "whole" },
            "query": "The (Silent|Last) .*" } },
            vec![1, 4],
        ),
        (
            doc! { "queryString": { "defaultPath": "title",
            "query": "harbor AND NOT lights OR plot:(icy AND road)" } },
            vec![1, 3],
        ),
        // The complete value, unchanged.
        (
            doc! { "text": { "path": { "value": "title", "multi": "whole" },
            "query": "Harbor Lights" } },
            vec![2],
        ),
        (
            doc! { "equals": { "path": "title", "value": "Harbor Lights" } },
            vec![2],
        ),
        (
            doc! { "equals": { "path": "title", "value": "harbor lights" } },
            vec![],
        ),
        // Languages and multiple analyzers.
        (text("lang", "haus"), vec![1]),
        (text("title", "run"), vec![]),
        (
            doc! { "text": { "path": { "value": "title", "multi": "stem" }, "query": "runs" } },
            vec![6],
        ),
        (
            doc! { "in": { "path": "year", "value": [2005i32, 1999i32] } },
            vec![2, 6],
        ),
        (doc! { "exists": { "path": "lang" } }, vec![1]),
    ] {
        assert_eq!(s.set(&spec), wanted, "{spec:?}");
    }
}

#[test]
fn beginnings_of_words() {
    let mut s = films();
    let auto = |query: &str, options: DocBuf| {
        let spec = DocBuf::build(|w| {
            w.put("path", "title").put("query", query);
            w.put_all(options.doc());
        });
        doc! { "autocomplete": &spec }
    };
    let none = DocBuf::new;
    assert_eq!(s.set(&auto("har", none())), [1, 2]);
    assert_eq!(
        s.set(&auto("ha", none())),
        [] as [i64; 0],
        "shorter than minGrams"
    );
    assert_eq!(
        s.set(&auto("arb", none())),
        [] as [i64; 0],
        "not the beginning"
    );
    // Longer than maxGrams: the first seven letters are used.
    assert_eq!(s.set(&auto("automobility", none())), [4]);
    assert_eq!(s.set(&auto("lig har", none())), [1, 2]);
    let in_order = || doc! { "tokenOrder": "sequential" };
    assert_eq!(s.set(&auto("har lig", in_order())), [2]);
    assert_eq!(s.set(&auto("lig har", in_order())), [] as [i64; 0]);
}

#[test]
fn clauses_of_a_compound() {
    let mut s = films();
    let compound = |clauses: DocBuf| doc! { "compound": &clauses };
    let drama = || text("genres", "drama");
    for (clauses, wanted) in [
        (
            doc! { "must": [&drama()], "mustNot": [&text("title", "harbor")] },
            vec![5],
        ),
        (
            doc! { "filter": [&drama()], "should": [&text("title", "harbor")] },
            vec![1, 2, 5],
        ),
        (
            doc! { "should": [&drama(), &text("genres", "action"), &text("genres", "romance")],
            "minimumShouldMatch": 2i32 },
            vec![1, 5],
        ),
        (
            doc! { "filter": [
                { "range": { "path": "year", "gte": 2000i32, "lt": 2010i32 } },
                { "compound": { "should": [&text("plot", "sailor"), &text("plot", "storm")] } }
            ] },
            vec![1, 2],
        ),
    ] {
        let spec = compound(clauses);
        assert_eq!(s.set(&spec), wanted, "{spec:?}");
    }
    // A filter adds nothing to the score, and constants are added: 5 has both, 1 and 2 only the
    // first.
    let constant = |path: &str, query: &str, value: i32| {
        doc! { "text": { "path": path, "query": query,
        "score": { "constant": { "value": value } } } }
    };
    let spec = compound(doc! {
        "filter": [&drama()],
        "should": [&constant("genres", "drama", 2), &constant("genres", "action", 3)]
    });
    assert_eq!(s.scores(&spec), [(5, 5.0), (1, 2.0), (2, 2.0)]);
}

#[test]
fn ranges_and_nearness() {
    let mut s = films();
    let range = doc! { "range": { "path": "released", "gt": day(1), "lte": day(21) } };
    assert_eq!(s.set(&range), [2, 3]);
    let range = doc! { "range": { "path": "rating", "gte": 7.5 } };
    assert_eq!(s.set(&range), [1, 5, 6]);
    // pivot / (pivot + distance), a pivot of ten days: 1, 10 / 20, 10 / 20, 10 / 30.
    let near = doc! { "near": { "path": "released", "origin": day(11), "pivot": 864_000_000i64 } };
    let found = s.scores(&near);
    assert_eq!(found[0], (2, 1.0));
    assert_eq!(found[1], (1, 0.5));
    assert_eq!(found[2], (3, 0.5));
    assert!((found[3].1 - 1.0 / 3.0).abs() < 1e-6, "{found:?}");
    let near = doc! { "near": { "path": "rating", "origin": 7i32, "pivot": 1i32 } };
    assert_eq!(s.ids(&near)[..2], [3, 6]);
    // Geometry: a degree of latitude is 111,318.8 m.
    let origin = || doc! { "type": "Point", "coordinates": [0i32, 0i32] };
    let circle = doc! { "geoWithin": { "path": "at",
    "circle": { "center": &origin(), "radius": 120_000i32 } } };
    assert_eq!(s.set(&circle), [1, 2]);
    let near = doc! { "near": { "path": "at", "origin": &origin(), "pivot": 111_318.845_021_45 } };
    let found = s.scores(&near);
    let wanted = [(1, 1.0), (2, 0.5), (3, 0.25)];
    for ((id, score), (wanted, value)) in found.iter().zip(wanted) {
        assert_eq!(*id, wanted);
        assert!((score - value).abs() < 1e-6, "{found:?}");
    }
}

#[test]
fn buckets_of_facets() {
    let mut s = films();
    let boundaries = doc! { "v": [day(1), day(15), day(40)] };
    let facets = doc! {
        "genres": { "type": "string", "path": "genres", "numBuckets": 2i32 },
        "years": { "type": "number", "path": "year", "boundaries": [1990i32, 2000i32, 2010i32],
        "default": "other" },
        "dates": { "type": "date", "path": "released", "boundaries": boundaries.doc().field("v") }
    };
    let operator = doc! { "range": { "path": "rating", "gte": 5.5 } };
    let spec = doc! { "facet": { "operator": &operator, "facets": &facets },
    "count": { "type": "total" } };
    let meta = s.aggregate("c", &[doc! { "$searchMeta": &spec }]);
    // All films but 4. Dramas are 1, 2, 5; action 3, 5; years 5, 6 / 1, 2 / 3.
    let wanted = doc! {
        "count": { "total": 5i64 },
        "facet": {
            "genres": { "buckets": [
                { "_id": "Drama", "count": 3i64 }, { "_id": "Action", "count": 2i64 }
            ] },
            "years": { "buckets": [
                { "_id": 1990i32, "count": 2i64 }, { "_id": 2000i32, "count": 2i64 },
                { "_id": "other", "count": 1i64 }
            ] },
            "dates": { "buckets": [
                { "_id": day(1), "count": 2i64 }, { "_id": day(15), "count": 1i64 }
            ] }
        }
    };
    assert_eq!(meta, [wanted]);
    // The same metadata with the documents, from the variable.
    let replace = doc! { "$replaceWith": { "n": "$$SEARCH_META.count.total" } };
    let found = s.aggregate(
        "c",
        &[doc! { "$search": &spec }, doc! { "$limit": 1i32 }, replace],
    );
    assert_eq!(found, [doc! { "n": 5i64 }]);
    let lower = doc! { "exists": { "path": "title" },
    "count": { "type": "lowerBound", "threshold": 3i32 } };
    let meta = s.aggregate("c", &[doc! { "$searchMeta": &lower }]);
    assert_eq!(meta, [doc! { "count": { "lowerBound": 4i64 } }]);
}

#[test]
fn sentences_are_shown() {
    let mut s = films();
    let spec = DocBuf::build(|w| {
        w.put_all(text("plot", "harbor").doc());
        w.put("highlight", &doc! { "path": "plot" });
    });
    let shown = doc! { "$project": { "_id": 1i32, "h": { "$meta": "searchHighlights" } } };
    let found = s.aggregate(
        "c",
        &[
            doc! { "$search": &spec },
            shown,
            doc! { "$sort": { "_id": 1i32 } },
        ],
    );
    let texts = |d: &DocBuf| {
        let list = d.doc().field("h").as_array().expect("highlights");
        let parts = list.iter().flat_map(|h| {
            let h = h.as_doc().unwrap_or(Doc::EMPTY).to_buf();
            let texts = h.doc().field("texts").as_array().expect("texts");
            let one = |v: Value<'_>| {
                let d = v.as_doc().unwrap_or(Doc::EMPTY);
                let part = |name| d.field(name).as_str().unwrap_or_default().to_owned();
                format!("{}:{}", part("type"), part("value"))
            };
            texts.iter().map(one).collect::<Vec<_>>()
        });
        parts.collect::<Vec<String>>()
    };
    assert_eq!(
        texts(&found[0]),
        ["text:A sailor returns to the ", "hit:harbor", "text:."]
    );
    // Only the sentence that contains the hit.
    assert_eq!(texts(&found[1]), ["text:A ", "hit:harbor", "text: waits."]);
}

#[test]
fn synonyms_stand_for_each_other() {
    let mut s = films();
    let with = |path: &str, query: &str| {
        doc! { "text": { "path": path, "query": query, "synonyms": "vehicles" } }
    };
    assert_eq!(s.set(&with("plot", "car")), [3, 4, 5]);
    assert_eq!(s.set(&with("plot", "vehicle")), [3, 4, 5]);
    // An explicit synonym replaces others, but not in the other direction.
    assert_eq!(s.set(&with("title", "port")), [1, 2]);
    s.insert(&[doc! { "_id": 7i32, "title": "Port of Call" }]);
    s.wait("film 7", |s| s.set(&text("title", "port")) == [7]);
    assert_eq!(s.set(&with("title", "harbor")), [1, 2]);
}

#[test]
fn elements_of_arrays() {
    let mut s = films();
    let both = doc! { "compound": { "must": [
        &text("cast.name", "lind"), &doc! { "equals": { "path": "cast.lead", "value": true } }
    ] } };
    let cast = |operator: &DocBuf| {
        doc! { "embeddedDocument": { "path": "cast", "operator": operator } }
    };
    assert_eq!(s.set(&cast(&both)), [1, 2]);
    let ada = doc! { "compound": { "must": [
        &text("cast.name", "ada"), &doc! { "equals": { "path": "cast.lead", "value": true } }
    ] } };
    assert_eq!(s.set(&cast(&ada)), [1], "Ada Berg does not lead");
    let set = doc! { "q": { "_id": 2i32 }, "u": { "$set": { "cast.0.lead": true } } };
    s.ok(&doc! { "update": "c", "updates": [&set] });
    s.wait("the change", |s| s.set(&cast(&ada)) == [1, 2]);
    s.ok(&doc! { "delete": "c", "deletes": [{ "q": { "_id": 1i32 }, "limit": 1i32 }] });
    assert_eq!(s.set(&cast(&ada)), [2]);
}

#[test]
fn likeness_and_order_and_pages() {
    let mut s = films();
    let like = doc! { "moreLikeThis": { "like": { "plot": "the harbor and a storm" } } };
    assert_eq!(s.ids(&like)[..2], [2, 1], "the storm is the rarer word");
    let all = |options: DocBuf| {
        DocBuf::build(|w| {
            w.put("exists", &doc! { "path": "title" });
            w.put_all(options.doc());
        })
    };
    let sort = || doc! { "year": -1i32, "title": 1i32 };
    assert_eq!(
        s.ids(&all(doc! { "sort": &sort() })),
        [3, 4, 2, 1, 6, 5],
        "of 2010 by title"
    );
    assert_eq!(
        s.ids(&all(
            doc! { "sort": { "released": { "order": 1i32, "noData": "highest" } } }
        ))[..4],
        [1, 2, 3, 4]
    );
    // Pages of two documents, forwards and backwards.
    let page = |s: &mut Server, options: DocBuf| {
        let token = doc! { "$project": { "token": { "$meta": "searchSequenceToken" } } };
        let stages = [
            doc! { "$search": &all(options) },
            doc! { "$limit": 2i32 },
            token,
        ];
        let found = s.aggregate("c", &stages);
        let read = |d: &DocBuf| {
            let d = d.doc();
            let token = d.field("token").as_str().unwrap_or_default().to_owned();
            (d.field("_id").as_i64_exact().unwrap_or(-1), token)
        };
        found.iter().map(read).collect::<Vec<(i64, String)>>()
    };
    let ids = |page: &[(i64, String)]| page.iter().map(|(id, _)| *id).collect::<Vec<_>>();
    let first = page(&mut s, doc! { "sort": &sort() });
    assert_eq!(ids(&first), [3, 4]);
    let second = page(
        &mut s,
        doc! { "sort": &sort(), "searchAfter": first[1].1.as_str() },
    );
    assert_eq!(ids(&second), [2, 1]);
    let back = page(
        &mut s,
        doc! { "sort": &sort(), "searchBefore": second[0].1.as_str() },
    );
    assert_eq!(ids(&back), [4, 3], "the nearest first");
    let stored = all(doc! { "returnStoredSource": true, "sort": &sort() });
    let found = s.aggregate("c", &[doc! { "$search": &stored }, doc! { "$limit": 1i32 }]);
    assert_eq!(
        found,
        [doc! { "_id": 3i32, "title": "Snow Patrol", "year": 2010i32 }]
    );
}
