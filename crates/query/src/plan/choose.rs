//! Choosing one access path by rules: the longest equality prefix wins, then a range, then a useful
//! order.

use super::bounds::{self, Combine, FieldBounds, ValueRange};
use super::partial::implied;
use super::{Access, text, union};
use crate::pipeline::MatchFilter;
use crate::stages::sort_pattern::{SortBy, SortPattern};
use model::{Doc, MongoError, Result, Value};
use operators::filter::{Node, Test};
use std::sync::Arc;
use store::{Collection, FieldKind, Index, KeyInterval, ReadView};

/// What each field of an equality prefix counts when access paths are compared.
const SCORE_EQUALITY: u32 = 100;

/// Most intervals made from the product of several `$in` lists.
const INTERVALS_MAX: usize = 10_000;

/// Which way the client wants it read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// By the index of this name.
    Name(String),
    /// By the index with this key.
    Key(model::DocBuf),
    /// The collection as it lies.
    Natural {
        /// Backwards.
        reverse: bool,
    },
}

impl Hint {
    /// From the `hint` argument; an empty document is no hint.
    ///
    /// # Errors
    /// 9 FailedToParse for another type, 2 for a `$natural` that is not 1 or -1.
    pub fn parse(v: Value<'_>) -> Result<Option<Hint>> {
        Ok(match v {
            Value::Missing => None,
            Value::String(s) => Some(Hint::Name(s.to_owned())),
            Value::Document(d) if d.is_empty() => None,
            Value::Document(d) => match d.get("$natural") {
                Some(_) if d.count() > 1 => {
                    return Err(MongoError::bad_value(
                        "$natural hint cannot be combined with other fields",
                    ));
                }
                Some(n) => match n.as_f64() {
                    Some(n) if n == 1.0 || n == -1.0 => Some(Hint::Natural { reverse: n < 0.0 }),
                    _ => return Err(MongoError::bad_value("$natural hint must be 1 or -1")),
                },
                None => Some(Hint::Key(d.to_buf())),
            },
            other => {
                return Err(MongoError::failed_to_parse(format!(
                    "hint must be specified as a string or an object, not {}",
                    other.type_name()
                )));
            }
        })
    }
}

/// What a read wants.
#[derive(Clone, Copy, Default)]
pub struct Want<'w> {
    /// Documents that match.
    pub filter: Option<&'w MatchFilter>,
    /// In this order.
    pub sort: Option<&'w SortPattern>,
    /// Read this way.
    pub hint: Option<&'w Hint>,
    /// The operation's collation as the client wrote it; `None` when simple.
    pub collation: Option<Doc<'w>>,
    /// The state to read; `None` is the latest.
    pub view: Option<&'w ReadView>,
}

/// A chosen access path.
#[derive(Clone)]
pub struct Plan {
    /// Where to read.
    pub access: Access,
    /// The documents come in the wanted order.
    pub sorted: bool,
    /// The index used.
    pub index: Option<Arc<Index>>,
    /// The index's multikey bits the intervals were made for.
    pub multikey: u32,
    /// The state to read.
    pub view: ReadView,
    /// Bounds per field of the index (of `_id`, when that is read).
    pub bounds: Vec<FieldBounds>,
    /// Every document the plan reads matches the filter: no second look is needed.
    pub complete: bool,
}

impl Plan {
    /// The whole collection.
    pub fn scan() -> Plan {
        Plan::of(Access::Collection { reverse: false }, false)
    }

    pub(super) fn of(access: Access, sorted: bool) -> Plan {
        let (multikey, view) = (0, ReadView::LATEST);
        Plan {
            access,
            sorted,
            index: None,
            multikey,
            view,
            bounds: Vec::new(),
            complete: false,
        }
    }

    pub(super) fn nothing() -> Plan {
        Plan {
            complete: true,
            ..Plan::of(Access::Nothing, true)
        }
    }

    /// Some field of the index is bounded.
    pub(super) fn is_bounded(&self) -> bool {
        matches!(self.access, Access::Nothing) || self.bounds.iter().any(|b| !b.is_all())
    }
}

