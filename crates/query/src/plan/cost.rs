//! Estimates the cost of access paths, to choose among several: a small number of entries within
//! the bounds is counted; larger numbers are estimated from a sample of documents and from the
//! engine's sizes of ranges. Promises: a wrong estimate makes a plan slower, never wrong; the same
//! state gives the same costs. Must not know: which plans there are.

use super::access::{Access, Plan};
use super::cache::PlanCache;
use super::estimate::{Estimate, EstimateSource};
use super::request::PlanRequest;
use super::sample::Sample;
use super::unit_cost::{ENTRY, FETCHED, SCANNED, SORTED};
use model::{Bump, DocBuf, Result};
use operators::Env;
use operators::filter::{Filter, Node};
use std::cell::{OnceCell, RefCell};
use std::sync::Arc;
use store::{Collection, EntryCount, Index, KeyInterval, KeySet, ReadView};

/// Smaller collections are not worth an estimate.
const DOCUMENTS_MIN: u64 = 1000;
/// Most entries that are counted one by one.
const COUNTED_MAX: u64 = 128;
/// Fewest matching documents in a sample for which its order of matches is trusted.
const HITS_MIN: usize = 8;
/// A plan that costs no more is taken without estimating others.
const CHEAP: f64 = 100.0;

/// Most bytes of documents to sort instead of using an index order: well below what a sort may hold
/// in memory.
const SORTED_BYTES_MAX: f64 = 32e6;

/// The preferred plan is replaced only by one that costs this much less: the points consider
/// properties that estimates do not show.
const CLEARLY: f64 = 1.25;

/// The data for estimating the plans of a read.
pub(super) struct Costs<'r> {
    coll: &'r Collection,
    request: &'r PlanRequest<'r>,
    docs: f64,
    /// A sample of documents may be used.
    samples: bool,
    /// Read when it is first needed; `None` inside if there is no sample yet.
    sample: OnceCell<Option<Arc<Sample>>>,
    /// Whether each document of the sample matches; empty if the filter cannot be tested on single
    /// documents.
    matches: OnceCell<Vec<bool>>,
    keys: RefCell<KeySet>,
    /// Counts so far: several plans have the same bounds, and each count reads the index.
    counts: RefCell<Vec<Count>>,
}

/// The counted entries of an index within some intervals.
struct Count {
    ident: u32,
    intervals: Vec<KeyInterval>,
    found: EntryCount,
}

/// Entries in the bounds of a plan.
struct Entries {
    number: f64,
    /// The number is exact.
    counted: bool,
    /// For each document of the sample within the bounds, in the order of reading, whether it
    /// matches. Empty if that is not known.
    matches: Vec<bool>,
}

/// The estimated number of matching documents.
struct Cardinality {
    number: f64,
    source: EstimateSource,
}

impl Entries {
    fn of_count(number: f64) -> Entries {
        Entries {
            number,
            counted: true,
            matches: Vec::new(),
        }
    }

    fn of_estimate(number: f64, matches: Vec<bool>) -> Entries {
        Entries {
            number,
            counted: false,
            matches,
        }
    }

    fn source(&self) -> EstimateSource {
        match self.counted {
            true => EstimateSource::Counted,
            false => EstimateSource::Sampled,
        }
    }

    /// Estimates how many documents are read until enough have matched. `of_sample` is this number
    /// of matches, scaled to the sample; `evenly` is the estimate for matches that are spread
    /// evenly.
    fn read_until(&self, of_sample: f64, evenly: f64) -> f64 {
        let nth = of_sample.ceil().max(1.0) as usize;
        let mut hits = self.matches.iter().enumerate().filter(|(_, m)| **m);
        let few = hits.clone().count() < HITS_MIN;
        let Some((at, _)) = hits.nth(nth - 1) else {
            return evenly;
        };
        let share = (at as f64 + of_sample.min(1.0)) / self.matches.len() as f64;
        let read = self.number * share.min(1.0);
        // The positions of few matches say little.
        if few { read.max(evenly) } else { read }
    }
}

