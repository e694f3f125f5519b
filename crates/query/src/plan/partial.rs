//! Whether a filter implies the filter of a partial index, so that the index has every wanted
//! document. Answers no when in doubt; the index is then not used.

use crate::exec::MatchFilter;
use model::{Collate, Doc, Value, compare, compare_with};
use store::Index;

/// Whether every document of the filter is in the index. If the collations differ, conditions on
/// strings are never implied.
pub(super) fn is_implied(
    index: &Index,
    filter: Option<&MatchFilter>,
    collation_fits: bool,
) -> bool {
    let Some(partial) = index.spec().field("partialFilterExpression").as_doc() else {
        return true;
    };
    let implication = Implication {
        collation_fits,
        collate: index.collate(),
    };
    implication.holds(partial, filter.map_or(Doc::EMPTY, |f| f.spec.doc()))
}

/// How the index compares strings.
struct Implication<'c> {
    collation_fits: bool,
    collate: Option<&'c dyn Collate>,
}

impl Implication<'_> {
    /// Whether `query` implies `partial`.
    fn holds(&self, partial: Doc<'_>, query: Doc<'_>) -> bool {
        partial.iter().all(|(name, v)| {
            if !self.collation_fits && holds_text(&v) {
                return false;
            }
            let branch = |b: Value<'_>| b.as_doc().is_some_and(|b| self.holds(b, query));
            match name {
                "$and" => v.as_array().is_some_and(|l| l.iter().all(branch)),
                "$or" => {
                    v.as_array().is_some_and(|l| l.iter().any(branch))
                        || has_condition(query, name, v)
                }
                _ => each_operator(v).all(|(op, limit)| {
                    requires_condition(query, name, &|have, given| {
                        self.narrower(have, given, op, limit)
                    })
                }),
            }
        })
    }

    /// Whether every value that passes `have: v` passes `wanted: limit`. A condition on an array
    /// holds if it holds for any element, so the answer for the element that passes holds for the
    /// array.
    fn narrower(&self, have: &str, v: Value<'_>, wanted: &str, limit: Value<'_>) -> bool {
        let compares = matches!(have, "$eq" | "$gt" | "$gte" | "$lt" | "$lte")
            && !matches!(v, Value::Regex(_));
        match (have, wanted) {
            ("$in", _) if wanted != "$in" || compare(&v, &limit).is_ne() => {
                let each = |one: Value<'_>| {
                    !matches!(one, Value::Regex(_)) && self.narrower("$eq", one, wanted, limit)
                };
                return v
                    .as_array()
                    .is_some_and(|l| !l.is_empty() && l.iter().all(each));
            }
            ("$eq", "$in") => {
                let same = |one: Value<'_>| compare_with(&one, &v, self.collate).is_eq();
                return !v.is_nullish() && limit.as_array().is_some_and(|l| l.iter().any(same));
            }
            (_, "$exists") if have != "$exists" => {
                // A missing value also lies between MinKey and MaxKey.
                let spans_types = have != "$eq" && matches!(v, Value::MinKey | Value::MaxKey);
                return limit.truthy()
                    && (compares && !v.is_nullish() && !spans_types || have == "$type");
            }
            _ => {}
        }
        if have == wanted && compare(&v, &limit).is_eq() {
            return true;
        }
        // NaN is not ordered relative to other numbers.
        let nan = |v: &Value<'_>| v.as_f64().is_some_and(f64::is_nan);
        if !compares || compare::class(&v) != compare::class(&limit) || nan(&v) || nan(&limit) {
            return false;
        }
        let order = compare_with(&v, &limit, self.collate);
        match (wanted, have) {
            ("$gt", "$gt") | ("$gte", "$gt" | "$gte" | "$eq") => order.is_ge(),
            ("$gt", "$gte" | "$eq") => order.is_gt(),
            ("$lt", "$lt") | ("$lte", "$lt" | "$lte" | "$eq") => order.is_le(),
            ("$lt", "$lte" | "$eq") => order.is_lt(),
            ("$eq", "$eq") => order.is_eq(),
            _ => false,
        }
    }
}

/// Whether a condition compares strings, which depends on the collation; names of types do not
/// count.
fn holds_text(v: &Value<'_>) -> bool {
    match v {
        Value::String(_) | Value::Symbol(_) => true,
        Value::Document(d) => d.iter().any(|(name, v)| name != "$type" && holds_text(&v)),
        Value::Array(a) => a.iter().any(|v| holds_text(&v)),
        _ => false,
    }
}

/// Whether the query has the same condition at its top level.
fn has_condition(query: Doc<'_>, name: &str, v: Value<'_>) -> bool {
    query
        .iter()
        .any(|(n, q)| n == name && compare(&q, &v).is_eq())
}

/// The operators of `{$gt: 1, $lt: 5}`; any other value counts as `$eq`.
fn each_operator<'a>(v: Value<'a>) -> Box<dyn Iterator<Item = (&'a str, Value<'a>)> + 'a> {
    match v {
        Value::Document(d) if d.first().is_some_and(|(n, _)| n.starts_with('$')) => {
            Box::new(d.iter())
        }
        v => Box::new(std::iter::once(("$eq", v))),
    }
}

/// Whether the query requires a condition on `field` for which `f` returns true.
fn requires_condition(query: Doc<'_>, field: &str, f: &dyn Fn(&str, Value<'_>) -> bool) -> bool {
    query.iter().any(|(name, v)| match name {
        "$and" => v.as_array().is_some_and(|l| {
            l.iter()
                .any(|q| q.as_doc().is_some_and(|q| requires_condition(q, field, f)))
        }),
        // For an `$or`, every branch must have one.
        "$or" => v.as_array().is_some_and(|l| {
            !l.is_empty()
                && l.iter()
                    .all(|q| q.as_doc().is_some_and(|q| requires_condition(q, field, f)))
        }),
        _ if name == field => each_operator(v).any(|(op, given)| f(op, given)),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn narrower_conditions_imply_wider_ones() {
        let wide = |d: model::DocBuf, q: model::DocBuf| {
            Implication {
                collation_fits: true,
                collate: None,
            }
            .holds(d.doc(), q.doc())
        };
        let lte = || doc! { "a": { "$lte": 1.5 } };
        assert!(wide(lte(), doc! { "x": 6i32, "a": 1i32 }));
        assert!(wide(lte(), doc! { "a": { "$lte": 1i32 } }));
        assert!(wide(
            lte(),
            doc! { "$and": [{ "x": 1i32 }, { "a": { "$in": [1i32, 0i32] } }] }
        ));
        assert!(wide(
            lte(),
            doc! { "$or": [{ "a": 1i32 }, { "a": { "$lt": 0i32 } }] }
        ));
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
        assert!(wide(
            doc! { "$or": [{ "a": 1i32 }, { "b": 1i32 }] },
            doc! { "b": 1i32 }
        ));
    }
}
