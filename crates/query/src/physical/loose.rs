//! A loose index scan: one document for each value of an index's first fields, read from the
//! collection or built from the index entry. A seek skips the other entries with the same value.

use super::operator::Operator;
use crate::exec::{BatchStream, DocBatch, ExecContext};
use crate::meter::{Meter, open_read};
use crate::plan::{Access, GroupedPlan, Plan};
use crate::shown::{self, PlanNode, ReadCounts};
use model::{Doc, Result};
use operation::{AccessPath, ReadTotals};
use operators::Env;
use std::sync::Arc;
use store::format::{decode, keys};
use store::{
    Collection, EntryParts, FieldKind, Index, IndexField, IndexScan, KeyInterval, KeySet, Row,
};

/// Entries with the same value that are read one by one before a seek skips the rest: a seek costs
/// about as much.
const ENTRIES_PER_SEEK: usize = 8;
/// After this many values in a row that needed a seek, the scan seeks at once. Every [`SOUGHT_TRY`]
/// values it reads entries one by one again, to notice if values now have few entries.
const SOUGHT_MIN: usize = 2;
const SOUGHT_TRY: usize = 32;

/// The scan of a plan of [`crate::plan::distinct_plan`] or [`crate::plan::group_end_plan`].
pub(crate) struct LooseScan {
    coll: Arc<Collection>,
    plan: Plan,
    index: Arc<Index>,
    scan: Option<IndexScan>,
    /// Entries with the same values in this many first fields are one group.
    fields: usize,
    /// The document must still have the values of its entry.
    exact: bool,
    /// The key components of the current group, and whether one of its documents was taken.
    seen: Vec<u8>,
    taken: bool,
    /// A seek has skipped the other entries of the group.
    sought: bool,
    /// Groups in a row that needed a seek.
    in_a_row: usize,
    /// Documents read and documents given.
    docs: u64,
    returned: u64,
    ended: bool,
    meter: Meter,
    /// Buffer for a document that is built from an entry.
    bytes: Vec<u8>,
}

impl LooseScan {
    /// One document for each value of the first field; `None` for other plans.
    pub(crate) fn new(coll: Arc<Collection>, plan: Plan) -> Option<LooseScan> {
        LooseScan::with_plan(coll, plan, 1, false)
    }

    /// The first document of each group; `None` for other plans.
    pub(crate) fn of_groups(coll: Arc<Collection>, grouped: GroupedPlan) -> Option<LooseScan> {
        LooseScan::with_plan(coll, grouped.plan, grouped.fields, true)
    }

    fn with_plan(
        coll: Arc<Collection>,
        plan: Plan,
        fields: usize,
        exact: bool,
    ) -> Option<LooseScan> {
        let (Access::Index { .. }, Some(index)) = (&plan.access, plan.index.clone()) else {
            return None;
        };
        Some(LooseScan {
            coll,
            plan,
            index,
            scan: None,
            fields,
            exact,
            seen: Vec::new(),
            taken: false,
            sought: false,
            in_a_row: 0,
            docs: 0,
            returned: 0,
            ended: false,
            meter: Meter::default(),
            bytes: Vec::new(),
        })
    }

    fn open(&mut self, env: &Env) -> &mut IndexScan {
        let (coll, plan, index) = (&self.coll, &self.plan, &self.index);
        self.scan.get_or_insert_with(|| {
            open_read(env, || AccessPath::Index(index.clone()));
            let (intervals, reverse) = match &plan.access {
                Access::Index {
                    intervals, reverse, ..
                } => (intervals.clone(), *reverse),
                _ => (Arc::default(), false),
            };
            coll.scan_index(&plan.view, index, plan.multikey, intervals, reverse)
        })
    }

    /// The access path.
    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    fn counts(&self) -> ReadCounts {
        ReadCounts {
            keys: self.scan.as_ref().map_or(0, IndexScan::keys_examined),
            docs: self.docs,
            matched: self.returned,
            ended: self.ended,
            ..ReadCounts::default()
        }
    }

