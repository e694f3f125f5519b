//! Scans of the documents of a collection, in natural or key order. A scan keeps a position between
//! calls (`pause`), so a paused cursor holds of the engine's resources only the view it was given.

use crate::catalog::Collection;
use crate::catalog::live::NATURAL_ORDER_DOCS;
use crate::error;
use crate::format::record;
use crate::view::ReadView;
use crate::view::buckets::{SeriesRead, SeriesScan};
use crate::view::capped::CappedScan;
use crate::view::log_scan::LogScan;
use crate::view::rows::{FETCH_MAX, FetchedRows, Row, RowVisitor, fetch};
use model::{Result, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use storage::{Cursor, CursorOpts, KeyRange, Table};

/// A visit of at most so many documents reads them from the device at once.
const AHEAD_DOCS_MAX: usize = 128;
/// It reads at most so many bytes ahead.
const AHEAD_BYTES_MAX: usize = 64 << 10;

/// A scan of all documents.
pub struct Scan {
    coll: Arc<Collection>,
    view: ReadView,
    reverse: bool,
    lower: Vec<u8>,
    upper: Vec<u8>,
    last: Option<Vec<u8>>,
    cursor: Option<Box<dyn Cursor>>,
    /// Documents read since the cursor was opened.
    taken: usize,
    order: Order,
    /// After the end the scan continues with documents that are inserted later.
    tail: bool,
    done: bool,
}

/// The order in which documents are shown.
enum Order {
    /// In key order.
    Key,
    /// In insertion order; not prepared yet.
    Insertion,
    /// In insertion order, which the collection knows: documents after `last` and before `end`.
    Known { last: Option<u64>, end: u64 },
    /// These keys, from `at` on.
    Listed { keys: Vec<Vec<u8>>, at: usize },
    /// In the order of a capped collection.
    Capped(CappedScan),
    /// The entries of the log.
    Log(LogScan),
    /// Buckets of a time-series collection.
    Series(Box<SeriesScan>),
}

impl Collection {
    /// A scan in natural order (insertion order while the collection is small or its ids ascend,
    /// else key order).
    pub fn scan(self: &Arc<Self>, view: &ReadView, reverse: bool) -> Scan {
        let mut scan = self.scan_keys(view, None, None, reverse);
        if let Some(log) = self.as_log() {
            scan.order = Order::Log(LogScan::new(self.shared.clone(), log.clone(), reverse));
            return scan;
        }
        if self.is_capped() {
            scan.order = Order::Capped(CappedScan::new(self, view.clone(), reverse));
            return scan;
        }
        if let Order::Series(_) = scan.order {
            return scan;
        }
        if self.is_scanned_by_arrival() {
            scan.order = Order::Insertion;
        }
        scan
    }

    /// A scan for a reader that takes the documents in any order. It is in key order where natural
    /// order would take a second read of each document.
    pub fn scan_any_order(self: &Arc<Self>, view: &ReadView) -> Scan {
        let mut scan = self.scan(view, false);
        if let Order::Insertion = scan.order {
            scan.order = Order::Key;
        }
        scan
    }

    /// Whether a scan in natural order uses the insertion order because it differs from key order.
    /// A clustered collection is always in the order of its ids.
    pub(crate) fn is_scanned_by_arrival(&self) -> bool {
        !self.live.is_in_order()
            && self.count() <= NATURAL_ORDER_DOCS
            && !self.options().doc().contains("clusteredIndex")
    }

    /// A scan of a capped collection in insertion order that continues, after its end, with
    /// documents that were inserted since.
    pub fn tail(self: &Arc<Self>, reverse: bool) -> Scan {
        Scan {
            tail: true,
            ..self.scan(&ReadView::LATEST, reverse)
        }
    }

    /// A scan of the log between two times, both included; other collections are scanned whole.
    pub fn scan_log(
        self: &Arc<Self>,
        view: &ReadView,
        first: Timestamp,
        last: Timestamp,
        reverse: bool,
        tail: bool,
    ) -> Scan {
        let mut scan = self.scan(view, reverse);
        if let Order::Log(log) = &mut scan.order {
            log.bound(first, last);
        }
        scan.tail = tail;
        scan
    }

    /// A scan in key (`_id`) order between two encoded `_id` bounds (lower included, upper
    /// excluded). A time-series collection, which has no such order, is scanned in its own order.
    pub fn scan_keys(
        self: &Arc<Self>,
        view: &ReadView,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
        reverse: bool,
    ) -> Scan {
        let (low, up) = self.key_bounds();
        let bound = |b: Option<&[u8]>, otherwise: [u8; 4]| match b {
            Some(b) => [&low[..], b].concat(),
            None => otherwise.to_vec(),
        };
        let read = SeriesRead {
            reverse,
            ..SeriesRead::default()
        };
        let series = self.scan_series(view, read, None);
        Scan {
            coll: self.clone(),
            view: view.clone(),
            reverse,
            lower: bound(lower, low),
            upper: bound(upper, up),
            last: None,
            cursor: None,
            taken: 0,
            order: series.map_or(Order::Key, |s| Order::Series(Box::new(s))),
            tail: false,
            done: false,
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
    /// 175 QueryPlanKilled when the collection is gone; 136 CappedPositionLost when it is capped
    /// and the scan's position was deleted; 1 InternalError for a damaged record; engine failures.
    pub fn visit(&mut self, max: usize, f: &mut RowVisitor<'_>) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        self.view.check_kept(&self.coll)?;
        let visited = self.advance(max, f);
        // A drop does not wait for readers, so it may be the cause of missing or damaged documents
        // and of the end of the scan. The same check precedes each document, so that a slow reader
        // stops at the next one.
        self.view.check_kept(&self.coll).and(visited)
    }

    fn advance(&mut self, max: usize, f: &mut RowVisitor<'_>) -> Result<bool> {
        if let Order::Insertion = self.order {
            self.prepare_insertion_order(None)?;
        }
        let more = match &mut self.order {
            Order::Capped(capped) => {
                let more = capped.visit(&self.coll, max, f)?;
                self.done = !more && !self.tail;
                return Ok(more);
            }
            Order::Log(log) => {
                let more = log.visit(max, f)?;
                self.done = !more && !self.tail;
                return Ok(more);
            }
            Order::Series(series) => series.visit(max, f)?,
            Order::Key | Order::Insertion => self.visit_keys(max, f)?,
            Order::Known { .. } => self.visit_known(max, f)?,
            Order::Listed { .. } => self.visit_listed(max, f)?,
        };
        self.done = !more;
        Ok(more)
    }

    fn visit_keys(&mut self, max: usize, f: &mut RowVisitor<'_>) -> Result<bool> {
        if self.cursor.is_none() {
            self.cursor = Some(self.open_cursor(max)?);
        }
        let Some(cursor) = self.cursor.as_mut() else {
            return Ok(false);
        };
        let (mut damaged, mut taken) = (false, 0);
        let mut last = self.last.take().unwrap_or_default();
        let (coll, view) = (&self.coll, &self.view);
        let each = &mut |key: &[u8], value: &[u8]| match record::read(value) {
            Some((header, doc)) => {
                last.clear();
                last.extend_from_slice(key);
                taken += 1;
                !view.has_lost(coll)
                    && f(Row {
                        key,
                        header,
                        doc,
                        score: 0.0,
                    })
            }
            None => {
                damaged = true;
                false
            }
        };
        let more = cursor.visit(max, each).map_err(error::storage)?;
        self.last = Some(last).filter(|l| !l.is_empty());
        self.taken += taken;
        if damaged {
            return Err(error::corrupt(&format!("a record of {}", self.coll.ns)));
        }
        Ok(more)
    }

    /// The record key of the document shown last, where documents are in key order.
    pub fn position(&self) -> Option<&[u8]> {
        match self.order {
            Order::Key => self.last.as_deref(),
            _ => None,
        }
    }

    /// Releases the engine's resources, except for a fixed view; the scan continues later from its
    /// position.
    pub fn pause(&mut self) {
        self.cursor = None;
        match &mut self.order {
            Order::Capped(capped) => capped.pause(),
            Order::Log(log) => log.pause(),
            Order::Series(series) => series.pause(),
            Order::Key | Order::Insertion | Order::Known { .. } | Order::Listed { .. } => {}
        }
    }

    /// A cursor behind the last document, for a visit of up to `max`.
    fn open_cursor(&mut self, max: usize) -> Result<Box<dyn Cursor>> {
        if let Some(last) = &self.last {
            if self.reverse {
                self.upper.clone_from(last);
            } else {
                self.lower.clone_from(last);
                self.lower.push(0);
            }
        }
        // On a remote engine a continued scan asks for as many rows as the last visit took.
        let is_remote = self.coll.request_rows() > 1;
        let opts = CursorOpts {
            reverse: self.reverse,
            limit_hint: if is_remote { self.taken } else { 0 },
            readahead_bytes: self.bytes_ahead(max),
            ..CursorOpts::default()
        };
        self.taken = 0;
        let range = KeyRange {
            lower: &self.lower,
            upper: &self.upper,
        };
        self.view
            .cursor(self.coll.shared.engine.as_ref(), Table::Doc, range, opts)
    }

    /// How many bytes a visit of a few documents reads ahead: about those of the documents, so that
    /// they need one read of the device when they lie in several blocks. For one document, and for
    /// many, the engine chooses (0).
    fn bytes_ahead(&self, max: usize) -> usize {
        if self.reverse || !(2..=AHEAD_DOCS_MAX).contains(&max) {
            return 0;
        }
        let live = &self.coll.live;
        let average = live.bytes() / live.docs().max(1);
        let average = usize::try_from(average).unwrap_or(AHEAD_BYTES_MAX);
        AHEAD_BYTES_MAX.min(average.saturating_mul(max))
    }

    /// Finds the insertion order of the documents after `after`: the collection knows it already,
    /// or this scan determines it for the collection, or the keys are listed for this scan only.
    fn prepare_insertion_order(&mut self, after: Option<u64>) -> Result<()> {
        let coll = self.coll.clone();
        let live = &coll.live;
        if self.view.is_fixed() {
            return self.list(after);
        }
        let end = live.next_seq();
        if live.inserted_after(None, end, false, 0).is_none() {
            if !live.begin_listing() {
                return self.list(after);
            }
            let read = self.read_sequences();
            let keys = read.as_ref().ok().cloned();
            live.end_listing(keys);
            read?;
        }
        self.order = Order::Known { last: after, end };
        Ok(())
    }

    fn read_sequences(&mut self) -> Result<BTreeMap<u64, Box<[u8]>>> {
        let mut keys = BTreeMap::new();
        let mut cursor = self.open_cursor(usize::MAX)?;
        let each = &mut |key: &[u8], value: &[u8]| {
            if let Some((h, _)) = record::read(value) {
                keys.insert(h.insert_seq, Box::from(key));
            }
            true
        };
        while cursor.visit(1024, each).map_err(error::storage)? {}
        Ok(keys)
    }

    /// Lists the keys after `after` for this scan only.
    fn list(&mut self, after: Option<u64>) -> Result<()> {
        let mut all: Vec<(u64, Box<[u8]>)> = self.read_sequences()?.into_iter().collect();
        if self.reverse {
            all.reverse();
        }
        let wanted = |seq: u64| after.is_none_or(|a| if self.reverse { seq < a } else { seq > a });
        let keys = all
            .into_iter()
            .filter(|(s, _)| wanted(*s))
            .map(|(_, k)| k.into_vec())
            .collect();
        self.order = Order::Listed { keys, at: 0 };
        Ok(())
    }

    fn visit_known(&mut self, max: usize, f: &mut RowVisitor<'_>) -> Result<bool> {
        let mut shown = 0;
        let mut rows = FetchedRows::default();
        while shown < max {
            let Order::Known { last, end } = &mut self.order else {
                return Ok(true);
            };
            let want = FETCH_MAX.min(max - shown);
            let Some(next) = self
                .coll
                .live
                .inserted_after(*last, *end, self.reverse, want)
            else {
                // The collection has become too large to keep its order.
                let after = *last;
                self.list(after)?;
                return Ok(true);
            };
            if next.is_empty() {
                return Ok(false);
            }
            let keys: Vec<&[u8]> = next.iter().map(|(_, k)| &k[..]).collect();
            fetch(
                &self.view,
                self.coll.shared.engine.as_ref(),
                &keys,
                &mut rows,
            )?;
            for ((seq, key), value) in next.iter().zip(rows.iter()) {
                *last = Some(*seq);
                // The document may have been deleted meanwhile, and inserted again.
                let row = value
                    .and_then(record::read)
                    .filter(|(h, _)| h.insert_seq == *seq);
                let Some((header, doc)) = row else { continue };
                shown += 1;
                if self.view.has_lost(&self.coll)
                    || !f(Row {
                        key,
                        header,
                        doc,
                        score: 0.0,
                    })
                {
                    return Ok(true);
                }
            }
        }
        Ok(true)
    }

    fn visit_listed(&mut self, max: usize, f: &mut RowVisitor<'_>) -> Result<bool> {
        let Order::Listed { keys, at } = &mut self.order else {
            return Ok(true);
        };
        let mut shown = 0;
        let mut rows = FetchedRows::default();
        while shown < max && *at < keys.len() {
            let end = keys.len().min(*at + FETCH_MAX.min(max - shown));
            let chunk: Vec<&[u8]> = keys[*at..end].iter().map(Vec::as_slice).collect();
            fetch(
                &self.view,
                self.coll.shared.engine.as_ref(),
                &chunk,
                &mut rows,
            )?;
            for (key, value) in chunk.iter().zip(rows.iter()) {
                *at += 1;
                // Skips a document that was deleted meanwhile.
                let Some((header, doc)) = value.and_then(record::read) else {
                    continue;
                };
                shown += 1;
                if self.view.has_lost(&self.coll)
                    || !f(Row {
                        key,
                        header,
                        doc,
                        score: 0.0,
                    })
                {
                    return Ok(true);
                }
            }
        }
        Ok(*at < keys.len())
    }
}
