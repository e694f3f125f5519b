//! Translates bounds of fields into intervals of an index, and finds the order of its entries.

use super::bounds::{self, Bound, Combine, FieldBounds, ValueRange};
use super::geo;
use crate::exec::{SortBy, SortPattern};
use model::{Doc, Value};
use operators::filter::{CompareOp, Node, Test};
use store::{FieldKind, Index, IndexField, KeyInterval};

/// Most intervals made from the product of several `$in` lists.
const INTERVALS_MAX: usize = 10_000;

/// Whether a query and an index compare strings by the same collation.
pub(super) fn collation_fits(query: Option<Doc<'_>>, index: Option<Doc<'_>>) -> bool {
    let simple =
        |d: Option<Doc<'_>>| d.is_none_or(|d| d.field("locale").as_str() == Some("simple"));
    match (query, index) {
        (q, i) if simple(q) && simple(i) => true,
        (Some(q), Some(i)) => operators::collation::same(q, i),
        _ => false,
    }
}

/// Whether the bounds express every predicate exactly.
pub(super) fn all_exact(root: &Node, exact: &dyn Fn(&str) -> bool) -> bool {
    let mut all = true;
    bounds::conjuncts(root, &mut |n| {
        all &= match n {
            Node::AlwaysTrue => true,
            Node::Field { path, .. } => exact(path.as_str()),
            _ => false,
        }
    });
    all
}

/// The bounds that a filter puts on each field of an index; `multikey` has a bit for each field
/// that may have several values in one document.
pub(super) fn field_bounds(
    index: &Index,
    multikey: u32,
    root: &Node,
    fits: bool,
) -> Vec<FieldBounds> {
    let mut fields: Vec<FieldBounds> = Vec::new();
    for (n, f) in index.fields().iter().enumerate() {
        let several = multikey & (1 << n.min(31)) != 0;
        if f.kind == FieldKind::Cells {
            fields.push(geo::bounds(index, n, several, root));
            continue;
        }
        // Two fields of the same array: bounds on both would require one element that satisfies
        // both.
        let shares_array = several
            && index.fields()[..n]
                .iter()
                .zip(&fields)
                .any(|(g, b)| !b.is_all() && g.path.first() == f.path.first());
        let how = if several {
            Combine::One
        } else {
            Combine::Intersect
        };
        let mut b = if shares_array {
            FieldBounds::all()
        } else {
            bounds::of_filter(root, f.path.as_str(), index.collate(), fits, how)
        };
        if f.kind == FieldKind::Hashed && !b.is_all() {
            b = if b.is_points() {
                hashed_points(index, n, root)
            } else {
                FieldBounds::all()
            };
        }
        // A filter also finds array positions by paths for which no keys are made.
        if several && f.path.parts().iter().any(|p| p.index.is_some()) {
            b.exact = false;
        }
        fields.push(b);
    }
    fields
}

/// A hashed field supports equality only: the hash of each value.
fn hashed_points(index: &Index, field: usize, root: &Node) -> FieldBounds {
    let mut found = None;
    let path = index.fields()[field].path.as_str();
    bounds::conjuncts(root, &mut |n| {
        if let Node::Field { path: p, test } = n
            && p.as_str() == path
            && !test.finds_absent()
        {
            let encode = |v: &Value<'_>| {
                let mut c = Vec::new();
                index.encode_bound(field, v, &mut c);
                c
            };
            let point = |c: Vec<u8>| ValueRange {
                low: Bound::Included(c.clone()),
                high: Bound::Included(c),
            };
            match test {
                Test::Compare(c) if c.op == CompareOp::Eq => {
                    found = Some(vec![point(encode(&c.value.get()))])
                }
                Test::In(i) if i.patterns.is_empty() => {
                    let mut all: Vec<_> = i.values.iter().map(|v| encode(&v.get())).collect();
                    all.sort();
                    all.dedup();
                    found = Some(all.into_iter().map(point).collect());
                }
                _ => {}
            }
        }
    });
    FieldBounds {
        ranges: found,
        exact: false,
    }
}

/// Whether a sparse index has all matching documents. It leaves out documents without any of its
/// fields, so the filter must require one of them.
pub(super) fn sparse_is_enough(index: &Index, fields: &[FieldBounds], root: &Node) -> bool {
    let mut null = Vec::new();
    store::format::keys::encode(&Value::Null, None, &mut null);
    let demanded = index.fields().iter().zip(fields).any(|(f, b)| {
        is_ordered(f)
            && b.ranges
                .as_ref()
                .is_some_and(|r| r.iter().all(|r| !bounds::contains(r, &null)))
    });
    let mut exists = false;
    bounds::conjuncts(root, &mut |n| {
        if let Node::Field {
            path,
            test: Test::Exists,
        } = n
        {
            exists |= index.fields().iter().any(|f| f.path == *path);
        }
    });
    demanded || exists
}

