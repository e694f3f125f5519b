//! Text indexes and `$text`, as clients see them: results and scores are compared with a check of
//! every document, and entries after many changes with those of a fresh build.

use crate::behaviour::{send, serve, store};
use commands::{Config, Connection, Dispatcher};
use model::{DocBuf, Namespace, doc};
use operators::text::{Language, Sensitivity, TextMatcher, TextSpec};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use storage::{CursorOpts, KeyRange, Table};

struct Client {
    service: Arc<Dispatcher>,
    conn: Connection,
}

impl Client {
    fn new() -> Client {
        let config = Config {
            replica_set: None,
            ..Config::default()
        };
        let service = serve(config, store());
        let conn = service.connect("127.0.0.1:1");
        Client { service, conn }
    }
    fn run(&mut self, command: DocBuf) -> DocBuf {
        send(&self.service, &mut self.conn, "db", command.doc())
    }
    fn ok(&mut self, command: DocBuf) -> DocBuf {
        let r = self.run(command);
        assert!(
            r.doc().field("ok").as_f64() == Some(1.0) && !r.doc().contains("writeErrors"),
            "{r:?}"
        );
        r
    }
    fn code(&mut self, command: DocBuf) -> i64 {
        let r = self.run(command);
        let errors = r
            .doc()
            .field("writeErrors")
            .as_array()
            .and_then(|a| a.get(0));
        let at = errors.and_then(|v| v.as_doc()).unwrap_or(r.doc());
        at.field("code").as_i64_exact().unwrap_or(0)
    }
    fn index(&mut self, key: DocBuf, options: DocBuf) {
        let spec = DocBuf::build(|w| {
            w.put("key", &key).put("name", "t").put_all(options.doc());
        });
        self.ok(doc! { "createIndexes": "c", "indexes": [&spec] });
    }
    fn docs(&mut self, command: DocBuf) -> Vec<DocBuf> {
        let mut r = self.ok(command);
        let mut all = Vec::new();
        let mut name = "firstBatch";
        loop {
            let cursor = r.doc().field("cursor").as_doc().expect("a cursor").to_buf();
            let batch = cursor.doc().field(name).as_array().expect("a batch");
            all.extend(batch.iter().filter_map(|v| v.as_doc().map(|d| d.to_buf())));
            let id = cursor.doc().field("id").as_i64_exact().unwrap_or(0);
            if id == 0 {
                return all;
            }
            (r, name) = (
                self.ok(doc! { "getMore": id, "collection": "c", "batchSize": 3i32 }),
                "nextBatch",
            );
        }
    }
    fn ids(&mut self, filter: DocBuf) -> Vec<i64> {
        let found = self.docs(doc! { "find": "c", "filter": &filter });
        let mut ids: Vec<i64> = found
            .iter()
            .filter_map(|d| d.doc().field("_id").as_i64_exact())
            .collect();
        ids.sort_unstable();
        ids
    }
    fn search(&mut self, words: &str) -> Vec<i64> {
        self.ids(doc! { "$text": { "$search": words } })
    }
    /// The entries of the text index, without its identifier.
    fn entries(&self) -> Vec<Vec<u8>> {
        let coll = self
            .service
            .service()
            .store
            .collection(&Namespace::new("db", "c").unwrap())
            .unwrap()
            .unwrap();
        let ident = coll
            .indexes()
            .iter()
            .find(|i| i.name() == "t")
            .expect("the index")
            .ident();
        let (lower, upper) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
        let engine = self.service.service().store.engine();
        let mut cursor = engine
            .cursor(
                Table::Idx,
                KeyRange {
                    lower: &lower,
                    upper: &upper,
                },
                CursorOpts::default(),
            )
            .unwrap();
        let mut all = Vec::new();
        while cursor
            .visit(1000, &mut |key, _| {
                all.push(key[4..].to_vec());
                true
            })
            .unwrap()
        {}
        all
    }
}

