//! A matcher written only from the documentation of the query language. It walks an owned tree with
//! the filter document in hand, compiles nothing, and shares with the real matcher only the
//! comparison of two values.

use super::tree::Tree;
use super::{expression, schema};
use model::{Collate, Value, compare::class, compare_with, decimal::DecimalParts};
use std::cmp::Ordering;

/// A regular expression that the generator may use, as a function.
pub(super) type RegexFunction = fn(&str) -> bool;
pub(super) const PATTERNS: [(&str, &str, RegexFunction); 14] = [
    ("^a", "", |s| s.starts_with('a')),
    ("b$", "", |s| s.ends_with('b')),
    ("a", "i", |s| s.contains(['a', 'A'])),
    ("^ab.*", "", |s| s.starts_with("ab")),
    ("", "", |_| true),
    ("^a|b", "", |s| s.starts_with('a') || s.contains('b')),
    ("^a?b", "", |s| s.starts_with('b') || s.starts_with("ab")),
    ("a{2}", "", |s| s.contains("aa")),
    ("^ab*", "", |s| s.starts_with('a')),
    ("ab", "", |s| s.contains("ab")),
    ("^B", "i", |s| s.starts_with(['b', 'B'])),
    ("a.b", "", |s| s.contains("aab")),
    ("a.b", "s", |s| s.contains("aab") || s.contains("a\nb")),
    ("^b", "m", |s| s.lines().any(|l| l.starts_with('b'))),
];

pub(super) type Strings<'c> = Option<&'c dyn Collate>;

fn leaf(t: &Tree) -> Option<Value<'_>> {
    match t {
        Tree::Leaf(v) => Some(v.get()),
        _ => None,
    }
}

/// Whether `doc` matches the filter.
pub(super) fn matches(filter: &Tree, doc: &Tree, c: Strings<'_>) -> bool {
    let Tree::Doc(clauses) = filter else {
        panic!("a filter is a document: {filter:?}")
    };
    clauses.iter().all(|(name, operand)| match name.as_str() {
        "$and" => list(operand).iter().all(|f| matches(f, doc, c)),
        "$or" => list(operand).iter().any(|f| matches(f, doc, c)),
        "$nor" => !list(operand).iter().any(|f| matches(f, doc, c)),
        "$comment" => true,
        "$expr" => expression::truthy(&expression::value(operand, doc, c)),
        "$jsonSchema" => schema::valid(operand, doc),
        path => {
            let path: Vec<&str> = path.split('.').collect();
            match operators(operand) {
                Some(ops) => ops.iter().all(|(op, v)| on_path(op, v, ops, &path, doc, c)),
                None => some(&path, doc, true, &mut |v| equal_or_pattern(operand, v, c)),
            }
        }
    })
}

fn list(t: &Tree) -> &[Tree] {
    match t {
        Tree::Array(items) => items,
        _ => panic!("a list: {t:?}"),
    }
}

/// The operators, when the tree is a document of operators.
fn operators(t: &Tree) -> Option<&[(String, Tree)]> {
    match t {
        Tree::Doc(fields) if fields.first().is_some_and(|(n, _)| n.starts_with('$')) => {
            Some(fields)
        }
        _ => None,
    }
}

/// The values at a path. `None` stands for a missing one; the flag says whether an array also
/// stands for its elements.
fn reach<'t>(t: &'t Tree, path: &[&str], out: &mut Vec<(Option<&'t Tree>, bool)>) {
    let (name, rest) = (path[0], &path[1..]);
    match t {
        Tree::Doc(fields) => match (
            fields.iter().find(|(n, _)| n == name).map(|(_, v)| v),
            rest.is_empty(),
        ) {
            (found, true) => out.push((found, true)),
            (Some(inner @ (Tree::Doc(_) | Tree::Array(_))), false) => reach(inner, rest, out),
            (_, false) => out.push((None, true)),
        },
        Tree::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                if matches!(item, Tree::Doc(_)) {
                    reach(item, path, out);
                }
                if i.to_string() == name {
                    match item {
                        item if rest.is_empty() => out.push((Some(item), false)),
                        Tree::Leaf(_) => {}
                        inner => reach(inner, rest, out),
                    }
                }
            }
        }
        Tree::Leaf(_) => {}
    }
}

/// Whether some value at the path passes. `expand`: an array at the end stands for itself and for
/// its elements.
fn some(
    path: &[&str],
    doc: &Tree,
    expand: bool,
    passes: &mut dyn FnMut(Option<&Tree>) -> bool,
) -> bool {
    let mut found = Vec::new();
    reach(doc, path, &mut found);
    found.into_iter().any(|(v, by_name)| {
        if let (Some(Tree::Array(items)), true, true) = (v, expand, by_name)
            && items.iter().any(|i| passes(Some(i)))
        {
            return true;
        }
        passes(v)
    })
}

