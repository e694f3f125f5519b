//! The plan cache: plans that were chosen among several, by the shape of their query (paths,
//! operators, order and projection, not constants). The first run of a shape makes an entry and
//! records what it examined. A later run that examines no more makes the entry active: from then on
//! queries of the shape use its index without comparing it with others. A run that examines ten
//! times as much deactivates it.
//!
//! Promises: every change of the collection's indexes removes all entries, because they belong to
//! one list of indexes; a query with only one possible plan is not cached. Must not know: commands.

use super::access::{CachedPlan, Plan};
use super::request::PlanRequest;
use super::sample::{Sample, SampleCache};
use model::{Doc, DocBuf, Result, Value};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};
use store::{Collection, Index};

/// Most entries of one collection; the least recently used one is replaced.
const ENTRIES_MAX: usize = 1000;
/// Queries with longer filters are planned each time.
const FILTER_BYTES_MAX: usize = 4096;

/// After the plan of a query was found to be cheap, or better than the only alternative of a scan,
/// or could not be compared without a sample, this many queries of its shape are not estimated:
/// counting entries would be a good part of the time of such a query.
const UNESTIMATED: u8 = 31;

type Indexes = Arc<Vec<Arc<Index>>>;

/// The plan cache of one collection.
#[derive(Default)]
pub struct PlanCache {
    entries: Mutex<Entries>,
    clock: AtomicU64,
    sample: SampleCache,
}

#[derive(Default)]
struct Entries {
    /// The list of indexes for which the entries were made.
    of: Option<Indexes>,
    by_text: HashMap<Vec<u8>, Arc<CachedPlan>>,
    /// Shapes whose preferred plan is taken without an estimate, and for how many more queries.
    settled: HashMap<Vec<u8>, u8>,
}

impl PlanCache {
    /// The cache of a collection.
    pub fn of(coll: &Collection) -> &PlanCache {
        coll.attachment()
    }

    /// Documents to test filters on; `None` for a large collection until a sample was drawn in the
    /// background.
    ///
    /// # Errors
    /// Engine failures.
    pub(super) fn sample(&self, coll: &Collection) -> Result<Option<Arc<Sample>>> {
        self.sample.get(coll)
    }

    /// Whether a new sample would improve the plans of a collection's queries.
    pub fn wants_sample(coll: &Collection) -> bool {
        let cache = coll.attached_before::<PlanCache>();
        cache.is_some_and(|cache| cache.sample.is_wanted(coll))
    }

    /// Draws a sample. Plans are compared again with it: entries are inactive until they have done
    /// well once more.
    ///
    /// # Errors
    /// Engine failures.
    ///
    /// # Cost
    /// Some hundred seeks.
    pub fn draw_sample(coll: &Collection) -> Result<()> {
        let cache = PlanCache::of(coll);
        cache.sample.draw(coll)?;
        let mut entries = cache.entries.lock();
        entries.settled.clear();
        for entry in entries.by_text.values() {
            entry.active.store(false, Relaxed);
        }
        Ok(())
    }

    /// The entries of a collection.
    pub fn list(&self, coll: &Collection) -> Vec<Arc<CachedPlan>> {
        let entries = self.entries.lock();
        let current = entries
            .of
            .as_ref()
            .is_some_and(|of| Arc::ptr_eq(of, &coll.indexes()));
        let mut all: Vec<_> = match current {
            true => entries.by_text.values().cloned().collect(),
            false => Vec::new(),
        };
        all.sort_by_key(|e| e.made_ms);
        all
    }

    /// Removes entries.
    pub fn forget(&self, is_meant: impl Fn(&CachedPlan) -> bool) {
        self.entries.lock().by_text.retain(|_, e| !is_meant(e));
    }
}

/// The cache lookup of one query.
pub(super) struct Lookup<'r> {
    cache: &'r PlanCache,
    text: Vec<u8>,
    indexes: Indexes,
    found: Option<Arc<CachedPlan>>,
    filtered: bool,
}

