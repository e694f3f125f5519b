//! Walks: over the documents of a collection in natural or key order, and over intervals of an index with the documents
//! behind the entries. A walk keeps only a position between calls (`pause`), so a parked cursor pins nothing.

use crate::capped::OrderWalk;
use crate::collection::Collection;
use crate::error;
use crate::format::{keys, record};
use crate::index::Index;
use crate::series::Series;
use crate::text::score_of;
use model::{Doc, Result};
use rustc_hash::FxHashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::{Cursor, CursorOpts, KeyRange, Read, RowBatch, Snapshot, Table};

/// Above this many documents a collection out of order is walked in key order instead of insertion order.
const NATURAL_SORT_DOCS: u64 = 1 << 16;
/// Most entries whose documents are fetched at once.
const FETCH_MAX: usize = 128;

/// One document met on a walk.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// Its record key: hand it to [`Collection::modify`].
    pub key: &'a [u8],
    /// Insert sequence (the record id) and version.
    pub header: record::Header,
    /// The document.
    pub doc: Doc<'a>,
    /// What a text index says it is worth; 0 where none was read.
    pub score: f64,
}

/// Called for each row; false stops after it.
pub type EachRow<'f> = dyn FnMut(Row<'_>) -> bool + 'f;

/// Called for each entry with its components (and what follows them), and the encoded id; false stops after it.
pub type EachEntry<'f> = dyn FnMut(&[u8], &[u8]) -> bool + 'f;

/// A walk over all documents.
pub struct Scan {
    coll: Arc<Collection>,
    reverse: bool,
    lower: Vec<u8>,
    upper: Vec<u8>,
    last: Option<Vec<u8>>,
    cursor: Option<Box<dyn Cursor>>,
    /// Keys in insertion order, when key order is not it.
    natural: Option<Vec<Vec<u8>>>,
    natural_at: usize,
    /// Natural order was asked for and not yet settled.
    unsettled: bool,
    /// Natural order of a capped collection.
    order: Option<OrderWalk>,
    /// The end is not the end: what comes in later is shown by later calls.
    tail: bool,
    done: bool,
}

impl Collection {
    /// A walk in natural order (insertion order while the collection is small or its ids ascend, else key order).
    pub fn scan(self: &Arc<Self>, reverse: bool) -> Scan {
        let mut scan = self.scan_keys(None, None, reverse);
        if self.is_capped() {
            scan.order = Some(OrderWalk::new(reverse));
            return scan;
        }
        // A clustered collection is in the order of its ids by definition.
        let by_arrival = !self.in_order.load(Ordering::Relaxed) && self.count() <= NATURAL_SORT_DOCS;
        let by_arrival = by_arrival || self.options().doc().contains("timeseries") && self.count() <= NATURAL_SORT_DOCS;
        scan.unsettled = by_arrival && !self.options().doc().contains("clusteredIndex");
        scan
    }

    /// A walk over a capped collection in insertion order that goes on, after its end, with what has come since.
    pub fn tail(self: &Arc<Self>, reverse: bool) -> Scan {
        Scan { tail: true, ..self.scan(reverse) }
    }

    /// A walk in key (`_id`) order between two encoded `_id` bounds (lower included, upper excluded).
    pub fn scan_keys(self: &Arc<Self>, lower: Option<&[u8]>, upper: Option<&[u8]>, reverse: bool) -> Scan {
        let (low, up) = self.key_bounds();
        let bound = |b: Option<&[u8]>, otherwise: [u8; 4]| match b {
            Some(b) => [&low[..], b].concat(),
            None => otherwise.to_vec(),
        };
        Scan {
            coll: self.clone(),
            reverse,
            lower: bound(lower, low),
            upper: bound(upper, up),
            last: None,
            cursor: None,
            natural: None,
            natural_at: 0,
            unsettled: false,
            order: None,
            tail: false,
            done: false,
        }
    }

    /// A walk over intervals of an index.
    pub fn scan_index(self: &Arc<Self>, index: &Arc<Index>, mut intervals: Vec<KeyInterval>, reverse: bool) -> IndexScan {
        index.accesses.fetch_add(1, Ordering::Relaxed);
        if reverse {
            intervals.reverse();
        }
        // A document has one entry for a term, and text indexes are walked term by term.
        let dedupe = index.is_multikey() && index.text().is_none();
        IndexScan {
            coll: self.clone(),
            index: index.clone(),
            intervals,
            at: 0,
            reverse,
            last: None,
            open: None,
            seen: dedupe.then(FxHashSet::default),
            fetch: 4,
            rows: RowBatch::new(),
            examined: 0,
        }
    }
}

