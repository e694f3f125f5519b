//! Plans over a wildcard index: one path of the filter is chosen, and the index is read as if it
//! were an index on that path (ADR 0055). Must not know: how entries are made.

use super::access::{Access, Plan, WildcardPath};
use super::bounds::{self, Bound, Combine, FieldBounds, ValueRange};
use super::index_bounds::{field_bounds, intervals_of};
use super::request::PlanRequest;
use super::score;
use crate::exec::SortBy;
use model::path::array_index;
use model::{FieldPath, Value};
use operators::filter::{CompareOp, Node, Test};
use std::sync::Arc;
use store::format::keys;
use store::{Coverage, FieldKind, Index, WildcardPart};

/// Points for reading all entries at and below a path: better than a collection scan, not better
/// than bounds.
const PRESENCE: u32 = 1;

/// The filter's tests on one path.
struct Candidate<'n> {
    path: String,
    tests: Vec<&'n Test>,
    /// The tests are from inside an `$elemMatch`: each holds for some value at the path.
    of_element: bool,
}

/// The best plan over a wildcard index and its points. `forced` is that of `index_path::by_index`,
/// which has checked the partial filter.
pub(super) fn plan_wildcard(
    index: &Arc<Index>,
    part: &WildcardPart,
    request: &PlanRequest<'_>,
    root: &Node,
    fits: bool,
    forced: bool,
) -> Option<(u32, Plan)> {
    let bits = index.multikey_bits();
    let others = field_bounds(index, bits, root, fits);
    let scan = WildcardScan {
        index,
        part,
        request,
        fits,
        bits,
        others,
    };
    let mut best: Option<(u32, Plan)> = None;
    let mut consider = |found: Option<(u32, Plan)>| {
        if let Some((points, plan)) = found
            && best.as_ref().is_none_or(|(p, _)| points > *p)
        {
            best = Some((points, plan));
        }
    };
    for c in candidates(root) {
        consider(scan.plan_by_values(&c));
        // Tests inside an `$elemMatch` are about elements, not about the document, so they are left
        // out.
        let presence = c.tests.iter().any(|t| demands_value(t, forced)) && !c.of_element;
        if presence {
            consider(scan.plan_by_presence(&c.path));
        }
    }
    // A path below an array without documents has no null and no entry.
    let certain = |path: &str| !path.contains('.') || !scan.is_multikey(path);
    visit_not_null(root, &mut |path| {
        if certain(path) {
            consider(scan.plan_by_presence(path));
        }
    });
    consider(scan.plan_by_others());
    best
}

/// The paths on which the filter has tests that must hold.
fn candidates(root: &Node) -> Vec<Candidate<'_>> {
    let mut found: Vec<Candidate<'_>> = Vec::new();
    collect(root, "", &mut found);
    found
}

fn collect<'n>(root: &'n Node, above: &str, found: &mut Vec<Candidate<'n>>) {
    bounds::conjuncts(root, &mut |n| {
        let Node::Field { path, test } = n else {
            return;
        };
        let of_element = !above.is_empty();
        let path = match above {
            "" => path.as_str().to_owned(),
            _ => format!("{above}.{}", path.as_str()),
        };
        let same = |c: &&mut Candidate<'_>| c.path == path && !of_element && !c.of_element;
        match found.iter_mut().find(same) {
            Some(c) => c.tests.push(test),
            None => found.push(Candidate {
                path: path.clone(),
                tests: vec![test],
                of_element,
            }),
        }
        if let Test::ElemMatchObject(inner) = test {
            collect(inner, &path, found);
        }
    });
}

/// Shows each path that must not be null: `{$ne: null}`.
fn visit_not_null(root: &Node, each: &mut dyn FnMut(&str)) {
    bounds::conjuncts(root, &mut |n| {
        if let Node::Not(inner) = n
            && let Node::Field {
                path,
                test: Test::Compare(c),
            } = inner.as_ref()
            && c.op == CompareOp::Eq
            && matches!(c.value.get(), Value::Null)
        {
            each(path.as_str());
        }
    });
}

