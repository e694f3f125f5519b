//! The rewrites, one function each. A rule looks at the stages from a position on and says whether
//! it changed them.

use super::facts::{self, Effect, Facts};
use super::split::{self, SplitFilter};
use crate::stage::{Kind, Stage, Transform};
use operators::expr::ParseCx;
use std::sync::Arc;

/// The stages being rewritten.
pub(super) type Stages = Vec<Arc<dyn Stage>>;

/// A rewrite at a position.
pub(super) type Rule = fn(&mut Stages, usize, &mut ParseCx<'_>) -> bool;

/// All rules with their names. Each moves a filter or a limit towards the source or shortens the
/// list, so rewriting ends.
pub(super) static RULES: &[(&str, Rule)] = &[
    ("drop an empty $match", drop_empty_match),
    ("merge $match with $match", merge_matches),
    ("$match before $sort", match_before_sort),
    (
        "$match before a stage that leaves its fields alone",
        match_before_transform,
    ),
    ("$match on a group's key before $group", match_before_group),
    ("merge $limit with $limit", merge_limits),
    ("merge $skip with $skip", merge_skips),
    ("$limit before $skip", limit_before_skip),
    (
        "$limit or $skip before a stage that gives one document for one",
        cut_before_transform,
    ),
    ("$sort takes the $limit behind it", sort_takes_limit),
    ("no $sort before $count", no_sort_before_count),
];

fn kinds(s: &Stages, at: usize) -> Option<(Kind<'_>, Kind<'_>)> {
    Some((s.get(at)?.kind(), s.get(at + 1)?.kind()))
}

/// Replaces two stages by one, if there is one.
fn join(s: &mut Stages, at: usize, one: Option<Arc<dyn Stage>>) -> bool {
    let joins = one.is_some();
    if let Some(one) = one {
        s.splice(at..at + 2, [one]);
    }
    joins
}

fn drop_empty_match(s: &mut Stages, at: usize, _: &mut ParseCx<'_>) -> bool {
    let empty =
        matches!(s.get(at).map(|s| s.kind()), Some(Kind::Match(f)) if f.spec.doc().is_empty());
    if empty {
        s.remove(at);
    }
    empty
}

fn merge_matches(s: &mut Stages, at: usize, cx: &mut ParseCx<'_>) -> bool {
    let Some((Kind::Match(a), Kind::Match(b))) = kinds(s, at) else {
        return false;
    };
    let both = split::conjoin_filters(a.spec.doc(), b.spec.doc());
    let one = s.get(at).and_then(|m| m.with_filter(cx, both.doc()));
    join(s, at, one)
}

/// A filter after a sort without limit selects the same documents in the same order before it, and
/// fewer documents are sorted.
fn match_before_sort(s: &mut Stages, at: usize, _: &mut ParseCx<'_>) -> bool {
    let moves = matches!(
        kinds(s, at),
        Some((Kind::Sort { limit: None, .. }, Kind::Match(_)))
    ) && s
        .get(at + 1)
        .is_some_and(|filter| facts::reads(filter.as_ref()).is_some());
    if moves {
        s.swap(at, at + 1);
    }
    moves
}

/// Splits the filter at `at + 1` into a part before the stage at `at` and a part after it.
fn move_parts(s: &mut Stages, at: usize, parts: SplitFilter, cx: &mut ParseCx<'_>) -> bool {
    let Some(before) = parts.before else {
        return false;
    };
    let (Some(transform), Some(filter)) = (s.get(at).cloned(), s.get(at + 1)) else {
        return false;
    };
    let Some(before) = filter.with_filter(cx, before.doc()) else {
        return false;
    };
    let after = match parts.after.map(|a| filter.with_filter(cx, a.doc())) {
        Some(None) => return false,
        other => other.flatten(),
    };
    s.splice(at..at + 2, [before, transform].into_iter().chain(after));
    true
}

fn match_before_transform(s: &mut Stages, at: usize, cx: &mut ParseCx<'_>) -> bool {
    let Some((Kind::Transform(_), Kind::Match(filter))) = kinds(s, at) else {
        return false;
    };
    let Some(stage) = s.get(at) else { return false };
    let Facts {
        effect, renames, ..
    } = facts::of(stage.as_ref());
    let untouched = |name: &str| match &effect {
        Effect::Keeps => true,
        Effect::Changes(names) => !names.contains(name),
        Effect::Only(names) => names.contains(name),
        Effect::Anything => false,
    };
    if effect == Effect::Anything {
        return false;
    }
    let parts = split::split(cx, filter.spec.doc(), &untouched, &renames);
    move_parts(s, at, parts, cx)
}

/// A filter on the key selects whole groups. Filters that ask for existence or type stay: the key
/// is null for a missing field, and one of several equal numbers. Under a collation all filters
/// stay.
fn match_before_group(s: &mut Stages, at: usize, cx: &mut ParseCx<'_>) -> bool {
    let Some((Kind::Transform(Transform::Group(_)), Kind::Match(filter))) = kinds(s, at) else {
        return false;
    };
    let Some(stage) = s.get(at) else { return false };
    if cx.env.collation.is_some() {
        return false;
    }
    let renames = facts::of(stage.as_ref()).renames;
    let parts = split::split_on_key(cx, filter.spec.doc(), &renames);
    move_parts(s, at, parts, cx)
}

fn merge_limits(s: &mut Stages, at: usize, _: &mut ParseCx<'_>) -> bool {
    let Some((Kind::Limit(a), Kind::Limit(b))) = kinds(s, at) else {
        return false;
    };
    let one = s.get(at).and_then(|limit| limit.with_number(a.min(b)));
    join(s, at, one)
}

fn merge_skips(s: &mut Stages, at: usize, _: &mut ParseCx<'_>) -> bool {
    let Some((Kind::Skip(a), Kind::Skip(b))) = kinds(s, at) else {
        return false;
    };
    let sum = a.checked_add(b);
    let one = sum.and_then(|n| s.get(at)?.with_number(n));
    join(s, at, one)
}

/// Then the limit may move on to the source or into a sort.
fn limit_before_skip(s: &mut Stages, at: usize, _: &mut ParseCx<'_>) -> bool {
    let Some((Kind::Skip(skip), Kind::Limit(limit))) = kinds(s, at) else {
        return false;
    };
    let sum = skip.checked_add(limit);
    let Some(before) = sum.and_then(|n| s.get(at + 1)?.with_number(n)) else {
        return false;
    };
    if let Some(limit) = s.get_mut(at + 1) {
        *limit = before;
    }
    s.swap(at, at + 1);
    true
}

fn cut_before_transform(s: &mut Stages, at: usize, _: &mut ParseCx<'_>) -> bool {
    let Some((Kind::Transform(_), Kind::Limit(_) | Kind::Skip(_))) = kinds(s, at) else {
        return false;
    };
    let moves = s.get(at).is_some_and(|t| facts::of(t.as_ref()).one_to_one);
    if moves {
        s.swap(at, at + 1);
    }
    moves
}

fn sort_takes_limit(s: &mut Stages, at: usize, _: &mut ParseCx<'_>) -> bool {
    let Some((Kind::Sort { .. }, Kind::Limit(n))) = kinds(s, at) else {
        return false;
    };
    let one = s.get(at).and_then(|sort| sort.with_limit(n));
    join(s, at, one)
}

fn no_sort_before_count(s: &mut Stages, at: usize, _: &mut ParseCx<'_>) -> bool {
    let counts = matches!(
        kinds(s, at),
        Some((
            Kind::Sort { limit: None, .. },
            Kind::Transform(Transform::Count)
        ))
    );
    if counts {
        s.remove(at);
    }
    counts
}
