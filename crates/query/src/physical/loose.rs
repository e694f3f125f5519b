//! A loose index scan: one document for each value of an index's first fields, or what its entry
//! says of it; entries with a value already seen are skipped by a seek.

use super::operator::Operator;
use crate::exec::{BatchStream, DocBatch, ExecContext};
use crate::meter::{Meter, open_read};
use crate::plan::{Access, GroupedPlan, Plan};
use crate::shown::{self, PlanNode, ReadCounts};
use model::{Doc, Result};
use operation::{AccessPath, Examined};
use operators::Env;
use std::sync::Arc;
use store::format::{decode, keys};
use store::{
    Collection, EntryParts, FieldKind, Index, IndexField, IndexScan, KeyInterval, KeySet, Row,
};

/// Entries with the same value that are read one by one before a seek skips the others: a seek
/// costs about as much.
const ENTRIES_PER_SEEK: usize = 8;
/// After so many values that took a seek, the others of the next value are skipped at once; every
/// so many of these they are read again to see whether values have become rare.
const SOUGHT_MIN: usize = 2;
const SOUGHT_TRY: usize = 32;

/// The scan of a plan of [`crate::plan::distinct_plan`] or [`crate::plan::group_end_plan`].
pub(crate) struct LooseScan {
    coll: Arc<Collection>,
    plan: Plan,
    index: Arc<Index>,
    scan: Option<IndexScan>,
    /// Entries with the same values in so many first fields count as one.
    fields: usize,
    /// What an entry says of its document must hold for the document.
    exact: bool,
    /// The components already seen, and whether a document was taken for them.
    seen: Vec<u8>,
    taken: bool,
    /// The others with these components were skipped by a seek.
    sought: bool,
    /// Values in a row for which there was a seek.
    in_a_row: usize,
    /// Documents read, and those of them that were taken.
    docs: u64,
    returned: u64,
    ended: bool,
    meter: Meter,
    /// What an entry says.
    bytes: Vec<u8>,
}

impl LooseScan {
    /// One document for each value of the first field; `None` for other plans.
    pub(crate) fn new(coll: Arc<Collection>, plan: Plan) -> Option<LooseScan> {
        LooseScan::over(coll, plan, 1, false)
    }

    /// The first document of each group; `None` for other plans.
    pub(crate) fn of_groups(coll: Arc<Collection>, grouped: GroupedPlan) -> Option<LooseScan> {
        LooseScan::over(coll, grouped.plan, grouped.fields, true)
    }

    fn over(coll: Arc<Collection>, plan: Plan, fields: usize, exact: bool) -> Option<LooseScan> {
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

    /// Shows the next document; `take` says whether it will do for its value, else another with
    /// that value is shown.
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
        // After an equal component stands the mark of a longer text with a null byte, never
        // anything else that high (or low).
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
    /// Whether what was seen has so many entries, most likely, that reading some of them is not
    /// worth it.
    fn skips_at_once(&self) -> bool {
        self.in_a_row >= SOUGHT_MIN && !self.in_a_row.is_multiple_of(SOUGHT_TRY)
    }

    /// Goes on behind all entries with the components that were seen.
    fn skip(&mut self, env: &Env) -> Result<()> {
        let seen = std::mem::take(&mut self.seen);
        let skipped = self.open(env).skip_beyond(&seen);
        self.seen = seen;
        self.sought = true;
        self.in_a_row += 1;
        skipped
    }

    /// Notes the components of an entry that is about to be shown.
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

    /// Whether a document has this entry and no other: it may have been changed since the entry was
    /// read, and then belongs to another group, or to several.
    fn has_only(&self, doc: Doc<'_>, entry: &[u8]) -> bool {
        let whole = KeyInterval {
            lower: Vec::new(),
            upper: vec![0xFF],
        };
        let all = (self.index).entries_inside(doc, &[whole], &mut KeySet::default());
        let [only] = all.as_slice() else {
            return false;
        };
        // Behind the components of an index that is not unique stands the id.
        entry.starts_with(only) || only.strip_suffix(&[keys::END]) == Some(entry)
    }

    /// Shows the document of an entry: what the entry says of it, if that is enough.
    fn take(
        &mut self,
        env: &Env,
        entry: EntryParts<'_>,
        keys: u64,
        take: &mut dyn FnMut(Doc<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let wanted = self.plan.covered.as_ref();
        if let Some(doc) = wanted.and_then(|w| self.index.said(w, entry, &mut self.bytes)) {
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

    fn examined(&self) -> Examined {
        Examined {
            keys: self.counts().keys,
            docs: self.docs,
            returned: 0,
        }
    }
}
