//! The planner's entry point: chooses the access path of a read. `min` and `max`, `$text` and a
//! hint leave no choice; otherwise the path with the most points is taken (see `score`), unless
//! another costs clearly less (see `cost`).

use super::access::{Access, Plan};
use super::best::{best, list_compared, usable};
use super::bounds;
use super::cache::Lookup;
use super::column_choice::plan_columns;
use super::cost::Costs;
use super::disjunction::plan_disjunction;
use super::estimate::Estimate;
use super::id_path::plan_by_id;
use super::index_path::plan_index;
use super::log_times;
use super::min_max;
use super::near;
use super::request::{Hint, PlanRequest, natural_sort};
use super::skip::{SkipScanIndex, skippable};
use super::{score, series, text};
use crate::exec::{AllowedIndexes, MatchFilter};
use model::bucket::SeriesOptions;
use model::{Doc, MongoError, Result};
use operators::filter::Node;
use std::sync::Arc;
use store::{Collection, Index};

/// No access path can answer the query.
const NO_QUERY_EXECUTION_PLANS: i32 = 291;

/// Most indexes that are considered for a read by each value of their first field.
const SKIPPED_MAX: usize = 4;

static ALL: Node = Node::AlwaysTrue;

/// Chooses how to read `coll`.
///
/// # Errors
/// 2 BadValue for a hint that names no index; 27 IndexNotFound, 2 BadValue and 291 for a `$text`
/// that cannot be answered; 291 for `$near` without an index for it, or beside a hint at another;
/// 51174 and 51175 for bounds that do not suit the hinted index.
pub fn plan_read(coll: &Collection, request: &PlanRequest<'_>) -> Result<Plan> {
    let text = request.filter.and_then(|f| f.filter.text());
    let bounded = request.min.is_some() || request.max.is_some();
    // A `$text` is left to its own planner, which gives the error.
    let root = request.filter.map(|f| f.filter.root());
    let plan = if bounded && text.is_none() {
        min_max::plan_min_max(coll, request)?
    } else {
        let without_near = || choose(coll, request);
        near::plan(coll, request, root.unwrap_or(&ALL), without_near)?
    };
    if let Some(filter) = request.filter {
        near::check_index(filter, coll, request.hint)?;
        if scans(&plan.access) {
            check_may_scan(coll, filter)?;
        }
    }
    Ok(Plan {
        view: request.view.cloned().unwrap_or_default(),
        times: root.filter(|_| coll.is_log()).map(log_times::of),
        ..plan
    })
}

/// Whether a plan scans the collection.
fn scans(access: &Access) -> bool {
    match access {
        Access::Collection { .. } => true,
        Access::Union { branches, .. } => branches.iter().any(|b| scans(&b.access)),
        _ => false,
    }
}

/// Checks that a filter may be answered by a collection scan. The server's own queries always may.
///
/// # Errors
/// 291 NoQueryExecutionPlans under `notablescan`.
pub(crate) fn check_may_scan(coll: &Collection, filter: &MatchFilter) -> Result<()> {
    let ns = coll.ns();
    let internal = ns.is_system() || matches!(ns.db(), "admin" | "config" | "local");
    if filter.refuses_scan && !internal {
        return Err(MongoError::new(
            NO_QUERY_EXECUTION_PLANS,
            format!(
                "No indexed plans available for a query of {ns}, and running with 'notablescan'"
            ),
        ));
    }
    Ok(())
}

