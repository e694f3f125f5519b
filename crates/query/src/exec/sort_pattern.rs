//! A sort order: `{a: 1, "b.c": -1, score: {$meta: "textScore"}}`, and the key of a document in
//! that order.
//!
//! A missing field sorts as null; an array sorts by its least element in ascending order and by its
//! greatest in descending order; an empty array sorts before null. Parallel arrays cannot be sorted
//! by (2). Errors: 15974 value neither number nor `$meta`, 15975 number other than 1 and -1, 15976
//! empty, 13103 more than 32 keys, 17312 other expressions, 31138 unknown `$meta`, field path
//! codes.

use crate::path::checked_path;
use model::{
    Array, Collate, Doc, DocBuf, FieldPath, Number, Result, Value, bail, code, compare_with,
};
use operators::{Env, RequiredFields};
use smallvec::SmallVec;
use std::cmp::Ordering;

/// One component of a sort order.
#[derive(Clone, Debug)]
pub struct SortPart {
    /// The field or metadata it compares.
    pub by: SortBy,
    /// Smallest first.
    pub ascending: bool,
}

/// What a component compares.
#[derive(Clone, Debug)]
pub enum SortBy {
    /// A field.
    Path(FieldPath),
    /// A metadata value; greatest first.
    Meta(String),
}

/// A sort order.
#[derive(Clone, Debug)]
pub struct SortPattern {
    spec: DocBuf,
    parts: Vec<SortPart>,
}

/// Most components of a sort order.
const MAX_PARTS: usize = 32;

impl SortPattern {
    /// Parses a specification.
    ///
    /// # Errors
    /// See the head of this file.
    pub fn parse(spec: Doc<'_>) -> Result<SortPattern> {
        let mut parts = Vec::new();
        for (name, v) in spec.iter() {
            parts.push(parse_part(name, v)?);
        }
        if parts.is_empty() {
            bail!(15976, "$sort stage must have at least one sort key");
        }
        let paths = parts
            .iter()
            .filter(|p: &&SortPart| matches!(p.by, SortBy::Path(_)))
            .count();
        if paths > MAX_PARTS {
            bail!(
                13103,
                "too many compound keys: {} given, at most {MAX_PARTS} allowed",
                paths
            );
        }
        Ok(SortPattern {
            spec: spec.to_buf(),
            parts,
        })
    }