#[test]
fn specifications_are_completed_and_guarded() {
    let mut c = Client::new();
    c.index(
        doc! { "tag": 1i32, "b": "text", "a": "text" },
        doc! { "weights": { "a": 5i32 } },
    );
    let listed = c.docs(doc! { "listIndexes": "c" });
    let wanted = doc! {
        "v": 2i32, "key": { "tag": 1i32, "_fts": "text", "_ftsx": 1i32 }, "name": "t",
            "weights": { "a": 5i32, "b": 1i32 },
        "default_language": "english", "language_override": "language", "textIndexVersion": 3i32
    };
    assert_eq!(listed[1], wanted);
    let again = |spec: DocBuf| doc! { "createIndexes": "c", "indexes": [&spec] };
    assert_eq!(c.code(again(wanted)), 0, "the same index");
    assert_eq!(
        c.code(again(
            doc! { "key": { "tag": 1i32, "x": "text" }, "name": "t" }
        )),
        85,
        "other weights"
    );
    assert_eq!(
        c.code(again(doc! { "key": { "x": "text" }, "name": "u" })),
        67,
        "only one"
    );
    assert_eq!(
        c.code(doc! { "insert": "c", "documents": [{ "_id": 1i32, "tag": [1i32], "a": "x" }] }),
        201
    );
    assert_eq!(
        c.code(
            doc! { "insert": "c", "documents": [{ "_id": 1i32, "a": "x", "language": "klingon" }] }
        ),
        17262
    );
}

#[test]
fn fields_before_the_text_must_be_fixed() {
    let mut c = Client::new();
    c.index(doc! { "tag": -1i32, "a": "text", "n": 1i32 }, doc! {});
    c.ok(doc! { "insert": "c", "documents": [
        { "_id": 1i32, "tag": "x", "a": "coffee and cake", "n": 1i32 }, { "_id": 2i32, "tag": "y",
            "a": "coffee", "n": 2i32 },
        { "_id": 3i32, "a": "coffee" }, { "_id": 4i32, "tag": "x", "a": "coffee", "n": 9i32 }
    ] });
    assert_eq!(
        c.ids(doc! { "tag": "x", "$text": { "$search": "coffee" } }),
        [1, 4]
    );
    assert_eq!(
        c.ids(doc! { "tag": "x", "n": { "$lt": 5i32 }, "$text": { "$search": "coffee tea" } }),
        [1]
    );
    assert_eq!(
        c.ids(doc! { "tag": model::Value::Null, "$text": { "$search": "coffee" } }),
        [3]
    );
    let find = |filter: DocBuf| doc! { "find": "c", "filter": &filter };
    assert_eq!(c.code(find(doc! { "$text": { "$search": "coffee" } })), 291);
    assert_eq!(
        c.code(find(
            doc! { "tag": { "$gt": "a" }, "$text": { "$search": "coffee" } }
        )),
        291
    );
}

#[test]
fn disjunctions_need_an_index_for_every_branch() {
    let mut c = Client::new();
    c.index(doc! { "a": "text" }, doc! {});
    c.ok(
        doc! { "insert": "c", "documents": [{ "_id": 1i32, "a": "coffee" }, { "_id": 2i32,
        "n": 5i32 }, { "_id": 3i32, "a": "tea", "n": 5i32 }, { "_id": 4i32 }] },
    );
    let filter = || doc! { "$or": [{ "$text": { "$search": "coffee tea" } }, { "n": 5i32 }] };
    assert_eq!(c.code(doc! { "find": "c", "filter": &filter() }), 291);
    c.ok(doc! { "createIndexes": "c", "indexes": [{ "key": { "n": 1i32 }, "name": "n" }] });
    assert_eq!(c.ids(filter()), [1, 2, 3]);
    let scored = c.docs(doc! { "find": "c", "filter": &filter(),
    "projection": { "s": { "$meta": "textScore" } }, "sort": { "_id": 1i32 } });
    let score = |i: usize| scored[i].doc().field("s").as_f64();
    assert_eq!(
        (score(0), score(1), score(2)),
        (Some(1.0), None, Some(1.1)),
        "coffee is not its own stem"
    );
}