/// Whether the values that pass the test have entries within its bounds: whole documents and
/// arrays, and missing values, have no entries.
fn has_bounds(test: &Test) -> bool {
    let fine = |op: CompareOp, v: &Value<'_>| match v {
        Value::Document(d) => op == CompareOp::Eq && d.is_empty(),
        v => !v.is_nullish(),
    };
    match test {
        Test::Compare(c) => fine(c.op, &c.value.get()),
        Test::In(i) => !i.has_null && i.values.iter().all(|v| fine(CompareOp::Eq, &v.get())),
        Test::Regex(_) => true,
        // An array inside an array is one entry.
        Test::ElemMatchValue(tests) => tests
            .iter()
            .all(|t| !matches!(t, Test::ElemMatchValue(_)) && has_bounds(t)),
        _ => false,
    }
}

/// Whether a document that passes has a value at or below the path. `forced`: the client hints at
/// the index, so all entries of the path are read even for tests for which that is seldom worth it.
/// Equality with a whole document or array is left to other plans.
fn demands_value(test: &Test, forced: bool) -> bool {
    let whole = |v: &Value<'_>| match v {
        Value::Document(d) => !d.is_empty(),
        Value::Array(a) => !a.is_empty(),
        v => v.is_nullish(),
    };
    match test {
        Test::Exists => true,
        _ if !forced => false,
        Test::Compare(c) => {
            let v = c.value.get();
            let any = c.op != CompareOp::Eq && matches!(v, Value::MinKey | Value::MaxKey);
            !any && !whole(&v)
        }
        Test::In(i) => !i.has_null && !i.values.iter().any(|v| whole(&v.get())),
        Test::Type(_)
        | Test::Regex(_)
        | Test::Mod(_)
        | Test::Size(_)
        | Test::Bits(_)
        | Test::ElemMatchObject(_)
        | Test::ElemMatchValue(_) => true,
        Test::All(_) | Test::Not(_) | Test::Geo(_) | Test::Never => false,
    }
}

/// The path up to the first number that may be an array position.
fn cut_positions(path: &str) -> &str {
    let mut end = 0;
    for (n, name) in path.split('.').enumerate() {
        if n > 0 && array_index(name).is_some() {
            return path.get(..end - 1).unwrap_or(path);
        }
        end += name.len() + 1;
    }
    path
}

fn text(s: &str) -> Vec<u8> {
    let mut out = Vec::new();
    keys::encode(&Value::String(s), None, &mut out);
    out
}

fn point(component: Vec<u8>) -> ValueRange {
    ValueRange {
        low: Bound::Included(component.clone()),
        high: Bound::Included(component),
    }
}

/// The plans over one wildcard index.
struct WildcardScan<'s, 'r> {
    index: &'s Arc<Index>,
    part: &'s WildcardPart,
    request: &'s PlanRequest<'r>,
    fits: bool,
    bits: u32,
    /// Bounds of the index's other fields; the wildcard has none in its place.
    others: Vec<FieldBounds>,
}

impl WildcardScan<'_, '_> {
    /// Whether documents may have several values at a path.
    fn is_multikey(&self, path: &str) -> bool {
        self.bits & WildcardPart::array_bit(path) != 0
    }

    /// The plan by bounds on the values of one path.
    fn plan_by_values(&self, c: &Candidate<'_>) -> Option<(u32, Plan)> {
        let several = self.is_multikey(&c.path);
        // Entries have no array positions.
        if several && cut_positions(&c.path) != c.path
            || self.part.covers(&c.path) == Coverage::Nothing
        {
            return None;
        }
        let tests: Vec<&Test> = c.tests.iter().copied().filter(|t| has_bounds(t)).collect();
        let how = match several || c.of_element {
            true => Combine::One,
            false => Combine::Intersect,
        };
        let mut bounds = bounds::of_tests(&tests, false, self.index.collate(), self.fits, how);
        if bounds.is_all() {
            return None;
        }
        bounds.exact &= tests.len() == c.tests.len() && !c.of_element;
        let path = FieldBounds {
            ranges: Some(vec![point(text(&c.path))]),
            exact: false,
        };
        self.plan(Some(&c.path), path, bounds)
    }

    /// The plan that reads all entries at and below a path.
    fn plan_by_presence(&self, path: &str) -> Option<(u32, Plan)> {
        let path = match self.is_multikey(path) {
            true => cut_positions(path),
            false => path,
        };
        if self.part.covers(path) != Coverage::Subtree {
            return None;
        }
        let below = ValueRange {
            low: Bound::Included(text(&format!("{path}."))),
            high: Bound::Excluded(text(&format!("{path}/"))),
        };
        let paths = FieldBounds {
            ranges: Some(vec![point(text(path)), below]),
            exact: false,
        };
        self.plan(Some(path), paths, FieldBounds::all())
    }

