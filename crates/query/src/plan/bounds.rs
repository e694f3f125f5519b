//! Translates predicates of a filter into ranges of one field, as encoded components.

use model::{Collate, Value};
use operators::filter::{CompareOp, Node, Test};
use store::format::keys;

/// One end of a range, in the order of ascending components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// This component, which belongs to the range.
    Included(Vec<u8>),
    /// This component, which does not belong to the range.
    Excluded(Vec<u8>),
    /// Before the first component of this class byte.
    Class(u8),
    /// Before the first component that begins with these bytes.
    Prefix(Vec<u8>),
}

/// A range of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueRange {
    /// Lower end.
    pub low: Bound,
    /// Upper end.
    pub high: Bound,
}

impl ValueRange {
    /// Exactly one value.
    pub fn is_point(&self) -> bool {
        matches!((&self.low, &self.high), (Bound::Included(a), Bound::Included(b)) if a == b)
    }
}

/// The ranges of one field outside of which no document matches.
#[derive(Clone, Debug, Default)]
pub struct FieldBounds {
    /// `None` is every value, an empty list none.
    pub ranges: Option<Vec<ValueRange>>,
    /// A document is in the ranges exactly when it passes every predicate on the field.
    pub exact: bool,
}

impl FieldBounds {
    /// No restriction.
    pub fn all() -> FieldBounds {
        FieldBounds::default()
    }
    /// Only single values.
    pub fn is_points(&self) -> bool {
        self.ranges
            .as_ref()
            .is_some_and(|r| r.iter().all(ValueRange::is_point))
    }
    /// Exactly one value.
    pub fn is_one_point(&self) -> bool {
        self.is_points() && self.ranges.as_ref().is_some_and(|r| r.len() == 1)
    }
    /// No value is excluded.
    pub fn is_all(&self) -> bool {
        self.ranges.is_none()
    }
}

/// How the bounds of several predicates on a field are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Combine {
    /// Every document has one value in the field: the predicates' ranges are intersected.
    Intersect,
    /// A document may have several values: the ranges of one predicate are used.
    One,
}

/// The bounds a filter puts on `path`.
pub(super) fn of_filter(
    root: &Node,
    path: &str,
    collate: Option<&dyn Collate>,
    collation_fits: bool,
    how: Combine,
) -> FieldBounds {
    // Below an array, `a.0` means a position to an index, but to a filter also the field `0` of
    // each element. An element without that field counts as null, and no entry says so.
    let positional = path
        .split('.')
        .skip(1)
        .any(|p| model::path::array_index(p).is_some());
    let mut tests: smallvec::SmallVec<[&Test; 4]> = smallvec::SmallVec::new();
    conjuncts(root, &mut |n| {
        if let Node::Field { path: p, test } = n
            && p.as_str() == path
        {
            tests.push(test);
        }
    });
    of_tests(&tests, positional, collate, collation_fits, how)
}

/// The bounds that tests on one path put on it; `positional` if a number in the path may be a
/// position.
pub(super) fn of_tests(
    tests: &[&Test],
    positional: bool,
    collate: Option<&dyn Collate>,
    collation_fits: bool,
    how: Combine,
) -> FieldBounds {
    let mut bounds = FieldBounds {
        ranges: None,
        exact: how == Combine::Intersect || tests.len() == 1,
    };
    for t in tests {
        // A document without a value has no entry for null here.
        if positional && accepts_missing(t) || t.finds_absent() {
            bounds.exact = false;
            continue;
        }
        let Some((ranges, exact)) = of_test(t, collate, collation_fits) else {
            bounds.exact = false;
            continue;
        };
        bounds.exact &= exact;
        bounds.ranges = Some(match bounds.ranges.take() {
            None => ranges,
            Some(old) => match how {
                Combine::Intersect => intersect(&old, &ranges),
                // The first list of points is preferred to ranges.
                Combine::One
                    if ranges.iter().all(ValueRange::is_point)
                        && !old.iter().all(ValueRange::is_point) =>
                {
                    ranges
                }
                Combine::One => old,
            },
        });
    }
    bounds.exact &= bounds.ranges.is_some();
    bounds
}