fn choose(coll: &Collection, request: &PlanRequest<'_>) -> Result<Plan> {
    let root = request.filter.map_or(&ALL, |f| f.filter.root());
    let text = request.filter.and_then(|f| f.filter.text());
    let mut impossible = false;
    bounds::conjuncts(root, &mut |n| impossible |= matches!(n, Node::AlwaysFalse));
    // A `$text` must be bound to its index even if nothing can match.
    if impossible && request.hint.is_none() && text.is_none() {
        return Ok(Plan::empty());
    }
    if let Some(options) = SeriesOptions::of(coll.options().doc()) {
        return series::plan(coll, &options, request, root);
    }
    let natural = natural_sort(request.sort, coll.is_log());
    let indexes = coll.readable_indexes(request.view);
    if let Some(text) = text {
        return text::plan(coll, request, root, text, &indexes);
    }
    if let Some(allowed) = request.allowed.filter(|_| natural.is_none()) {
        return plan_allowed(coll, request, root, &indexes, allowed);
    }
    match request.hint {
        Some(Hint::Natural { reverse }) => {
            return Ok(Plan::of(
                Access::Collection { reverse: *reverse },
                natural == Some(*reverse),
            ));
        }
        Some(hint) => return plan_hint(coll, request, root, hint, &indexes),
        None => {}
    }
    if let Some(reverse) = natural {
        return Ok(Plan::of(Access::Collection { reverse }, true));
    }
    let by_id = plan_by_id(coll, request, root);
    // A read of one document by its id cannot be improved.
    if let Some(p) = &by_id
        && is_one(p)
    {
        return Ok(p.clone());
    }
    let among = IndexChoice {
        coll,
        request,
        root,
        indexes: &indexes,
        filtered: false,
        all: true,
    };
    // A prefix of equalities is preferred to a union; a range or only an order is not.
    let union = |points: Option<u32>| {
        points
            .is_none_or(|points| points < score::EQUALITY_FIELD)
            .then(|| plan_disjunction(coll, request, root, &indexes))?
    };
    match among.choose(by_id, union)? {
        Some(plan) => Ok(plan),
        None => among.scan_or_columns(),
    }
}

/// The indexes that may be used, and the query.
struct IndexChoice<'r> {
    coll: &'r Collection,
    request: &'r PlanRequest<'r>,
    root: &'r Node,
    indexes: &'r [Arc<Index>],
    /// They are the indexes that an index filter allows.
    filtered: bool,
    /// They are all indexes of the collection, so a scan is an alternative.
    all: bool,
}

/// The result of comparing plans by their costs.
#[derive(Default)]
struct CostComparison {
    /// The estimate of the preferred plan, if that is taken.
    preferred: Option<Estimate>,
    /// A plan that costs clearly less.
    cheaper: Option<Plan>,
}

