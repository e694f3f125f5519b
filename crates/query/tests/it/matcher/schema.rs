//! The few keywords of `$jsonSchema` that the generator uses, implemented from their documentation.

use super::naive::PATTERNS;
use super::tree::Tree;
use model::{Value, compare};

pub(super) fn valid(schema: &Tree, v: &Tree) -> bool {
    let Tree::Doc(keywords) = schema else {
        panic!("a schema is a document")
    };
    let is_number = v.to_value().get().is_number();
    keywords.iter().all(|(k, operand)| match (k.as_str(), v) {
        ("bsonType", v) => match operand {
            Tree::Array(names) => names.iter().any(|n| has_type(n, v)),
            name => has_type(name, v),
        },
        ("required", Tree::Doc(fields)) => items(operand).iter().all(|n| {
            fields
                .iter()
                .any(|(f, _)| n.to_value().get().as_str() == Some(f))
        }),
        ("properties", Tree::Doc(fields)) => {
            let Tree::Doc(inner) = operand else {
                panic!("properties")
            };
            inner.iter().all(|(n, s)| {
                fields
                    .iter()
                    .find(|(f, _)| f == n)
                    .is_none_or(|(_, v)| valid(s, v))
            })
        }
        ("minimum" | "maximum", v) if is_number => {
            let (have, limit) = (v.to_value(), operand.to_value());
            let nan = |v: &Value<'_>| v.as_f64().is_some_and(f64::is_nan);
            match (nan(&have.get()), nan(&limit.get())) {
                (false, false) if k == "minimum" => compare(&have.get(), &limit.get()).is_ge(),
                (false, false) => compare(&have.get(), &limit.get()).is_le(),
                (a, b) => a && b,
            }
        }
        ("minItems", Tree::Array(a)) => {
            a.len() as i64 >= operand.to_value().get().as_i64_exact().expect("a count")
        }
        ("items", Tree::Array(a)) => a.iter().all(|i| valid(operand, i)),
        ("pattern", Tree::Leaf(s)) => match (s.get(), operand.to_value().get()) {
            (Value::String(s), Value::String(p)) => PATTERNS
                .iter()
                .find(|(q, o, _)| *q == p && o.is_empty())
                .expect("a known pattern")
                .2(s),
            _ => true,
        },
        ("enum", v) => items(operand).iter().any(|w| same(w, v)),
        ("not", v) => !valid(operand, v),
        ("anyOf", v) => items(operand).iter().any(|s| valid(s, v)),
        ("allOf", v) => items(operand).iter().all(|s| valid(s, v)),
        ("oneOf", v) => items(operand).iter().filter(|s| valid(s, v)).count() == 1,
        (
            "required" | "properties" | "minimum" | "maximum" | "minItems" | "items" | "pattern",
            _,
        ) => true,
        (other, _) => panic!("not known: {other}"),
    })
}

fn items(t: &Tree) -> &[Tree] {
    match t {
        Tree::Array(items) => items,
        _ => panic!("a list"),
    }
}

fn has_type(name: &Tree, v: &Tree) -> bool {
    let (name, v) = (name.to_value(), v.to_value());
    name.get()
        .as_str()
        .is_some_and(|n| n == v.get().type_name() || (n == "number" && v.get().is_number()))
}

/// Equality that ignores the order of fields.
fn same(a: &Tree, b: &Tree) -> bool {
    match (a, b) {
        (Tree::Doc(x), Tree::Doc(y)) => {
            x.len() == y.len()
                && x.iter()
                    .all(|(n, v)| y.iter().any(|(m, w)| n == m && same(v, w)))
        }
        (Tree::Array(x), Tree::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(v, w)| same(v, w))
        }
        (Tree::Leaf(x), Tree::Leaf(y)) => compare(&x.get(), &y.get()).is_eq(),
        _ => false,
    }
}