impl Scan {
    /// Shows up to `max` documents.
    ///
    /// # Output
    /// False when there are no more.
    ///
    /// # Errors
    /// 175 when the collection is gone; 136 when it is capped and the walk's place was deleted; 1 for a damaged record;
    /// engine failures.
    pub fn visit(&mut self, max: usize, f: &mut EachRow<'_>) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        self.coll.check_alive()?;
        let walked = self.walk(max, f);
        // A drop does not wait for readers: what they found missing or damaged, and an end they came to, may be its doing.
        self.coll.check_alive().and(walked)
    }

    fn walk(&mut self, max: usize, f: &mut EachRow<'_>) -> Result<bool> {
        if let Some(order) = &mut self.order {
            let more = order.visit(&self.coll, max, f)?;
            self.done = !more && !self.tail;
            return Ok(more);
        }
        if self.unsettled {
            self.settle()?;
        }
        if self.natural.is_some() {
            return self.visit_natural(max, f);
        }
        if self.cursor.is_none() {
            self.reopen()?;
        }
        let Some(cursor) = self.cursor.as_mut() else { return Ok(false) };
        let (mut damaged, mut last) = (false, self.last.take().unwrap_or_default());
        let mut moved = false;
        let more = cursor
            .visit(max, &mut |key, value| match record::read(value) {
                Some((header, doc)) => {
                    moved = true;
                    last.clear();
                    last.extend_from_slice(key);
                    f(Row { key, header, doc, score: 0.0 })
                }
                None => {
                    damaged = true;
                    false
                }
            })
            .map_err(error::storage)?;
        if moved || !last.is_empty() {
            self.last = Some(last);
        }
        if damaged {
            return Err(error::corrupt(&format!("a record of {}", self.coll.ns)));
        }
        self.done = !more;
        self.ended(more)
    }

    /// The end of a walk counts only while the collection is there: its documents go after it is marked.
    fn ended(&self, more: bool) -> Result<bool> {
        if !more && self.coll.is_dropped() {
            return Err(self.coll.gone());
        }
        Ok(more)
    }

    /// Lets go of the engine; the walk goes on later from its position, at the state of then.
    pub fn pause(&mut self) {
        self.cursor = None;
        if let Some(order) = &mut self.order {
            order.pause();
        }
    }

    fn reopen(&mut self) -> Result<()> {
        if let Some(last) = &self.last {
            if self.reverse {
                self.upper.clone_from(last);
            } else {
                self.lower.clone_from(last);
                self.lower.push(0);
            }
        }
        let opts = CursorOpts { reverse: self.reverse, ..CursorOpts::default() };
        let range = KeyRange { lower: &self.lower, upper: &self.upper };
        self.cursor = Some(self.coll.shared.engine.cursor(Table::Doc, range, opts).map_err(error::storage)?);
        Ok(())
    }

    /// Lists all keys in insertion order.
    fn settle(&mut self) -> Result<()> {
        self.unsettled = false;
        let mut all: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut series = Series::of(self.coll.options().doc());
        self.reopen()?;
        if let Some(mut cursor) = self.cursor.take() {
            let each = &mut |key: &[u8], value: &[u8]| {
                if let Some((h, doc)) = record::read(value) {
                    if let Some(s) = &mut series {
                        s.add(h.insert_seq, doc);
                    }
                    all.push((h.insert_seq, key.to_vec()));
                }
                true
            };
            while cursor.visit(1024, each).map_err(error::storage)? {}
        }
        all.sort_unstable();
        if let Some(s) = series {
            let place = s.places();
            all.sort_by_key(|(seq, _)| place.get(seq).copied());
        }
        if self.reverse {
            all.reverse();
        }
        self.natural = Some(all.into_iter().map(|(_, k)| k).collect());
        Ok(())
    }