impl IndexChoice<'_> {
    /// The best plan: that of the cache, or the one with the most points (which the cache stores if
    /// it had rivals), unless another costs clearly less. `instead` may replace the best plan,
    /// given its points.
    ///
    /// # Errors
    /// Engine failures while entries are counted.
    fn choose(
        &self,
        by_id: Option<Plan>,
        instead: impl FnOnce(Option<u32>) -> Option<Plan>,
    ) -> Result<Option<Plan>> {
        let lookup = Lookup::new(self.coll, self.request, self.filtered);
        if let Some((lookup, name)) = lookup.as_ref().and_then(|l| Some((l, l.active()?)))
            && let Some(plan) = self.plan_by_name(name, by_id.as_ref())
        {
            return Ok(Some(lookup.mark_cached(plan)));
        }
        let ids = by_id.clone();
        let best = best(by_id, self.request, self.root, self.indexes, |_| true);
        let costs = Costs::of(self.coll, self.request);
        let mut other = instead(best.as_ref().map(|b| b.points));
        // A scan is preferred only if there is no other plan, but it takes part in the comparison.
        let is_none = other.is_none() && best.is_none() && costs.is_some();
        if is_none && self.may_scan() && !self.skippable().is_empty() {
            other = Some(self.scan_or_columns()?);
        }
        let preferred = other.as_ref().or(best.as_ref().map(|b| &b.plan));
        let mut estimate = None;
        if let Some(costs) = costs
            && let Some(preferred) = preferred
            && !lookup.as_ref().is_some_and(Lookup::is_settled)
        {
            let compared = self.compare_costs(&costs, lookup.as_ref(), preferred, ids.as_ref())?;
            if let Some(cheaper) = compared.cheaper {
                let by_one = matches!(
                    cheaper.access,
                    Access::Index { .. } | Access::IdRange { .. }
                );
                // A cached plan is made from its index's name, with bounds on its first field.
                let kept = by_one && !cheaper.skips_first_field();
                return Ok(Some(match lookup.filter(|_| kept) {
                    Some(lookup) => self.keep(lookup, cheaper, ids.as_ref()),
                    None => cheaper,
                }));
            }
            estimate = compared.preferred;
        }
        if let Some(other) = other {
            return Ok(Some(Plan { estimate, ..other }));
        }
        Ok(best.map(|best| {
            let plan = Plan {
                estimate,
                ..best.plan
            };
            match lookup {
                Some(lookup) if best.compared > 1 => self.keep(lookup, plan, ids.as_ref()),
                _ => plan,
            }
        }))
    }

    fn keep(&self, lookup: Lookup<'_>, plan: Plan, by_id: Option<&Plan>) -> Plan {
        lookup.record_choice(plan, self.request, || {
            list_compared(by_id, self.request, self.root, self.indexes)
        })
    }

    /// Compares the preferred plan with the others by their costs.
    fn compare_costs(
        &self,
        costs: &Costs<'_>,
        lookup: Option<&Lookup<'_>>,
        preferred: &Plan,
        by_id: Option<&Plan>,
    ) -> Result<CostComparison> {
        let cheap = costs.cheap(preferred)?;
        // Without a sample, the next queries would count for nothing, too, until one is drawn.
        let settles = cheap.is_some() || !costs.can_compare()?;
        if let Some(lookup) = lookup {
            lookup.note_settled(settles);
        }
        if settles {
            return Ok(CostComparison {
                preferred: cheap,
                cheaper: None,
            });
        }
        let mut skipping = Vec::new();
        for skippable in self.skippable() {
            skipping.extend(skippable.plan(self.coll, self.request)?);
        }
        if matches!(preferred.access, Access::Collection { .. }) && skipping.is_empty() {
            return Ok(CostComparison::default());
        }
        let mut plans = vec![preferred.clone()];
        plans.extend(by_id.cloned());
        let is_preferred =
            |i: &Arc<Index>| preferred.index.as_ref().is_some_and(|p| Arc::ptr_eq(p, i));
        let others = self
            .indexes
            .iter()
            .filter(usable)
            .filter(|i| !is_preferred(i));
        let by_index = |i| plan_index(i, self.request, self.root, false).map(|(_, plan)| plan);
        plans.extend(others.filter_map(by_index));
        if !matches!(preferred.access, Access::Union { .. }) {
            plans.extend(plan_disjunction(
                self.coll,
                self.request,
                self.root,
                self.indexes,
            ));
        }
        plans.extend(skipping);
        let mut is_lone = plans.len() == 1 && matches!(preferred.access, Access::Index { .. });
        if self.may_scan() {
            plans.push(self.scan());
            let by_columns = self.plan_columns()?;
            is_lone &= by_columns.is_none();
            plans.extend(by_columns);
        }
        let at = costs.cheapest(&mut plans)?;
        if let Some(lookup) = lookup.filter(|_| is_lone && at == 0) {
            // If a scan is the only alternative, an index is slower by a small factor at worst,
            // whatever the constants are.
            lookup.note_settled(true);
        }
        let taken = plans.remove(at);
        let estimate = taken.estimate;
        if let Some(rivals) = self.request.rivals {
            rivals.note(&taken, plans);
        }
        Ok(CostComparison {
            preferred: estimate.filter(|_| at == 0),
            cheaper: (at > 0).then_some(taken),
        })
    }

    /// A scan is no alternative if only some indexes are allowed or scans are refused.
    fn may_scan(&self) -> bool {
        self.all && !self.request.filter.is_some_and(|f| f.refuses_scan)
    }

    fn scan(&self) -> Plan {
        let scan = Access::Collection { reverse: false };
        Plan::of(scan, self.request.sort.is_none())
    }

    /// The read by a column index that has all fields the query uses.
    fn plan_columns(&self) -> Result<Option<Plan>> {
        let columns = plan_columns(self.coll, self.request)?;
        Ok(columns.map(|columns| Plan {
            columns: Some(Arc::new(columns)),
            ..self.scan()
        }))
    }

    /// The plan for the whole collection: its documents, unless reading columns costs clearly less.
    fn scan_or_columns(&self) -> Result<Plan> {
        let Some(by_columns) = self.plan_columns()? else {
            return Ok(self.scan());
        };
        let costs = match Costs::of(self.coll, self.request) {
            Some(costs) if costs.can_compare()? => costs,
            _ => Costs::without_sample(self.coll, self.request),
        };
        let mut plans = vec![self.scan(), by_columns];
        let at = costs.cheapest(&mut plans)?;
        let taken = plans.remove(at);
        if let Some(rivals) = self.request.rivals {
            rivals.note(&taken, plans);
        }
        Ok(taken)
    }

    /// Indexes that may be read once for each value of their first field.
    fn skippable(&self) -> Vec<SkipScanIndex> {
        let indexes = self.indexes.iter().filter(usable);
        let all = indexes.filter_map(|i| skippable(i, self.request, self.root));
        all.take(SKIPPED_MAX).collect()
    }

    fn plan_by_name(&self, name: &str, by_id: Option<&Plan>) -> Option<Plan> {
        if name == "_id_" {
            return by_id.cloned();
        }
        let index = self
            .indexes
            .iter()
            .filter(usable)
            .find(|i| i.name() == name)?;
        plan_index(index, self.request, self.root, false).map(|(_, plan)| plan)
    }
}