    /// As the client wrote it.
    pub fn spec(&self) -> Doc<'_> {
        self.spec.doc()
    }

    /// The components.
    pub fn parts(&self) -> &[SortPart] {
        &self.parts
    }

    /// Adds the fields that decide the order.
    pub fn reads(&self, reads: &mut RequiredFields) {
        for part in &self.parts {
            match &part.by {
                SortBy::Path(path) => reads.add_path(path),
                // Metadata is beside the document, not a field of it.
                SortBy::Meta(_) => {}
            }
        }
    }

    /// Appends the sort key of a document to `out`: byte strings that compare in this order.
    ///
    /// # Errors
    /// 2 BadValue for parallel arrays.
    pub fn key_into(
        &self,
        doc: Doc<'_>,
        meta: Option<Doc<'_>>,
        env: &Env,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut values = SmallVec::<[Value<'_>; 4]>::new();
        self.key_values(doc, meta, env, &mut values)?;
        for (part, v) in self.parts.iter().zip(&values) {
            store::format::keys::encode_directed(v, !part.ascending, env.collate(), out);
        }
        // An end mark, as in an index: one encoding may be a prefix of another, and the next byte
        // then decides.
        out.push(store::format::keys::END);
        Ok(())
    }

    /// The sort key of a document, as values.
    ///
    /// # Errors
    /// 2 BadValue for parallel arrays.
    pub fn key_values<'a>(
        &self,
        doc: Doc<'a>,
        meta: Option<Doc<'a>>,
        env: &Env,
        out: &mut SmallVec<[Value<'a>; 4]>,
    ) -> Result<()> {
        let mut arrays = false;
        for part in &self.parts {
            let v = match &part.by {
                SortBy::Meta(name) if name == "randVal" => Value::Double(env.random_f64()),
                SortBy::Meta(name) => meta.map_or(Value::Null, |m| null_for_missing(m.field(name))),
                SortBy::Path(path) => match value_without_arrays(doc, path) {
                    Some(v) => null_for_missing(v),
                    None => {
                        arrays = true;
                        Value::Null
                    }
                },
            };
            out.push(v);
        }
        if arrays {
            self.least_key(doc, env, out)
        } else {
            Ok(())
        }
    }

    /// Compares two keys.
    pub fn compare(
        &self,
        a: &[Value<'_>],
        b: &[Value<'_>],
        collate: Option<&dyn Collate>,
    ) -> Ordering {
        for ((part, x), y) in self.parts.iter().zip(a).zip(b) {
            let order = compare_with(x, y, collate);
            if order != Ordering::Equal {
                return if part.ascending {
                    order
                } else {
                    order.reverse()
                };
            }
        }
        Ordering::Equal
    }

    /// Expands arrays into all keys and keeps the least of them in this order.
    fn least_key<'a>(
        &self,
        doc: Doc<'a>,
        env: &Env,
        out: &mut SmallVec<[Value<'a>; 4]>,
    ) -> Result<()> {
        let cursors: Vec<Option<PathCursor<'a, '_>>> = self
            .parts
            .iter()
            .map(|p| match &p.by {
                SortBy::Path(path) => Some(PathCursor {
                    at: Value::Document(doc),
                    path: path.parts(),
                }),
                SortBy::Meta(_) => None,
            })
            .collect();
        let mut best: Option<SmallVec<[Value<'a>; 4]>> = None;
        let fixed = out.clone();
        expand(&cursors, &mut |key| {
            let key: SmallVec<[Value<'a>; 4]> = key
                .iter()
                .zip(&fixed)
                .map(|(k, f)| k.map_or(*f, null_for_missing))
                .collect();
            if best
                .as_ref()
                .is_none_or(|b| self.compare(&key, b, env.collate()) == Ordering::Less)
            {
                best = Some(key);
            }
        })?;
        if let Some(best) = best {
            *out = best;
        }
        Ok(())
    }
}

fn null_for_missing(v: Value<'_>) -> Value<'_> {
    if v.is_missing() { Value::Null } else { v }
}

fn parse_part(name: &str, v: Value<'_>) -> Result<SortPart> {
    if let Value::Document(d) = v {
        let by = match (d.first(), d.count()) {
            (Some(("$meta", Value::String(what))), 1) => what,
            (Some(("$meta", other)), 1) => bail!(31138, "Illegal $meta sort: {other}"),
            (Some(("$meta", _)), _) => bail!(
                code::FAILED_TO_PARSE,
                "Cannot have additional keys in a $meta sort specification: {d}"
            ),
            _ => bail!(
                17312,
                "$meta is the only expression supported by $sort right now, not {d}"
            ),
        };
        const KNOWN: &[&str] = &[
            "textScore",
            "randVal",
            "searchScore",
            "geoNearDistance",
            "vectorSearchScore",
            "score",
            "scoreDetails",
            "timeseriesBucketMinTime",
            "timeseriesBucketMaxTime",
        ];
        if !KNOWN.contains(&by) {
            bail!(31138, "Illegal $meta sort: $meta: \"{by}\"");
        }
        return Ok(SortPart {
            by: SortBy::Meta(by.to_owned()),
            ascending: false,
        });
    }
    let Some(number) = Number::of(&v) else {
        bail!(
            15974,
            "Illegal key in $sort specification: {name}: {v}. Allowed are 1, -1 and {{$meta: \
                ...}}"
        );
    };
    let direction = match number {
        Number::Decimal(d) => round_decimal(&d),
        other => truncate_number(other.to_f64()),
    };
    let ascending = match direction {
        Some(1) => true,
        Some(-1) => false,
        _ => bail!(
            15975,
            "$sort key ordering must be 1 (for ascending) or -1 (for descending), not {v}"
        ),
    };
    Ok(SortPart {
        by: SortBy::Path(checked_path(name)?),
        ascending,
    })
}

fn truncate_number(n: f64) -> Option<i32> {
    (n.is_finite() && n.abs() < 1e9).then_some(n as i32)
}

/// Decimals are rounded half to even instead.
fn round_decimal(d: &model::Decimal128) -> Option<i32> {
    let n = d.to_f64();
    (n.is_finite() && n.abs() < 1e9).then(|| n.round_ties_even() as i32)
}

/// The value at a path if there is no array on the path or at its end; otherwise `None`.
fn value_without_arrays<'a>(doc: Doc<'a>, path: &FieldPath) -> Option<Value<'a>> {
    let mut at = Value::Document(doc);
    for part in path.parts() {
        at = match at {
            Value::Document(d) => d.field(&part.name),
            Value::Array(_) => return None,
            _ => return Some(Value::Missing),
        };
    }
    if matches!(at, Value::Array(_)) {
        None
    } else {
        Some(at)
    }
}

/// The position of one component within the document.
#[derive(Clone, Copy)]
struct PathCursor<'a, 'p> {
    at: Value<'a>,
    path: &'p [model::path::PathPart],
}

impl<'a> PathCursor<'a, '_> {
    /// Advances to the next array or to the end of the path.
    fn advance(&mut self) {
        while let (Value::Document(d), Some((head, rest))) = (self.at, self.path.split_first()) {
            self.at = d.field(&head.name);
            self.path = rest;
        }
        if !matches!(self.at, Value::Array(_)) && !self.path.is_empty() {
            self.at = Value::Missing;
            self.path = &[];
        }
    }
    fn array(&self) -> Option<Array<'a>> {
        self.at.as_array()
    }
}

/// Emits every key that the arrays yield. At each level all components must be in the same array.
fn expand<'a>(
    walks: &[Option<PathCursor<'a, '_>>],
    emit: &mut dyn FnMut(&[Option<Value<'a>>]),
) -> Result<()> {
    let mut walks = walks.to_vec();
    let mut array: Option<Array<'a>> = None;
    for w in walks.iter_mut().flatten() {
        w.advance();
        let Some(found) = w.array() else { continue };
        match array {
            None => array = Some(found),
            Some(a) if std::ptr::eq(a.as_bytes(), found.as_bytes()) => {}
            Some(_) => bail!(
                code::BAD_VALUE,
                "cannot sort with keys that are parallel arrays"
            ),
        }
    }
    let Some(array) = array else {
        let key: SmallVec<[Option<Value<'a>>; 4]> = walks.iter().map(|w| w.map(|w| w.at)).collect();
        emit(&key);
        return Ok(());
    };
    if array.is_empty() {
        return expand_element(&walks, None, emit);
    }
    for item in array.iter() {
        expand_element(&walks, Some((array, item)), emit)?;
    }
    Ok(())
}

/// Replaces the array by one of its elements; `None` for an empty array.
fn expand_element<'a>(
    walks: &[Option<PathCursor<'a, '_>>],
    element: Option<(Array<'a>, Value<'a>)>,
    emit: &mut dyn FnMut(&[Option<Value<'a>>]),
) -> Result<()> {
    let mut next = walks.to_vec();
    let mut nested = false;
    for w in next.iter_mut().flatten().filter(|w| w.array().is_some()) {
        match (element, w.path.first().map(|p| p.index)) {
            (None, None) => w.at = Value::Undefined,
            (None, Some(_)) => w.at = Value::Missing,
            // A numeric component names an element by its position, whichever element is being
            // expanded.
            (Some((array, _)), Some(Some(index)))
                if !array
                    .iter()
                    .any(|v| v.as_doc().is_some_and(|d| d.contains(&w.path[0].name))) =>
            {
                w.at = array.get(index).unwrap_or_default();
                w.path = &w.path[1..];
                nested = true;
            }
            (Some((_, item)), rest) => {
                // An array directly inside an array is a value; its elements are not expanded.
                w.at = if rest.is_some() && item.as_array().is_some() {
                    Value::Missing
                } else {
                    item
                };
            }
        }
        if w.path.is_empty() && !nested {
            continue;
        }
        if element.is_none() {
            w.path = &[];
        }
    }
    finish_elements(next, nested, emit)
}

fn finish_elements<'a>(
    next: Vec<Option<PathCursor<'a, '_>>>,
    nested: bool,
    emit: &mut dyn FnMut(&[Option<Value<'a>>]),
) -> Result<()> {
    let open = next.iter().flatten().any(|w| !w.path.is_empty());
    if open || nested {
        return expand(&next, emit);
    }
    let key: SmallVec<[Option<Value<'a>>; 4]> = next.iter().map(|w| w.map(|w| w.at)).collect();
    emit(&key);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    fn key(spec: &DocBuf, doc: &DocBuf) -> String {
        let env = Env::new(0, 1);
        let mut out = SmallVec::new();
        match SortPattern::parse(spec.doc())
            .and_then(|p| p.key_values(doc.doc(), None, &env, &mut out))
        {
            Ok(()) => out
                .iter()
                .map(|v| format!("{v:?}"))
                .collect::<Vec<_>>()
                .join(","),
            Err(e) => e.code().to_string(),
        }
    }

    #[test]
    fn arrays_count_by_their_extreme_element() {
        let d = doc! { "a": [3i32, 1i32, 2i32], "e": [], "n": [[1i32]], "x": 7i32, "o": [{
        "p": 2i32, "q": 9i32 }, { "p": 1i32, "q": 8i32 }] };
        for (spec, want) in [
            (doc! { "a": 1i32 }, "Int32(1)"),
            (doc! { "a": -1i32 }, "Int32(3)"),
            (doc! { "e": 1i32 }, "Undefined"),
            (doc! { "e.z": 1i32 }, "Null"),
            (doc! { "n": 1i32 }, "Array([ 1 ])"),
            (doc! { "x": 1i32, "a": -1i32 }, "Int32(7),Int32(3)"),
            (doc! { "o.p": 1i32, "o.q": 1i32 }, "Int32(1),Int32(8)"),
            (doc! { "o.p": -1i32, "o.q": 1i32 }, "Int32(2),Int32(9)"),
            (doc! { "a.1": 1i32 }, "Int32(1)"),
            (doc! { "none": 1i32 }, "Null"),
            (doc! { "a": 1i32, "o.p": 1i32 }, "2"),
        ] {
            assert_eq!(key(&spec, &d), want, "{spec:?}");
        }
    }

    #[test]
    fn bad_patterns_have_their_codes() {
        for (spec, want) in [
            (doc! {}, "15976"),
            (doc! { "a": 0i32 }, "15975"),
            (doc! { "a": true }, "15974"),
            (doc! { "a": { "$meta": "nope" } }, "31138"),
            (doc! { "a": { "b": 1i32 } }, "17312"),
            (doc! { "a..b": 1i32 }, "15998"),
            (doc! { "$a": 1i32 }, "16410"),
            (doc! { "a": 1.9 }, "Null"),
        ] {
            assert_eq!(key(&spec, &doc! {}), want, "{spec:?}");
        }
    }
}
