//! A loose index scan: one document for each value of an index's first field; entries with a value
//! already seen are skipped by a seek.

use super::access::{Access, Plan};
use super::index_path::by_index;
use super::request::{Hint, PlanRequest};
use crate::examined::{self, Meter};
use crate::exec::{BatchStream, DocBatch, ExecContext};
use model::{Doc, Result};
use operators::Env;
use operators::filter::Node;
use std::sync::Arc;
use store::format::decode;
use store::{Collection, FieldKind, Index, IndexScan, KeyInterval, ReadView, Row};

/// Entries with the same value that are read one by one before a seek skips the others: a seek
/// costs about as much.
const ENTRIES_PER_SEEK: usize = 8;

/// A plan that meets every value of `field` among the documents that match, through an index that
/// begins with it; `None` when none does. `chosen` is the plan for the filter.
pub fn distinct_plan(
    coll: &Collection,
    request: &PlanRequest<'_>,
    chosen: &Plan,
    field: &str,
) -> Option<Plan> {
    // The entries of buckets have no values of measurements.
    if chosen.series.is_some() {
        return None;
    }
    let fits = |i: &Index| {
        let first = i.fields().first();
        i.multikey_bits() == 0
            && i.collation().is_none()
            && request.collation.is_none()
            // A number in a path is a position to an index and a name to an expression.
            && first.is_some_and(|f| {
                f.path.as_str() == field && f.kind != FieldKind::Hashed
                    && f.path.parts().iter().all(|p| p.index.is_none())
            })
    };
    if request.filter.is_none_or(|f| f.filter.is_always_true()) {
        if matches!(request.hint, Some(Hint::Natural { .. })) {
            return None;
        }
        let indexes = coll.readable_indexes(request.view);
        let usable = |i: &&Arc<Index>| {
            i.is_ready() && i.is_keyed() && !i.is_hidden() && !i.is_sparse() && !i.is_partial()
        };
        let hinted = |i: &&Arc<Index>| {
            request.hint.is_none() || chosen.index.as_ref().is_some_and(|c| c.name() == i.name())
        };
        let index = indexes
            .iter()
            .filter(usable)
            .filter(hinted)
            .find(|i| fits(i))?;
        let plan =
            by_index(index, &PlanRequest::default(), &Node::AlwaysTrue, true).map(|(_, p)| p)?;
        return Some(Plan {
            view: chosen.view.clone(),
            ..plan
        });
    }
    let only_first = chosen.bounds.iter().skip(1).all(|b| b.is_all());
    let index = chosen.index.as_ref()?;
    (chosen.complete && only_first && fits(index) && matches!(chosen.access, Access::Index { .. }))
        .then(|| chosen.clone())
}

/// The scan of a plan of [`distinct_plan`].
pub struct DistinctScan {
    coll: Arc<Collection>,
    view: ReadView,
    scan: IndexScan,
    descending: bool,
    /// The component already seen, and whether a document was taken for it.
    seen: Vec<u8>,
    taken: bool,
    /// Documents read.
    pub docs: u64,
    meter: Meter,
}

impl DistinctScan {
    /// Opens a plan of [`distinct_plan`].
    pub fn open(coll: Arc<Collection>, plan: &Plan) -> Option<DistinctScan> {
        let (
            Access::Index {
                intervals, reverse, ..
            },
            Some(index),
        ) = (&plan.access, &plan.index)
        else {
            return None;
        };
        let intervals: Vec<KeyInterval> = intervals.clone();
        examined::opened(plan);
        let scan = coll.scan_index(&plan.view, index, plan.multikey, intervals, *reverse);
        let descending = index
            .fields()
            .first()
            .is_some_and(|f| f.kind == FieldKind::Descending);
        Some(DistinctScan {
            scan,
            view: plan.view.clone(),
            coll,
            descending,
            seen: Vec::new(),
            taken: false,
            docs: 0,
            meter: Meter::default(),
        })
    }

    /// Index entries looked at.
    pub fn keys_examined(&self) -> u64 {
        self.scan.keys_examined()
    }

    /// Shows the next document; `take` says whether it will do for its value, else another with
    /// that value is shown.
    ///
    /// # Output
    /// False at the end.
    ///
    /// # Errors
    /// Those of the store and of `take`; the operation's interrupt.
    pub fn next(
        &mut self,
        env: &Env,
        take: &mut dyn FnMut(Doc<'_>) -> Result<bool>,
    ) -> Result<bool> {
        // After an equal component stands the mark of a longer text with a null byte, never
        // anything else that high (or low).
        let longer = if self.descending { 0x00 } else { 0xFF };
        loop {
            env.check_interrupt()?;
            let (mut found, mut passed) = (None, 0);
            let (seen, taken) = (&self.seen, self.taken);
            let more = self
                .scan
                .visit_entries(ENTRIES_PER_SEEK * 4, &mut |entry, id| {
                    let same = !seen.is_empty()
                        && entry.starts_with(seen)
                        && entry.get(seen.len()) != Some(&longer);
                    if same && taken {
                        passed += 1;
                        return passed < ENTRIES_PER_SEEK;
                    }
                    found = Some((entry.to_vec(), id.to_vec()));
                    false
                })?;
            let Some((entry, id)) = found else {
                self.meter.step(0, self.scan.keys_examined());
                if !more {
                    return Ok(false);
                }
                if passed >= ENTRIES_PER_SEEK {
                    self.scan.skip_beyond(&self.seen)?;
                }
                continue;
            };
            let len = decode::component_len(&entry, self.descending).ok_or_else(|| {
                model::MongoError::internal(format!(
                    "an entry of index {} is damaged",
                    self.scan.index().name()
                ))
            })?;
            self.seen.clear();
            self.seen.extend_from_slice(entry.get(..len).unwrap_or(&[]));
            self.taken = false;
            let mut outcome = Ok(false);
            let one = &mut |row: Row<'_>| {
                outcome = take(row.doc);
                false
            };
            self.coll.get_encoded(&self.view, &[&id], one)?;
            self.docs += 1;
            self.meter.step(1, self.scan.keys_examined());
            self.taken = outcome?;
            if self.taken {
                return Ok(true);
            }
        }
    }
}

/// The scan as a source of batches.
pub struct DistinctStream(DistinctScan);

impl DistinctStream {
    /// Opens a plan of [`distinct_plan`].
    pub fn open(coll: Arc<Collection>, plan: &Plan) -> Option<DistinctStream> {
        DistinctScan::open(coll, plan).map(DistinctStream)
    }
}

impl BatchStream for DistinctStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let mut more = true;
        while more && !out.is_full() {
            more = self.0.next(exec.env, &mut |doc| {
                out.push(doc);
                Ok(true)
            })?;
        }
        self.0.scan.pause();
        Ok(more)
    }
}