fn on_path(
    op: &str,
    operand: &Tree,
    all: &[(String, Tree)],
    path: &[&str],
    doc: &Tree,
    c: Strings<'_>,
) -> bool {
    match op {
        "$ne" => !on_path("$eq", operand, all, path, doc, c),
        "$nin" => !on_path("$in", operand, all, path, doc, c),
        "$not" => match operators(operand) {
            Some(ops) => !ops.iter().all(|(op, v)| on_path(op, v, ops, path, doc, c)),
            None => !some(path, doc, true, &mut |v| equal_or_pattern(operand, v, c)),
        },
        "$exists" => {
            some(path, doc, true, &mut |v| v.is_some()) == operand.to_value().get().truthy()
        }
        "$all" if list(operand).is_empty() => false,
        "$all" => list(operand).iter().all(|one| match operators(one) {
            Some(ops) => ops.iter().all(|(op, v)| on_path(op, v, ops, path, doc, c)),
            None => some(path, doc, true, &mut |v| equal_or_pattern(one, v, c)),
        }),
        "$size" | "$elemMatch" => some(path, doc, false, &mut |v| on_value(op, operand, all, v, c)),
        op => some(path, doc, true, &mut |v| on_value(op, operand, all, v, c)),
    }
}

/// Applies one operator to one value, without descending.
fn on_value(
    op: &str,
    operand: &Tree,
    all: &[(String, Tree)],
    v: Option<&Tree>,
    c: Strings<'_>,
) -> bool {
    let by = |wanted: &[Ordering]| {
        compare_in_bracket(operand, v, c).is_some_and(|o| wanted.contains(&o))
    };
    use Ordering::{Equal, Greater, Less};
    match op {
        "$eq" => equal_or_pattern_as_value(operand, v, c),
        "$gt" => by(&[Greater]),
        "$gte" => by(&[Greater, Equal]),
        "$lt" => by(&[Less]),
        "$lte" => by(&[Less, Equal]),
        "$in" => list(operand).iter().any(|one| equal_or_pattern(one, v, c)),
        "$ne" => !on_value("$eq", operand, all, v, c),
        "$nin" => !on_value("$in", operand, all, v, c),
        "$exists" => v.is_some() == operand.to_value().get().truthy(),
        "$type" => v.is_some_and(|v| is_of_type(operand, v)),
        "$regex" => {
            let options = all
                .iter()
                .find(|(n, _)| n == "$options")
                .map(|(_, o)| o.to_value());
            let options = options
                .as_ref()
                .and_then(|o| o.get().as_str())
                .unwrap_or("")
                .to_owned();
            pattern_matches(
                operand.to_value().get().as_str().expect("a pattern"),
                &options,
                v,
            )
        }
        "$options" => true,
        "$mod" => modulo(operand, v),
        "$size" => {
            matches!(v, Some(Tree::Array(items))
                if Some(items.len() as i64) == operand.to_value().get().as_i64_exact())
        }
        "$bitsAllSet" | "$bitsAllClear" | "$bitsAnySet" | "$bitsAnyClear" => bits(op, operand, v),
        "$all" => {
            !list(operand).is_empty()
                && list(operand).iter().all(|one| match operators(one) {
                    Some(ops) => ops.iter().all(|(op, w)| on_value(op, w, ops, v, c)),
                    None => equal_or_pattern(one, v, c),
                })
        }
        "$not" => match operators(operand) {
            Some(ops) => !ops.iter().all(|(op, w)| on_value(op, w, ops, v, c)),
            None => !equal_or_pattern(operand, v, c),
        },
        "$elemMatch" => elem_match(operand, v, c),
        other => panic!("not known: {other}"),
    }
}

fn elem_match(operand: &Tree, v: Option<&Tree>, c: Strings<'_>) -> bool {
    let Some(Tree::Array(items)) = v else {
        return false;
    };
    let logical = |n: &str| matches!(n, "$and" | "$or" | "$nor" | "$jsonSchema");
    match operators(operand) {
        Some(ops) if !logical(&ops[0].0) => items
            .iter()
            .any(|i| ops.iter().all(|(op, w)| on_value(op, w, ops, Some(i), c))),
        // An array among the elements is treated as a document whose names are its positions.
        _ => items.iter().any(|i| match i {
            Tree::Doc(_) => matches(operand, i, c),
            Tree::Array(inner) => {
                let named = inner
                    .iter()
                    .enumerate()
                    .map(|(n, t)| (n.to_string(), t.clone()))
                    .collect();
                matches(operand, &Tree::Doc(named), c)
            }
            Tree::Leaf(_) => false,
        }),
    }
}

/// The order of a value relative to an operand of the same type bracket; `None` if they are not
/// comparable.
fn compare_in_bracket(operand: &Tree, v: Option<&Tree>, c: Strings<'_>) -> Option<Ordering> {
    let operand = operand.to_value();
    let wanted = operand.get();
    let owned = v.map(Tree::to_value);
    let have = owned.as_ref().map_or(Value::Missing, |o| o.get());
    match (&have, &wanted) {
        (Value::Missing, Value::Null) => return Some(Ordering::Equal),
        (Value::MinKey, Value::MinKey) | (Value::MaxKey, Value::MaxKey) => {
            return Some(Ordering::Equal);
        }
        (_, Value::MinKey) => return Some(Ordering::Greater),
        (_, Value::MaxKey) => return Some(Ordering::Less),
        _ if class(&have) != class(&wanted) => return None,
        _ => {}
    }
    let nan = |v: &Value<'_>| match v {
        Value::Double(d) => d.is_nan(),
        Value::Decimal128(d) => matches!(d.parts(), DecimalParts::Nan),
        _ => false,
    };
    if nan(&have) != nan(&wanted) {
        return None;
    }
    Some(compare_with(&have, &wanted, c))
}

