//! The difference that the log records for an update: a document that lists the fields that were
//! removed, changed and added, and the differences within fields.
//!
//! Sections for a document: `d` removed, `u` changed, `i` added, `sNAME` differences within a
//! field. For an array: `a: true`, `l` its new length when it became shorter, `uN` and `sN` by
//! position. Made from two documents and from the paths that the update names: an update that sets
//! a whole field is recorded as setting the whole field. Must not know: update operators, the log.

use model::{Doc, DocBuf, DocWriter, Element, Tag, Value};
use std::collections::BTreeMap;

/// The paths that an update may have changed.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangedPaths {
    /// Only these paths may have changed.
    Paths(Paths),
    /// Anything may have changed.
    Anything,
}

/// A tree of paths by their components.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Paths {
    /// A map, because it is searched for each field of a document and an update may name a hundred
    /// thousand paths.
    children: BTreeMap<String, Paths>,
    /// The paths below a component that stands for any element of an array.
    any: Option<Box<Paths>>,
    end: Option<Set>,
}

/// How the value at the end of a path was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// The value was set as a whole.
    Whole,
    /// Elements may have been added at the end of an array.
    Appended,
}

impl Paths {
    /// Adds a path; components like `$`, `$[]` and `$[name]` stand for any element.
    pub fn add(&mut self, path: &str, set: Set) {
        let mut at = self;
        for part in path.split('.') {
            at = if part.starts_with('$') {
                at.any.get_or_insert_default()
            } else {
                at.children.entry(part.to_owned()).or_default()
            };
        }
        at.end = Some(set);
    }

    fn child(&self, name: &[u8]) -> Option<&Paths> {
        let named = std::str::from_utf8(name).ok();
        let named = named.and_then(|name| self.children.get(name));
        named.or(self.any.as_deref())
    }
}

/// The difference between `old` and `new`. `None` when a replacement records it better: nothing
/// differs, or the difference is not shorter than the document.
pub fn diff(old: Doc<'_>, new: Doc<'_>, touched: &ChangedPaths) -> Option<DocBuf> {
    let paths = match touched {
        ChangedPaths::Paths(paths) => Some(paths),
        ChangedPaths::Anything => None,
    };
    let diff = document(old, new, paths);
    let shorter = paths.is_some() || diff.as_bytes().len() < new.len_bytes();
    Some(diff).filter(|d| !d.doc().is_empty() && shorter)
}

/// The change of one field.
enum Outcome {
    Same,
    Whole,
    Within(DocBuf),
}

fn same(a: &Element<'_>, b: &Element<'_>) -> bool {
    a.tag == b.tag && a.payload == b.payload
}

fn outcome(old: &Element<'_>, new: &Element<'_>, paths: Option<Option<&Paths>>) -> Outcome {
    if same(old, new) {
        return Outcome::Same;
    }
    let within = match paths {
        // The field has changed although the update does not name it, so the named paths cannot be
        // trusted.
        Some(None) => return Outcome::Whole,
        Some(Some(p)) => match p.end {
            Some(Set::Whole) => return Outcome::Whole,
            Some(Set::Appended) => {
                let appended = (old.value().as_array())
                    .zip(new.value().as_array())
                    .and_then(|(o, n)| appended_elements(o.as_doc(), n.as_doc()));
                return appended.map_or(Outcome::Whole, Outcome::Within);
            }
            None => Some(p),
        },
        None => None,
    };
    let diff = match (old.value(), new.value()) {
        (Value::Document(o), Value::Document(n)) => document(o, n, within),
        (Value::Array(o), Value::Array(n)) => array(o.as_doc(), n.as_doc(), within),
        _ => return Outcome::Whole,
    };
    if diff.doc().is_empty() || diff.as_bytes().len() >= new.payload.len() && within.is_none() {
        return Outcome::Whole;
    }
    Outcome::Within(diff)
}

/// The elements of `new` after those of `old`; `None` when `new` does not begin with `old`.
fn appended_elements(old: Doc<'_>, new: Doc<'_>) -> Option<DocBuf> {
    let mut rest = new.elements();
    for o in old.elements() {
        rest.next().filter(|n| same(&o, n))?;
    }
    let mut diff = DocBuf::new();
    diff.put("a", true);
    let mut any = false;
    for (n, e) in rest.enumerate() {
        any = true;
        let name = format!("u{}", old.count() + n);
        diff.append(|w| put_as(w, &name, &e));
    }
    any.then_some(diff)
}

fn put_as(w: &mut DocWriter<'_>, name: &str, e: &Element<'_>) {
    w.put_raw(name.as_bytes(), e.tag, e.payload);
}

