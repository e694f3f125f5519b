//! Plans for `$text`: the entries of each term in the collection's text index, after the values
//! that the filter requires of the fields before the text.

use super::access::{Access, Plan};
use super::best::of_branch;
use super::bounds::{self, Bound, Combine};
use super::partial::is_implied;
use super::request::PlanRequest;
use model::{MongoError, Result, bail, code};
use operators::filter::{Node, Text};
use operators::text::TextMatcher;
use std::sync::Arc;
use store::{Collection, FieldKind, Index};

/// Binds `text` to the collection's text index and plans the read.
///
/// # Errors
/// 27 IndexNotFound without a text index, 2 BadValue with a hint or an order by `$natural`, 291
/// when the index cannot be used for this filter.
pub(super) fn plan(
    coll: &Collection,
    request: &PlanRequest<'_>,
    root: &Node,
    text: &Text,
    indexes: &[Arc<Index>],
) -> Result<Plan> {
    if request.hint.is_some() {
        bail!(
            code::BAD_VALUE,
            "error processing query: planner returned error :: caused by :: text and hint (or \
                $natural) not allowed in same query"
        );
    }
    let of_text = |i: &&Arc<Index>| i.text().is_some() && i.is_ready();
    let Some(index) = indexes.iter().find(of_text) else {
        bail!(code::INDEX_NOT_FOUND, "text index required for $text query");
    };
    if index.is_hidden() {
        bail!(
            291,
            "error processing query: planner returned error :: caused by :: the text index '{}' is \
                hidden",
            index.name()
        );
    }
    let matcher = text.bind(index.spec());
    let mut on_top = false;
    bounds::conjuncts(root, &mut |n| on_top |= matches!(n, Node::Text(_)));
    let planned = match on_top {
        true => plan_terms(index, request, root, &matcher),
        false => plan_branches(coll, request, root, index, &matcher, indexes),
    };
    planned.ok_or_else(|| {
        MongoError::new(
            291,
            "error processing query: planner returned error :: caused by :: failed to use text \
                index to satisfy $text query (if the text \
             index is compound, are equality predicates given for all prefix fields? below $or, \
             has every branch an index?)",
        )
    })
}

/// The terms of a conjunction; `None` if a field before the text is not fixed to one value, or the
/// partial filter is not implied.
fn plan_terms(
    index: &Arc<Index>,
    request: &PlanRequest<'_>,
    root: &Node,
    matcher: &TextMatcher,
) -> Option<Plan> {
    if index.is_partial() && !is_implied(index, request.filter, request.collation.is_none()) {
        return None;
    }
    let at = index.text()?.at;
    let (mut before, mut fixed) = (Vec::new(), Vec::new());
    for f in index.fields().iter().take(at) {
        let b = bounds::of_filter(
            root,
            f.path.as_str(),
            None,
            request.collation.is_none(),
            Combine::Intersect,
        );
        if !b.is_one_point() {
            return None;
        }
        let Some(Bound::Included(c)) = b.ranges.as_ref()?.first().map(|r| &r.low) else {
            return None;
        };
        before.extend(c.iter().map(|byte| {
            if f.kind == FieldKind::Descending {
                !byte
            } else {
                *byte
            }
        }));
        fixed.push(b);
    }
    let query = matcher.query();
    let terms: Vec<_> = query
        .terms
        .iter()
        .map(|t| index.term_interval(&before, t))
        .collect();
    // Documents of several terms are read after their entries, and may have changed in between.
    let mut complete = terms.len() < 2 && query.terms_are_enough();
    bounds::conjuncts(root, &mut |n| {
        complete &= match n {
            Node::AlwaysTrue | Node::Text(_) => true,
            Node::Field { path, .. } => index
                .fields()
                .iter()
                .zip(&fixed)
                .any(|(f, b)| b.exact && f.path == *path),
            _ => false,
        }
    });
    let plan = Plan::of(Access::Text { terms }, request.sort.is_none());
    Some(Plan {
        index: Some(index.clone()),
        bounds: fixed,
        complete,
        ..plan
    })
}

/// A disjunction with `$text` in a branch; the other branches must be bounded.
fn plan_branches(
    coll: &Collection,
    request: &PlanRequest<'_>,
    root: &Node,
    index: &Arc<Index>,
    matcher: &TextMatcher,
    indexes: &[Arc<Index>],
) -> Option<Plan> {
    let mut found = None;
    bounds::conjuncts(root, &mut |n| {
        let mut has_text = false;
        n.visit(&mut |n| has_text |= matches!(n, Node::Text(_)));
        if let (Node::Or(nodes), true) = (n, has_text) {
            found = Some(nodes);
        }
    });
    let mut branches = Vec::new();
    for n in found? {
        let mut has_text = false;
        bounds::conjuncts(n, &mut |n| has_text |= matches!(n, Node::Text(_)));
        branches.push(match has_text {
            true => plan_terms(
                index,
                &PlanRequest {
                    filter: None,
                    sort: None,
                    ..*request
                },
                n,
                matcher,
            )?,
            false => of_branch(
                coll,
                &PlanRequest {
                    sort: None,
                    ..*request
                },
                n,
                indexes,
            )?,
        });
    }
    Some(Plan::of(
        Access::Union {
            branches,
            merge: None,
            disjoint: false,
        },
        request.sort.is_none(),
    ))
}
