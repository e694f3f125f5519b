//! Table tests of expressions: `rows` use one document, in `table` each row has its own.

use crate::expr::{ParseCx, parse};
use crate::{Cx, Env};
use model::{Bump, OwnedValue, Result, Value, extjson};

/// The value as text, or the error code. `spec` is relaxed extended JSON of one expression; the
/// document has `a: 5, n: null, s: "x", arr: [1]`.
pub(crate) fn eval(spec: &str) -> String {
    let spec = extjson::parse_document(&format!(r#"{{"e": {spec}}}"#)).unwrap();
    let root = extjson::parse_document(r#"{"a": 5, "n": null, "s": "x", "arr": [1]}"#).unwrap();
    let env = Env::new(0, 1);
    let arena = Bump::new();
    let cx = Cx::new(&arena, Value::Document(root.doc()), &env);
    match parse(&mut ParseCx::new(&env), spec.doc().field("e")) {
        Err(e) => format!("error {}", e.code()),
        Ok(e) => match e.eval(&cx) {
            Err(e) => format!("error {}", e.code()),
            Ok(v) => format!("{} {v}", v.type_name()),
        },
    }
}

/// Checks rows of an expression and its result.
pub(crate) fn rows(rows: &[(&str, &str)]) {
    for (spec, expected) in rows {
        assert_eq!(eval(spec), *expected, "{spec}");
    }
}

/// Parses JSON with single quotes instead of double quotes.
pub(crate) fn json(text: &str) -> OwnedValue {
    let quoted = text.replace('\'', "\"");
    let parsed = serde_json::from_str(&quoted).unwrap_or_else(|e| panic!("{text}: {e}"));
    extjson::value(&parsed).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// The value of an expression on a document, both given as JSON with single quotes.
pub(crate) fn evaluate(expr: &str, doc: &str) -> Result<OwnedValue> {
    evaluate_in(&Env::new(0, 1), expr, doc)
}

fn evaluate_in(env: &Env, expr: &str, doc: &str) -> Result<OwnedValue> {
    let arena = Bump::new();
    let (spec, root) = (json(expr), json(doc));
    let e = parse(&mut ParseCx::new(env), spec.get())?;
    let v = e.eval(&Cx::new(&arena, root.get(), env))?;
    Ok(v.to_owned_value())
}

/// The same on a document that has only the fields the expression reports to read.
fn evaluate_on_what_it_reads(env: &Env, expr: &str, doc: &str) -> Result<OwnedValue> {
    let root = json(doc);
    let e = parse(&mut ParseCx::new(env), json(expr).get())?;
    let mut reads = crate::RequiredFields::default();
    e.reads(&mut reads);
    let (Some(names), Some(root)) = (reads.names(), root.get().as_doc()) else {
        return evaluate_in(env, expr, doc);
    };
    let kept = model::DocBuf::build(|w| {
        for (name, v) in root.iter().filter(|(name, _)| names.contains(*name)) {
            w.put(name, v);
        }
    });
    let arena = Bump::new();
    let v = e.eval(&Cx::new(&arena, Value::Document(kept.doc()), env))?;
    Ok(v.to_owned_value())
}

/// Checks rows of expression, document and result: a value in relaxed extended JSON with single
/// quotes, `missing`, or `!code`.
pub(crate) fn table(rows: &[(&str, &str, &str)]) {
    table_of(crate::Profile::default(), rows);
}

/// The same with a profile.
pub(crate) fn table_of(profile: crate::Profile, rows: &[(&str, &str, &str)]) {
    for (expr, doc, want) in rows {
        // Each evaluation starts from the same random seed.
        let env = || {
            let mut env = Env::new(0, 1);
            env.profile = profile;
            env
        };
        let got = evaluate_in(&env(), expr, doc);
        let enough = evaluate_on_what_it_reads(&env(), expr, doc);
        assert_eq!(
            enough.map_err(|e| e.code()),
            got.clone().map_err(|e| e.code()),
            "{expr} on what it reads of {doc}"
        );
        match (want.strip_prefix('!'), &got) {
            (Some(code), Err(e)) => {
                assert_eq!(e.code().to_string(), code, "{expr} on {doc}: {e}")
            }
            (None, Ok(v)) if *want == "missing" => {
                assert!(v.get().is_missing(), "{expr} on {doc}: {v}")
            }
            (None, Ok(v)) => {
                let want = json(want);
                // Bytes are compared, so that types, the sign of zero and NaN count.
                assert!(
                    *v == want && same_type(v.get(), want.get()),
                    "{expr} on {doc}: {v}, wanted {want}"
                );
            }
            (_, Ok(v)) => panic!("{expr} on {doc}: {v}, wanted {want}"),
            (_, Err(e)) => panic!("{expr} on {doc}: {e}, wanted {want}"),
        }
    }
}

fn same_type(a: Value<'_>, b: Value<'_>) -> bool {
    a.tag() == b.tag()
}
