//! Splits and combines filters as documents: the part that may stand before another stage is
//! written with the field names at that place.

use super::facts::{filter_names, first};
use model::{Doc, DocBuf, Value};
use operators::expr::ParseCx;

/// A filter split into two parts; both must hold.
#[derive(Debug, Default)]
pub(super) struct SplitFilter {
    /// What may go before the stage.
    pub(super) before: Option<DocBuf>,
    /// What must stay.
    pub(super) after: Option<DocBuf>,
}

/// The conjunction of two filters.
pub(super) fn conjoin_filters(a: Doc<'_>, b: Doc<'_>) -> DocBuf {
    let plain = |d: Doc<'_>| d.iter().all(|(n, _)| !n.starts_with('$'));
    // Different fields side by side need no `$and`.
    if plain(a) && plain(b) && b.iter().all(|(n, _)| !a.contains(n)) {
        return DocBuf::build(|w| {
            w.put_all(a).put_all(b);
        });
    }
    conjunction(
        &conjuncts(a)
            .into_iter()
            .chain(conjuncts(b))
            .collect::<Vec<_>>(),
    )
}

/// The predicates that must all hold, one document each.
fn conjuncts(spec: Doc<'_>) -> Vec<DocBuf> {
    let mut out = Vec::new();
    for (name, v) in spec.iter() {
        match (name, v) {
            ("$and", Value::Array(list)) => {
                out.extend(list.iter().filter_map(|v| v.as_doc()).flat_map(conjuncts))
            }
            (name, v) => out.push(model::doc! { name: v }),
        }
    }
    out
}

fn conjunction(list: &[DocBuf]) -> DocBuf {
    match list {
        [one] => one.clone(),
        list => DocBuf::build(|w| {
            let mut all = w.array("$and");
            for d in list {
                all.push(d);
            }
        }),
    }
}

/// Splits by whether the fields of a predicate are unchanged by the stage, or are renamed fields.
pub(super) fn split(
    cx: &mut ParseCx<'_>,
    spec: Doc<'_>,
    untouched: &dyn Fn(&str) -> bool,
    renames: &[(String, String)],
) -> SplitFilter {
    parts(spec, &mut |predicate| {
        let names = filter_names(cx, predicate)?;
        if names.iter().all(|n| untouched(n)) {
            return Some(predicate.to_buf());
        }
        let known = |n: &str| untouched(n) || renames.iter().any(|(to, _)| to == n);
        names
            .iter()
            .all(|n| known(n))
            .then(|| rename_fields(predicate, renames, untouched))?
    })
}

/// Splits by whether a predicate is on the group's key alone.
pub(super) fn split_on_key(
    cx: &mut ParseCx<'_>,
    spec: Doc<'_>,
    renames: &[(String, String)],
) -> SplitFilter {
    parts(spec, &mut |predicate| {
        let names = filter_names(cx, predicate)?;
        let on_key = names.iter().all(|n| n == "_id") && !names.is_empty();
        (on_key && !asks_for_kind(predicate))
            .then(|| rename_fields(predicate, renames, &|_| false))?
    })
}

fn parts(spec: Doc<'_>, moved: &mut dyn FnMut(Doc<'_>) -> Option<DocBuf>) -> SplitFilter {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for p in conjuncts(spec) {
        match moved(p.doc()) {
            Some(d) => before.push(d),
            None => after.push(p),
        }
    }
    let some = |l: Vec<DocBuf>| (!l.is_empty()).then(|| conjunction(&l));
    SplitFilter {
        before: some(before),
        after: some(after),
    }
}

/// Whether a test distinguishes null from missing, or types of numbers.
fn asks_for_kind(spec: Doc<'_>) -> bool {
    spec.iter().any(|(n, v)| {
        matches!(
            n,
            "$exists" | "$type" | "$expr" | "$jsonSchema" | "$elemMatch" | "$size" | "$all"
        ) || match v {
            Value::Document(d) => asks_for_kind(d),
            Value::Array(a) if n.starts_with('$') => {
                a.iter().any(|v| v.as_doc().is_some_and(asks_for_kind))
            }
            _ => false,
        }
    })
}

/// The predicate with the old field names; `None` if an expression names a field or a path has no
/// old name.
fn rename_fields(
    spec: Doc<'_>,
    renames: &[(String, String)],
    untouched: &dyn Fn(&str) -> bool,
) -> Option<DocBuf> {
    let mut out = DocBuf::new();
    for (name, v) in spec.iter() {
        match (name, v) {
            ("$and" | "$or" | "$nor", Value::Array(list)) => {
                let inner: Option<Vec<DocBuf>> = list
                    .iter()
                    .map(|v| rename_fields(v.as_doc()?, renames, untouched))
                    .collect();
                let inner = inner?;
                out.append(|w| {
                    let mut a = w.array(name);
                    for d in &inner {
                        a.push(d);
                    }
                });
            }
            (op, _) if op.starts_with('$') => return None,
            (path, v) => {
                let old = old_path(path, renames)
                    .or_else(|| untouched(first(path)).then(|| path.to_owned()))?;
                // Two conditions may end up on the same path.
                if out.doc().contains(&old) {
                    return None;
                }
                out.put(&old, v);
            }
        }
    }
    Some(out)
}

fn old_path(path: &str, renames: &[(String, String)]) -> Option<String> {
    renames.iter().find_map(|(to, from)| {
        let rest = path.strip_prefix(to.as_str())?;
        (rest.is_empty() || rest.starts_with('.')).then(|| format!("{from}{rest}"))
    })
}
