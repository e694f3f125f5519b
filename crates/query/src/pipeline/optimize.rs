//! Rewrites that never change results: neighbouring `$limit`s and `$skip`s merge, `$sort` takes the `$limit` behind it, `$match` goes
//! before `$sort`.

use crate::stages::{Kind, Stage, limit::Limit, skip::Skip};
use std::sync::Arc;

/// Rewrites until nothing changes any more; every rewrite makes the list shorter.
pub(crate) fn optimize(stages: Vec<Arc<dyn Stage>>) -> Vec<Arc<dyn Stage>> {
    let mut out: Vec<Arc<dyn Stage>> = Vec::with_capacity(stages.len());
    for stage in stages {
        out.push(stage);
        hoist_match(&mut out);
        while let Some(merged) = merge_tail(&out) {
            out.pop();
            out.pop();
            out.push(merged);
        }
    }
    out
}

/// A filter behind a sort without limit selects the same documents in the same order before it, and fewer are sorted.
fn hoist_match(stages: &mut [Arc<dyn Stage>]) {
    if let [.., sort, filter] = stages
        && matches!((sort.kind(), filter.kind()), (Kind::Sort { limit: None, .. }, Kind::Match(_)))
    {
        std::mem::swap(sort, filter);
    }
}

/// One stage that does what the last two do.
fn merge_tail(stages: &[Arc<dyn Stage>]) -> Option<Arc<dyn Stage>> {
    let [.., first, second] = stages else { return None };
    match (first.kind(), second.kind()) {
        (Kind::Limit(a), Kind::Limit(b)) => Some(Arc::new(Limit(a.min(b)))),
        (Kind::Skip(a), Kind::Skip(b)) => Some(Arc::new(Skip(a.checked_add(b)?))),
        (Kind::Sort { .. }, Kind::Limit(n)) => first.with_limit(n),
        _ => None,
    }
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
        let p = Pipeline::parse_value(&mut ParseCx::new(&env), spec.doc().field("p"), &options).unwrap();
        p.stages().iter().map(|s| format!("{:?}", s.describe())).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn stages_merge_and_move() {
        for (spec, want) in [
            (doc! { "p": [{ "$limit": 5i32 }, { "$limit": 3i32 }] }, "{ $limit: 3 }"),
            (doc! { "p": [{ "$skip": 5i32 }, { "$skip": 3i32 }] }, "{ $skip: 8 }"),
            (doc! { "p": [{ "$sort": { "a": 1i32 } }, { "$limit": 3i32 }, { "$limit": 2i32 }] }, "{ $sort: { sortKey: { a: 1 }, limit: 2 } }"),
            (doc! { "p": [{ "$sort": { "a": 1i32 } }, { "$match": { "b": 1i32 } }] }, "{ $match: { b: 1 } } { $sort: { sortKey: { a: 1 } } }"),
            (
                doc! { "p": [{ "$sort": { "a": 1i32 } }, { "$limit": 3i32 }, { "$match": { "b": 1i32 } }] },
                "{ $sort: { sortKey: { a: 1 }, limit: 3 } } { $match: { b: 1 } }",
            ),
            (doc! { "p": [{ "$limit": 3i32 }, { "$skip": 1i32 }, { "$limit": 3i32 }] }, "{ $limit: 3 } { $skip: 1 } { $limit: 3 }"),
        ] {
            assert_eq!(shown(&spec), want, "{spec:?}");
        }
    }
}