#[test]
fn only_where_it_can_be_answered() {
    let mut c = Client::new();
    c.index(doc! { "a": "text" }, doc! {});
    c.ok(doc! { "insert": "c", "documents": [{ "_id": 1i32, "a": "coffee" }] });
    let text = || doc! { "$text": { "$search": "coffee" } };
    for (command, code) in [
        (doc! { "find": "c", "filter": &text(), "hint": "_id_" }, 2),
        (
            doc! { "find": "c", "filter": &text(), "sort": { "$natural": 1i32 } },
            2,
        ),
        (
            doc! { "find": "c", "filter": &text(), "sort": { "s": { "$meta": "textScore" } } },
            0,
        ),
        (
            doc! { "find": "c", "filter": {}, "sort": { "s": { "$meta": "textScore" } } },
            40218,
        ),
        (
            doc! { "find": "c", "filter": {}, "projection": { "s": { "$meta": "textScore" } } },
            40218,
        ),
        (
            doc! { "aggregate": "c", "pipeline": [{ "$facet": { "f": [{ "$match": &text() }] } }],
            "cursor": {} },
            17313,
        ),
        (
            doc! { "aggregate": "c", "pipeline": [{ "$limit": 1i32 }, { "$match": &text() }],
            "cursor": {} },
            17313,
        ),
        (doc! { "count": "c", "query": &text() }, 0),
        (doc! { "distinct": "c", "key": "a", "query": &text() }, 0),
        (
            doc! { "explain": { "find": "c", "filter": &text(),
            "sort": { "s": { "$meta": "textScore" } } }, "verbosity": "executionStats" },
            0,
        ),
        (
            doc! { "explain": { "aggregate": "c", "pipeline": [{ "$match": &text() },
            { "$project": { "s": { "$meta": "textScore" } } }], "cursor": {} } },
            0,
        ),
    ] {
        assert_eq!(c.code(command.clone()), code, "{command:?}");
    }
    c.ok(doc! { "create": "v", "viewOn": "c", "pipeline": [{ "$limit": 5i32 }] });
    c.ok(doc! { "create": "w", "viewOn": "c", "pipeline": [] });
    assert_eq!(c.code(doc! { "find": "v", "filter": &text() }), 17313);
    assert_eq!(c.docs(doc! { "find": "w", "filter": &text() }).len(), 1);
    c.ok(doc! { "collMod": "c", "index": { "name": "t", "hidden": true } });
    assert_eq!(c.code(doc! { "find": "c", "filter": &text() }), 291);
    c.ok(doc! { "collMod": "c", "index": { "name": "t", "hidden": false } });
    c.ok(doc! { "dropIndexes": "c", "index": "t" });
    assert_eq!(c.code(doc! { "find": "c", "filter": &text() }), 27);
}

#[test]
fn writes_find_by_words() {
    let mut c = Client::new();
    c.index(doc! { "a": "text" }, doc! {});
    c.ok(
        doc! { "insert": "c", "documents": [{ "_id": 1i32, "a": "red coffee", "l": [1i32, 2i32] },
        { "_id": 2i32, "a": "green tea" }, { "_id": 3i32, "a": "red tea" }] },
    );
    c.ok(
        doc! { "update": "c", "updates": [{ "q": { "$text": { "$search": "red" } },
        "u": { "$set": { "hit": 1i32 } }, "multi": true }] },
    );
    assert_eq!(c.ids(doc! { "hit": 1i32 }), [1, 3]);
    c.ok(
        doc! { "update": "c", "updates": [{ "q": { "$text": { "$search": "coffee" }, "l": 2i32 },
        "u": { "$set": { "l.$": 7i32, "a": "cocoa" } } }] },
    );
    assert_eq!(
        (
            c.search("coffee"),
            c.search("cocoa"),
            c.ids(doc! { "l": 7i32 })
        ),
        (vec![], vec![1], vec![1])
    );
    let r = c.ok(
        doc! { "findAndModify": "c", "query": { "$text": { "$search": "tea -green" } },
        "remove": true },
    );
    assert_eq!(
        r.doc()
            .field("value")
            .as_doc()
            .unwrap()
            .field("_id")
            .as_i64_exact(),
        Some(3)
    );
    c.ok(
        doc! { "delete": "c", "deletes": [{ "q": { "$text": { "$search": "\"green tea\"" } },
        "limit": 0i32 }] },
    );
    assert_eq!(c.ids(doc! {}), [1]);
}

