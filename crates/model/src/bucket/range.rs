//! The least and the greatest values of a column as `control` stores them: for documents and arrays
//! those of each field and element; for values of several types the least value has the first type,
//! the greatest the last.

use crate::compare::{class, compare_with};
use crate::{ArrayWriter, Collate, DocWriter, OwnedValue, Value};
use std::cmp::Ordering;

/// One end of a range.
#[derive(Debug)]
pub(super) enum Extreme {
    Value(OwnedValue),
    Document(Vec<(String, Extreme)>),
    Array(Vec<Extreme>),
}

/// Which end is kept and how strings compare.
#[derive(Clone, Copy)]
pub(super) struct EndRule<'c> {
    /// The order of a new value relative to the kept one at which it replaces the kept one.
    pub(super) towards: Ordering,
    pub(super) collate: Option<&'c dyn Collate>,
}

impl Extreme {
    pub(super) fn of(v: Value<'_>) -> Extreme {
        match v {
            Value::Document(d) => Extreme::Document(
                d.iter()
                    .map(|(name, v)| (name.to_owned(), Extreme::of(v)))
                    .collect(),
            ),
            Value::Array(a) => Extreme::Array(a.iter().map(Extreme::of).collect()),
            v => Extreme::Value(v.to_owned_value()),
        }
    }

    /// Includes another value.
    pub(super) fn add(&mut self, v: Value<'_>, end: EndRule<'_>) {
        match (&mut *self, v) {
            (Extreme::Document(fields), Value::Document(d)) => {
                for (i, (name, v)) in d.iter().enumerate() {
                    // Usually the documents of a column have the same structure.
                    let same = fields.get(i).is_some_and(|(n, _)| n == name).then_some(i);
                    match same.or_else(|| fields.iter().position(|(n, _)| n == name)) {
                        Some(at) => fields[at].1.add(v, end),
                        None => fields.push((name.to_owned(), Extreme::of(v))),
                    }
                }
            }
            (Extreme::Array(elements), Value::Array(a)) => {
                for (i, v) in a.iter().enumerate() {
                    match elements.get_mut(i) {
                        Some(e) => e.add(v, end),
                        None => elements.push(Extreme::of(v)),
                    }
                }
            }
            (kept, v) => {
                let order = match kept {
                    Extreme::Value(kept) => compare_with(&v, &kept.get(), end.collate),
                    Extreme::Document(_) => {
                        class(&v).cmp(&class(&Value::Document(crate::Doc::EMPTY)))
                    }
                    Extreme::Array(_) => class(&v).cmp(&class(&Value::Array(crate::Array::EMPTY))),
                };
                if order == end.towards {
                    *kept = Extreme::of(v);
                }
            }
        }
    }

    pub(super) fn put(&self, name: &str, w: &mut DocWriter<'_>) {
        match self {
            Extreme::Value(v) => _ = w.put(name, v.get()),
            Extreme::Document(fields) => {
                let mut inner = w.doc(name);
                fields.iter().for_each(|(n, e)| e.put(n, &mut inner));
            }
            Extreme::Array(elements) => {
                let mut inner = w.array(name);
                elements.iter().for_each(|e| e.push(&mut inner));
            }
        }
    }

    fn push(&self, w: &mut ArrayWriter<'_>) {
        match self {
            Extreme::Value(v) => _ = w.push(v.get()),
            Extreme::Document(fields) => {
                let mut inner = w.doc();
                fields.iter().for_each(|(n, e)| e.put(n, &mut inner));
            }
            Extreme::Array(elements) => {
                let mut inner = w.array();
                elements.iter().for_each(|e| e.push(&mut inner));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DocBuf, doc};

    fn range(values: &[DocBuf], towards: Ordering) -> DocBuf {
        let end = EndRule {
            towards,
            collate: None,
        };
        let mut values = values.iter().map(|d| d.doc().field("v"));
        let mut kept = Extreme::of(values.next().unwrap());
        values.for_each(|v| kept.add(v, end));
        DocBuf::build(|w| kept.put("v", w))
    }

    #[test]
    fn documents_and_arrays_by_their_parts() {
        let values = [
            doc! { "v": { "a": 3i32, "b": [1i32, 9i32] } },
            doc! { "v": { "a": 1i32, "c": "x" } },
            doc! { "v": { "b": [4i32, 2i32, 7i32] } },
        ];
        assert_eq!(
            range(&values, Ordering::Less),
            doc! { "v": { "a": 1i32, "b": [1i32, 2i32, 7i32], "c": "x" } }
        );
        assert_eq!(
            range(&values, Ordering::Greater),
            doc! { "v": { "a": 3i32, "b": [4i32, 9i32, 7i32], "c": "x" } }
        );
    }

    #[test]
    fn types_come_before_values() {
        let values = [
            doc! { "v": "text" },
            doc! { "v": 5i32 },
            doc! { "v": { "a": 1i32 } },
            doc! { "v": 2.5 },
        ];
        assert_eq!(range(&values, Ordering::Less), doc! { "v": 2.5 });
        assert_eq!(
            range(&values, Ordering::Greater),
            doc! { "v": { "a": 1i32 } }
        );
    }
}