    fn visit_natural(&mut self, max: usize, f: &mut EachRow<'_>) -> Result<bool> {
        let list = self.natural.as_deref().unwrap_or(&[]);
        let mut shown = 0;
        while shown < max && self.natural_at < list.len() {
            let end = list.len().min(self.natural_at + FETCH_MAX.min(max - shown));
            let chunk: Vec<&[u8]> = list[self.natural_at..end].iter().map(Vec::as_slice).collect();
            let mut rows = Rows::default();
            fetch(self.coll.shared.engine.as_ref(), &chunk, &mut rows)?;
            for (key, value) in chunk.iter().zip(rows.iter()) {
                self.natural_at += 1;
                // A document deleted meanwhile is simply gone.
                let Some((header, doc)) = value.and_then(record::read) else { continue };
                shown += 1;
                if !f(Row { key, header, doc, score: 0.0 }) {
                    return Ok(true);
                }
            }
        }
        self.done = self.natural_at >= list.len();
        self.ended(!self.done)
    }
}

/// Values fetched for a list of keys, in one buffer.
#[derive(Default)]
pub(crate) struct Rows {
    bytes: Vec<u8>,
    ends: Vec<Option<(usize, usize)>>,
}

impl Rows {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.ends.iter().map(|e| e.and_then(|(a, b)| self.bytes.get(a..b)))
    }
}

pub(crate) fn fetch(from: &(impl Read + ?Sized), keys: &[&[u8]], rows: &mut Rows) -> Result<()> {
    rows.bytes.clear();
    rows.ends.clear();
    from.multi_get(Table::Doc, keys, &mut |_, value| {
        let start = rows.bytes.len();
        rows.ends.push(value.map(|v| {
            rows.bytes.extend_from_slice(v);
            (start, rows.bytes.len())
        }));
    })
    .map_err(error::storage)
}

/// An interval of encoded components: lower included, upper excluded. Made from values with
/// [`Index::encode_bound`] and the bound bytes of [`crate::format::keys`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInterval {
    /// First components inside.
    pub lower: Vec<u8>,
    /// First components outside.
    pub upper: Vec<u8>,
}

/// A walk over intervals of an index, with documents.
pub struct IndexScan {
    coll: Arc<Collection>,
    index: Arc<Index>,
    intervals: Vec<KeyInterval>,
    at: usize,
    reverse: bool,
    /// Last entry consumed in the current interval.
    last: Option<Vec<u8>>,
    open: Option<(Arc<dyn Snapshot>, Box<dyn Cursor>)>,
    /// Ids shown, for an index in which a document has several entries.
    seen: Option<FxHashSet<Vec<u8>>>,
    fetch: usize,
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
    pub fn visit(&mut self, max: usize, f: &mut EachRow<'_>) -> Result<bool> {
        let walked = self.walk(max, f);
        self.coll.check_alive().and(walked)
    }

    fn walk(&mut self, max: usize, f: &mut EachRow<'_>) -> Result<bool> {
        let mut shown = 0;
        while shown < max {
            self.coll.check_alive()?;
            if self.at >= self.intervals.len() {
                return self.ended();
            }
            if self.open.is_none() {
                self.open()?;
            }
            let Some((snapshot, cursor)) = self.open.as_mut() else { return Ok(false) };
            let want = self.fetch.min(max - shown).max(1);
            self.fetch = (self.fetch * 4).min(FETCH_MAX);
            let more = cursor.next_batch(&mut self.rows, want, 1 << 20).map_err(error::storage)?;
            let unique = self.index.is_unique();
            let mut record_keys: Vec<Vec<u8>> = Vec::with_capacity(self.rows.len());
            for (entry, value) in self.rows.iter() {
                let id = if unique { Some(value) } else { keys::id_of_tail(entry) };
                let id = id.ok_or_else(|| error::corrupt(&format!("an entry of index {}", self.index.name())))?;
                record_keys.push([&self.coll.ident.to_be_bytes()[..], id].concat());
            }
            let wanted: Vec<&[u8]> = record_keys.iter().map(Vec::as_slice).collect();
            let mut docs = Rows::default();
            fetch(snapshot.as_ref(), &wanted, &mut docs)?;
            let interval = self.intervals.get(self.at).filter(|_| self.index.text().is_some());
            let score_in = |entry: &[u8]| interval.map_or(0.0, |i| score_of(i, entry.get(4..).unwrap_or(&[])));
            for ((key, value), (entry, _)) in wanted.iter().zip(docs.iter()).zip(self.rows.iter()) {
                self.examined += 1;
                let last = self.last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(entry);
                if let Some(seen) = &mut self.seen
                    && !seen.insert(key.to_vec())
                {
                    continue;
                }
                let Some((header, doc)) = value.and_then(record::read) else {
                    return Err(error::corrupt(&format!("index {} points at a document that is not there", self.index.name())));
                };
                shown += 1;
                if !f(Row { key, header, doc, score: score_in(entry) }) {
                    self.open = None;
                    return Ok(true);
                }
            }
            if !more {
                self.open = None;
                self.last = None;
                self.at += 1;
            }
        }
        if self.at < self.intervals.len() { Ok(true) } else { self.ended() }
    }