impl<'r> Costs<'r> {
    /// `None` for a small collection, for a time-series collection or the log, and for a read of a
    /// snapshot, whose plans are not cached.
    pub(super) fn of(coll: &'r Collection, request: &'r PlanRequest<'r>) -> Option<Costs<'r>> {
        let fixed = request.view.is_some_and(ReadView::is_fixed);
        if fixed || coll.count() < DOCUMENTS_MIN || coll.is_series() || coll.is_log() {
            return None;
        }
        Some(Costs {
            samples: true,
            ..Costs::without_sample(coll, request)
        })
    }

    /// Without a sample: from what is known of the whole collection only.
    pub(super) fn without_sample(coll: &'r Collection, request: &'r PlanRequest<'r>) -> Costs<'r> {
        Costs {
            coll,
            request,
            docs: coll.count() as f64,
            samples: false,
            sample: OnceCell::new(),
            matches: OnceCell::new(),
            keys: RefCell::default(),
            counts: RefCell::default(),
        }
    }

    /// The estimate of a plan that is so cheap that comparing it with others gains nothing; `None`
    /// for any other plan.
    ///
    /// # Errors
    /// Engine failures.
    pub(super) fn cheap(&self, plan: &Plan) -> Result<Option<Estimate>> {
        Ok(self.count_plan(plan)?.and_then(|number| {
            let read_cost = number * (ENTRY + FETCHED);
            (read_cost <= CHEAP).then_some(Estimate {
                read: number,
                read_source: EstimateSource::Counted,
                rows: None,
                entries_cost: reads_entries(plan).then_some(number * ENTRY),
                read_cost,
                cost: None,
                // Without arrays each entry stands for one document.
                found: (plan.complete && plan.multikey == 0).then_some(number),
                source: EstimateSource::Counted,
            })
        }))
    }

    /// Whether more can be estimated than what is counted. For a large collection this needs a
    /// sample drawn in the background.
    ///
    /// # Errors
    /// Engine failures.
    pub(super) fn can_compare(&self) -> Result<bool> {
        Ok(self.sample()?.is_some())
    }

    /// The position of the plan to take: 0, which has the most points, unless another costs clearly
    /// less. Sets the estimates of all plans.
    ///
    /// # Errors
    /// Engine failures.
    pub(super) fn cheapest(&self, plans: &mut [Plan]) -> Result<usize> {
        let mut entries = Vec::with_capacity(plans.len());
        for plan in plans.iter() {
            entries.push(self.entries(plan)?);
        }
        let matched = self.estimate_matches(&entries)?;
        for (plan, entries) in plans.iter_mut().zip(&entries) {
            plan.estimate = entries.as_ref().map(|e| self.estimate(plan, e, &matched));
        }
        let cost = |plan: &Plan| plan.estimate.and_then(|e| e.cost);
        let Some(of_first) = plans.first().and_then(cost) else {
            return Ok(0);
        };
        let sorts_much = self.sorts_much(matched.number) && plans.first().is_some_and(|p| p.sorted);
        let others = plans.iter().enumerate().skip(1);
        let others = others.filter(|(_, plan)| plan.sorted || !sorts_much);
        let least = others
            .filter_map(|(at, plan)| Some((at, cost(plan)?)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        Ok(match least {
            Some((at, cost)) if cost * CLEARLY < of_first => at,
            _ => 0,
        })
    }

    /// Sorting the matches would take so much memory that a plan with an index order, which needs
    /// none, is kept.
    fn sorts_much(&self, matched: f64) -> bool {
        let average = self.coll.size_bytes() as f64 / self.docs.max(1.0);
        let sorted = self
            .request
            .limit
            .map_or(matched, |l| matched.min(l as f64));
        sorted * average > SORTED_BYTES_MAX
    }

    /// Entries or documents within the bounds, if they are few or known; uses no sample.
    fn count_plan(&self, plan: &Plan) -> Result<Option<f64>> {
        Ok(match &plan.access {
            Access::Nothing => Some(0.0),
            Access::Ids { ids, .. } => Some(ids.len() as f64),
            Access::Index { intervals, .. } => match &plan.index {
                Some(index) if index.wildcard().is_none() => {
                    let found = self.count(index, intervals)?;
                    found.all.then_some(found.entries as f64)
                }
                _ => None,
            },
            Access::Union { branches, .. } => {
                let mut all = 0.0;
                for branch in branches {
                    let Some(one) = self.count_plan(branch)? else {
                        return Ok(None);
                    };
                    all += one;
                }
                Some(all)
            }
            Access::Collection { .. }
            | Access::IdRange { .. }
            | Access::Near(_)
            | Access::Text { .. } => None,
        })
    }

    fn count(&self, index: &Index, intervals: &[KeyInterval]) -> Result<EntryCount> {
        let is_same = |c: &&Count| c.ident == index.ident() && c.intervals == intervals;
        if let Some(known) = self.counts.borrow().iter().find(is_same) {
            return Ok(known.found);
        }
        let view = ReadView::LATEST;
        let found = self
            .coll
            .count_entries_in(&view, index, intervals, COUNTED_MAX)?;
        self.counts.borrow_mut().push(Count {
            ident: index.ident(),
            intervals: intervals.to_vec(),
            found,
        });
        Ok(found)
    }

    /// Entries or documents within the bounds; `None` if that cannot be estimated.
    fn entries(&self, plan: &Plan) -> Result<Option<Entries>> {
        let counted = |number: f64| Some(Entries::of_count(number));
        Ok(match &plan.access {
            Access::Nothing => counted(0.0),
            Access::Collection { .. } => Some(Entries {
                matches: self.matches()?.to_vec(),
                ..Entries::of_count(self.docs)
            }),
            Access::Ids { ids, .. } => counted(ids.len() as f64),
            Access::IdRange {
                lower,
                upper,
                reverse,
            } => Some(self.estimate_id_range(lower.as_deref(), upper.as_deref(), *reverse)?),
            Access::Index {
                intervals, reverse, ..
            } => match &plan.index {
                Some(index) if index.wildcard().is_none() => {
                    Some(self.estimate_intervals(index, intervals, *reverse)?)
                }
                _ => None,
            },
            Access::Union { branches, .. } => {
                let mut all = Entries::of_count(0.0);
                for branch in branches {
                    let Some(one) = self.entries(branch)? else {
                        return Ok(None);
                    };
                    all.number += one.number;
                    all.counted &= one.counted;
                }
                Some(all)
            }
            Access::Near(_) | Access::Text { .. } => None,
        })
    }

    fn estimate_intervals(
        &self,
        index: &Index,
        intervals: &[KeyInterval],
        reverse: bool,
    ) -> Result<Entries> {
        let found = self.count(index, intervals)?;
        let least = found.entries as f64;
        if found.all {
            return Ok(Entries::of_count(least));
        }
        let (sample, matches) = (self.sample_documents()?, self.matches()?);
        let mut keys = self.keys.borrow_mut();
        let mut inside: Vec<(Vec<u8>, bool)> = Vec::new();
        let mut documents = 0usize;
        for (at, doc) in sample.iter().enumerate() {
            let entries = index.entries_inside(doc.doc(), intervals, &mut keys);
            documents += usize::from(!entries.is_empty());
            let matches = matches.get(at).copied().unwrap_or(false);
            inside.extend(entries.into_iter().map(|entry| (entry, matches)));
        }
        inside.sort_unstable();
        if reverse {
            inside.reverse();
        }
        // An engine on another machine estimates sizes by reading thousands of rows.
        let by_sample = documents >= HITS_MIN || self.coll.request_rows() > 1;
        let number = match by_sample {
            true => inside.len() as f64 / (sample.len() as f64).max(1.0) * self.docs,
            false => self.coll.share_of_index(index, intervals)? * self.docs,
        };
        let in_order = match matches.is_empty() {
            true => Vec::new(),
            false => inside.into_iter().map(|(_, matches)| matches).collect(),
        };
        Ok(Entries::of_estimate(number.max(least), in_order))
    }

    fn estimate_id_range(
        &self,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
        reverse: bool,
    ) -> Result<Entries> {
        let (sample, matches) = (self.sample_documents()?, self.matches()?);
        let mut key = Vec::new();
        let (mut hits, mut in_order) = (0usize, Vec::new());
        for (at, doc) in sample.iter().enumerate() {
            key.clear();
            self.coll.record_key(&doc.doc().field("_id"), &mut key);
            let id = key.get(4..).unwrap_or_default();
            if lower.is_none_or(|l| l <= id) && upper.is_none_or(|u| id < u) {
                hits += 1;
                in_order.extend(matches.get(at).copied());
            }
        }
        if reverse {
            in_order.reverse();
        }
        let share = (hits as f64).max(0.5) / (sample.len() as f64).max(1.0);
        Ok(Entries::of_estimate(
            (share * self.docs).min(self.docs),
            in_order,
        ))
    }

    /// Whether each document of the sample matches; empty if the filter cannot be tested on single
    /// documents.
    fn matches(&self) -> Result<&[bool]> {
        if let Some(matches) = self.matches.get() {
            return Ok(matches);
        }
        let tried = self.request.filter.map(|f| &f.filter);
        let matches = match tried {
            Some(filter) if can_be_tried(filter) => {
                let (env, mut arena) = (Env::new(0, 1), Bump::new());
                let mut matches = Vec::new();
                for doc in self.sample_documents()? {
                    arena.reset();
                    matches.push(filter.matches(doc.doc(), &arena, &env).unwrap_or(false));
                }
                matches
            }
            _ => Vec::new(),
        };
        Ok(self.matches.get_or_init(|| matches))
    }

    /// The estimated number of matching documents: the share of the sample, but no more than are
    /// within the bounds of any plan.
    fn estimate_matches(&self, entries: &[Option<Entries>]) -> Result<Cardinality> {
        let all = Cardinality {
            number: self.docs,
            source: EstimateSource::Counted,
        };
        if self.request.filter.is_none() {
            return Ok(all);
        }
        let least = entries.iter().flatten().fold(all, |least, e| {
            let (number, source) = (e.number, e.source());
            match number < least.number {
                true => Cardinality { number, source },
                false => least,
            }
        });
        let matches = self.matches()?;
        if matches.is_empty() {
            return Ok(least);
        }
        let hits = matches.iter().filter(|m| **m).count();
        let share = (hits as f64).max(0.5) / matches.len() as f64;
        Ok(Cardinality {
            number: (share * self.docs).min(least.number),
            source: EstimateSource::Sampled,
        })
    }

    /// The estimate of a plan with these entries, given the number of matching documents.
    fn estimate(&self, plan: &Plan, entries: &Entries, matched: &Cardinality) -> Estimate {
        let orders = self.request.sort.is_some() && !plan.sorted;
        let (limit, matched, source) = (self.request.limit, matched.number, matched.source);
        let limit = limit.map(|limit| limit as f64);
        let read = match limit.filter(|limit| !orders && *limit < matched) {
            None => entries.number,
            Some(limit) => {
                let sample = self.sample.get().and_then(Option::as_ref);
                let sample = sample.map_or(0, |s| s.docs().len()) as f64;
                entries.read_until(limit / self.docs * sample, entries.number * limit / matched)
            }
        };
        let sorting = if orders { matched * SORTED } else { 0.0 };
        let work = plan
            .columns
            .as_ref()
            .map(|c| c.work().share(read / entries.number.max(1.0)));
        let read_cost = work.map_or(read * self.unit_cost(plan), |work| work.cost);
        Estimate {
            read: work.map_or(read, |work| work.docs),
            read_source: entries.source(),
            rows: work.map(|work| work.rows),
            entries_cost: reads_entries(plan).then_some(read * ENTRY),
            read_cost,
            cost: Some(read_cost + sorting),
            found: Some(
                limit
                    .filter(|_| !orders)
                    .map_or(matched, |l| matched.min(l)),
            ),
            source,
        }
    }

    /// The cost of one entry or document of a plan.
    fn unit_cost(&self, plan: &Plan) -> f64 {
        match &plan.access {
            Access::Collection { .. } | Access::IdRange { .. } => SCANNED,
            Access::Index { .. } if self.reads_no_documents(plan) => ENTRY,
            Access::Union { branches, .. } => {
                let all: f64 = branches.iter().map(|b| self.unit_cost(b)).sum();
                all / (branches.len().max(1) as f64)
            }
            Access::Index { .. } => ENTRY + FETCHED,
            Access::Nothing | Access::Ids { .. } | Access::Near(_) | Access::Text { .. } => FETCHED,
        }
    }

    fn reads_no_documents(&self, plan: &Plan) -> bool {
        let fields = self.request.fields;
        plan.complete && fields.is_some_and(<[String]>::is_empty)
            || plan
                .clone()
                .with_covering(self.coll, self.request.filter, fields)
                .covered
                .is_some()
    }

    fn sample(&self) -> Result<Option<&Sample>> {
        if let Some(sample) = self.sample.get() {
            return Ok(sample.as_deref());
        }
        let sample = match self.samples {
            true => PlanCache::of(self.coll).sample(self.coll)?,
            false => None,
        };
        Ok(self.sample.get_or_init(|| sample).as_deref())
    }

    /// The documents of the sample; empty without a sample.
    fn sample_documents(&self) -> Result<&[DocBuf]> {
        Ok(self.sample()?.map(Sample::docs).unwrap_or_default())
    }
}

fn reads_entries(plan: &Plan) -> bool {
    matches!(plan.access, Access::Index { .. })
}

/// Whether a filter can be tested on single documents.
fn can_be_tried(filter: &Filter) -> bool {
    fn says(n: &Node) -> bool {
        match n {
            Node::And(v) | Node::Or(v) | Node::Nor(v) => v.iter().all(says),
            Node::Not(n) => says(n),
            Node::Field { .. } | Node::AlwaysTrue | Node::AlwaysFalse | Node::JsonSchema(_) => true,
            Node::Expr(_) | Node::SampleRate(_) | Node::Where(_) | Node::Text(_) => false,
        }
    }
    says(filter.root()) && filter.near().is_none()
}