fn equal_or_pattern_as_value(operand: &Tree, v: Option<&Tree>, c: Strings<'_>) -> bool {
    compare_in_bracket(operand, v, c) == Some(Ordering::Equal)
}

/// Equality, where a regular expression matches strings and equals itself.
fn equal_or_pattern(operand: &Tree, v: Option<&Tree>, c: Strings<'_>) -> bool {
    match leaf(operand) {
        Some(Value::Regex(r)) => pattern_matches(r.pattern, r.options, v),
        _ => equal_or_pattern_as_value(operand, v, c),
    }
}

fn pattern_matches(pattern: &str, options: &str, v: Option<&Tree>) -> bool {
    let meaning = PATTERNS
        .iter()
        .find(|(p, o, _)| (*p, *o) == (pattern, options))
        .expect("a known pattern")
        .2;
    match v.and_then(leaf) {
        Some(Value::String(s) | Value::Symbol(s)) => meaning(s),
        Some(Value::Regex(r)) => (r.pattern, r.options) == (pattern, options),
        _ => false,
    }
}

fn is_of_type(operand: &Tree, v: &Tree) -> bool {
    if let Tree::Array(many) = operand {
        return many.iter().any(|one| is_of_type(one, v));
    }
    let (operand, v) = (operand.to_value(), v.to_value());
    let tag = v.get().tag();
    match operand.get() {
        Value::String("number") => v.get().is_number(),
        Value::String(name) => tag.name() == name,
        n => match n.as_i64_exact().expect("a type number") {
            -1 => tag.0 == 0xFF,
            n => i64::from(tag.0) == n,
        },
    }
}

/// The integer part of a finite number in the range of 64 bits.
fn integer_part(v: &Value<'_>) -> Option<i64> {
    match v {
        Value::Int32(n) => Some(i64::from(*n)),
        Value::Int64(n) => Some(*n),
        Value::Double(d) if d.is_finite() && d.abs() < 9_223_372_036_854_775_808.0 => {
            Some(*d as i64)
        }
        Value::Double(d) if *d == -9_223_372_036_854_775_808.0 => Some(i64::MIN),
        Value::Decimal128(d) => match d.parts() {
            DecimalParts::Finite {
                negative,
                coefficient,
                exponent,
            } => {
                let magnitude = match 10u128.checked_pow(exponent.unsigned_abs()) {
                    Some(scale) if exponent < 0 => coefficient / scale,
                    Some(scale) => coefficient.checked_mul(scale)?,
                    None if exponent < 0 || coefficient == 0 => 0,
                    None => return None,
                };
                let magnitude = i128::try_from(magnitude).ok()?;
                i64::try_from(if negative { -magnitude } else { magnitude }).ok()
            }
            _ => None,
        },
        _ => None,
    }
}

fn modulo(operand: &Tree, v: Option<&Tree>) -> bool {
    let part = |i: usize| integer_part(&list(operand)[i].to_value().get()).expect("an integer");
    let Some(n) = v.and_then(leaf).and_then(|v| integer_part(&v)) else {
        return false;
    };
    i128::from(n) % i128::from(part(0)) == i128::from(part(1))
}

fn bits(op: &str, operand: &Tree, v: Option<&Tree>) -> bool {
    let owned = operand.to_value();
    let wanted: Vec<u32> = match owned.get() {
        Value::Array(a) => a
            .iter()
            .map(|p| p.as_i64_exact().expect("a position") as u32)
            .collect(),
        Value::Binary(b) => (0..b.bytes.len() as u32 * 8)
            .filter(|p| b.bytes[*p as usize / 8] & (1 << (p % 8)) != 0)
            .collect(),
        n => {
            let mask = n.as_i64_exact().expect("a mask");
            (0..63).filter(|p| mask & (1 << p) != 0).collect()
        }
    };
    let is_set: Vec<bool> = match v.and_then(leaf) {
        Some(Value::Binary(b)) => wanted
            .iter()
            .map(|p| {
                b.bytes
                    .get(*p as usize / 8)
                    .is_some_and(|x| x & (1 << (p % 8)) != 0)
            })
            .collect(),
        Some(n) => {
            let Some(whole) =
                integer_part(&n).filter(|w| model::compare(&Value::Int64(*w), &n).is_eq())
            else {
                return false;
            };
            wanted
                .iter()
                .map(|p| i128::from(whole) & (1i128 << (*p).min(100)) != 0)
                .collect()
        }
        None => return false,
    };
    match op {
        "$bitsAllSet" => is_set.iter().all(|b| *b),
        "$bitsAllClear" => !is_set.contains(&true),
        "$bitsAnySet" => is_set.contains(&true),
        _ => is_set.contains(&false),
    }
}