    /// The plan by the fields before the wildcard only: a compound index has entries of every
    /// document.
    fn plan_by_others(&self) -> Option<(u32, Plan)> {
        let bounded = self.part.at > 0 && self.others.first().is_some_and(|b| !b.is_all());
        bounded
            .then(|| self.plan(None, FieldBounds::all(), FieldBounds::all()))
            .flatten()
    }

    fn plan(
        &self,
        path: Option<&str>,
        paths: FieldBounds,
        values: FieldBounds,
    ) -> Option<(u32, Plan)> {
        let at = self.part.at;
        let before = self.others.get(..at)?;
        let behind = self.others.get(at + 1..)?;
        // After a field without single values the path would not narrow the scan.
        if path.is_some() && !before.iter().all(FieldBounds::is_points) {
            return None;
        }
        let mut fields = before.to_vec();
        fields.extend([paths, values]);
        fields.extend_from_slice(behind);
        let mut kinds: Vec<FieldKind> = self.index.fields().iter().map(|f| f.kind).collect();
        kinds.insert(at, FieldKind::Ascending);
        let (intervals, used) = intervals_of(&kinds, &fields);
        let points = self.points(path, &fields);
        let order = self.order(path, &fields);
        let access = match intervals.is_empty() {
            true => Access::Nothing,
            false => Access::Index {
                name: self.index.name().to_owned(),
                intervals: Arc::new(intervals),
                reverse: order.unwrap_or(false),
            },
        };
        let unused = fields.iter_mut().skip(used);
        unused.for_each(|b| *b = FieldBounds::all());
        // Field names with dots, and duplicate fields, make entries that do not match the filter:
        // documents are tested again.
        let plan = Plan {
            index: Some(self.index.clone()),
            multikey: self.bits,
            bounds: fields,
            wildcard: Some(WildcardPath {
                path: path.map(str::to_owned),
                multikey: path.is_some_and(|p| self.is_multikey(p)),
            }),
            ..Plan::of(access, self.request.sort.is_none() || order.is_some())
        };
        let ordered = order.map_or(0, |_| score::ORDER);
        Some((points + ordered, plan))
    }

    /// The points of an index on the path.
    fn points(&self, path: Option<&str>, fields: &[FieldBounds]) -> u32 {
        let at = self.part.at;
        let own: Vec<&FieldBounds> = match path {
            // The path's component is not a field of the filter.
            Some(_) => fields
                .iter()
                .enumerate()
                .filter(|(n, _)| *n != at)
                .map(|(_, b)| b)
                .collect(),
            None => fields.iter().take(at).collect(),
        };
        let equal = own.iter().take_while(|b| b.is_points()).count();
        let range = own.get(equal).is_some_and(|b| !b.is_all());
        let by_presence = equal == at && !range && path.is_some();
        equal as u32 * score::EQUALITY_FIELD
            + if range { score::RANGE } else { 0 }
            + if by_presence { PRESENCE } else { 0 }
    }

    /// `Some(reverse)` if the values of the path come in the wanted order.
    fn order(&self, path: Option<&str>, fields: &[FieldBounds]) -> Option<bool> {
        let at = self.part.at;
        let [only] = self.request.sort?.parts() else {
            return None;
        };
        let SortBy::Path(wanted) = &only.by else {
            return None;
        };
        let path = path.filter(|p| *p == wanted.as_str() && !self.is_multikey(p))?;
        let fixed = fields.iter().take(at + 1).all(FieldBounds::is_one_point);
        let bounded = fields.get(at + 1).is_some_and(|b| !b.is_all());
        // Several keys of one document would not be next to each other.
        let others = (0..at).fold(0, |all, n| all | 1 << n.min(31)) & self.bits;
        if !self.fits || !fixed || !bounded || others != 0 || path.is_empty() {
            return None;
        }
        let kind = self.index.fields().get(at)?.kind;
        Some((kind == FieldKind::Ascending) != only.ascending)
    }
}

/// The field of a document's key in such a scan, as `returnKey` shows it.
pub(crate) fn shown_path(wildcard: &WildcardPath) -> Option<FieldPath> {
    wildcard.path.as_deref().map(FieldPath::new)
}