    /// Shows the next document. `take` says whether it represents its group; if not, another
    /// document of the group is shown.
    ///
    /// # Output
    /// False at the end.
    ///
    /// # Errors
    /// Those of the store and of `take`; the operation's interrupt.
    pub(crate) fn next(
        &mut self,
        env: &Env,
        take: &mut dyn FnMut(Doc<'_>) -> Result<bool>,
    ) -> Result<bool> {
        // The next byte after an equal component tells whether the component ends there: only a
        // longer text that goes on with a null byte has a byte this high (or low).
        let mut compared = self.index.fields().iter().take(self.fields);
        let descending = compared.next_back().is_some_and(is_descending);
        let longer = if descending { 0x00 } else { 0xFF };
        loop {
            env.check_interrupt()?;
            if self.taken && !self.sought && self.skips_at_once() {
                self.skip(env)?;
            }
            let (mut found, mut passed) = (None, 0);
            let (seen, taken) = (std::mem::take(&mut self.seen), self.taken);
            let scan = self.open(env);
            let visited = scan.visit_parts(ENTRIES_PER_SEEK * 4, &mut |e| {
                let entry = e.key;
                let same = !seen.is_empty()
                    && entry.starts_with(&seen)
                    && entry.get(seen.len()) != Some(&longer);
                if same && taken {
                    passed += 1;
                    return passed < ENTRIES_PER_SEEK;
                }
                found = Some([e.key, e.id, e.value].map(<[u8]>::to_vec));
                false
            });
            let keys = scan.keys_examined();
            self.seen = seen;
            let more = visited?;
            let Some([entry, id, value]) = found else {
                self.meter.step(env, 0, keys);
                self.ended = !more;
                if !more {
                    return Ok(false);
                }
                if passed >= ENTRIES_PER_SEEK {
                    self.skip(env)?;
                }
                continue;
            };
            if self.taken && !self.sought {
                self.in_a_row = 0;
            }
            self.see(&entry)?;
            let entry = EntryParts {
                key: &entry,
                id: &id,
                value: &value,
            };
            self.taken = self.take(env, entry, keys, take)?;
            if self.taken {
                self.returned += 1;
                return Ok(true);
            }
        }
    }
}

fn is_descending(field: &IndexField) -> bool {
    field.kind == FieldKind::Descending
}

impl LooseScan {
    /// Whether the current group probably has so many entries that reading some one by one is not
    /// worth it.
    fn skips_at_once(&self) -> bool {
        self.in_a_row >= SOUGHT_MIN && !self.in_a_row.is_multiple_of(SOUGHT_TRY)
    }

    /// Seeks beyond all entries of the current group.
    fn skip(&mut self, env: &Env) -> Result<()> {
        let seen = std::mem::take(&mut self.seen);
        let skipped = self.open(env).skip_beyond(&seen);
        self.seen = seen;
        self.sought = true;
        self.in_a_row += 1;
        skipped
    }

    /// Makes the group of an entry the current one.
    fn see(&mut self, entry: &[u8]) -> Result<()> {
        let mut len = 0;
        for field in self.index.fields().iter().take(self.fields) {
            let rest = entry.get(len..).unwrap_or_default();
            let component = decode::component_len(rest, is_descending(field));
            len += component.ok_or_else(|| {
                let name = self.index.name();
                model::MongoError::internal(format!("an entry of index {name} is damaged"))
            })?;
        }
        self.seen.clear();
        self.seen.extend_from_slice(entry.get(..len).unwrap_or(&[]));
        (self.taken, self.sought) = (false, false);
        Ok(())
    }

    /// Whether a document has exactly this one entry. It may have changed since the entry was read,
    /// and then belong to another group or to several.
    fn has_only(&self, doc: Doc<'_>, entry: &[u8]) -> bool {
        let whole = KeyInterval {
            lower: Vec::new(),
            upper: vec![0xFF],
        };
        let all = (self.index).entries_inside(doc, &[whole], &mut KeySet::default());
        let [only] = all.as_slice() else {
            return false;
        };
        // In an index that is not unique the id follows the components.
        entry.starts_with(only) || only.strip_suffix(&[keys::END]) == Some(entry)
    }

    /// Shows the document of an entry, built from the entry alone if that is enough.
    fn take(
        &mut self,
        env: &Env,
        entry: EntryParts<'_>,
        keys: u64,
        take: &mut dyn FnMut(Doc<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let wanted = self.plan.covered.as_ref();
        if let Some(doc) = wanted.and_then(|w| self.index.decode_fields(w, entry, &mut self.bytes))
        {
            self.meter.step(env, 0, keys);
            return take(doc);
        }
        let mut outcome = Ok(false);
        let one = &mut |row: Row<'_>| {
            if !self.exact || self.has_only(row.doc, entry.key) {
                outcome = take(row.doc);
            }
            false
        };
        self.coll.get_encoded(&self.plan.view, &[entry.id], one)?;
        self.docs += 1;
        self.meter.step(env, 1, keys);
        outcome
    }
}

impl BatchStream for LooseScan {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let mut more = true;
        while more && !out.is_full() {
            more = self.next(exec.env, &mut |doc| {
                out.push(doc);
                Ok(true)
            })?;
        }
        self.open(exec.env).pause();
        Ok(more)
    }
}

impl Operator for LooseScan {
    fn begin(&mut self, env: &Env) {
        self.open(env);
    }

    fn show(&self) -> PlanNode {
        shown::distinct_scan(&self.plan, &self.counts())
    }

    fn read_totals(&self) -> ReadTotals {
        ReadTotals {
            keys: self.counts().keys,
            docs: self.docs,
            returned: 0,
        }
    }
}
