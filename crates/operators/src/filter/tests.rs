//! Filters on small documents, and error codes of refused filters.

use super::*;
use crate::Env;
use model::{DocBuf, doc};

fn parse(spec: &DocBuf) -> Result<Filter> {
    let env = Env::new(0, 1);
    Filter::parse(&mut ParseCx::new(&env), spec.doc())
}

#[test]
fn matching() {
    let d = doc! { "_id": 1i32, "a": [1i32, 5i32], "o": [{ "x": 1i32, "y": 2i32 }, { "x": 3i32 }],
    "s": "text", "n": { } };
    for (spec, wanted) in [
        (doc! {}, true),
        (doc! { "a": 5i32 }, true),
        (doc! { "a": [1i32, 5i32] }, true),
        (doc! { "a": { "$gt": 4i32, "$lt": 2i32 } }, true),
        (
            doc! { "a": { "$elemMatch": { "$gt": 4i32, "$lt": 2i32 } } },
            false,
        ),
        (doc! { "a": { "$size": 2i32 } }, true),
        (doc! { "a": { "$all": [1i32, 5i32] } }, true),
        (doc! { "a": { "$all": [] } }, false),
        (doc! { "a": { "$ne": 5i32 } }, false),
        (doc! { "a": { "$nin": [7i32] } }, true),
        (doc! { "a.1": 5i32 }, true),
        (doc! { "o.x": 3i32 }, true),
        (doc! { "o.y": Value::Null }, true),
        (
            doc! { "o": { "$elemMatch": { "x": 3i32, "y": 2i32 } } },
            false,
        ),
        (
            doc! { "o": { "$all": [{ "$elemMatch": { "x": 1i32 } }, { "$elemMatch": {
            "x": 3i32 } }] } },
            true,
        ),
        (doc! { "s": { "$regex": "^T", "$options": "i" } }, true),
        (doc! { "s": { "$not": { "$regex": "^t" } } }, false),
        (doc! { "s": { "$in": ["a", "text"] } }, true),
        (doc! { "n": {} }, true),
        (doc! { "n.q": { "$exists": false } }, true),
        (doc! { "$or": [{ "s": 1i32 }, { "a": 1i32 }] }, true),
        (doc! { "$nor": [{ "s": 1i32 }, { "a": 1i32 }] }, false),
        (
            doc! { "$and": [{ "a": { "$type": "array" } }, { "a": { "$type": 16i32 } }] },
            true,
        ),
    ] {
        let (env, arena) = (Env::new(0, 1), Bump::new());
        let filter = parse(&spec).unwrap();
        assert_eq!(
            filter.matches(d.doc(), &arena, &env).unwrap(),
            wanted,
            "{spec:?}"
        );
        let mut reads = crate::RequiredFields::default();
        filter.root().reads(&mut reads);
        let names = reads.names().unwrap();
        let kept = DocBuf::build(|w| {
            for (name, v) in d.doc().iter().filter(|(name, _)| names.contains(*name)) {
                w.put(name, v);
            }
        });
        let on_kept = filter.matches(kept.doc(), &arena, &env).unwrap();
        assert_eq!(on_kept, wanted, "{spec:?} on what it reads");
    }
}

#[test]
fn positions() {
    let d = doc! { "a": [1i32, 5i32], "o": [{ "l": [7i32, 8i32] }, { "l": [9i32] }] };
    for (spec, wanted) in [
        (doc! { "a": { "$gt": 2i32 } }, Some(1)),
        (doc! { "o.l": 9i32 }, Some(1)),
        (doc! { "o.l": 8i32 }, Some(0)),
        (doc! { "a": { "$elemMatch": { "$eq": 5i32 } } }, Some(1)),
        (doc! { "a": { "$exists": true }, "o.0.l": 8i32 }, Some(1)),
        (doc! { "z": { "$exists": false } }, None),
        (doc! { "$or": [{ "a": 5i32 }] }, Some(1)),
        (doc! { "$or": [{ "a": 5i32 }, { "z": 1i32 }] }, None),
        (
            doc! { "$or": [{ "z": 1i32 }, { "a": 5i32 }], "o.l": 9i32 },
            Some(1),
        ),
    ] {
        let (env, arena) = (Env::new(0, 1), Bump::new());
        let filter = parse(&spec).unwrap();
        assert_eq!(
            filter.matches_with_position(d.doc(), &arena, &env).unwrap(),
            (true, wanted),
            "{spec:?}"
        );
    }
}

