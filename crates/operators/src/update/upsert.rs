//! The initial document of an upsert: the equalities of its filter. Errors: 54 when a path is set
//! twice, or both a path and one of its parents.

use crate::filter::{CompareOp, Filter, Node, Test};
use model::{DocBuf, DocWriter, FieldPath, Result, Value, bail, code};

/// Collects the equalities of a filter into a document. For replacements (`only_id`) only `_id`
/// counts.
///
/// # Errors
/// 54 NotSingleValueField.
pub fn upsert_base(filter: &Filter, only_id: bool) -> Result<DocBuf> {
    let mut found: Vec<(&FieldPath, Value<'_>)> = Vec::new();
    collect(filter.root(), &mut found);
    if only_id {
        found.retain(|(p, _)| p.as_str() == "_id");
    }
    for (i, (p, _)) in found.iter().enumerate() {
        for (q, _) in found.iter().skip(i + 1) {
            if p == q {
                bail!(
                    code::NOT_SINGLE_VALUE_FIELD,
                    "cannot infer query fields to set, path '{}' is matched twice",
                    p.as_str()
                );
            }
            if p.is_at_or_below(q) || q.is_at_or_below(p) {
                bail!(
                    code::NOT_SINGLE_VALUE_FIELD,
                    "cannot infer query fields to set, both paths '{}' and '{}' are matched",
                    p.as_str(),
                    q.as_str()
                );
            }
        }
    }
    // `_id` is the first field of every document.
    found.sort_by_key(|(p, _)| p.first() != "_id");
    Ok(DocBuf::build(|w| put(w, &found, 0)))
}

fn put(w: &mut DocWriter<'_>, found: &[(&FieldPath, Value<'_>)], level: usize) {
    let mut done: Vec<&str> = Vec::new();
    for (p, v) in found {
        let Some(part) = p.parts().get(level) else {
            continue;
        };
        if done.contains(&part.name.as_str()) {
            continue;
        }
        if p.parts().len() == level + 1 {
            w.put(&part.name, *v);
            continue;
        }
        done.push(&part.name);
        let below: Vec<_> = found
            .iter()
            .filter(|(q, _)| q.parts().get(level).is_some_and(|x| x.name == part.name))
            .copied()
            .collect();
        put(&mut w.doc(&part.name), &below, level + 1);
    }
}

fn collect<'f>(n: &'f Node, out: &mut Vec<(&'f FieldPath, Value<'f>)>) {
    match n {
        Node::And(v) => v.iter().for_each(|n| collect(n, out)),
        Node::Or(v) if v.len() == 1 => v.iter().for_each(|n| collect(n, out)),
        Node::Field { path, test } => match test {
            Test::Compare(c) if c.op == CompareOp::Eq => out.push((path, c.value.get())),
            Test::In(list) if list.values.len() == 1 && list.patterns.is_empty() => {
                if let Some(v) = list.values.first() {
                    out.push((path, v.get()));
                }
            }
            _ => {}
        },
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Env;
    use crate::expr::ParseCx;
    use model::doc;

    fn base(d: DocBuf) -> std::result::Result<String, i32> {
        let env = Env::new(0, 1);
        let f = Filter::parse(&mut ParseCx::new(&env), d.doc()).unwrap();
        upsert_base(&f, false)
            .map(|d| format!("{d:?}"))
            .map_err(|e| e.code())
    }

    #[test]
    fn equalities_become_fields() {
        assert_eq!(
            base(doc! { "a.b": 1i32, "_id": 5i32, "a.c": 2i32 }).unwrap(),
            "{ _id: 5, a: { b: 1, c: 2 } }"
        );
        assert_eq!(
            base(doc! { "a": { "$in": [7i32] }, "b": { "$gt": 1i32 } }).unwrap(),
            "{ a: 7 }"
        );
        assert_eq!(
            base(doc! { "$and": [{ "a": 1i32 }, { "a": 2i32 }] }),
            Err(54)
        );
        assert_eq!(base(doc! { "a": 1i32, "a.b": 2i32 }), Err(54));
    }
}