/// The best plan over the allowed indexes; if none fits, [`AllowedIndexes::filter`] decides.
fn plan_allowed(
    coll: &Collection,
    request: &PlanRequest<'_>,
    root: &Node,
    indexes: &[Arc<Index>],
    allowed: &AllowedIndexes,
) -> Result<Plan> {
    let usable: Vec<Arc<Index>> = indexes
        .iter()
        .filter(|i| allowed.has(i.name(), i.key_pattern()))
        .cloned()
        .collect();
    // Query settings are not part of the shape by which plans are cached.
    let free = PlanRequest {
        allowed: None,
        remember: request.remember.filter(|_| allowed.filter),
        ..*request
    };
    let id_key = model::doc! { "_id": 1i32 };
    // A query for one document by its id alone is not planned, so an index filter does not apply to
    // it.
    let only_id = |f: &&MatchFilter| f.spec.doc().count() == 1;
    let unplanned = allowed.filter && request.filter.as_ref().is_some_and(only_id);
    let by_id = plan_by_id(coll, &free, root)
        .filter(|p| unplanned && is_one(p) || allowed.has("_id_", id_key.doc()));
    let among = IndexChoice {
        coll,
        request: &free,
        root,
        indexes: &usable,
        filtered: allowed.filter,
        all: false,
    };
    match among.choose(by_id, |_| None)? {
        Some(plan) => Ok(plan),
        None if allowed.filter => IndexChoice { request, ..among }.scan_or_columns(),
        None => choose(coll, &free),
    }
}

/// True for one document by its id.
fn is_one(plan: &Plan) -> bool {
    matches!(&plan.access, Access::Ids { ids, .. } if ids.len() <= 1)
}