impl<'r> Lookup<'r> {
    /// `None` for a query whose plans are not cached: its request does not ask for that, it reads
    /// another state than the latest, or the collection has no index that could compete.
    pub(super) fn new(
        coll: &'r Collection,
        request: &PlanRequest<'_>,
        filtered: bool,
    ) -> Option<Lookup<'r>> {
        let projection = request.remember?;
        let filter = request.filter?.spec.doc();
        let indexes = coll.indexes();
        let latest = request.view.is_none_or(|v| !v.is_fixed());
        if !latest || indexes.is_empty() || filter.len_bytes() > FILTER_BYTES_MAX {
            return None;
        }
        let cache = PlanCache::of(coll);
        let text = text_of(filter, request, projection, filtered);
        let mut entries = cache.entries.lock();
        if !entries
            .of
            .as_ref()
            .is_some_and(|of| Arc::ptr_eq(of, &indexes))
        {
            entries.by_text.clear();
            entries.settled.clear();
            entries.of = Some(Arc::clone(&indexes));
        }
        let found = entries.by_text.get(&text).cloned();
        drop(entries);
        if let Some(entry) = &found {
            entry.used.store(cache.clock.fetch_add(1, Relaxed), Relaxed);
        }
        Some(Lookup {
            cache,
            text,
            indexes,
            found,
            filtered,
        })
    }

    /// The index to use without comparing.
    pub(super) fn active(&self) -> Option<&str> {
        let entry = self.found.as_ref().filter(|e| e.is_active())?;
        Some(&entry.index)
    }

    /// Whether this query needs no estimate, because a query of its shape was estimated recently.
    pub(super) fn is_settled(&self) -> bool {
        let mut entries = self.cache.entries.lock();
        match entries.settled.get_mut(&self.text) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }

    /// Notes whether the preferred plan is taken for the next queries of this shape, or estimated
    /// again.
    pub(super) fn note_settled(&self, settled: bool) {
        let mut entries = self.cache.entries.lock();
        if !settled {
            entries.settled.remove(&self.text);
            return;
        }
        if entries.settled.len() >= ENTRIES_MAX && !entries.settled.contains_key(&self.text) {
            entries.settled.clear();
        }
        entries.settled.insert(self.text.clone(), UNESTIMATED);
    }

    /// The plan for the active entry.
    pub(super) fn mark_cached(&self, plan: Plan) -> Plan {
        Plan {
            cached: self.found.clone(),
            ..plan
        }
    }

    /// A plan that was chosen among `rivals`, which are computed only for a new entry.
    pub(super) fn record_choice(
        self,
        plan: Plan,
        request: &PlanRequest<'_>,
        rivals: impl FnOnce() -> Vec<(String, u32)>,
    ) -> Plan {
        let index = plan.index.as_ref().map_or("_id_", |i| i.name());
        if let Some(found) = self.found.filter(|e| e.index == index) {
            return Plan {
                cached: Some(found),
                ..plan
            };
        }
        let entry = Arc::new(CachedPlan {
            query: query_of(request),
            index: index.to_owned(),
            candidates: rivals(),
            filtered: self.filtered,
            made_ms: now_ms(),
            plan: plan.clone(),
            first: Mutex::new(None),
            works: AtomicU64::new(0),
            active: AtomicBool::new(false),
            used: AtomicU64::new(self.cache.clock.fetch_add(1, Relaxed)),
        });
        let mut entries = self.cache.entries.lock();
        let current = entries
            .of
            .as_ref()
            .is_some_and(|of| Arc::ptr_eq(of, &self.indexes));
        if current {
            if entries.by_text.len() >= ENTRIES_MAX {
                let oldest = entries
                    .by_text
                    .iter()
                    .min_by_key(|(_, e)| e.used.load(Relaxed));
                if let Some(text) = oldest.map(|(text, _)| text.clone()) {
                    entries.by_text.remove(&text);
                }
            }
            entries.by_text.insert(self.text, Arc::clone(&entry));
        }
        Plan {
            cached: Some(entry),
            ..plan
        }
    }
}

/// The cache key of a query: cheaper to compute than its shape, and different for different shapes.
fn text_of(
    filter: Doc<'_>,
    request: &PlanRequest<'_>,
    projection: Doc<'_>,
    filtered: bool,
) -> Vec<u8> {
    let mut text = outline(filter).into_bytes();
    text.push(u8::from(filtered));
    let sort = request.sort.map_or(Doc::EMPTY, |s| s.spec());
    for part in [sort, projection, request.collation.unwrap_or(Doc::EMPTY)] {
        text.extend_from_slice(part.as_bytes());
    }
    text
}

/// Paths and operators of a filter, independent of the order of its fields. A regular expression
/// counts as an operator, an equality does not.
fn outline(filter: Doc<'_>) -> String {
    let mut fields: Vec<String> = filter
        .iter()
        .map(|(name, v)| {
            let name = if name == "$eq" { "" } else { name };
            match v {
                Value::Document(d) => format!("{name}{{{}}}", outline(d)),
                Value::Array(a) if name.starts_with('$') => {
                    let parts = a.iter().filter_map(|v| v.as_doc()).map(outline);
                    format!("{name}[{}]", parts.collect::<Vec<_>>().join(","))
                }
                Value::Regex(_) => format!("{name}{{$regex}}"),
                _ => name.to_owned(),
            }
        })
        .collect();
    fields.sort_unstable();
    fields.join(";")
}

fn query_of(request: &PlanRequest<'_>) -> DocBuf {
    DocBuf::build(|w| {
        w.put("query", request.filter.map_or(Doc::EMPTY, |f| f.spec.doc()))
            .put("sort", request.sort.map_or(Doc::EMPTY, |s| s.spec()))
            .put("projection", request.remember.unwrap_or(Doc::EMPTY));
        if let Some(c) = request.collation {
            w.put("collation", c);
        }
    })
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}
