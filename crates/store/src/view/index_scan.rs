//! Scans of intervals of an index, with or without the documents of the entries. Entry and document
//! are of one moment, even when the view is the latest state.

use crate::catalog::Collection;
use crate::error;
use crate::format::{keys, record};
use crate::index::text::score_of;
use crate::index::{EntryParts, Index, KeyInterval, KeySet, WantedFields};
use crate::view::ReadView;
use crate::view::entry_ranges::{EntryRange, EntryRanges};
use crate::view::rows::{EntryVisitor, FetchSize, FetchedRows, Row, RowVisitor, fetch};
use model::{Doc, MongoError, Result};
use rustc_hash::FxHashSet;
use std::sync::Arc;
use storage::{Cursor, CursorOpts, KeyRange, RowBatch, Table};

/// How a document with several entries is shown only once.
enum Deduplication {
    /// Nothing to do: no document has several entries.
    None,
    /// Remembers the encoded ids shown so far.
    Seen(FxHashSet<Vec<u8>>),
    /// Shows the document for the first of its entries in the scan. Needs no memory, but a fixed
    /// view.
    FirstEntry { keys: KeySet, entry: Vec<u8> },
}

impl Collection {
    /// Scans intervals of an index. `planned_multikey` are the multikey bits for which the
    /// intervals were made.
    pub fn scan_index(
        self: &Arc<Self>,
        view: &ReadView,
        index: &Arc<Index>,
        planned_multikey: u32,
        intervals: Arc<Vec<KeyInterval>>,
        reverse: bool,
    ) -> IndexScan {
        index.usage().add();
        IndexScan {
            coll: self.clone(),
            view: view.clone(),
            index: index.clone(),
            planned_multikey,
            intervals,
            at: 0,
            narrowed: None,
            reverse,
            last: None,
            open: None,
            dedupe: Deduplication::None,
            fetch: FetchSize::first(self.shared.engine.as_ref()),
            rows: RowBatch::new(),
            examined: 0,
        }
    }
}

/// A scan of intervals of an index.
pub struct IndexScan {
    coll: Arc<Collection>,
    view: ReadView,
    index: Arc<Index>,
    planned_multikey: u32,
    /// The intervals, ascending; shared with the plan.
    intervals: Arc<Vec<KeyInterval>>,
    /// How many intervals the scan has finished.
    at: usize,
    /// The rest of the current interval, when a part of it was skipped.
    narrowed: Option<KeyInterval>,
    reverse: bool,
    /// The last entry read in the current interval.
    last: Option<Vec<u8>>,
    /// The open cursor and its fixed view.
    open: Option<(ReadView, Box<dyn Cursor>)>,
    dedupe: Deduplication,
    fetch: FetchSize,
    rows: RowBatch,
    examined: u64,
}

impl IndexScan {
    /// Shows up to `max` documents in index order; entry and document are of one moment.
    ///
    /// # Output
    /// False when there are no more.
    ///
    /// # Errors
    /// As [`Scan::visit`].
    pub fn visit(&mut self, max: usize, f: &mut RowVisitor<'_>) -> Result<bool> {
        let visited = self.advance(max, f);
        self.check_alive().and(visited)
    }

    fn advance(&mut self, max: usize, f: &mut RowVisitor<'_>) -> Result<bool> {
        let mut shown = 0;
        while shown < max {
            self.check_alive()?;
            if self.at >= self.intervals.len() {
                return self.end_scan();
            }
            if self.open.is_none() {
                self.open()?;
            }
            let Some((_, cursor)) = self.open.as_mut() else {
                return Ok(false);
            };
            let want = self.fetch.next().min(max - shown).max(1);
            self.fetch.grow();
            let more = cursor
                .next_batch(&mut self.rows, want, 1 << 20)
                .map_err(error::storage)?;
            if self.show_fetched(&mut shown, f)? {
                self.open = None;
                return Ok(true);
            }
            if !more {
                self.begin_next_interval();
            }
        }
        if self.at < self.intervals.len() {
            Ok(true)
        } else {
            self.end_scan()
        }
    }