    /// See [`Scan::ended`].
    fn ended(&self) -> Result<bool> {
        if self.coll.is_dropped() { Err(self.coll.gone()) } else { Ok(false) }
    }

    /// Shows up to `max` entries in index order without reading documents, one for each document.
    ///
    /// # Output
    /// False when there are no more.
    ///
    /// # Errors
    /// As [`Scan::visit`].
    pub fn visit_entries(&mut self, max: usize, f: &mut EachEntry<'_>) -> Result<bool> {
        let mut shown = 0;
        while shown < max {
            if self.coll.is_dropped() {
                return Err(self.coll.gone());
            }
            if self.at >= self.intervals.len() {
                return Ok(false);
            }
            if self.open.is_none() {
                self.open()?;
            }
            let Some((_, cursor)) = self.open.as_mut() else { return Ok(false) };
            let unique = self.index.is_unique();
            let (mut stopped, mut damaged) = (false, false);
            let (last, seen, examined) = (&mut self.last, &mut self.seen, &mut self.examined);
            let more = cursor
                .visit(max - shown, &mut |entry, value| {
                    *examined += 1;
                    let last = last.get_or_insert_default();
                    last.clear();
                    last.extend_from_slice(entry);
                    let Some(id) = (if unique { Some(value) } else { keys::id_of_tail(entry) }) else {
                        damaged = true;
                        return false;
                    };
                    if seen.as_mut().is_some_and(|s| !s.insert(id.to_vec())) {
                        return true;
                    }
                    shown += 1;
                    stopped = !f(entry.get(4..).unwrap_or(&[]), id);
                    !stopped
                })
                .map_err(error::storage)?;
            if damaged {
                return Err(error::corrupt(&format!("an entry of index {}", self.index.name())));
            }
            if stopped {
                return Ok(true);
            }
            if !more {
                self.open = None;
                self.last = None;
                self.at += 1;
            }
        }
        Ok(self.at < self.intervals.len())
    }

    /// Goes on behind every entry of the current interval that begins with these components.
    ///
    /// # Errors
    /// Engine failures.
    pub fn skip_beyond(&mut self, components: &[u8]) -> Result<()> {
        let Some(interval) = self.intervals.get_mut(self.at) else { return Ok(()) };
        self.last = None;
        self.open = None;
        if self.reverse {
            interval.upper = [components, &[keys::BEFORE]].concat();
        } else {
            interval.lower = [components, &[keys::AFTER]].concat();
        }
        if interval.lower >= interval.upper {
            self.at += 1;
        }
        Ok(())
    }

    /// Lets go of the engine; see [`Scan::pause`].
    pub fn pause(&mut self) {
        self.open = None;
    }

    /// Entries looked at so far.
    pub fn keys_examined(&self) -> u64 {
        self.examined
    }

    /// The index walked.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    fn open(&mut self) -> Result<()> {
        let Some(interval) = self.intervals.get(self.at) else { return Ok(()) };
        let prefix = self.index.ident().to_be_bytes();
        let mut lower = [&prefix[..], &interval.lower].concat();
        let mut upper = [&prefix[..], &interval.upper].concat();
        match &self.last {
            Some(last) if self.reverse => upper.clone_from(last),
            Some(last) => {
                lower.clone_from(last);
                lower.push(0);
            }
            None => {}
        }
        let opts = CursorOpts { reverse: self.reverse, ..CursorOpts::default() };
        let snapshot = self.coll.shared.engine.snapshot().map_err(error::storage)?;
        let range = KeyRange { lower: &lower, upper: &upper };
        let cursor = snapshot.cursor(Table::Idx, range, opts).map_err(error::storage)?;
        self.open = Some((snapshot, cursor));
        Ok(())
    }
}
