//! Log entries applied to a copy that was read while they were written, as mongorestore does with
//! `--oplogReplay`: the data may already be in a later state than an entry expects.

use crate::behaviour::{send, serve, store};
use commands::{Config, Connection, Dispatcher};
use model::{Doc, DocBuf, Value, doc};

fn apply(s: &Dispatcher, c: &mut Connection, entry: Doc<'_>, logged: bool) -> i64 {
    let entry = DocBuf::build(|w| {
        if logged {
            w.put(
                "ts",
                Value::Timestamp(model::Timestamp {
                    time: 1,
                    increment: 1,
                }),
            );
        }
        entry.elements().for_each(|e| _ = w.put_element(&e));
    });
    let command = doc! { "applyOps": [entry.doc()] };
    let reply = send(s, c, "admin", command.doc());
    reply.doc().field("code").as_i64_exact().unwrap_or(0)
}

#[test]
fn entries_of_a_log_pass_over_what_has_gone_since() {
    let s = serve(Config::default(), store());
    let mut c = s.connect("127.0.0.1:1");
    let make = doc! { "insert": "c", "documents": [{ "_id": 1i32, "a": 5i32, "b": 1i32 }] };
    send(&s, &mut c, "d", make.doc());
    let id = |n: i32| doc! { "_id": n };
    let (one, two) = (id(1), id(2));
    let whole = doc! { "op": "u", "ns": "d.c", "o": { "_id": 2i32, "x": 1i32 }, "o2": two.doc() };
    let diff = doc! { "op": "u", "ns": "d.c", "o": { "$v": 2i32, "diff": { "u": { "x": 1i32 } } },
    "o2": two.doc() };
    let elsewhere = doc! { "op": "i", "ns": "d.gone", "o": { "_id": 1i32 } };
    // `a` was a document when this entry was written.
    let into = doc! { "op": "u", "ns": "d.c", "o": { "$v": 2i32, "diff":
    { "u": { "b": 2i32 }, "sa": { "u": { "x": 1i32 } } } }, "o2": one.doc() };
    let there = doc! { "op": "c", "ns": "d.$cmd", "o": { "create": "c" } };
    for (entry, without_time) in [(&whole, 8), (&diff, 8), (&elsewhere, 26), (&into, 2)] {
        assert_eq!(apply(&s, &mut c, entry.doc(), false), without_time);
        assert_eq!(apply(&s, &mut c, entry.doc(), true), 0, "{:?}", entry.doc());
    }
    assert_eq!(apply(&s, &mut c, there.doc(), true), 0, "it is there");
    let found = send(&s, &mut c, "d", doc! { "find": "c" }.doc());
    let found = found.doc().field("cursor").as_doc().unwrap();
    let batch = found.field("firstBatch").as_array().unwrap();
    let all: Vec<Doc<'_>> = batch.iter().filter_map(|d| d.as_doc()).collect();
    let kept = doc! { "_id": 1i32, "a": 5i32, "b": 2i32 };
    assert_eq!(all, [kept.doc()], "only what fits was changed");
}
