//! Updates on small documents: `(document, update, result)`, and error codes of refused updates.

use super::*;
use crate::Env;
use crate::filter::Filter;
use model::{Bump, doc};

fn run(
    d: &DocBuf,
    update: &DocBuf,
    filters: Option<&DocBuf>,
    query: &DocBuf,
    inserting: bool,
) -> std::result::Result<String, i32> {
    let env = Env::new(1_000_000, 1);
    let arena = Bump::new();
    let mut pcx = ParseCx::new(&env);
    let filters = filters.map(|f| f.doc().field("f"));
    let update = Update::parse(&mut pcx, update.doc().field("u"), filters).map_err(|e| e.code())?;
    let query = Filter::parse(&mut pcx, query.doc()).map_err(|e| e.code())?;
    let (_, position) = query
        .matches_with_position(d.doc(), &arena, &env)
        .map_err(|e| e.code())?;
    let cx = UpdateCx {
        arena: &arena,
        env: &env,
        inserting,
        position,
    };
    match update.apply(d.doc(), &cx).map_err(|e| e.code())? {
        UpdateResult::Unchanged => Ok("unchanged".to_owned()),
        UpdateResult::Changed(d) => Ok(format!("{d:?}")),
    }
}

fn apply_update(d: &DocBuf, update: DocBuf) -> std::result::Result<String, i32> {
    run(d, &doc! { "u": &update }, None, &DocBuf::new(), false)
}

#[test]
fn fields_keep_their_order_and_new_ones_are_sorted() {
    let d = doc! { "_id": 1i32, "b": 1i32, "a": { "x": 1i32 } };
    for (update, wanted) in [
        (
            doc! { "$set": { "z": 1i32, "c": 2i32, "b": 5i32 } },
            "{ _id: 1, b: 5, a: { x: 1 }, c: 2, z: 1 }",
        ),
        (
            doc! { "$set": { "a.y": 2i32 }, "$unset": { "b": "" } },
            "{ _id: 1, a: { x: 1, y: 2 } }",
        ),
        (doc! { "$inc": { "b": 0i32 } }, "unchanged"),
        (
            doc! { "$set": { "b": 1i64 } },
            "{ _id: 1, b: 1, a: { x: 1 } }",
        ),
        (doc! { "$unset": { "b.c": "", "none.x": "" } }, "unchanged"),
        (
            doc! { "$rename": { "b": "a.n" } },
            "{ _id: 1, a: { x: 1, n: 1 } }",
        ),
        (
            doc! { "$max": { "b": 7i32 }, "$min": { "a.x": 0i32 } },
            "{ _id: 1, b: 7, a: { x: 0 } }",
        ),
        (doc! { "$setOnInsert": { "q": 1i32 } }, "unchanged"),
        (
            doc! { "$currentDate": { "t": true } },
            "{ _id: 1, b: 1, a: { x: 1 }, t: new Date(1000000) }",
        ),
        (doc! { "b": 2i32 }, "{ _id: 1, b: 2 }"),
    ] {
        assert_eq!(
            apply_update(&d, update.clone()).as_deref(),
            Ok(wanted),
            "{update:?}"
        );
    }
}

#[test]
fn arrays() {
    let d = doc! { "_id": 1i32, "l": [3i32, 1i32, 2i32] };
    for (update, wanted) in [
        (
            doc! { "$push": { "l": { "$each": [9i32], "$sort": 1i32, "$slice": -3i32 } } },
            "[ 2, 3, 9 ]",
        ),
        (
            doc! { "$push": { "l": { "$each": [9i32, 8i32], "$position": -1i32 } } },
            "[ 3, 1, 9, 8, 2 ]",
        ),
        (
            doc! { "$addToSet": { "l": { "$each": [1i32, 4i32, 4i32] } } },
            "[ 3, 1, 2, 4 ]",
        ),
        (doc! { "$pop": { "l": -1i32 } }, "[ 1, 2 ]"),
        (doc! { "$pull": { "l": { "$gte": 2i32 } } }, "[ 1 ]"),
        (doc! { "$pullAll": { "l": [1i32, 3i32] } }, "[ 2 ]"),
        (doc! { "$set": { "l.4": 7i32 } }, "[ 3, 1, 2, null, 7 ]"),
        (doc! { "$unset": { "l.0": 1i32 } }, "[ null, 1, 2 ]"),
        (doc! { "$inc": { "l.$[]": 1i32 } }, "[ 4, 2, 3 ]"),
        (
            doc! { "$bit": { "l.0": { "and": 1i32, "or": 8i32 } } },
            "[ 9, 1, 2 ]",
        ),
    ] {
        let wanted = format!("{{ _id: 1, l: {wanted} }}");
        assert_eq!(apply_update(&d, update.clone()), Ok(wanted), "{update:?}");
    }
}

