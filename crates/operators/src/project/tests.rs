//! Projections on small documents.

use super::*;
use crate::Cx;
use crate::Env;
use model::{Bump, DocBuf, doc};

enum Form {
    Project,
    AddFields,
    Find,
}

fn run(how: Form, spec: DocBuf, d: &DocBuf) -> std::result::Result<String, i32> {
    let env = Env::new(0, 1);
    let arena = Bump::new();
    let mut pcx = ParseCx::new(&env);
    let spec = spec.doc();
    let p = match how {
        Form::Project => Projection::parse_project(&mut pcx, Value::Document(spec)),
        Form::AddFields => {
            Projection::parse_add_fields(&mut pcx, "$addFields", Value::Document(spec))
        }
        Form::Find => Projection::parse_find(&mut pcx, spec),
    }
    .map_err(|e| e.code())?;
    let out = p
        .apply(&Cx::new(&arena, Value::Missing, &env), d.doc())
        .map_err(|e| e.code())?;
    Ok(format!("{out:?}"))
}

#[test]
fn inclusion_exclusion_and_computing() {
    let d = doc! { "_id": 1i32, "a": { "b": 1i32, "c": 2i32 }, "l": [{ "x": 1i32, "y": 2i32 },
    5i32], "z": 3i32 };
    for (spec, wanted) in [
        (
            doc! { "z": 1i32, "a.b": 1i32 },
            "{ _id: 1, a: { b: 1 }, z: 3 }",
        ),
        (doc! { "_id": 0i32, "l.x": true }, "{ l: [ { x: 1 } ] }"),
        (
            doc! { "a": 0i32, "l.x": 0i32 },
            "{ _id: 1, l: [ { y: 2 }, 5 ], z: 3 }",
        ),
        (
            doc! { "_id": 0i32 },
            "{ a: { b: 1, c: 2 }, l: [ { x: 1, y: 2 }, 5 ], z: 3 }",
        ),
        (doc! { "n": "$z", "z": 1i32 }, "{ _id: 1, z: 3, n: 3 }"),
        (
            doc! { "l.n": "$z" },
            "{ _id: 1, l: [ { n: 3 }, { n: 3 } ] }",
        ),
        (doc! { "q": { "r": "$none" } }, "{ _id: 1, q: {} }"),
    ] {
        assert_eq!(
            run(Form::Project, spec.clone(), &d).as_deref(),
            Ok(wanted),
            "{spec:?}"
        );
    }
    let d = doc! { "_id": 1i32, "a": [{ "b": 1i32 }, 2i32], "s": 5i32 };
    for (spec, wanted) in [
        (
            doc! { "s": "$none", "t": "$s" },
            "{ _id: 1, a: [ { b: 1 }, 2 ], t: 5 }",
        ),
        (
            doc! { "a.c": "$s" },
            "{ _id: 1, a: [ { b: 1, c: 5 }, { c: 5 } ], s: 5 }",
        ),
    ] {
        assert_eq!(
            run(Form::AddFields, spec.clone(), &d).as_deref(),
            Ok(wanted),
            "{spec:?}"
        );
    }
}

#[test]
fn find_has_slices_and_first_matches() {
    let d = doc! { "_id": 1i32, "l": [1i32, 5i32, 9i32], "z": 3i32 };
    for (spec, wanted) in [
        (
            doc! { "l": { "$slice": 2i32 } },
            "{ _id: 1, l: [ 1, 5 ], z: 3 }",
        ),
        (
            doc! { "l": { "$slice": [-2i32, 1i32] }, "z": 0i32 },
            "{ _id: 1, l: [ 5 ] }",
        ),
        (
            doc! { "l": { "$slice": 1i32 }, "z": 1i32 },
            "{ _id: 1, l: [ 1 ], z: 3 }",
        ),
        (
            doc! { "l": { "$elemMatch": { "$gt": 2i32 } } },
            "{ _id: 1, l: [ 5 ] }",
        ),
        (
            doc! { "l": { "$elemMatch": { "$gt": 2i32 } }, "z": 0i32 },
            "{ _id: 1, l: [ 5 ] }",
        ),
    ] {
        assert_eq!(
            run(Form::Find, spec.clone(), &d).as_deref(),
            Ok(wanted),
            "{spec:?}"
        );
    }
}

#[test]
fn codes() {
    let d = DocBuf::new();
    for (spec, wanted) in [
        (doc! {}, 51272),
        (doc! { "a": {} }, 51270),
        (doc! { "a": 1i32, "b": 0i32 }, 31254),
        (doc! { "a": 0i32, "b": 1i32 }, 31253),
        (doc! { "a": 0i32, "b": "$c" }, 31310),
        (doc! { "a": 1i32, "a.b": 1i32 }, 31249),
        (doc! { "a.b": 1i32, "a": 1i32 }, 31250),
        (doc! { "$a": 1i32 }, 16410),
        (doc! { "a.": 1i32 }, 40353),
        (doc! { "a": { "$bogus": 1i32 } }, 31325),
    ] {
        assert_eq!(
            run(Form::Project, spec.clone(), &d),
            Err(wanted),
            "{spec:?}"
        );
    }
    assert_eq!(
        run(Form::AddFields, doc! { "a": 1i32, "a.b": 1i32 }, &d),
        Err(40176)
    );
    assert_eq!(
        run(Form::Find, doc! { "a": { "$elemMatch": 1i32 } }, &d),
        Err(31274)
    );
    assert_eq!(
        run(
            Form::Find,
            doc! { "a.$": 1i32, "b": { "$elemMatch": {} } },
            &d
        ),
        Err(31255)
    );
}

#[test]
fn results_that_are_nested_too_deeply_are_refused() {
    let mut deep = DocBuf::new();
    for _ in 0..150 {
        let inner = deep;
        deep = doc! { "a": &inner };
    }
    let code = Value::CodeWithScope("f", deep.as_bytes());
    let d = DocBuf::build(|w| _ = w.put("c", code));
    let env = Env::new(0, 1);
    let result = |levels: usize| {
        let path = vec!["b"; levels].join(".");
        let spec = DocBuf::build(|w| _ = w.put(&path, "$c"));
        let mut cx = ParseCx::new(&env);
        let parsed = Projection::parse_add_fields(&mut cx, "$set", Value::Document(spec.doc()));
        let (parsed, arena) = (parsed.unwrap(), Bump::new());
        let at = Cx::new(&arena, Value::Document(d.doc()), &env);
        let out = parsed.apply(&at, d.doc());
        out.map(|out| model::validate(out.as_bytes()).is_ok())
            .map_err(|e| e.code())
    };
    assert_eq!(result(40), Ok(true));
    assert_eq!(result(60), Err(15));
}
