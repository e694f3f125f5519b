//! Applies a tree: first fields are kept or dropped, then computed fields are added.

use super::tree::{Field, Tree};
use crate::Cx;
use crate::cx::bytes_of;
use model::{Array, Doc, Edit, Result, Value};
use smallvec::SmallVec;

/// Inclusion of top-level fields: one pass that ends with the last wanted field.
pub(super) fn flat_inclusion<'a>(tree: &Tree, cx: &Cx<'_, 'a>, doc: Doc<'a>) -> Doc<'a> {
    Doc::build_in(cx.arena, |w| {
        let mut left = tree.fields().len();
        for e in doc.elements() {
            if left == 0 {
                break;
            }
            if tree.get(e.name).is_some() {
                w.put_element(&e);
                left -= 1;
            }
        }
    })
}

pub(super) fn include<'a>(tree: &Tree, cx: &Cx<'_, 'a>, doc: Doc<'a>) -> Doc<'a> {
    let below: SmallVec<[(&[u8], Value<'a>); 8]> = doc
        .elements()
        .filter_map(|e| match tree.get(e.name) {
            Some(Field::Below(t)) => Some((e.name, include_value(t, cx, e.value()))),
            _ => None,
        })
        .collect();
    Doc::build_in(cx.arena, |w| {
        for e in doc.elements() {
            match tree.get(e.name) {
                Some(Field::Named | Field::Sliced) => {
                    w.put_element(&e);
                }
                Some(Field::Below(_)) => {
                    if let Some((_, v)) = below.iter().find(|(n, _)| *n == e.name) {
                        w.put(e.name_str(), *v);
                    }
                }
                _ => {}
            }
        }
    })
}

fn include_value<'a>(tree: &Tree, cx: &Cx<'_, 'a>, v: Value<'a>) -> Value<'a> {
    match v {
        Value::Document(d) => Value::Document(include(tree, cx, d)),
        Value::Array(a) => {
            let items: Vec<Value<'a>> = a
                .iter()
                .map(|v| include_value(tree, cx, v))
                .filter(|v| !v.is_missing())
                .collect();
            Value::Array(Array::from_values_in(cx.arena, items))
        }
        // Computed fields replace this value by a document later; until then null keeps its
        // position.
        _ if tree.has_computed() => Value::Null,
        _ => Value::Missing,
    }
}

pub(super) fn exclude<'a>(tree: &Tree, cx: &Cx<'_, 'a>, doc: Doc<'a>) -> Doc<'a> {
    if tree.fields().is_empty() || !tree.fields().iter().any(|(n, _)| doc.contains(n)) {
        return doc;
    }
    let below: SmallVec<[(&[u8], Value<'a>); 8]> = doc
        .elements()
        .filter_map(|e| match tree.get(e.name) {
            Some(Field::Below(t)) => Some((e.name, exclude_value(t, cx, e.value()))),
            _ => None,
        })
        .collect();
    Doc::build_sized_in(cx.arena, doc.len_bytes(), |w| {
        w.put_edited(doc, |e| match tree.get(e.name) {
            Some(Field::Named) => Edit::Drop,
            Some(Field::Below(_)) => match below.iter().find(|(n, _)| *n == e.name) {
                Some((_, v)) => Edit::Set(*v),
                None => Edit::Keep,
            },
            _ => Edit::Keep,
        });
    })
}

fn exclude_value<'a>(tree: &Tree, cx: &Cx<'_, 'a>, v: Value<'a>) -> Value<'a> {
    match v {
        Value::Document(d) => Value::Document(exclude(tree, cx, d)),
        Value::Array(a) => {
            let items: Vec<Value<'a>> = a.iter().map(|v| exclude_value(tree, cx, v)).collect();
            Value::Array(Array::from_values_in(cx.arena, items))
        }
        v => v,
    }
}

/// Sets the computed fields of `tree` in `doc`; expressions see the original document, `cx.root`.
pub(super) fn compute<'a>(tree: &'a Tree, cx: &Cx<'_, 'a>, doc: Doc<'a>) -> Result<Doc<'a>> {
    let mut set: SmallVec<[(&'a str, Value<'a>); 8]> = SmallVec::new();
    let mut bytes = doc.len_bytes();
    for (name, field) in tree.fields() {
        let v = match field {
            Field::Named | Field::Sliced => continue,
            Field::Computed(e) => {
                let v = e.eval(cx)?;
                bytes += bytes_of(&v);
                v
            }
            Field::ElemMatch(m) => m.eval(cx, name)?,
            Field::Below(t) if t.has_computed() => compute_value(t, cx, doc.field(name))?,
            Field::Below(_) => continue,
        };
        set.push((name.as_str(), v));
    }
    cx.spend(bytes)?;
    Ok(Doc::build_sized_in(cx.arena, bytes + 64, |w| {
        w.put_edited(doc, |e| {
            match set.iter().find(|(n, _)| n.as_bytes() == e.name) {
                Some((_, v)) => Edit::Set(*v),
                None => Edit::Keep,
            }
        });
        for (name, v) in &set {
            if !doc.contains(name) {
                w.put(name, *v);
            }
        }
    }))
}

fn compute_value<'a>(tree: &'a Tree, cx: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    match v {
        Value::Document(d) => Ok(Value::Document(compute(tree, cx, d)?)),
        Value::Array(a) => {
            let items = a
                .iter()
                .map(|v| compute_value(tree, cx, v))
                .collect::<Result<Vec<_>>>()?;
            Ok(Value::Array(Array::from_values_in(cx.arena, items)))
        }
        _ => Ok(Value::Document(compute(tree, cx, Doc::EMPTY)?)),
    }
}