/// Chooses how to read `coll`.
///
/// # Errors
/// 2 BadValue for a hint that names no index; 27, 2 and 291 for a `$text` that cannot be answered.
pub fn choose(coll: &Collection, want: &Want<'_>) -> Result<Plan> {
    let plan = choose_access(coll, want)?;
    Ok(Plan {
        view: want.view.cloned().unwrap_or_default(),
        ..plan
    })
}

fn choose_access(coll: &Collection, want: &Want<'_>) -> Result<Plan> {
    static ALL: Node = Node::AlwaysTrue;
    let root = want.filter.map_or(&ALL, |f| f.filter.root());
    let mut impossible = false;
    bounds::conjuncts(root, &mut |n| impossible |= matches!(n, Node::AlwaysFalse));
    // A `$text` must be bound to its index even then.
    if impossible && want.hint.is_none() && want.filter.is_none_or(|f| f.filter.text().is_none()) {
        return Ok(Plan::nothing());
    }
    let natural = natural_sort(want.sort);
    let indexes = coll.readable_indexes(want.view);
    if let Some(t) = want.filter.and_then(|f| f.filter.text()) {
        return text::plan(coll, want, root, t, &indexes);
    }
    match want.hint {
        Some(Hint::Natural { reverse }) => {
            return Ok(Plan::of(
                Access::Collection { reverse: *reverse },
                natural == Some(*reverse),
            ));
        }
        Some(hint) => return hinted(coll, want, root, hint, &indexes),
        None => {}
    }
    if let Some(reverse) = natural {
        return Ok(Plan::of(Access::Collection { reverse }, true));
    }
    let by_id = by_id(coll, want, root);
    // One document by its id: nothing can be better.
    if let Some(p) = &by_id
        && matches!(&p.access, Access::Ids { ids, .. } if ids.len() <= 1)
    {
        return Ok(p.clone());
    }
    let mut best: Option<(u32, Plan)> = by_id.map(|p| (id_score(&p), p));
    for index in indexes
        .iter()
        .filter(|i| i.is_ready() && i.is_keyed() && !i.is_hidden())
    {
        let Some((score, plan)) = by_index(index, want, root, false) else {
            continue;
        };
        if best.as_ref().is_none_or(|(s, _)| score > *s) {
            best = Some((score, plan));
        }
    }
    // An equality prefix beats a union; a range or a mere order does not.
    if best
        .as_ref()
        .is_none_or(|(score, _)| *score < SCORE_EQUALITY)
        && let Some(p) = union::by_disjunction(coll, want, root, &indexes)
    {
        return Ok(p);
    }
    Ok(best.map_or_else(
        || Plan::of(Access::Collection { reverse: false }, want.sort.is_none()),
        |(_, p)| p,
    ))
}

/// The bounded index plans that were looked at and not taken, for explain.
pub fn alternatives(coll: &Collection, want: &Want<'_>, taken: &Plan) -> Vec<Plan> {
    static ALL: Node = Node::AlwaysTrue;
    let root = want.filter.map_or(&ALL, |f| f.filter.root());
    if want.hint.is_some() || !matches!(taken.access, Access::Index { .. }) {
        return Vec::new();
    }
    let others = coll.readable_indexes(want.view);
    let others = others
        .iter()
        .filter(|i| i.is_ready() && i.is_keyed() && !i.is_hidden());
    others
        .filter(|i| taken.index.as_ref().is_none_or(|t| t.name() != i.name()))
        .filter_map(|i| by_index(i, want, root, false).map(|(_, p)| p))
        .filter(|p| p.bounds.first().is_some_and(|b| !b.is_all()))
        .collect()
}