fn document(old: Doc<'_>, new: Doc<'_>, paths: Option<&Paths>) -> DocBuf {
    let (mut removed, mut changed, mut added) = (Vec::new(), Vec::new(), Vec::new());
    let mut within: Vec<(Element<'_>, DocBuf)> = Vec::new();
    let mut olds = old.elements().peekable();
    for n in new.elements() {
        // Fields keep their order; a field that moved was removed and added.
        let other = |o: &Element<'_>| o.name != n.name;
        if olds.peek().is_some_and(other) && old.contains(n.name_str()) {
            while let Some(o) = olds.next_if(|o| other(o) && !removed.contains(&n.name)) {
                removed.push(o.name);
            }
        }
        let Some(o) = olds.next_if(|o| o.name == n.name) else {
            removed.retain(|name| *name != n.name);
            added.push(n);
            continue;
        };
        match outcome(&o, &n, paths.map(|p| p.child(o.name))) {
            Outcome::Same => {}
            Outcome::Whole => changed.push(n),
            Outcome::Within(diff) => within.push((n, diff)),
        }
    }
    removed.extend(olds.map(|o| o.name));
    DocBuf::build(|w| {
        if !removed.is_empty() {
            let mut d = w.doc("d");
            for name in &removed {
                d.put_raw(name, Tag::BOOL, &[0]);
            }
        }
        for (section, list) in [("u", &changed), ("i", &added)] {
            if !list.is_empty() {
                let mut s = w.doc(section);
                list.iter().for_each(|e| _ = s.put_element(e));
            }
        }
        for (e, diff) in &within {
            let name = [b"s", e.name].concat();
            w.put_raw(&name, Tag::DOCUMENT, diff.as_bytes());
        }
    })
}

fn array(old: Doc<'_>, new: Doc<'_>, paths: Option<&Paths>) -> DocBuf {
    let (had, has) = (old.count(), new.count());
    // When an operator has removed elements, the whole array is recorded.
    if paths.is_some() && has < had {
        return DocBuf::new();
    }
    let mut any = has < had;
    let diff = DocBuf::build(|w| {
        w.put("a", true);
        if has < had {
            w.put("l", i32::try_from(has).unwrap_or(i32::MAX));
        }
        let mut olds = old.elements();
        for (i, n) in new.elements().enumerate() {
            let Some(o) = olds.next() else {
                any = true;
                put_as(w, &format!("u{i}"), &n);
                continue;
            };
            match outcome(&o, &n, paths.map(|p| p.child(o.name))) {
                Outcome::Same => {}
                Outcome::Whole => {
                    any = true;
                    put_as(w, &format!("u{i}"), &n);
                }
                Outcome::Within(diff) => {
                    any = true;
                    w.put(&format!("s{i}"), &diff);
                }
            }
        }
    });
    if any { diff } else { DocBuf::new() }
}

/// Applies `diff`, as the log has it, to `old`. `None` when it does not fit.
pub fn apply(old: Doc<'_>, diff: Doc<'_>) -> Option<DocBuf> {
    let (new, fits) = apply_what_fits(old, diff);
    fits.then_some(new)
}

/// As [`apply`], and whether all of it fits. A field that is no document or array, although the
/// difference has changes within it, stays as it is.
pub fn apply_what_fits(old: Doc<'_>, diff: Doc<'_>) -> (DocBuf, bool) {
    let section = |name: &str| diff.field(name).as_doc().unwrap_or(Doc::EMPTY);
    let (removed, changed, added) = (section("d"), section("u"), section("i"));
    let mut fits = true;
    let new = DocBuf::build(|w| {
        for e in old.elements() {
            let name = e.name_str();
            if removed.contains(name) || added.contains(name) {
                continue;
            }
            if let Some(new) = changed.get_element(name) {
                w.put_element(&new);
            } else if let Some(inner) = diff.get(&format!("s{name}")) {
                fits &= apply_within(w, name, &e, inner.as_doc());
            } else {
                w.put_element(&e);
            }
        }
        let new = |e: &Element<'_>| !old.contains(e.name_str());
        for e in changed.elements().filter(new).chain(added.elements()) {
            w.put_element(&e);
        }
    });
    (new, fits)
}

fn apply_within(
    w: &mut DocWriter<'_>,
    name: &str,
    old: &Element<'_>,
    diff: Option<Doc<'_>>,
) -> bool {
    match (old.value(), diff) {
        (Value::Document(d), Some(diff)) => {
            let (new, fits) = apply_what_fits(d, diff);
            w.put(name, &new);
            fits
        }
        (Value::Array(a), Some(diff)) => apply_array(w, name, a.as_doc(), diff),
        _ => {
            put_as(w, name, old);
            false
        }
    }
}

fn apply_array(w: &mut DocWriter<'_>, name: &str, old: Doc<'_>, diff: Doc<'_>) -> bool {
    let position = |n: &str| n.get(1..).and_then(|n| n.parse::<usize>().ok());
    let highest = diff
        .iter()
        .filter(|(n, _)| n.starts_with(['u', 's']))
        .filter_map(|(n, _)| position(n))
        .max();
    let len = match diff.field("l").as_i64_exact() {
        Some(n) => usize::try_from(n).unwrap_or(0),
        None => old.count().max(highest.map_or(0, |h| h.saturating_add(1))),
    };
    if len > old.count().saturating_add(diff.len_bytes()) {
        w.put(name, old.as_array());
        return false;
    }
    let mut fits = true;
    // An array is a document whose field names are positions.
    let new = DocBuf::build(|w| {
        let mut olds = old.elements();
        for i in 0..len {
            let (o, name) = (olds.next(), i.to_string());
            if let Some(e) = diff.get_element(&format!("u{i}")) {
                put_as(w, &name, &e);
                continue;
            }
            match (o, diff.get(&format!("s{i}"))) {
                (Some(o), Some(inner)) => fits &= apply_within(w, &name, &o, inner.as_doc()),
                (Some(o), None) => put_as(w, &name, &o),
                (None, _) => _ = w.put(&name, Value::Null),
            }
        }
    });
    w.put(name, new.doc().as_array());
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::extjson::parse_document;

    fn doc(json: &str) -> DocBuf {
        parse_document(json).unwrap()
    }

    #[track_caller]
    fn check(old: &str, new: &str, touched: &ChangedPaths, expected: &str) {
        let (old, new, expected) = (doc(old), doc(new), doc(expected));
        let diff = diff(old.doc(), new.doc(), touched).unwrap();
        assert_eq!(diff.doc(), expected.doc());
        let again = apply(old.doc(), diff.doc()).unwrap();
        assert_eq!(again.doc(), new.doc());
    }

    fn paths(list: &[(&str, Set)]) -> ChangedPaths {
        let mut paths = Paths::default();
        list.iter().for_each(|(p, set)| paths.add(p, *set));
        ChangedPaths::Paths(paths)
    }

    #[test]
    fn a_field_set_as_a_whole_is_told_as_a_whole() {
        let old = r#"{"_id": 1, "a": {"b": 1, "c": 2}, "x": 1}"#;
        let new = r#"{"_id": 1, "a": {"b": 1, "c": 3}, "n": 1}"#;
        let set = paths(&[("a", Set::Whole), ("x", Set::Whole), ("n", Set::Whole)]);
        let expected = r#"{"d": {"x": false}, "u": {"a": {"b": 1, "c": 3}}, "i": {"n": 1}}"#;
        check(old, new, &set, expected);
        let below = paths(&[("a.c", Set::Whole), ("x", Set::Whole), ("n", Set::Whole)]);
        let expected = r#"{"d": {"x": false}, "i": {"n": 1}, "sa": {"u": {"c": 3}}}"#;
        check(old, new, &below, expected);
    }

    #[test]
    fn arrays_by_position_by_appending_and_as_a_whole() {
        let old = r#"{"a": [1, {"b": 1}, 3]}"#;
        let by_position = paths(&[("a.1.b", Set::Whole)]);
        let expected = r#"{"sa": {"a": true, "s1": {"u": {"b": 2}}}}"#;
        check(old, r#"{"a": [1, {"b": 2}, 3]}"#, &by_position, expected);
        let all = paths(&[("a.$[]", Set::Whole)]);
        let expected = r#"{"sa": {"a": true, "u0": 2, "u2": 4}}"#;
        check(old, r#"{"a": [2, {"b": 1}, 4]}"#, &all, expected);
        let push = paths(&[("a", Set::Appended)]);
        let expected = r#"{"sa": {"a": true, "u3": 4}}"#;
        check(old, r#"{"a": [1, {"b": 1}, 3, 4]}"#, &push, expected);
        let expected = r#"{"u": {"a": [{"b": 1}, 3]}}"#;
        check(old, r#"{"a": [{"b": 1}, 3]}"#, &push, expected);
        let pull = paths(&[("a", Set::Whole)]);
        check(old, r#"{"a": [{"b": 1}, 3]}"#, &pull, expected);
    }

    #[test]
    fn a_pipeline_may_shorten_arrays_and_move_fields() {
        let long = "x".repeat(200);
        let old = format!(r#"{{"_id": 1, "a": ["{long}", 2, 3], "b": 1, "c": 2, "e": {{}}}}"#);
        let new = format!(r#"{{"_id": 1, "a": ["{long}", 2], "c": 2, "e": {{}}, "b": 1}}"#);
        let expected = r#"{"i": {"b": 1}, "sa": {"a": true, "l": 2}}"#;
        let (old, new) = (doc(&old), doc(&new));
        let found = diff(old.doc(), new.doc(), &ChangedPaths::Anything).unwrap();
        assert_eq!(found.doc(), doc(expected).doc());
        assert_eq!(apply(old.doc(), found.doc()).unwrap().doc(), new.doc());
        // As long as the document itself.
        let (old, new) = (doc(r#"{"a": 1}"#), doc(r#"{"b": 2}"#));
        assert_eq!(diff(old.doc(), new.doc(), &ChangedPaths::Anything), None);
    }
}