#[test]
fn explain_shows_the_search() {
    let mut c = Client::new();
    c.index(doc! { "tag": 1i32, "a": "text" }, doc! {});
    c.ok(doc! { "insert": "c", "documents": [{ "_id": 1i32, "tag": 1i32, "a": "coffee shops" }] });
    let mut plan = |words: &str| {
        let find = doc! { "find": "c", "filter": { "tag": 1i32, "$text": { "$search": words } } };
        let r = c.ok(doc! { "explain": &find, "verbosity": "queryPlanner" });
        let planner = r.doc().field("queryPlanner").as_doc().unwrap();
        planner.field("winningPlan").as_doc().unwrap().to_buf()
    };
    let one = plan("coffees -\"tea time\"");
    assert_eq!(one.doc().field("stage").as_str(), Some("TEXT_MATCH"));
    assert_eq!(
        one.doc().field("indexPrefix").as_doc().unwrap().to_buf(),
        doc! { "tag": 1i32 }
    );
    let parsed = doc! { "terms": ["coffe"], "negatedTerms": [], "phrases": [],
    "negatedPhrases": ["tea time"] };
    let several = plan("coffee shops");
    let below = several.doc().field("inputStage").as_doc().unwrap();
    assert_eq!(
        (
            below.field("stage").as_str(),
            below.field("inputStages").as_array().unwrap().len()
        ),
        (Some("TEXT_OR"), 2)
    );
    let got = one
        .doc()
        .field("parsedTextQuery")
        .as_doc()
        .unwrap()
        .to_buf();
    assert_eq!(got, parsed);
}

const WORDS: &[&str] = &[
    "coffee",
    "Coffees",
    "tea",
    "thé",
    "the",
    "running",
    "ran",
    "cake-shop",
    "Émile",
    "l'eau",
    "日本",
    "a_b",
];

fn sentence(rng: &mut StdRng) -> String {
    let n = rng.random_range(0..7);
    let mut s = (0..n)
        .map(|_| WORDS[rng.random_range(0..WORDS.len())])
        .collect::<Vec<_>>()
        .join(" ");
    if rng.random_ratio(1, 20) {
        s.push_str(&"long".repeat(30));
        s.push(char::from(b'a' + rng.random_range(0..3u8)));
    }
    s
}

fn document(rng: &mut StdRng, id: i32) -> DocBuf {
    DocBuf::build(|w| {
        w.put("_id", id);
        if rng.random_ratio(4, 5) {
            w.put("a", sentence(rng).as_str());
        }
        if rng.random_ratio(1, 2) {
            let mut list = w.array("b");
            for _ in 0..rng.random_range(0..3) {
                let mut inner = list.doc();
                inner.put("c", sentence(rng).as_str());
                if rng.random_ratio(1, 4) {
                    inner.put("language", "french");
                }
            }
        }
        if rng.random_ratio(1, 4) {
            w.put(
                "language",
                if rng.random_ratio(1, 2) { "none" } else { "en" },
            );
        }
        w.put("n", rng.random_range(0..4i32));
    })
}

/// A random insert, replacement, change of fields with or without text, or delete.
fn change(c: &mut Client, rng: &mut StdRng) {
    let id = rng.random_range(0..40i32);
    let q = doc! { "_id": id };
    let update = |u: DocBuf| doc! { "update": "c", "updates": [{ "q": &q, "u": &u }] };
    match rng.random_range(0..6) {
        0 => c.ok(doc! { "delete": "c", "deletes": [{ "q": &q, "limit": 1i32 }] }),
        1 => c.ok(update(doc! { "$set": { "n": rng.random_range(0..4i32) } })),
        2 => c.ok(update(doc! { "$set": { "a": sentence(rng).as_str() } })),
        3 => c.ok(update(doc! { "$unset": { "language": 1i32 } })),
        _ => {
            let new = document(rng, id);
            c.ok(doc! { "update": "c", "updates": [{ "q": &q, "u": &new, "upsert": true }] })
        }
    };
}

