//! Filters in the form that explain shows: one operator for each predicate, conjunctions flattened,
//! in MongoDB's order of predicates.

use model::{Doc, DocBuf, Value};

/// Operators in the order in which their predicates are shown.
const ORDER: &[&str] = &[
    "$and",
    "$or",
    "$elemMatch",
    "$size",
    "$eq",
    "$lte",
    "$lt",
    "$gt",
    "$gte",
    "$regex",
    "$mod",
    "$exists",
    "$in",
    "$bitsAllSet",
    "$bitsAllClear",
    "$bitsAnySet",
    "$bitsAnyClear",
    "$not",
    "$nor",
    "$type",
    "$geoWithin",
    "$near",
    "$where",
];

/// One predicate.
struct Predicate {
    path: String,
    op: String,
    doc: DocBuf,
}

/// The whole filter.
pub fn canonical(spec: Doc<'_>) -> DocBuf {
    conjunction(predicates(spec))
}

/// The filter without the predicates on paths whose bounds are exact.
pub(super) fn residual(spec: Doc<'_>, exact: &dyn Fn(&str) -> bool) -> Option<DocBuf> {
    let by_bounds = |op: &str| {
        matches!(
            op,
            "$eq" | "$gt" | "$gte" | "$lt" | "$lte" | "$in" | "$regex"
        )
    };
    let mut all = predicates(spec);
    all.retain(|p| !(by_bounds(&p.op) && exact(&p.path)));
    (!all.is_empty()).then(|| conjunction(all))
}

/// The filter without its required `$text`.
pub(super) fn remove_text(spec: Doc<'_>) -> Option<DocBuf> {
    let mut all = predicates(spec);
    all.retain(|p| p.op != "$text");
    (!all.is_empty()).then(|| conjunction(all))
}

fn conjunction(mut all: Vec<Predicate>) -> DocBuf {
    let rank = |op: &str| ORDER.iter().position(|o| *o == op).unwrap_or(ORDER.len());
    all.sort_by(|a, b| {
        rank(&a.op)
            .cmp(&rank(&b.op))
            .then_with(|| a.path.cmp(&b.path))
    });
    match all.as_slice() {
        [] => DocBuf::new(),
        [one] => one.doc.clone(),
        many => DocBuf::build(|w| {
            let mut list = w.array("$and");
            for p in many {
                list.push(&p.doc);
            }
        }),
    }
}

fn predicates(spec: Doc<'_>) -> Vec<Predicate> {
    let mut out = Vec::new();
    for (name, v) in spec.iter() {
        match (name, v) {
            ("$and", Value::Array(list)) => {
                out.extend(list.iter().filter_map(|v| v.as_doc()).flat_map(predicates))
            }
            ("$or" | "$nor", Value::Array(list)) => {
                let doc = DocBuf::build(|w| {
                    let mut a = w.array(name);
                    for d in list.iter().filter_map(|v| v.as_doc()) {
                        a.push(&canonical(d));
                    }
                });
                out.push(Predicate {
                    path: String::new(),
                    op: name.to_owned(),
                    doc,
                });
            }
            ("$comment", _) => {}
            (op, v) if op.starts_with('$') => {
                out.push(Predicate {
                    path: String::new(),
                    op: op.to_owned(),
                    doc: model::doc! { op: v },
                });
            }
            (path, Value::Document(d)) if d.first().is_some_and(|(n, _)| n.starts_with('$')) => {
                on_path(path, d, &mut out)
            }
            (path, Value::Regex(r)) => {
                let inner = DocBuf::build(|w| {
                    w.put("$regex", r.pattern);
                    if !r.options.is_empty() {
                        w.put("$options", r.options);
                    }
                });
                out.push(predicate(path, "$regex", &inner));
            }
            (path, v) => out.push(predicate(path, "$eq", &model::doc! { "$eq": v })),
        }
    }
    out
}

fn predicate(path: &str, op: &str, inner: &DocBuf) -> Predicate {
    Predicate {
        path: path.to_owned(),
        op: op.to_owned(),
        doc: model::doc! { path: inner },
    }
}

fn on_path(path: &str, ops: Doc<'_>, out: &mut Vec<Predicate>) {
    for (op, v) in ops.iter() {
        let (shown, inner) = match (op, v) {
            ("$options", _) => continue,
            ("$ne", v) => ("$not", model::doc! { "$not": { "$eq": v } }),
            ("$nin", v) => ("$not", model::doc! { "$not": { "$in": v } }),
            ("$exists", v) if !v.truthy() => ("$not", model::doc! { "$not": { "$exists": true } }),
            ("$exists", _) => ("$exists", model::doc! { "$exists": true }),
            ("$in", Value::Array(a))
                if a.len() == 1 && !matches!(a.get(0), Some(Value::Regex(_))) =>
            {
                (
                    "$eq",
                    model::doc! { "$eq": a.get(0).unwrap_or(Value::Null) },
                )
            }
            ("$regex", Value::Regex(r)) if !ops.contains("$options") => (
                "$regex",
                model::doc! { "$regex": r.pattern, "$options": if r.options.is_empty() {
                Value::Missing } else { Value::String(r.options) } },
            ),
            ("$regex", v) => (
                "$regex",
                model::doc! { "$regex": v, "$options": ops.field("$options") },
            ),
            (op, v) => (op, model::doc! { op: v }),
        };
        out.push(predicate(path, shown, &inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn filters_are_shown_flat_and_in_order() {
        for (spec, want) in [
            (doc! {}, "{  }"),
            (doc! { "a": 1i32 }, "{ a: { $eq: 1 } }"),
            (
                doc! { "b": { "$gt": 2i32, "$lt": 5i32 }, "a": 1i32 },
                "{ $and: [ { a: { $eq: 1 } }, { b: { $lt: 5 } }, { b: { $gt: 2 } } ] }",
            ),
            (doc! { "a": { "$ne": 1i32 } }, "{ a: { $not: { $eq: 1 } } }"),
            (
                doc! { "$or": [{ "a": 1i32 }, { "b": { "$in": [3i32] } }] },
                "{ $or: [ { a: { $eq: 1 } }, { b: { $eq: 3 } } ] }",
            ),
            (
                doc! { "$and": [{ "a": 1i32 }, { "$and": [{ "c": 2i32 }] }] },
                "{ $and: [ { a: { $eq: 1 } }, { c: { $eq: 2 } } ] }",
            ),
        ] {
            let got = format!("{:?}", canonical(spec.doc()));
            assert_eq!(
                got.replace("{  }", "{}"),
                want.replace("{  }", "{}"),
                "{spec:?}"
            );
        }
        let spec = doc! { "a": 1i32, "b": { "$exists": true } };
        assert_eq!(
            format!("{:?}", residual(spec.doc(), &|p| p == "a").unwrap()),
            "{ b: { $exists: true } }"
        );
        assert!(residual(doc! { "a": 1i32 }.doc(), &|p| p == "a").is_none());
    }
}
