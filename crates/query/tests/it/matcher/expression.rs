//! The few expressions that the generator uses below `$expr`, implemented from their documentation.

use super::naive::Strings;
use super::tree::Tree;
use model::{Value, compare_with};
use std::cmp::Ordering;

pub(super) fn truthy(v: &Option<Tree>) -> bool {
    v.as_ref().is_some_and(|t| t.to_value().get().truthy())
}

fn arguments(t: &Tree) -> Vec<Tree> {
    match t {
        Tree::Array(items) => items.clone(),
        other => vec![other.clone()],
    }
}

/// The value of an expression; `None` is missing.
pub(super) fn value(e: &Tree, doc: &Tree, c: Strings<'_>) -> Option<Tree> {
    match e {
        Tree::Leaf(v) => match v.get() {
            Value::String(s) if s.starts_with('$') => {
                at(doc, &s[1..].split('.').collect::<Vec<_>>())
            }
            _ => Some(e.clone()),
        },
        Tree::Array(items) => Some(Tree::Array(
            items
                .iter()
                .map(|i| value(i, doc, c).unwrap_or_else(|| Tree::leaf(Value::Null)))
                .collect(),
        )),
        Tree::Doc(fields) => operator(&fields[0].0, &fields[0].1, doc, c),
    }
}

/// A field path: it descends into the elements of arrays; numbers are not positions.
fn at(t: &Tree, path: &[&str]) -> Option<Tree> {
    let Some((name, rest)) = path.split_first() else {
        return Some(t.clone());
    };
    match t {
        Tree::Doc(fields) => at(&fields.iter().find(|(n, _)| n == name)?.1, rest),
        Tree::Array(items) => Some(Tree::Array(
            items
                .iter()
                .filter(|i| matches!(i, Tree::Doc(_)))
                .filter_map(|i| at(i, path))
                .collect(),
        )),
        Tree::Leaf(_) => None,
    }
}

fn operator(name: &str, operand: &Tree, doc: &Tree, c: Strings<'_>) -> Option<Tree> {
    if name == "$literal" {
        return Some(operand.clone());
    }
    let given: Vec<Option<Tree>> = arguments(operand)
        .iter()
        .map(|a| value(a, doc, c))
        .collect();
    let owned: Vec<Option<model::OwnedValue>> = given
        .iter()
        .map(|g| g.as_ref().map(Tree::to_value))
        .collect();
    let get = |i: usize| owned[i].as_ref().map_or(Value::Missing, |o| o.get());
    let order = || compare_with(&get(0), &get(1), c);
    let result = match name {
        "$eq" => order() == Ordering::Equal,
        "$ne" => order() != Ordering::Equal,
        "$gt" => order() == Ordering::Greater,
        "$gte" => order() != Ordering::Less,
        "$lt" => order() == Ordering::Less,
        "$lte" => order() != Ordering::Greater,
        "$and" => given.iter().all(truthy),
        "$or" => given.iter().any(truthy),
        "$not" => !truthy(&given[0]),
        "$isArray" => matches!(given[0], Some(Tree::Array(_))),
        "$ifNull" => {
            let nullish =
                |t: &Option<Tree>| t.as_ref().is_none_or(|t| t.to_value().get().is_nullish());
            return given
                .iter()
                .find(|t| !nullish(t))
                .cloned()
                .unwrap_or_else(|| given.last().cloned().flatten());
        }
        other => panic!("not known: {other}"),
    };
    Some(Tree::leaf(result))
}