/// The best bounded way to the documents of one branch of a disjunction.
pub(super) fn of_branch(
    coll: &Collection,
    want: &Want<'_>,
    branch: &Node,
    indexes: &[Arc<Index>],
) -> Option<Plan> {
    // The partial filters of indexes are compared with whole filters; a branch has none of its own.
    let want = Want {
        filter: None,
        ..*want
    };
    if matches!(branch, Node::AlwaysFalse) {
        return Some(Plan::nothing());
    }
    let mut best = by_id(coll, &want, branch)
        .filter(Plan::is_bounded)
        .map(|p| (id_score(&p), p));
    for index in indexes
        .iter()
        .filter(|i| i.is_ready() && i.is_keyed() && !i.is_hidden())
    {
        let Some((score, plan)) =
            by_index(index, &want, branch, false).filter(|(_, p)| p.is_bounded())
        else {
            continue;
        };
        if best.as_ref().is_none_or(|(s, _)| score > *s) {
            best = Some((score, plan));
        }
    }
    best.map(|(_, p)| p)
}

/// `{$natural: ±1}` as a sort order.
fn natural_sort(sort: Option<&SortPattern>) -> Option<bool> {
    let [only] = sort?.parts() else { return None };
    match &only.by {
        SortBy::Path(p) if p.as_str() == "$natural" => Some(!only.ascending),
        _ => None,
    }
}

fn hinted(
    coll: &Collection,
    want: &Want<'_>,
    root: &Node,
    hint: &Hint,
    indexes: &[Arc<Index>],
) -> Result<Plan> {
    let is_id = match hint {
        Hint::Name(n) => n == "_id_",
        Hint::Key(k) => is_id_key(k.doc()),
        Hint::Natural { .. } => false,
    };
    if is_id {
        return Ok(by_id(coll, want, root).unwrap_or_else(|| {
            // Had it given the wanted order, there would be a plan.
            Plan::of(
                Access::IdRange {
                    lower: None,
                    upper: None,
                    reverse: false,
                },
                want.sort.is_none(),
            )
        }));
    }
    let found = indexes
        .iter()
        .filter(|i| i.is_ready())
        .find(|i| match hint {
            Hint::Name(n) => i.name() == n,
            Hint::Key(k) => model::compare::compare_docs(i.key_pattern(), k.doc(), None).is_eq(),
            Hint::Natural { .. } => false,
        });
    let Some(index) = found else {
        return Err(MongoError::bad_value(format!(
            "error processing query: planner returned error :: caused by :: hint provided does not \
                correspond to an existing index: {hint:?}"
        )));
    };
    if !index.is_keyed() {
        return Ok(Plan::scan());
    }
    by_index(index, want, root, true)
        .map(|(_, p)| p)
        .ok_or_else(|| MongoError::bad_value("the hinted index cannot answer this query"))
}

fn is_id_key(d: Doc<'_>) -> bool {
    d.count() == 1
        && d.first()
            .is_some_and(|(n, v)| n == "_id" && v.as_f64() == Some(1.0))
}

/// The order of a sort that `_id` order answers.
fn id_sort(sort: Option<&SortPattern>) -> Option<bool> {
    let first = sort?.parts().first()?;
    match &first.by {
        // Ids are unique, further fields cannot matter.
        SortBy::Path(p) if p.as_str() == "_id" => Some(!first.ascending),
        _ => None,
    }
}

fn id_score(p: &Plan) -> u32 {
    match &p.access {
        Access::Ids { .. } => 1000,
        Access::IdRange {
            lower: None,
            upper: None,
            ..
        } => 2,
        Access::IdRange { .. } => 60 + u32::from(p.sorted) * 20,
        _ => 0,
    }
}