    /// Shows the documents of the entries in `rows`; true when `f` ended the visit.
    fn show_fetched(&mut self, shown: &mut usize, f: &mut RowVisitor<'_>) -> Result<bool> {
        let Some((view, _)) = self.open.as_ref() else {
            return Ok(false);
        };
        let mut record_keys: Vec<Vec<u8>> = Vec::with_capacity(self.rows.len());
        for (entry, value) in self.rows.iter() {
            let id = self.index.id_of(entry, value).ok_or_else(|| {
                error::corrupt(&format!("an entry of index {}", self.index.name()))
            })?;
            record_keys.push(self.coll.key_of(id));
        }
        let wanted: Vec<&[u8]> = record_keys.iter().map(Vec::as_slice).collect();
        let mut docs = FetchedRows::default();
        fetch(view, self.coll.shared.engine.as_ref(), &wanted, &mut docs)?;
        let interval = current(&self.intervals, self.at, self.reverse);
        let interval = interval.filter(|_| self.index.text().is_some());
        let score_in =
            |entry: &[u8]| interval.map_or(0.0, |i| score_of(i, entry.get(4..).unwrap_or(&[])));
        for ((key, value), (entry, _)) in wanted.iter().zip(docs.iter()).zip(self.rows.iter()) {
            self.examined += 1;
            let last = self.last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(entry);
            if let Deduplication::Seen(seen) = &mut self.dedupe
                && !seen.insert(key[4..].to_vec())
            {
                continue;
            }
            let Some((header, doc)) = value.and_then(record::read) else {
                return Err(points_nowhere(&self.index));
            };
            if let Deduplication::FirstEntry { keys, entry: first } = &mut self.dedupe {
                let found = first_entry(
                    &self.index,
                    doc,
                    &key[4..],
                    &self.intervals,
                    self.reverse,
                    keys,
                    first,
                )?;
                if found && first != entry {
                    continue;
                }
            }
            *shown += 1;
            if self.is_gone()
                || !f(Row {
                    key,
                    header,
                    doc,
                    score: score_in(entry),
                })
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Fails when the collection or the index was dropped. A drop does not wait for readers, so
    /// missing documents and the end of the entries may be caused by it.
    fn check_alive(&self) -> Result<()> {
        self.view.check_kept(&self.coll)?;
        match self.view.has_lost_index(&self.index) {
            true => Err(self.coll.plan_is_stale()),
            false => Ok(()),
        }
    }

    fn is_gone(&self) -> bool {
        self.view.has_lost(&self.coll) || self.view.has_lost_index(&self.index)
    }

    fn end_scan(&self) -> Result<bool> {
        self.check_alive().map(|()| false)
    }

    /// Shows up to `max` entries in index order without reading documents, one for each document.
    ///
    /// # Output
    /// False when there are no more.
    ///
    /// # Errors
    /// As [`Scan::visit`].
    pub fn visit_entries(&mut self, max: usize, f: &mut EntryVisitor<'_>) -> Result<bool> {
        let visited = self.advance_entries(max, &mut |_, e| f(e.key, e.id));
        self.check_alive().and(visited)
    }

    /// As [`IndexScan::visit_entries`], with the values of the entries; see
    /// [`Index::decode_fields`].
    ///
    /// # Output
    /// False when there are no more.
    ///
    /// # Errors
    /// As [`Scan::visit`].
    pub fn visit_parts(
        &mut self,
        max: usize,
        f: &mut dyn FnMut(EntryParts<'_>) -> bool,
    ) -> Result<bool> {
        let visited = self.advance_entries(max, &mut |_, e| f(e));
        self.check_alive().and(visited)
    }

    /// As [`IndexScan::visit`], but shows of each document at least the wanted fields, decoded from
    /// its entry. Where the entry does not contain them, the document is read.
    ///
    /// # Output
    /// False when there are no more; how many documents were read is added to `read`.
    ///
    /// # Errors
    /// As [`Scan::visit`].
    pub fn visit_covered(
        &mut self,
        wanted: &WantedFields,
        max: usize,
        read: &mut u64,
        f: &mut RowVisitor<'_>,
    ) -> Result<bool> {
        let (coll, index) = (self.coll.clone(), self.index.clone());
        let (mut bytes, mut failed) = (Vec::new(), Ok(()));
        let mut show = |view: &ReadView, entry: EntryParts<'_>| -> Result<bool> {
            if let Some(doc) = index.decode_fields(wanted, entry, &mut bytes) {
                let key = &coll.key_of(entry.id);
                let header = record::Header {
                    insert_seq: 0,
                    version: 0,
                    time: 0,
                };
                let score = 0.0;
                return Ok(f(Row {
                    key,
                    header,
                    doc,
                    score,
                }));
            }
            let mut shown = None;
            coll.get_encoded(view, &[entry.id], &mut |row| {
                shown = Some(f(row));
                true
            })?;
            *read += 1;
            shown.ok_or_else(|| points_nowhere(&index))
        };
        let visited = self.advance_entries(max, &mut |view, entry| match show(view, entry) {
            Ok(on) => on,
            Err(e) => {
                failed = Err(e);
                false
            }
        });
        self.check_alive().and(failed).and(visited)
    }

    fn advance_entries(
        &mut self,
        max: usize,
        f: &mut dyn FnMut(&ReadView, EntryParts<'_>) -> bool,
    ) -> Result<bool> {
        let mut shown = 0;
        while shown < max {
            self.check_alive()?;
            if self.at >= self.intervals.len() {
                return Ok(false);
            }
            if self.open.is_none() {
                self.open()?;
            }
            if let Deduplication::FirstEntry { .. } = self.dedupe {
                // `FirstEntry` needs the document.
                self.dedupe = Deduplication::Seen(FxHashSet::default());
            }
            let Some((fixed, cursor)) = self.open.as_mut() else {
                return Ok(false);
            };
            let (mut stopped, mut damaged) = (false, false);
            let (last, dedupe, examined) = (&mut self.last, &mut self.dedupe, &mut self.examined);
            let (coll, index, view) = (&self.coll, &self.index, &self.view);
            let more = cursor
                .visit(max - shown, &mut |entry, value| {
                    *examined += 1;
                    let last = last.get_or_insert_default();
                    last.clear();
                    last.extend_from_slice(entry);
                    let Some(id) = index.id_of(entry, value) else {
                        damaged = true;
                        return false;
                    };
                    if let Deduplication::Seen(seen) = dedupe
                        && !seen.insert(id.to_vec())
                    {
                        return true;
                    }
                    shown += 1;
                    let key = entry.get(4..).unwrap_or(&[]);
                    stopped = view.has_lost(coll)
                        || view.has_lost_index(index)
                        || !f(fixed, EntryParts { key, id, value });
                    !stopped
                })
                .map_err(error::storage)?;
            if damaged {
                return Err(error::corrupt(&format!(
                    "an entry of index {}",
                    self.index.name()
                )));
            }
            if stopped {
                return Ok(true);
            }
            if !more {
                self.begin_next_interval();
            }
        }
        Ok(self.at < self.intervals.len())
    }

    /// Continues after all entries of the current interval that begin with these components.
    ///
    /// # Errors
    /// Engine failures.
    pub fn skip_beyond(&mut self, components: &[u8]) -> Result<()> {
        let whole = current(&self.intervals, self.at, self.reverse).cloned();
        let Some(mut interval) = self.narrowed.take().or(whole) else {
            return Ok(());
        };
        self.last = None;
        self.open = None;
        if self.reverse {
            interval.upper = [components, &[keys::BEFORE]].concat();
        } else {
            interval.lower = [components, &[keys::AFTER]].concat();
        }
        if interval.lower >= interval.upper {
            self.begin_next_interval();
        } else {
            self.narrowed = Some(interval);
        }
        Ok(())
    }

    fn begin_next_interval(&mut self) {
        self.open = None;
        self.last = None;
        self.narrowed = None;
        self.at += 1;
    }

    /// Releases the resources of the engine; see [`Scan::pause`].
    pub fn pause(&mut self) {
        self.open = None;
    }

    /// Number of entries read so far.
    pub fn keys_examined(&self) -> u64 {
        self.examined
    }

    /// The index that is scanned.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Divides what is left of the scan into about `ranges` ranges, at places evenly spread over
    /// the keys: the numbers of entries may differ widely. The scan stays where it is;
    /// [`IndexScan::end_counted`] ends it. `None` for reverse scans, when a document may have
    /// several entries, and for readers with uncommitted writes.
    ///
    /// # Errors
    /// 175 QueryPlanKilled as [`IndexScan::visit`]; engine failures.
    ///
    /// # Cost
    /// A snapshot, and two seeks for each interval.
    pub fn split_rest(&mut self, ranges: usize) -> Result<Option<EntryRanges>> {
        if self.reverse || self.index.text().is_some() || self.view.overlay().is_some() {
            return Ok(None);
        }
        let view = self.view.fix(self.coll.shared.engine.as_ref())?;
        // Checked after the view was taken: then the bits that its entries need are set.
        self.check_multikey()?;
        if !matches!(self.dedupe, Deduplication::None) {
            return Ok(None);
        }
        let later = self.intervals.iter().skip(self.at + 1);
        let later = later.map(|interval| self.range_of(interval));
        let list = self.current_range().into_iter().chain(later).collect();
        let rest = EntryRanges {
            coll: self.coll.clone(),
            index: self.index.clone(),
            asked: self.view.clone(),
            view,
            list,
        };
        rest.divide(ranges).map(Some)
    }

    /// Ends the scan, of which `entries` were counted without it.
    pub fn end_counted(&mut self, entries: u64) {
        self.begin_next_interval();
        self.at = self.intervals.len();
        self.examined += entries;
    }

    fn range_of(&self, interval: &KeyInterval) -> EntryRange {
        let prefix = self.index.ident().to_be_bytes();
        EntryRange {
            lower: [&prefix[..], &interval.lower].concat(),
            upper: [&prefix[..], &interval.upper].concat(),
        }
    }

    /// What is left of the current interval.
    fn current_range(&self) -> Option<EntryRange> {
        let whole = current(&self.intervals, self.at, self.reverse);
        let interval = self.narrowed.as_ref().or(whole)?;
        let mut range = self.range_of(interval);
        match &self.last {
            Some(last) if self.reverse => range.upper.clone_from(last),
            Some(last) => {
                range.lower.clone_from(last);
                range.lower.push(0);
            }
            None => {}
        }
        Some(range)
    }

    fn open(&mut self) -> Result<()> {
        let Some(EntryRange { lower, upper }) = self.current_range() else {
            return Ok(());
        };
        let opts = CursorOpts {
            reverse: self.reverse,
            ..CursorOpts::default()
        };
        let coll = self.coll.clone();
        let engine = coll.shared.engine.as_ref();
        let view = self.view.fix(engine)?;
        // Checked after the view was taken: then the bits that its entries need are set.
        self.check_multikey()?;
        let range = KeyRange {
            lower: &lower,
            upper: &upper,
        };
        let cursor = view.cursor(engine, Table::Idx, range, opts)?;
        self.open = Some((view, cursor));
        Ok(())
    }

    /// Makes sure that a document with several entries is shown once, and that the intervals are
    /// correct for multikey fields.
    ///
    /// # Errors
    /// 175 QueryPlanKilled when a field became multikey since the intervals were made and nothing
    /// was shown yet: plan again.
    fn check_multikey(&mut self) -> Result<()> {
        let bits = self.index.multikey_bits();
        // A document has one entry for each term, and text indexes are scanned term by term.
        if self.index.text().is_some() {
            return Ok(());
        }
        if bits != self.planned_multikey && self.last.is_none() && self.at == 0 {
            return Err(self.coll.plan_is_stale());
        }
        if matches!(self.dedupe, Deduplication::None)
            && self.index.may_repeat(&self.intervals, bits)
        {
            self.dedupe = if self.view.is_fixed() {
                Deduplication::FirstEntry {
                    keys: KeySet::default(),
                    entry: Vec::new(),
                }
            } else {
                Deduplication::Seen(FxHashSet::default())
            };
        }
        Ok(())
    }
}

fn points_nowhere(index: &Index) -> MongoError {
    error::corrupt(&format!(
        "index {} points at a document that is not there",
        index.name()
    ))
}

/// The current interval of a scan that has finished `at` of them; a reverse scan begins at the
/// last.
fn current(intervals: &[KeyInterval], at: usize, reverse: bool) -> Option<&KeyInterval> {
    match reverse {
        true => intervals.iter().rev().nth(at),
        false => intervals.get(at),
    }
}

/// Writes to `entry` the first of a document's entries in a scan of `intervals`; false when none is
/// in them.
fn first_entry(
    index: &Index,
    doc: Doc<'_>,
    id: &[u8],
    intervals: &[KeyInterval],
    reverse: bool,
    keys: &mut KeySet,
    entry: &mut Vec<u8>,
) -> Result<bool> {
    index.keys_of(doc, keys)?;
    let mut inside = |components: &[u8]| {
        index.entry_key(components, id, entry);
        let e = entry.get(4..).unwrap_or(&[]);
        intervals
            .iter()
            .any(|i| i.lower.as_slice() <= e && e < i.upper.as_slice())
    };
    Ok(if reverse {
        keys.iter().rev().any(&mut inside)
    } else {
        keys.iter().any(&mut inside)
    })
}