/// Whether the test accepts a missing value.
fn accepts_missing(t: &Test) -> bool {
    match t {
        Test::Compare(c) => matches!(c.value.get(), Value::Null),
        Test::In(i) => i.has_null,
        _ => false,
    }
}

/// Shows each predicate that must hold for a match.
pub(super) fn conjuncts<'n>(n: &'n Node, each: &mut dyn FnMut(&'n Node)) {
    match n {
        Node::And(v) => v.iter().for_each(|n| conjuncts(n, each)),
        n => each(n),
    }
}

/// The ranges outside of which no value passes the test, and whether every value inside passes;
/// `None` if the test gives no ranges. Null is never exact: missing, null and fields below scalars
/// have the same key, but not every test treats them the same.
fn of_test(
    t: &Test,
    collate: Option<&dyn Collate>,
    collation_fits: bool,
) -> Option<(Vec<ValueRange>, bool)> {
    match t {
        Test::Compare(c) => {
            let v = c.value.get();
            Some((
                vec![of_compare(c.op, &v, collate, collation_fits)?],
                !v.is_nullish(),
            ))
        }
        // A regular expression tests the text, which an index with a collation does not store.
        Test::Regex(p) if collate.is_none() => {
            let (prefix, exact) = p.literal_prefix()?;
            Some((of_prefix(prefix, p), exact))
        }
        Test::ElemMatchValue(tests) => {
            let mut all: Option<Vec<ValueRange>> = None;
            // A nested `$elemMatch` wants an element that is an array; the entry of that element is
            // the array.
            let of_element = |t: &&Test| !matches!(t, Test::ElemMatchValue(_));
            for (ranges, _) in tests
                .iter()
                .filter(of_element)
                .filter_map(|t| of_test(t, collate, collation_fits))
            {
                all = Some(all.map_or(ranges.clone(), |old| intersect(&old, &ranges)));
            }
            Some((all?, false))
        }
        Test::In(i) if i.patterns.is_empty() => {
            let mut ranges = Vec::with_capacity(i.values.len());
            for v in &i.values {
                ranges.push(of_compare(
                    CompareOp::Eq,
                    &v.get(),
                    collate,
                    collation_fits,
                )?);
            }
            sort_ranges(&mut ranges);
            let exact = i.values.iter().all(|v| !v.get().is_nullish());
            Some((ranges, exact))
        }
        _ => None,
    }
}

/// Texts that begin with a prefix, and the regular expression itself as a value.
fn of_prefix(prefix: &str, p: &operators::filter::Pattern) -> Vec<ValueRange> {
    let mut low = Vec::new();
    keys::encode(&Value::String(prefix), None, &mut low);
    // Without the terminator; UTF-8 never ends in 0xFF, so the last byte has a successor.
    low.pop();
    let mut high = low.clone();
    if let Some(last) = high.last_mut() {
        *last += 1;
    }
    let mut itself = Vec::new();
    keys::encode(
        &Value::Regex(model::Regex {
            pattern: p.source(),
            options: p.options(),
        }),
        None,
        &mut itself,
    );
    vec![
        ValueRange {
            low: Bound::Prefix(low),
            high: Bound::Prefix(high),
        },
        ValueRange {
            low: Bound::Included(itself.clone()),
            high: Bound::Included(itself),
        },
    ]
}

fn of_compare(
    op: CompareOp,
    v: &Value<'_>,
    collate: Option<&dyn Collate>,
    collation_fits: bool,
) -> Option<ValueRange> {
    // Arrays match as a whole or by an element, MinKey and MaxKey match across types: no single
    // range expresses that.
    let unfit = matches!(
        v,
        Value::Array(_) | Value::MinKey | Value::MaxKey | Value::Undefined | Value::Regex(_)
    );
    // An array may be inside a document that is compared; the document's encoding is still one
    // point.
    let has_text = matches!(v, Value::String(_) | Value::Symbol(_) | Value::Document(_));
    if unfit || (has_text && !collation_fits) {
        return None;
    }
    if op != CompareOp::Eq && v.as_f64().is_some_and(f64::is_nan) {
        return None;
    }
    let mut component = Vec::with_capacity(16);
    keys::encode(v, collate, &mut component);
    let (first, beyond) = keys::bracket(v);
    let (low, high) = match op {
        CompareOp::Eq => (
            Bound::Included(component.clone()),
            Bound::Included(component),
        ),
        CompareOp::Gt => (Bound::Excluded(component), Bound::Class(beyond)),
        CompareOp::Gte => (Bound::Included(component), Bound::Class(beyond)),
        CompareOp::Lt => (Bound::Class(first), Bound::Excluded(component)),
        CompareOp::Lte => (Bound::Class(first), Bound::Included(component)),
    };
    Some(ValueRange { low, high })
}