#[test]
fn positions_and_array_filters() {
    let d = doc! { "_id": 1i32, "l": [{ "a": 1i32 }, { "a": 5i32 }] };
    let set = |path: &str| {
        let spec = DocBuf::build(|w| {
            w.put(path, 0i32);
        });
        doc! { "u": { "$set": &spec } }
    };
    let wanted = Ok("{ _id: 1, l: [ { a: 1 }, { a: 0 } ] }".to_owned());
    assert_eq!(
        run(
            &d,
            &set("l.$.a"),
            None,
            &doc! { "l.a": { "$gt": 2i32 } },
            false
        ),
        wanted
    );
    let filters = doc! { "f": [{ "e.a": { "$gt": 2i32 } }] };
    assert_eq!(
        run(&d, &set("l.$[e].a"), Some(&filters), &DocBuf::new(), false),
        wanted
    );
    assert_eq!(run(&d, &set("l.$.a"), None, &DocBuf::new(), false), Err(2));
    assert_eq!(
        run(&d, &set("l.$[x].a"), Some(&filters), &DocBuf::new(), false),
        Err(2)
    );
    assert_eq!(
        run(&d, &set("b"), Some(&filters), &DocBuf::new(), false),
        Err(9)
    );
}

#[test]
fn codes() {
    let d = doc! { "_id": 1i32, "n": 1i32, "s": "x", "l": [1i32], "max": i64::MAX };
    for (update, wanted) in [
        (doc! { "$nope": { "a": 1i32 } }, 9),
        (doc! { "$set": 5i32 }, 9),
        (doc! { "$set": { "_id": 2i32 } }, 66),
        (doc! { "$unset": { "_id": 1i32 } }, 66),
        (doc! { "_id": 2i32 }, 66),
        (doc! { "$set": { "n.a": 1i32 } }, 28),
        (doc! { "$set": { "l.a": 1i32 } }, 28),
        (doc! { "$set": { "l.9999999": 1i32 } }, 34),
        (doc! { "$set": { "a": 1i32, "a.b": 1i32 } }, 40),
        (doc! { "$set": { "a": 1i32 }, "$inc": { "a": 1i32 } }, 40),
        (doc! { "$set": { "$a": 1i32 } }, 52),
        (doc! { "a": 1i32, "$b": 1i32 }, 52),
        (doc! { "$set": { "a..b": 1i32 } }, 56),
        (doc! { "$inc": { "s": 1i32 } }, 14),
        (doc! { "$inc": { "n": "x" } }, 14),
        (doc! { "$inc": { "max": 1i32 } }, 2),
        (doc! { "$push": { "n": 1i32 } }, 2),
        (doc! { "$pop": { "n": 1i32 } }, 14),
        (doc! { "$pop": { "l": 2i32 } }, 9),
        (doc! { "$set": { "n.$[]": 1i32 } }, 2),
    ] {
        assert_eq!(apply_update(&d, update.clone()), Err(wanted), "{update:?}");
    }
}

#[test]
fn pipelines() {
    let d = doc! { "_id": 1i32, "a": 1i32 };
    let update = doc! { "u": [{ "$set": { "b": "$a" } }, { "$unset": "a" }] };
    assert_eq!(
        run(&d, &update, None, &DocBuf::new(), false).as_deref(),
        Ok("{ _id: 1, b: 1 }")
    );
    assert_eq!(
        run(
            &d,
            &doc! { "u": [{ "$match": {} }] },
            None,
            &DocBuf::new(),
            false
        ),
        Err(72)
    );
}

#[test]
fn the_scope_of_code_counts_as_nesting() {
    let mut deep = DocBuf::new();
    for _ in 0..170 {
        let inner = deep;
        deep = doc! { "a": &inner };
    }
    let code = Value::CodeWithScope("f", deep.as_bytes());
    let change = |path: &str| {
        let spec = DocBuf::build(|w| _ = w.put(path, code));
        apply_update(&doc! { "_id": 1i32 }, doc! { "$set": &spec }).map(|_| ())
    };
    assert_eq!(change("c"), Ok(()));
    assert_eq!(change(&["b"; 20].join(".")), Err(15));
}

#[test]
fn deep_results_are_refused() {
    let path = vec!["a"; 200].join(".");
    let spec = DocBuf::build(|w| {
        w.put(&path, 1i32);
    });
    assert_eq!(
        apply_update(&doc! { "_id": 1i32 }, doc! { "$set": &spec }),
        Err(15)
    );
    let endless = vec!["a"; 100_000].join(".");
    let spec = DocBuf::build(|w| {
        w.put(&endless, 1i32);
    });
    assert_eq!(
        apply_update(&doc! { "_id": 1i32 }, doc! { "$set": &spec }),
        Err(15)
    );
}