/// The bounded index plans that were considered and rejected, for explain.
pub fn alternatives(coll: &Collection, request: &PlanRequest<'_>, taken: &Plan) -> Vec<Plan> {
    let root = request.filter.map_or(&ALL, |f| f.filter.root());
    let could = match taken.access {
        Access::Index { .. } => true,
        // If only some indexes are allowed, a scan is no choice.
        Access::Collection { .. } => request.allowed.is_none(),
        _ => false,
    };
    let natural = natural_sort(request.sort, coll.is_log()).is_some();
    let others = could && !natural && taken.series.is_none();
    if request.hint.is_some() || !others {
        return Vec::new();
    }
    let others = coll.readable_indexes(request.view);
    let others = others.iter().filter(usable);
    others
        .filter(|i| taken.index.as_ref().is_none_or(|t| t.name() != i.name()))
        .filter_map(|i| plan_index(i, request, root, false).map(|(_, p)| p))
        .filter(|p| p.bounds.first().is_some_and(|b| !b.is_all()))
        .collect()
}

fn plan_hint(
    coll: &Collection,
    request: &PlanRequest<'_>,
    root: &Node,
    hint: &Hint,
    indexes: &[Arc<Index>],
) -> Result<Plan> {
    let is_id = match hint {
        Hint::Name(n) | Hint::Own(n) => n == "_id_",
        Hint::Key(k) => is_id_key(k.doc()),
        Hint::Natural { .. } => false,
    };
    if is_id {
        return Ok(plan_by_id(coll, request, root).unwrap_or_else(|| {
            // There is no plan by `_id`, so its order is not the wanted one.
            Plan::of(
                Access::IdRange {
                    lower: None,
                    upper: None,
                    reverse: false,
                },
                request.sort.is_none(),
            )
        }));
    }
    let Some(index) = hint.index(indexes) else {
        return Err(MongoError::bad_value(format!(
            "error processing query: planner returned error :: caused by :: hint provided does not \
                correspond to an existing index: {hint}"
        )));
    };
    if index.wildcard().is_some() {
        return plan_index(index, request, root, true)
            .map(|(_, p)| p)
            .or_else(|| plan_disjunction(coll, request, root, std::slice::from_ref(index)))
            .ok_or_else(no_solutions);
    }
    if index.is_columns() {
        let columns = plan_columns(coll, request)?.map(Arc::new);
        return Ok(Plan {
            columns,
            ..Plan::scan()
        });
    }
    if !index.is_keyed() && !index.has_cells() {
        // A wildcard index has no entry that stands for a filter without fields.
        if is_wildcard(index) && matches!(root, Node::AlwaysTrue) {
            return Err(no_solutions());
        }
        return Ok(Plan::scan());
    }
    let one = plan_index(index, request, root, true).map(|(_, p)| p);
    // Ranges of the index for the branches of a disjunction are better than reading all of it.
    let is_whole = |p: &Plan| p.bounds.first().is_none_or(|b| b.is_all());
    if one.as_ref().is_none_or(is_whole)
        && let Some(ranges) = plan_disjunction(coll, request, root, std::slice::from_ref(index))
        && uses_only(&ranges, index)
    {
        return Ok(ranges);
    }
    one.ok_or_else(|| MongoError::bad_value("the hinted index cannot answer this query"))
}

/// Whether a union reads only ranges of this index.
fn uses_only(plan: &Plan, index: &Index) -> bool {
    let Access::Union { branches, .. } = &plan.access else {
        return false;
    };
    let is_it = |p: &Plan| p.index.as_ref().is_some_and(|i| i.name() == index.name());
    branches.iter().all(is_it)
}

fn no_solutions() -> MongoError {
    MongoError::new(
        NO_QUERY_EXECUTION_PLANS,
        "error processing query: No query solutions",
    )
}

fn is_wildcard(index: &Index) -> bool {
    let mut parts = index.fields().iter().flat_map(|f| f.path.parts());
    parts.any(|p| p.name == "$**")
}

fn is_id_key(d: Doc<'_>) -> bool {
    d.count() == 1
        && d.first()
            .is_some_and(|(n, v)| n == "_id" && v.as_f64() == Some(1.0))
}