/// A lower limit of the encoded entries in the range (ascending component).
pub(super) fn low_bytes(b: &Bound, out: &mut Vec<u8>) {
    match b {
        Bound::Included(c) => out.extend_from_slice(&[c, &[keys::BEFORE][..]].concat()),
        Bound::Excluded(c) => out.extend_from_slice(&[c, &[keys::AFTER][..]].concat()),
        Bound::Class(c) => out.push(*c),
        Bound::Prefix(p) => out.extend_from_slice(p),
    }
}

/// An upper limit, excluded, of the encoded entries in the range (ascending component).
pub(super) fn high_bytes(b: &Bound, out: &mut Vec<u8>) {
    match b {
        Bound::Included(c) => out.extend_from_slice(&[c, &[keys::AFTER][..]].concat()),
        Bound::Excluded(c) => out.extend_from_slice(&[c, &[keys::BEFORE][..]].concat()),
        Bound::Class(c) => out.push(*c),
        Bound::Prefix(p) => out.extend_from_slice(p),
    }
}

/// The encoded range of a component in either direction: lower limit included, upper limit
/// excluded.
pub(super) fn encode_range(r: &ValueRange, descending: bool) -> (Vec<u8>, Vec<u8>) {
    let (mut low, mut high) = (Vec::new(), Vec::new());
    if !descending {
        low_bytes(&r.low, &mut low);
        high_bytes(&r.high, &mut high);
        return (low, high);
    }
    // Descending components are complemented: their order is reversed, and so are the ends of the
    // range.
    let flip = |b: &Bound, lower: bool| match b {
        Bound::Class(c) => vec![!(c - 1)],
        Bound::Prefix(p) => {
            let mut out: Vec<u8> = p.iter().map(|x| !x).collect();
            if let Some(last) = out.last_mut() {
                *last += 1;
            }
            out
        }
        Bound::Included(c) | Bound::Excluded(c) => {
            let inside = matches!(b, Bound::Included(_));
            let mut out: Vec<u8> = c.iter().map(|x| !x).collect();
            out.push(if inside == lower {
                keys::BEFORE
            } else {
                keys::AFTER
            });
            out
        }
    };
    (flip(&r.high, true), flip(&r.low, false))
}

/// Whether entries with this component are in the range.
pub(super) fn contains(r: &ValueRange, component: &[u8]) -> bool {
    let entry = [component, &[keys::END]].concat();
    key(&r.low, true) <= entry && entry < key(&r.high, false)
}

fn key(b: &Bound, low: bool) -> Vec<u8> {
    let mut out = Vec::new();
    if low {
        low_bytes(b, &mut out)
    } else {
        high_bytes(b, &mut out)
    }
    out
}

fn sort_ranges(ranges: &mut Vec<ValueRange>) {
    ranges.sort_by_cached_key(|r| key(&r.low, true));
    ranges.dedup();
}

fn intersect(a: &[ValueRange], b: &[ValueRange]) -> Vec<ValueRange> {
    let mut out = Vec::new();
    for x in a {
        for y in b {
            let low = if key(&x.low, true) >= key(&y.low, true) {
                &x.low
            } else {
                &y.low
            };
            let high = if key(&x.high, false) <= key(&y.high, false) {
                &x.high
            } else {
                &y.high
            };
            if key(low, true) < key(high, false) {
                out.push(ValueRange {
                    low: low.clone(),
                    high: high.clone(),
                });
            }
        }
    }
    sort_ranges(&mut out);
    out
}