#[test]
fn codes() {
    for (spec, wanted) in [
        (doc! { "$nope": 1i32 }, 2),
        (doc! { "a": { "$nope": 1i32 } }, 2),
        (doc! { "a": { "$gt": 1i32, "b": 1i32 } }, 2),
        (doc! { "$or": [] }, 2),
        (doc! { "$or": 1i32 }, 2),
        (doc! { "a": { "$in": 1i32 } }, 2),
        (doc! { "a": { "$in": [{ "$gt": 1i32 }] } }, 2),
        (doc! { "a": { "$not": 1i32 } }, 2),
        (doc! { "a": { "$elemMatch": 1i32 } }, 2),
        (doc! { "a": { "$options": "i" } }, 2),
        (doc! { "a": { "$elemMatch": { "$expr": 1i32 } } }, 2),
        (doc! { "a": { "$type": [] } }, 9),
        (doc! { "$expr": { "$nope": 1i32 } }, 168),
        (
            doc! { "a": { "$near": [0i32, 0i32] }, "b": { "$near": [0i32, 0i32] } },
            2,
        ),
        (doc! { "$or": [{ "a": { "$near": [0i32, 0i32] } }] }, 2),
    ] {
        assert_eq!(
            parse(&spec).err().map(|e| e.code()),
            Some(wanted),
            "{spec:?}"
        );
    }
}

#[test]
fn nesting_ends() {
    let mut spec = doc! { "a": 1i32 };
    for _ in 0..150 {
        spec = doc! { "$and": [&spec] };
    }
    assert_eq!(parse(&spec).err().map(|e| e.code()), Some(2));
    let mut spec = doc! { "$gt": 1i32 };
    for _ in 0..150 {
        spec = doc! { "$not": &spec };
    }
    assert_eq!(parse(&doc! { "a": &spec }).err().map(|e| e.code()), Some(2));
}

#[test]
fn the_planner_sees_equality_on_id() {
    let spec = doc! { "x": 1i32, "_id": 7i32 };
    assert_eq!(
        parse(&spec)
            .unwrap()
            .id_equality()
            .and_then(|v| v.as_i64_exact()),
        Some(7)
    );
    assert!(
        parse(&doc! { "_id": { "$gt": 7i32 } })
            .unwrap()
            .id_equality()
            .is_none()
    );
}

/// With a case-insensitive collation, a list of constants in `$expr` uses the binary order, and
/// everything else the collation.
#[test]
fn a_list_in_an_expression_knows_no_collation() {
    let spec = doc! { "locale": "en", "strength": 1i32 };
    let mut env = Env::new(0, 1);
    env.collation = crate::collation::collator(spec.doc()).unwrap();
    let d = doc! { "x": "apple", "arr": ["Apple", "Banana"], "n": 1i32 };
    let listed = doc! { "$in": ["$x", ["Apple", "Banana"]] };
    let exact = doc! { "$in": ["$x", ["apple"]] };
    let equal = doc! { "$eq": ["$x", "APPLE"] };
    let other = doc! { "$lt": [{ "$add": ["$n", 1i32] }, 0i32] };
    for (e, wanted) in [
        (listed.clone(), false),
        (exact.clone(), true),
        (doc! { "$in": ["APPLE", "$arr"] }, true),
        (equal.clone(), true),
        (doc! { "$and": [equal.doc(), listed.doc()] }, false),
        (doc! { "$or": [equal.doc(), listed.doc()] }, true),
        (doc! { "$or": [exact.doc(), listed.doc()] }, true),
        (doc! { "$or": [listed.doc(), listed.doc()] }, false),
        // A condition that no filter on fields can express keeps the whole `$or` an expression.
        (doc! { "$or": [listed.doc(), other.doc()] }, true),
        (doc! { "$not": [{ "$not": [listed.doc()] }] }, true),
        (doc! { "$eq": [listed.doc(), true] }, true),
    ] {
        let spec = doc! { "$expr": e.doc() };
        let filter = Filter::parse(&mut ParseCx::new(&env), spec.doc()).unwrap();
        let arena = Bump::new();
        assert_eq!(
            filter.matches(d.doc(), &arena, &env).unwrap(),
            wanted,
            "{spec:?}"
        );
    }
}