/// `Some(reverse)` when reading the index gives the wanted order.
pub(super) fn sort_direction(
    index: &Index,
    fields: &[FieldBounds],
    sort: Option<&SortPattern>,
    usable: bool,
) -> Option<bool> {
    let parts = sort?.parts();
    if !usable || !index.fields().iter().all(is_ordered) {
        return None;
    }
    let mut at = 0;
    let mut reverse = None;
    for part in parts {
        let SortBy::Path(path) = &part.by else {
            return None;
        };
        // Fields fixed to one value may be skipped; naming them in the sort has no effect.
        while index.fields().get(at).is_some_and(|f| f.path != *path)
            && fields.get(at).is_some_and(FieldBounds::is_one_point)
        {
            at += 1;
        }
        let Some(f) = index.fields().get(at).filter(|f| f.path == *path) else {
            if index
                .fields()
                .iter()
                .zip(fields)
                .any(|(f, b)| f.path == *path && b.is_one_point())
            {
                continue;
            }
            return None;
        };
        let backwards = (f.kind == FieldKind::Ascending) != part.ascending;
        at += 1;
        if fields.get(at - 1).is_some_and(FieldBounds::is_one_point) {
            continue;
        }
        if *reverse.get_or_insert(backwards) != backwards {
            return None;
        }
    }
    Some(reverse.unwrap_or(false))
}

/// The order of the components is that of the values.
fn is_ordered(f: &IndexField) -> bool {
    matches!(f.kind, FieldKind::Ascending | FieldKind::Descending)
}

/// Intervals of encoded keys, and the number of fields whose bounds they use.
pub(super) fn intervals(index: &Index, fields: &[FieldBounds]) -> (Vec<KeyInterval>, usize) {
    let kinds: smallvec::SmallVec<[FieldKind; 8]> = index.fields().iter().map(|f| f.kind).collect();
    intervals_of(&kinds, fields)
}

/// The same for fields of these kinds.
pub(super) fn intervals_of(
    kinds: &[FieldKind],
    fields: &[FieldBounds],
) -> (Vec<KeyInterval>, usize) {
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
    for (n, (kind, b)) in kinds.iter().zip(fields).enumerate() {
        let descending = *kind == FieldKind::Descending;
        let ranges = match &b.ranges {
            Some(r) if r.len().saturating_mul(prefixes.len()) <= INTERVALS_MAX || n == 0 => r,
            _ => return (close(prefixes), n),
        };
        if !b.is_points() {
            let mut out = Vec::new();
            for p in &prefixes {
                for r in ranges {
                    let (low, high) = bounds::encode_range(r, descending);
                    out.push(KeyInterval {
                        lower: [&p[..], &low].concat(),
                        upper: [&p[..], &high].concat(),
                    });
                }
            }
            return (merge_intervals(out), n + 1);
        }
        let mut next = Vec::with_capacity(prefixes.len() * ranges.len());
        for p in &prefixes {
            for r in ranges {
                if let Bound::Included(c) = &r.low {
                    let mut key = p.clone();
                    key.extend(c.iter().map(|b| if descending { !b } else { *b }));
                    next.push(key);
                }
            }
        }
        prefixes = next;
    }
    let n = fields.len();
    (close(prefixes), n)
}

/// An interval of all entries that begin with the prefix, for each prefix.
fn close(prefixes: Vec<Vec<u8>>) -> Vec<KeyInterval> {
    use store::format::keys::{AFTER, BEFORE};
    let whole = |p: Vec<u8>| {
        if p.is_empty() {
            return KeyInterval {
                lower: Vec::new(),
                upper: vec![0xFF],
            };
        }
        KeyInterval {
            lower: [&p[..], &[BEFORE]].concat(),
            upper: [&p[..], &[AFTER]].concat(),
        }
    };
    merge_intervals(prefixes.into_iter().map(whole).collect())
}

/// Sorted, with overlapping intervals joined.
fn merge_intervals(mut list: Vec<KeyInterval>) -> Vec<KeyInterval> {
    list.retain(|i| i.lower < i.upper);
    list.sort_by(|a, b| a.lower.cmp(&b.lower));
    let mut out: Vec<KeyInterval> = Vec::with_capacity(list.len());
    for i in list {
        match out.last_mut() {
            Some(last) if i.lower <= last.upper => {
                if i.upper > last.upper {
                    last.upper = i.upper;
                }
            }
            _ => out.push(i),
        }
    }
    out
}