/// Reading by `_id`: points, a range, or its order.
fn by_id(coll: &Collection, want: &Want<'_>, root: &Node) -> Option<Plan> {
    let fits = collation_fits(
        want.collation,
        coll.options().doc().field("collation").as_doc(),
    );
    let b = bounds::of_filter(root, "_id", coll.id_collate(), fits, Combine::Intersect);
    let order = id_sort(want.sort).filter(|_| fits);
    let sorted = want.sort.is_none() || order.is_some();
    let reverse = order.unwrap_or(false);
    let exact = b.exact;
    let bounds = vec![b.clone()];
    let complete = |exact: bool| exact && all_exact(root, &|path| path == "_id");
    match b.ranges {
        None => order.map(|reverse| {
            Plan::of(
                Access::IdRange {
                    lower: None,
                    upper: None,
                    reverse,
                },
                true,
            )
        }),
        Some(ranges) if ranges.is_empty() => Some(Plan {
            bounds,
            ..Plan::nothing()
        }),
        Some(ranges) if ranges.iter().all(ValueRange::is_point) => {
            let ids: Vec<_> = ranges
                .into_iter()
                .filter_map(|r| match r.low {
                    bounds::Bound::Included(c) => Some(c),
                    _ => None,
                })
                .collect();
            Some(Plan {
                bounds,
                complete: complete(exact),
                ..Plan::of(Access::Ids { ids, reverse }, sorted)
            })
        }
        Some(ranges) => {
            let (first, last) = (ranges.first()?, ranges.last()?);
            let complete = complete(exact && ranges.len() == 1);
            // Record keys end with the id, so the bytes of an included end need nothing behind
            // them.
            let lower = match &first.low {
                bounds::Bound::Included(c) => c.clone(),
                bounds::Bound::Excluded(c) => [c, &[0][..]].concat(),
                bounds::Bound::Class(c) => vec![*c],
                bounds::Bound::Prefix(p) => p.clone(),
            };
            let upper = match &last.high {
                bounds::Bound::Included(c) => [c, &[0][..]].concat(),
                bounds::Bound::Excluded(c) => c.clone(),
                bounds::Bound::Class(c) => vec![*c],
                bounds::Bound::Prefix(p) => p.clone(),
            };
            let access = Access::IdRange {
                lower: Some(lower),
                upper: Some(upper),
                reverse,
            };
            Some(Plan {
                bounds,
                complete,
                ..Plan::of(access, sorted)
            })
        }
    }
}

/// Every predicate is on a path whose bounds say all there is to say.
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

fn collation_fits(query: Option<Doc<'_>>, index: Option<Doc<'_>>) -> bool {
    let simple =
        |d: Option<Doc<'_>>| d.is_none_or(|d| d.field("locale").as_str() == Some("simple"));
    match (query, index) {
        (q, i) if simple(q) && simple(i) => true,
        (Some(q), Some(i)) => operators::collation::same(q, i),
        _ => false,
    }
}

