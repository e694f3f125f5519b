//! Divides the rest of an index scan into ranges of keys. Several threads can count them at once.
//! Must not know: what the entries are counted for, threads.

use crate::catalog::Collection;
use crate::error;
use crate::index::Index;
use crate::view::ReadView;
use crate::view::parts::split_keys;
use model::Result;
use std::sync::Arc;
use storage::{CursorOpts, KeyRange, Table};

/// Entries counted between two calls of `go_on`.
const STEP_ENTRIES: usize = 4096;

/// Entries between two keys.
pub struct EntryRange {
    /// The first key.
    pub(super) lower: Vec<u8>,
    /// The key behind the last one.
    pub(super) upper: Vec<u8>,
}

/// Ranges of entries, none of which is in two, and the state in which all of them are counted. Each
/// document has one entry.
pub struct EntryRanges {
    pub(super) coll: Arc<Collection>,
    pub(super) index: Arc<Index>,
    /// The view that the scan was asked for.
    pub(super) asked: ReadView,
    /// Its state when it was divided.
    pub(super) view: ReadView,
    /// The ranges.
    pub list: Vec<EntryRange>,
}

impl EntryRanges {
    /// Divides the ranges into about `ranges`, at places evenly spread over the keys.
    ///
    /// # Errors
    /// Engine failures.
    ///
    /// # Cost
    /// Two seeks for each range.
    pub(super) fn divide(mut self, ranges: usize) -> Result<EntryRanges> {
        let each = ranges / self.list.len().max(1);
        let mut divided = Vec::with_capacity(ranges);
        for range in std::mem::take(&mut self.list) {
            let ends = match each > 1 {
                true => self
                    .end_key(&range, false)?
                    .zip(self.end_key(&range, true)?),
                false => None,
            };
            let places =
                ends.map_or_else(Vec::new, |(first, last)| split_keys(&first, &last, each));
            let EntryRange { mut lower, upper } = range;
            for place in places {
                let next = place.clone();
                divided.push(EntryRange {
                    lower: std::mem::replace(&mut lower, next),
                    upper: place,
                });
            }
            divided.push(EntryRange { lower, upper });
        }
        self.list = divided;
        Ok(self)
    }

    /// The first key of a range; the last one in reverse.
    fn end_key(&self, range: &EntryRange, reverse: bool) -> Result<Option<Vec<u8>>> {
        let opts = CursorOpts {
            reverse,
            keys_only: true,
            limit_hint: 1,
            ..CursorOpts::default()
        };
        let bounds = KeyRange::new(&range.lower, &range.upper);
        let engine = self.coll.shared.engine.as_ref();
        let mut cursor = self.view.cursor(engine, Table::Idx, bounds, opts)?;
        let mut found = None;
        let each = &mut |key: &[u8], _: &[u8]| {
            found = Some(key.to_vec());
            false
        };
        cursor.visit(1, each).map_err(error::storage)?;
        Ok(found)
    }

    /// Counts the entries of a range.
    ///
    /// # Errors
    /// Those of `go_on`, which is called repeatedly; 175 QueryPlanKilled when the collection or the
    /// index was dropped; engine failures.
    pub fn count(&self, range: &EntryRange, go_on: &dyn Fn() -> Result<()>) -> Result<u64> {
        let opts = CursorOpts {
            keys_only: true,
            ..CursorOpts::default()
        };
        let bounds = KeyRange::new(&range.lower, &range.upper);
        let engine = self.coll.shared.engine.as_ref();
        let mut cursor = self.view.cursor(engine, Table::Idx, bounds, opts)?;
        let (mut entries, mut more) = (0, true);
        while more {
            go_on()?;
            more = cursor
                .visit(STEP_ENTRIES, &mut |_, _| {
                    entries += 1;
                    true
                })
                .map_err(error::storage)?;
            self.asked.check_kept(&self.coll)?;
            if self.asked.has_lost_index(&self.index) {
                return Err(self.coll.plan_is_stale());
            }
        }
        Ok(entries)
    }
}
