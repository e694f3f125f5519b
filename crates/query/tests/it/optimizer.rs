//! Pipelines after optimization.

use model::{DocBuf, Namespace, doc};
use operators::Env;
use operators::expr::ParseCx;
use query::pipeline::Pipeline;
use query::stages::collection_options;

fn describe_stages(spec: &DocBuf) -> String {
    let env = Env::new(0, 1);
    let options = collection_options(Namespace::new("db", "c").unwrap());
    let p =
        Pipeline::parse_value(&mut ParseCx::new(&env), spec.doc().field("p"), &options).unwrap();
    p.stages()
        .iter()
        .map(|s| format!("{:?}", s.describe()))
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn stages_merge_and_move() {
    for (spec, want) in [
        (
            doc! { "p": [{ "$limit": 5i32 }, { "$limit": 3i32 }] },
            "{ $limit: 3 }",
        ),
        (
            doc! { "p": [{ "$skip": 5i32 }, { "$skip": 3i32 }] },
            "{ $skip: 8 }",
        ),
        (
            doc! { "p": [{ "$sort": { "a": 1i32 } }, { "$limit": 3i32 }, { "$limit": 2i32 }] },
            "{ $sort: { sortKey: { a: 1 }, limit: 2 } }",
        ),
        (
            doc! { "p": [{ "$sort": { "a": 1i32 } }, { "$match": { "b": 1i32 } }] },
            "{ $match: { b: 1 } } { $sort: { sortKey: { a: 1 } } }",
        ),
        (
            doc! { "p": [{ "$sort": { "a": 1i32 } }, { "$limit": 3i32 }, { "$match": {
            "b": 1i32 } }] },
            "{ $sort: { sortKey: { a: 1 }, limit: 3 } } { $match: { b: 1 } }",
        ),
        (
            doc! { "p": [{ "$limit": 3i32 }, { "$skip": 1i32 }, { "$limit": 3i32 }] },
            "{ $limit: 3 } { $skip: 1 }",
        ),
        (
            doc! { "p": [{ "$addFields": { "k": "$a" } }, { "$match": { "k": 1i32, "b": 2i32,
            "k.x": { "$gt": 1i32 } } }] },
            "{ $match: { $and: [ { a: 1 }, { b: 2 }, { a.x: { $gt: 1 } } ] } } { $addFields: { \
                k: \"$a\" } }",
        ),
        (
            doc! { "p": [{ "$project": { "a": 1i32, "k": { "$add": ["$a", 1i32] } } }, {
            "$match": { "a": 1i32, "k": 2i32 } }] },
            "{ $match: { a: 1 } } { $project: { a: 1, k: { $add: [ \"$a\", 1 ] } } } { $match: \
                { k: 2 } }",
        ),
        (
            doc! { "p": [{ "$group": { "_id": "$a", "n": { "$sum": 1i32 } } }, { "$match": {
            "_id": { "$gt": 1i32 }, "n": 2i32 } }] },
            "{ $match: { a: { $gt: 1 } } } { $group: { _id: \"$a\", n: { $sum: 1 } } } { \
                $match: { n: 2 } }",
        ),
        (
            doc! { "p": [{ "$sort": { "a": 1i32 } }, { "$project": { "a": 1i32 } }, {
            "$skip": 2i32 }, { "$limit": 3i32 }] },
            "{ $sort: { sortKey: { a: 1 }, limit: 5 } } { $skip: 2 } { $project: { a: 1 } }",
        ),
        (
            doc! { "p": [{ "$sort": { "a": 1i32 } }, { "$count": "n" }] },
            "{ $count: \"n\" }",
        ),
    ] {
        assert_eq!(describe_stages(&spec), want, "{spec:?}");
    }
}