/// How well an index answers, and the plan with it. `None` when it must not or need not be used.
pub(super) fn by_index(
    index: &Arc<Index>,
    want: &Want<'_>,
    root: &Node,
    forced: bool,
) -> Option<(u32, Plan)> {
    let fits = collation_fits(want.collation, index.collation());
    if index.is_partial() && !forced && !implied(index, want.filter, fits) {
        return None;
    }
    let bits = index.multikey_bits();
    let mut fields: Vec<FieldBounds> = Vec::new();
    for (n, f) in index.fields().iter().enumerate() {
        let multikey = bits & (1 << n.min(31)) != 0;
        // Two fields of the same array: bounds on both would demand one element that satisfies
        // both.
        let shares_array = multikey
            && index.fields()[..n]
                .iter()
                .zip(&fields)
                .any(|(g, b)| !b.is_all() && g.path.first() == f.path.first());
        let how = if multikey {
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
        // Positions in arrays are found by more paths than keys are made by.
        if multikey && f.path.parts().iter().any(|p| p.index.is_some()) {
            b.exact = false;
        }
        fields.push(b);
    }
    if index.is_sparse() && !sparse_is_enough(index, &fields, root) && !forced {
        return None;
    }
    let equal = fields.iter().take_while(|b| b.is_points()).count();
    let range = fields.get(equal).is_some_and(|b| !b.is_all());
    let order = sort_direction(index, &fields, want.sort, fits && bits == 0);
    if equal == 0 && !range && order.is_none() && !forced {
        return None;
    }
    let sorted = want.sort.is_none() || order.is_some();
    let reverse = order.unwrap_or(false);
    if want.sort.is_some()
        && order.is_none()
        && fits
        && bits == 0
        && equal > 0
        && !forced
        && let Some(plan) = union::by_points(index, bits, &fields, want, root)
    {
        return Some((equal as u32 * SCORE_EQUALITY + 30, plan));
    }
    let (intervals, used) = intervals(index, &fields);
    let score = equal as u32 * SCORE_EQUALITY
        + u32::from(range) * 40
        + u32::from(order.is_some()) * 30
        + u32::from(index.is_unique() && equal == index.fields().len()) * 500;
    let access = if intervals.is_empty() {
        Access::Nothing
    } else {
        Access::Index {
            name: index.name().to_owned(),
            intervals,
            reverse,
        }
    };
    fields
        .iter_mut()
        .skip(used)
        .for_each(|b| *b = FieldBounds::all());
    let complete = all_exact(root, &|path| {
        index
            .fields()
            .iter()
            .zip(&fields)
            .any(|(f, b)| b.exact && f.path.as_str() == path)
    });
    let plan = Plan::of(access, sorted);
    Some((
        score,
        Plan {
            index: Some(index.clone()),
            multikey: bits,
            bounds: fields,
            complete,
            ..plan
        },
    ))
}

/// A hashed field knows only equality: the hash of each value.
fn hashed_points(index: &Index, field: usize, root: &Node) -> FieldBounds {
    let mut found = None;
    let path = index.fields()[field].path.as_str();
    bounds::conjuncts(root, &mut |n| {
        if let Node::Field { path: p, test } = n
            && p.as_str() == path
        {
            let encode = |v: &Value<'_>| {
                let mut c = Vec::new();
                index.encode_bound(field, v, &mut c);
                ValueRange {
                    low: bounds::Bound::Included(c.clone()),
                    high: bounds::Bound::Included(c),
                }
            };
            match test {
                Test::Compare(c) if c.op == operators::filter::CompareOp::Eq => {
                    found = Some(vec![encode(&c.value.get())])
                }
                Test::In(i) if i.patterns.is_empty() => {
                    let mut all: Vec<_> = i.values.iter().map(|v| encode(&v.get())).collect();
                    all.sort_by(|a, b| format!("{:?}", a.low).cmp(&format!("{:?}", b.low)));
                    all.dedup();
                    found = Some(all);
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

/// A sparse index leaves out documents without any of its fields; it is enough when the filter
/// demands one of them to be there.
fn sparse_is_enough(index: &Index, fields: &[FieldBounds], root: &Node) -> bool {
    let mut null = Vec::new();
    store::format::keys::encode(&Value::Null, None, &mut null);
    let demanded = index.fields().iter().zip(fields).any(|(f, b)| {
        f.kind != FieldKind::Hashed
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
    if !usable || index.fields().iter().any(|f| f.kind == FieldKind::Hashed) {
        return None;
    }
    let mut at = 0;
    let mut reverse = None;
    for part in parts {
        let SortBy::Path(path) = &part.by else {
            return None;
        };
        // Fields fixed to one value may be skipped, or named in the sort without effect.
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

/// Intervals of encoded keys, and how many fields shaped them.
pub(super) fn intervals(index: &Index, fields: &[FieldBounds]) -> (Vec<KeyInterval>, usize) {
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
    for (n, (f, b)) in index.fields().iter().zip(fields).enumerate() {
        let descending = f.kind == FieldKind::Descending;
        let ranges = match &b.ranges {
            Some(r) if r.len().saturating_mul(prefixes.len()) <= INTERVALS_MAX || n == 0 => r,
            _ => return (close(prefixes), n),
        };
        if !b.is_points() {
            let mut out = Vec::new();
            for p in &prefixes {
                for r in ranges {
                    let (low, high) = bounds::directed(r, descending);
                    out.push(KeyInterval {
                        lower: [&p[..], &low].concat(),
                        upper: [&p[..], &high].concat(),
                    });
                }
            }
            return (merged(out), n + 1);
        }
        let mut next = Vec::with_capacity(prefixes.len() * ranges.len());
        for p in &prefixes {
            for r in ranges {
                if let bounds::Bound::Included(c) = &r.low {
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

/// Every entry that begins with one of these components.
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
    merged(prefixes.into_iter().map(whole).collect())
}

/// Ascending, overlapping ones joined.
fn merged(mut list: Vec<KeyInterval>) -> Vec<KeyInterval> {
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
