//! Table tests of expressions. Rows are text: expression, document, expected value in relaxed
//! extended JSON with single quotes for double ones; `missing` and `!code` are the other outcomes.

use super::{ParseCx, parse};
use crate::{Cx, Env};
use model::{Bump, OwnedValue, Result, Value, extjson};

/// The value of a text with single quotes.
pub(crate) fn json(text: &str) -> OwnedValue {
    let quoted = text.replace('\'', "\"");
    let parsed = serde_json::from_str(&quoted).unwrap_or_else(|e| panic!("{text}: {e}"));
    extjson::value(&parsed).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Parses and evaluates.
pub(crate) fn eval(expr: &str, doc: &str) -> Result<OwnedValue> {
    let (env, arena) = (Env::new(0, 1), Bump::new());
    let (spec, root) = (json(expr), json(doc));
    let e = parse(&mut ParseCx::new(&env), spec.get())?;
    let v = e.eval(&Cx::new(&arena, root.get(), &env))?;
    Ok(v.to_owned_value())
}

/// Checks rows of (expression, document, outcome).
pub(crate) fn table(rows: &[(&str, &str, &str)]) {
    for (expr, doc, want) in rows {
        let got = eval(expr, doc);
        match (want.strip_prefix('!'), &got) {
            (Some(code), Err(e)) => {
                assert_eq!(e.code().to_string(), code, "{expr} on {doc}: {e:?}")
            }
            (None, Ok(v)) if *want == "missing" => {
                assert!(v.get().is_missing(), "{expr} on {doc}: {v:?}")
            }
            (None, Ok(v)) => {
                let want = json(want);
                // Bytes are compared: types, the sign of zero and NaN count.
                assert!(
                    *v == want && same_type(v.get(), want.get()),
                    "{expr} on {doc}: {v:?}, wanted {want:?}"
                );
            }
            _ => panic!("{expr} on {doc}: {got:?}, wanted {want}"),
        }
    }
}

fn same_type(a: Value<'_>, b: Value<'_>) -> bool {
    a.tag() == b.tag()
}
