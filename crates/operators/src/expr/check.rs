//! Evaluates `{e: ...}` and shows the value or the error's number.

use crate::expr::{ParseCx, parse};
use crate::{Cx, Env};
use model::extjson;

/// `spec` is relaxed extended JSON of one expression; the document has `a: 5, n: null, s: "x", arr:
/// [1]`.
pub(crate) fn eval(spec: &str) -> String {
    let spec = extjson::parse_document(&format!(r#"{{"e": {spec}}}"#)).unwrap();
    let root = extjson::parse_document(r#"{"a": 5, "n": null, "s": "x", "arr": [1]}"#).unwrap();
    let env = Env::new(0, 1);
    let arena = model::Bump::new();
    let cx = Cx::new(&arena, model::Value::Document(root.doc()), &env);
    match parse(&mut ParseCx::new(&env), spec.doc().field("e")) {
        Err(e) => format!("error {}", e.code()),
        Ok(e) => match e.eval(&cx) {
            Err(e) => format!("error {}", e.code()),
            Ok(v) => format!("{} {}", v.type_name(), model::show::Shown(&v)),
        },
    }
}

/// Rows of a specification and what it gives.
pub(crate) fn rows(rows: &[(&str, &str)]) {
    for (spec, expected) in rows {
        assert_eq!(eval(spec), *expected, "{spec}");
    }
}