#[test]
fn entries_after_changes_are_those_of_a_fresh_build() {
    let shapes = [
        (
            doc! { "a": "text", "b.c": "text" },
            doc! { "weights": { "a": 3i32 } },
        ),
        (doc! { "$**": "text" }, doc! { "default_language": "none" }),
        (
            doc! { "n": -1i32, "a": "text", "z": 1i32 },
            doc! { "partialFilterExpression": { "n": { "$gt": 1i32 } } },
        ),
    ];
    for (seed, (key, options)) in shapes.into_iter().enumerate() {
        let (mut c, mut rng) = (Client::new(), StdRng::seed_from_u64(seed as u64));
        c.index(key.clone(), options.clone());
        for round in 0..6 {
            for _ in 0..60 {
                change(&mut c, &mut rng);
            }
            let kept = c.entries();
            let valid = c.ok(doc! { "validate": "c" });
            assert_eq!(
                valid.doc().field("valid").as_bool(),
                Some(true),
                "{valid:?}"
            );
            c.ok(doc! { "dropIndexes": "c", "index": "t" });
            c.index(key.clone(), options.clone());
            assert!(
                !kept.is_empty() && kept == c.entries(),
                "seed {seed}, round {round}"
            );
        }
    }
}

#[test]
fn searches_find_and_score_what_each_document_says() {
    let (mut c, mut rng) = (Client::new(), StdRng::seed_from_u64(7));
    c.index(
        doc! { "a": "text", "b.c": "text" },
        doc! { "weights": { "b.c": 4i32 } },
    );
    for _ in 0..150 {
        change(&mut c, &mut rng);
    }
    let all = c.docs(doc! { "find": "c" });
    let spec = doc! { "weights": { "a": 1i32, "b.c": 4i32 } };
    let mut hits = 0;
    for _ in 0..120 {
        let mut search = sentence(&mut rng);
        if rng.random_ratio(1, 3) {
            search.push_str(" -");
            search.push_str(WORDS[rng.random_range(0..WORDS.len())]);
        }
        if rng.random_ratio(1, 4) {
            search = format!(
                "\"{} {}\" {search}",
                WORDS[rng.random_range(0..WORDS.len())],
                WORDS[rng.random_range(0..WORDS.len())]
            );
        }
        let how = Sensitivity {
            case: rng.random_ratio(1, 4),
            diacritics: rng.random_ratio(1, 4),
        };
        let language = rng.random_ratio(1, 3).then_some("none");
        let m = TextMatcher::new(
            TextSpec::of_index(spec.doc()),
            &search,
            language.and_then(Language::find),
            how,
        );
        let mut wanted: Vec<(i64, f64)> = Vec::new();
        for d in &all {
            if m.matches(d.doc()).unwrap() {
                wanted.push((
                    d.doc().field("_id").as_i64_exact().unwrap(),
                    m.score(d.doc()).unwrap(),
                ));
            }
        }
        wanted.sort_by_key(|w| w.0);
        let text = DocBuf::build(|w| {
            w.put("$search", search.as_str())
                .put("$caseSensitive", how.case)
                .put("$diacriticSensitive", how.diacritics);
            if let Some(l) = language {
                w.put("$language", l);
            }
        });
        let got = c.docs(doc! { "find": "c", "filter": { "$text": &text },
        "projection": { "s": { "$meta": "textScore" } }, "batchSize": 3i32 });
        let mut got: Vec<(i64, f64)> = got
            .iter()
            .map(|d| {
                (
                    d.doc().field("_id").as_i64_exact().unwrap(),
                    d.doc().field("s").as_f64().unwrap(),
                )
            })
            .collect();
        got.sort_by_key(|w| w.0);
        hits += got.len();
        assert_eq!(
            got.len(),
            wanted.len(),
            "{text:?}: {got:?} is not {wanted:?}"
        );
        for (g, w) in got.iter().zip(&wanted) {
            assert!(
                g.0 == w.0 && (g.1 - w.1).abs() < 1e-9,
                "{text:?}: {got:?} is not {wanted:?}"
            );
        }
        let sorted = c.docs(
            doc! { "aggregate": "c", "pipeline": [{ "$match": { "$text": &text } },
            { "$sort": { "s": { "$meta": "textScore" } } },
            { "$project": { "s": { "$meta": "textScore" } } }], "cursor": {} },
        );
        let scores: Vec<f64> = sorted
            .iter()
            .filter_map(|d: &DocBuf| d.doc().field("s").as_f64())
            .collect();
        assert!(
            scores.len() == wanted.len() && scores.windows(2).all(|w| w[0] >= w[1]),
            "{scores:?}"
        );
        let n = c.ok(doc! { "count": "c", "query": { "$text": &text } });
        assert_eq!(n.doc().field("n").as_i64_exact(), Some(wanted.len() as i64));
    }
    assert!(hits > 300, "{hits} is too few to say anything");
}
