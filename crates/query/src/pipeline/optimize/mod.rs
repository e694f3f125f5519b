//! Rewrites that never change results. Each is a rule with a name; rules are applied until none
//! fits any more. What a stage reads and changes is told by `facts`; rules are in `rules`.

mod facts;
mod rules;
mod split;

pub(crate) use facts::{groups_by_alone, needs};

use crate::stages::Stage;
use operators::expr::ParseCx;
use rules::RULES;
use std::sync::Arc;

/// More rewrites than any pipeline needs: a bound should rules ever chase one another.
const REWRITES_A_STAGE: usize = 64;

/// Rewrites until no rule fits.
pub(crate) fn optimize(
    mut stages: Vec<Arc<dyn Stage>>,
    cx: &mut ParseCx<'_>,
) -> Vec<Arc<dyn Stage>> {
    let mut left = stages.len() * REWRITES_A_STAGE;
    let mut at = 0;
    while at < stages.len() && left > 0 {
        if RULES.iter().any(|(_, rule)| rule(&mut stages, at, cx)) {
            // What moved may fit the stage before it.
            at = at.saturating_sub(1);
            left -= 1;
        } else {
            at += 1;
        }
    }
    stages
}

#[cfg(test)]
mod tests {
    use crate::pipeline::{ParseOptions, Pipeline};
    use model::{DocBuf, Namespace, doc};
    use operators::Env;
    use operators::expr::ParseCx;

    fn shown(spec: &DocBuf) -> String {
        let env = Env::new(0, 1);
        let options = ParseOptions::collection(Namespace::new("db", "c").unwrap());
        let p = Pipeline::parse_value(&mut ParseCx::new(&env), spec.doc().field("p"), &options)
            .unwrap();
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
                doc! { "p": [{ "$sort": { "a": 1i32 } }, { "$limit": 3i32 }, { "$match": { "b": 1i32 } }] },
                "{ $sort: { sortKey: { a: 1 }, limit: 3 } } { $match: { b: 1 } }",
            ),
            (
                doc! { "p": [{ "$limit": 3i32 }, { "$skip": 1i32 }, { "$limit": 3i32 }] },
                "{ $limit: 3 } { $skip: 1 }",
            ),
            (
                doc! { "p": [{ "$addFields": { "k": "$a" } }, { "$match": { "k": 1i32, "b": 2i32, "k.x": { "$gt": 1i32 } } }] },
                "{ $match: { $and: [ { a: 1 }, { b: 2 }, { a.x: { $gt: 1 } } ] } } { $addFields: { \
                    k: \"$a\" } }",
            ),
            (
                doc! { "p": [{ "$project": { "a": 1i32, "k": { "$add": ["$a", 1i32] } } }, { "$match": { "a": 1i32, "k": 2i32 } }] },
                "{ $match: { a: 1 } } { $project: { a: 1, k: { $add: [ \"$a\", 1 ] } } } { $match: \
                    { k: 2 } }",
            ),
            (
                doc! { "p": [{ "$group": { "_id": "$a", "n": { "$sum": 1i32 } } }, { "$match": { "_id": { "$gt": 1i32 }, "n": 2i32 } }] },
                "{ $match: { a: { $gt: 1 } } } { $group: { _id: \"$a\", n: { $sum: 1 } } } { \
                    $match: { n: 2 } }",
            ),
            (
                doc! { "p": [{ "$sort": { "a": 1i32 } }, { "$project": { "a": 1i32 } }, { "$skip": 2i32 }, { "$limit": 3i32 }] },
                "{ $sort: { sortKey: { a: 1 }, limit: 5 } } { $skip: 2 } { $project: { a: 1 } }",
            ),
            (
                doc! { "p": [{ "$sort": { "a": 1i32 } }, { "$count": "n" }] },
                "{ $count: \"n\" }",
            ),
        ] {
            assert_eq!(shown(&spec), want, "{spec:?}");
        }
    }
}
