//! A loose index scan: one document for each value of an index's first field, or what its entry
//! says of it; entries with a value already seen are skipped by a seek.

use super::operator::Operator;
use crate::exec::{BatchStream, DocBatch, ExecContext};
use crate::meter::{Meter, open_read};
use crate::plan::{Access, Plan};
use crate::shown::{self, PlanNode, ReadCounts};
use model::{Doc, Result};
use operation::{AccessPath, Examined};
use operators::Env;
use std::sync::Arc;
use store::format::decode;
use store::{Collection, EntryParts, FieldKind, Index, IndexScan, Row};

/// Entries with the same value that are read one by one before a seek skips the others: a seek
/// costs about as much.
const ENTRIES_PER_SEEK: usize = 8;

/// The scan of a plan of [`crate::plan::distinct_plan`].
pub(crate) struct LooseScan {
    coll: Arc<Collection>,
    plan: Plan,
    index: Arc<Index>,
    scan: Option<IndexScan>,
    /// The component already seen, and whether a document was taken for it.
    seen: Vec<u8>,
    taken: bool,
    /// Documents read, and those of them that were taken.
    docs: u64,
    returned: u64,
    ended: bool,
    meter: Meter,
    /// What an entry says.
    bytes: Vec<u8>,
}

impl LooseScan {
    /// `None` for other plans.
    pub(crate) fn new(coll: Arc<Collection>, plan: Plan) -> Option<LooseScan> {
        let (Access::Index { .. }, Some(index)) = (&plan.access, plan.index.clone()) else {
            return None;
        };
        Some(LooseScan {
            coll,
            plan,
            index,
            scan: None,
            seen: Vec::new(),
            taken: false,
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
        let first = self.index.fields().first();
        let descending = first.is_some_and(|f| f.kind == FieldKind::Descending);
        let longer = if descending { 0x00 } else { 0xFF };
        loop {
            env.check_interrupt()?;
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
                if passed >= ENTRIES_PER_SEEK
                    && let Some(scan) = &mut self.scan
                {
                    scan.skip_beyond(&self.seen)?;
                }
                continue;
            };
            let len = decode::component_len(&entry, descending).ok_or_else(|| {
                let name = self.index.name();
                model::MongoError::internal(format!("an entry of index {name} is damaged"))
            })?;
            self.seen.clear();
            self.seen.extend_from_slice(entry.get(..len).unwrap_or(&[]));
            self.taken = false;
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

impl LooseScan {
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
            outcome = take(row.doc);
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
