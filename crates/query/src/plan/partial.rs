//! Whether a filter implies the filter of a partial index, so that the index holds every document wanted. Says no when in
//! doubt: the index is then not used.

use crate::pipeline::MatchFilter;
use model::{Doc, Value, compare};
use store::Index;

/// True when every document of the filter is in the index.
pub(super) fn implied(index: &Index, filter: Option<&MatchFilter>) -> bool {
    let Some(partial) = index.spec().field("partialFilterExpression").as_doc() else { return true };
    let collated = index.spec().contains("collation");
    holds(partial, filter.map_or(Doc::EMPTY, |f| f.spec.doc()), collated)
}

/// Whether `query` implies `partial`.
fn holds(partial: Doc<'_>, query: Doc<'_>, collated: bool) -> bool {
    let branches = |v: Value<'_>, all: bool| {
        v.as_array().is_some_and(|list| {
            let mut each = list.iter().map(|b| b.as_doc().is_some_and(|b| holds(b, query, collated)));
            if all { each.all(|b| b) } else { each.any(|b| b) }
        })
    };
    partial.iter().all(|(name, v)| match name {
        "$and" => branches(v, true),
        "$or" => branches(v, false) || stands_in(query, name, v),
        _ => each_operator(v).all(|(op, limit)| any_condition(query, name, &|c, given| condition_implies(c, given, op, limit, collated))),
    })
}

/// The same condition, word by word.
fn stands_in(query: Doc<'_>, name: &str, v: Value<'_>) -> bool {
    query.iter().any(|(n, q)| n == name && compare(&q, &v).is_eq())
}

/// `{$gt: 1, $lt: 5}` as its operators, any other value as `$eq`.
fn each_operator<'a>(v: Value<'a>) -> Box<dyn Iterator<Item = (&'a str, Value<'a>)> + 'a> {
    match v {
        Value::Document(d) if d.first().is_some_and(|(n, _)| n.starts_with('$')) => Box::new(d.iter()),
        v => Box::new(std::iter::once(("$eq", v))),
    }
}

/// Whether any condition that every match fulfils on `field` passes `f`.
fn any_condition(query: Doc<'_>, field: &str, f: &dyn Fn(&str, Value<'_>) -> bool) -> bool {
    query.iter().any(|(name, v)| match name {
        "$and" => v.as_array().is_some_and(|l| l.iter().any(|q| q.as_doc().is_some_and(|q| any_condition(q, field, f)))),
        // Every branch of an $or has to.
        "$or" => v.as_array().is_some_and(|l| !l.is_empty() && l.iter().all(|q| q.as_doc().is_some_and(|q| any_condition(q, field, f)))),
        _ if name == field => each_operator(v).any(|(op, given)| f(op, given)),
        _ => false,
    })
}

/// Whether `given` under `condition` implies `limit` under `op`. Of an array each condition looks at any element, so what
/// holds of the value that fulfils one holds of the array.
fn condition_implies(condition: &str, given: Value<'_>, op: &str, limit: Value<'_>, collated: bool) -> bool {
    if condition == op && compare(&given, &limit).is_eq() {
        return true;
    }
    let ordered = compare::class(&given) == compare::class(&limit) && !(collated && given.as_str().is_some());
    let order = compare(&given, &limit);
    match (condition, op) {
        ("$in", _) => given.as_array().is_some_and(|l| {
            let plain = |v: &Value<'_>| !matches!(v, Value::Regex(_));
            !l.is_empty() && l.iter().all(|v| plain(&v) && condition_implies("$eq", v, op, limit, collated))
        }),
        ("$eq", "$in") => !given.is_nullish() && limit.as_array().is_some_and(|l| l.iter().any(|v| compare(&v, &given).is_eq())),
        ("$eq" | "$gt" | "$gte" | "$lt" | "$lte", "$exists") => limit.truthy() && !given.is_nullish(),
        ("$type", "$exists") => limit.truthy(),
        ("$eq", "$gt") => ordered && order.is_gt(),
        ("$eq", "$gte") => ordered && order.is_ge(),
        ("$eq", "$lt") => ordered && order.is_lt(),
        ("$eq", "$lte") => ordered && order.is_le(),
        ("$gt", "$gt" | "$gte") | ("$gte", "$gte") => ordered && order.is_ge(),
        ("$gte", "$gt") => ordered && order.is_gt(),
        ("$lt", "$lt" | "$lte") | ("$lte", "$lte") => ordered && order.is_le(),
        ("$lte", "$lt") => ordered && order.is_lt(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn narrower_conditions_imply_wider_ones() {
        let wide = |d: model::DocBuf, q: model::DocBuf| holds(d.doc(), q.doc(), false);
        let lte = || doc! { "a": { "$lte": 1.5 } };
        assert!(wide(lte(), doc! { "x": 6i32, "a": 1i32 }));
        assert!(wide(lte(), doc! { "a": { "$lte": 1i32 } }));
        assert!(wide(lte(), doc! { "$and": [{ "x": 1i32 }, { "a": { "$in": [1i32, 0i32] } }] }));
        assert!(wide(lte(), doc! { "$or": [{ "a": 1i32 }, { "a": { "$lt": 0i32 } }] }));
        assert!(!wide(lte(), doc! { "a": { "$lte": 1.6 } }));
        assert!(!wide(lte(), doc! { "x": 6i32 }));
        assert!(!wide(lte(), doc! { "a": "1" }));
        assert!(!wide(lte(), doc! { "$or": [{ "a": 1i32 }, { "x": 1i32 }] }));
        let exists = || doc! { "a": { "$exists": true } };
        assert!(wide(exists(), doc! { "a": { "$gt": 0i32 } }));
        assert!(!wide(exists(), doc! { "a": Value::Null }));
        assert!(!wide(exists(), doc! { "a": { "$gte": Value::Null } }));
        let range = || doc! { "a": { "$gt": 1i32, "$lt": 5i32 } };
        assert!(wide(range(), doc! { "a": 3i32 }) && !wide(range(), doc! { "a": { "$gt": 3i32 } }));
        assert!(wide(doc! { "$or": [{ "a": 1i32 }, { "b": 1i32 }] }, doc! { "b": 1i32 }));
    }
}
