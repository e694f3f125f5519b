//! Reads time-series collections: buckets in the order of their beginnings, and in each bucket the
//! measurements in the order of their times. Promises: a bucket is read at one moment, and is not
//! decoded when it lies outside the wanted times; of a packed bucket only the wanted fields are
//! decoded. Must not know: how measurements get into buckets.

use crate::catalog::Collection;
use crate::error;
use crate::format::bucket::{self, BucketKey, KEY_LEN, Measurement};
use crate::format::record;
use crate::view::ReadView;
use crate::view::index_scan::IndexScan;
use crate::view::rows::{Row, RowVisitor};
use model::bucket::SeriesOptions;
use model::{DocBuf, OwnedValue, Result, Value};
use std::collections::VecDeque;
use std::sync::Arc;
use storage::{Cursor, CursorOpts, KeyRange, Table};

/// Rows of the table read at once.
const STEP_ROWS: usize = 256;

/// The wanted part of a time-series collection.
#[derive(Clone, Default)]
pub struct SeriesRead {
    /// First and last wanted time in milliseconds; other measurements may be shown, too.
    pub times: Option<(i64, i64)>,
    /// The wanted top-level fields; others may be shown, too.
    pub fields: Option<Arc<[String]>>,
    /// Whether it is read backwards.
    pub reverse: bool,
}

/// The work of a scan of buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketScanStats {
    /// Number of buckets whose measurements were decoded.
    pub read: u64,
    /// Number of buckets of which only the head was read.
    pub passed: u64,
    /// Number of index entries.
    pub keys: u64,
}

/// A bucket as tools see it.
#[derive(Clone, Debug)]
pub struct BucketView {
    /// Its beginning.
    pub start_ms: i64,
    /// The part of its key that differs between buckets with the same beginning.
    pub rest: [u8; 8],
    /// The metadata of its measurements; `Missing` without.
    pub meta: OwnedValue,
    /// The measurements in the order of their times.
    pub measurements: Vec<DocBuf>,
}

/// A bucket as it is stored.
pub(crate) struct StoredBucket {
    pub(crate) meta: OwnedValue,
    /// Bytes of its head.
    pub(crate) head_bytes: usize,
    /// The measurements in the order of their times.
    pub(crate) measurements: Vec<Measurement>,
    /// Insert sequences of the measurements that have rows of their own.
    pub(crate) rows: Vec<u64>,
}

/// The rows of one bucket.
struct Group {
    key: BucketKey,
    head: Option<Vec<u8>>,
    rows: Vec<Measurement>,
}

impl Group {
    fn new(key: BucketKey) -> Group {
        Group {
            key,
            head: None,
            rows: Vec::new(),
        }
    }

    /// Adds a row; false when it is damaged.
    fn add(&mut self, key: &[u8], value: &[u8]) -> bool {
        if bucket::row_seq(key).is_none() {
            self.head = Some(value.to_vec());
            return true;
        }
        let row = record::read(value).map(|(header, doc)| Measurement {
            insert_seq: header.insert_seq,
            doc: doc.to_buf(),
        });
        let sound = row.is_some();
        self.rows.extend(row);
        sound
    }
}

/// The position of a scan.
enum ScanPosition {
    /// In a range of rows: buckets, and other documents after them.
    Range(Range),
    /// At the first of these records, which are stored last first.
    Keys(Vec<Vec<u8>>),
    /// Before the first bucket: the index still has to be read for the keys of the buckets.
    Index(Box<IndexScan>),
}

struct Range {
    /// The ranges that are left: first the rows of buckets, then records (or the other way round).
    parts: Vec<(Vec<u8>, Vec<u8>)>,
    cursor: Option<Box<dyn Cursor>>,
    /// The next row, which was read already.
    ahead: Option<(Vec<u8>, Vec<u8>)>,
}

/// A scan of a time-series collection.
pub struct SeriesScan {
    coll: Arc<Collection>,
    view: ReadView,
    read: SeriesRead,
    options: Arc<SeriesOptions>,
    place: ScanPosition,
    /// The remaining measurements of the current bucket.
    rows: VecDeque<(Vec<u8>, Measurement)>,
    counts: BucketScanStats,
    done: bool,
}

impl Collection {
    /// Scans a time-series collection; the entries of `by` name the buckets to read. `None` for any
    /// other collection.
    pub fn scan_series(
        self: &Arc<Self>,
        view: &ReadView,
        read: SeriesRead,
        by: Option<IndexScan>,
    ) -> Option<SeriesScan> {
        let options = self.series_options()?;
        let (first, last) = read.times.unwrap_or((i64::MIN, i64::MAX));
        let from = match first.checked_sub(options.span_ms) {
            Some(from) if read.times.is_some() => bucket::bound_before(self.ident, from),
            _ => bucket::bound_before(self.ident, i64::MIN),
        };
        let behind = bucket::end(self.ident).to_vec();
        let to = match last.checked_add(1) {
            Some(to) if read.times.is_some() => bucket::bound_before(self.ident, to).to_vec(),
            _ => behind.clone(),
        };
        let mut parts = vec![(behind, self.key_bounds().1.to_vec()), (from.to_vec(), to)];
        // The parts are taken from the end of the list.
        if read.reverse {
            parts.reverse();
        }
        let place = match by {
            Some(index) => ScanPosition::Index(Box::new(index)),
            None => ScanPosition::Range(Range {
                parts,
                cursor: None,
                ahead: None,
            }),
        };
        Some(SeriesScan {
            coll: self.clone(),
            view: view.clone(),
            read,
            options,
            place,
            rows: VecDeque::new(),
            counts: BucketScanStats::default(),
            done: false,
        })
    }

    /// The bucket of this key; `None` when it is not there.
    pub(crate) fn read_bucket(
        &self,
        view: &ReadView,
        key: &BucketKey,
    ) -> Result<Option<StoredBucket>> {
        let Some(group) = self.read_group(view, key)? else {
            return Ok(None);
        };
        let damaged = || error::corrupt(&format!("a bucket of {}", self.ns));
        let options = self.series_options().ok_or_else(damaged)?;
        let rows = group.rows.iter().map(|m| m.insert_seq).collect();
        let head = group.head.as_deref();
        let meta = match head {
            Some(head) => bucket::read(head).ok_or_else(damaged)?.meta,
            None => {
                let first = group.rows.first();
                first
                    .map_or(Value::Missing, |m| options.meta_of(m.doc.doc()))
                    .to_owned_value()
            }
        };
        let head_bytes = head.map_or(0, <[u8]>::len);
        let mut counts = BucketScanStats::default();
        let all = SeriesRead::default();
        let measurements = decode(group, &options, &all, &mut counts).ok_or_else(damaged)?;
        Ok(Some(StoredBucket {
            meta,
            head_bytes,
            measurements,
            rows,
        }))
    }

    fn read_group(&self, view: &ReadView, key: &BucketKey) -> Result<Option<Group>> {
        let upper = [&key[..], &[0xFF; 9]].concat();
        let range = KeyRange {
            lower: key,
            upper: &upper,
        };
        let engine = self.shared.engine.as_ref();
        let mut cursor = view.cursor(engine, Table::Doc, range, CursorOpts::default())?;
        let (mut group, mut any, mut sound) = (Group::new(*key), false, true);
        let each = &mut |key: &[u8], value: &[u8]| {
            any = true;
            sound &= group.add(key, value);
            sound
        };
        while cursor.visit(STEP_ROWS, each).map_err(error::storage)? {}
        match sound {
            true => Ok(any.then_some(group)),
            false => Err(error::corrupt(&format!("a bucket of {}", self.ns))),
        }
    }
}

/// The measurements of a bucket, in order. `None` when it is damaged.
fn decode(
    group: Group,
    options: &SeriesOptions,
    read: &SeriesRead,
    counts: &mut BucketScanStats,
) -> Option<Vec<Measurement>> {
    let mut all = group.rows;
    let (first, last) = read.times.unwrap_or((i64::MIN, i64::MAX));
    let head = group.head.as_deref().map(bucket::read);
    let mut passed = false;
    if let Some(head) = head
        && let Some(closed) = head?.closed
    {
        passed = closed.times.0 > last || closed.times.1 < first;
        if !passed {
            let packed = match &read.fields {
                None => closed.measurements(&|_| true),
                Some(fields) => closed.measurements(&|name| {
                    fields.iter().any(|f| f.as_bytes() == name) || name == options.time.as_bytes()
                }),
            };
            all.extend(packed?);
        }
    }
    match passed && all.is_empty() {
        true => counts.passed += 1,
        false => counts.read += 1,
    }
    all.sort_by_key(|m| (options.time_of(m.doc.doc()), m.insert_seq));
    Some(all)
}

impl SeriesScan {
    /// Shows up to `max` measurements.
    ///
    /// # Output
    /// False when there are no more.
    ///
    /// # Errors
    /// As [`crate::Scan::visit`].
    pub fn visit(&mut self, max: usize, f: &mut RowVisitor<'_>) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        self.view.check_kept(&self.coll)?;
        let visited = self.advance(max, f);
        self.view.check_kept(&self.coll).and(visited)
    }

    /// Releases the resources of the engine; the scan continues later after the last bucket that it
    /// has read.
    pub fn pause(&mut self) {
        if let ScanPosition::Range(range) = &mut self.place {
            (range.cursor, range.ahead) = (None, None);
        }
    }

    /// The work done so far.
    pub fn counts(&self) -> BucketScanStats {
        self.counts
    }

    /// The next bucket as a whole; `None` at the end. A measurement that is a record of its own is
    /// shown as a bucket.
    ///
    /// # Errors
    /// As [`SeriesScan::visit`].
    pub fn next_bucket(&mut self) -> Result<Option<BucketView>> {
        self.view.check_kept(&self.coll)?;
        loop {
            let Some(found) = self.next_group()? else {
                return self.view.check_kept(&self.coll).map(|()| None);
            };
            let (start_ms, rest) = match &found {
                Some(group) => (bucket::start_ms(&group.key), bucket::key_suffix(&group.key)),
                None => {
                    let first = self.rows.front().map(|(_, m)| m);
                    let time = first.map_or(0, |m| self.options.time_of(m.doc.doc()));
                    let seq = first.map_or(0, |m| m.insert_seq);
                    (self.options.start_of(time), (seq | 1 << 62).to_be_bytes())
                }
            };
            if let Some(group) = found {
                self.show(group)?;
            }
            let rows = std::mem::take(&mut self.rows).into_iter();
            let measurements: Vec<DocBuf> = rows.map(|(_, m)| m.doc).collect();
            let Some(first) = measurements.first() else {
                continue;
            };
            let meta = self.options.meta_of(first.doc()).to_owned_value();
            return Ok(Some(BucketView {
                start_ms,
                rest,
                meta,
                measurements,
            }));
        }
    }

    fn advance(&mut self, max: usize, f: &mut RowVisitor<'_>) -> Result<bool> {
        let mut shown = 0;
        while shown < max {
            if self.rows.is_empty() && !self.load()? {
                self.done = true;
                return Ok(false);
            }
            while shown < max
                && let Some((key, m)) = self.rows.pop_front()
            {
                shown += 1;
                let header = record::Header {
                    insert_seq: m.insert_seq,
                    version: 0,
                    time: 0,
                };
                let row = Row {
                    key: &key,
                    header,
                    doc: m.doc.doc(),
                    score: 0.0,
                };
                if self.view.has_lost(&self.coll) || !f(row) {
                    return Ok(true);
                }
            }
        }
        Ok(true)
    }

    /// Reads the next bucket or record with something to show; false at the end.
    fn load(&mut self) -> Result<bool> {
        if let ScanPosition::Index(_) = self.place {
            self.look_up()?;
        }
        while self.rows.is_empty() {
            let group = match &mut self.place {
                ScanPosition::Index(_) => return Ok(false),
                ScanPosition::Keys(keys) => {
                    let Some(key) = keys.pop() else {
                        return Ok(false);
                    };
                    match bucket::of(&key) {
                        Some(key) => self.coll.read_group(&self.view, &key)?,
                        None => {
                            self.load_record(key)?;
                            None
                        }
                    }
                }
                ScanPosition::Range(_) => match self.next_group()? {
                    None => return Ok(false),
                    Some(group) => group,
                },
            };
            if let Some(group) = group {
                self.show(group)?;
            }
        }
        Ok(true)
    }

    fn damage_error(&self) -> model::MongoError {
        error::corrupt(&format!("a bucket of {}", self.coll.ns))
    }

    fn show(&mut self, group: Group) -> Result<()> {
        let key = group.key;
        let measurements = decode(group, &self.options, &self.read, &mut self.counts);
        let mut measurements = measurements.ok_or_else(|| self.damage_error())?;
        if self.read.reverse {
            measurements.reverse();
        }
        let rows = measurements.into_iter();
        self.rows = rows
            .map(|m| (bucket::row_key(&key, m.insert_seq).to_vec(), m))
            .collect();
        Ok(())
    }

    /// A measurement that is a record of its own.
    fn load_record(&mut self, key: Vec<u8>) -> Result<()> {
        let mut found = None;
        let see = &mut |value: &[u8]| found = Some(value.to_vec());
        let engine = self.coll.shared.engine.as_ref();
        self.view.get_with(engine, Table::Doc, &key, see)?;
        if let Some(value) = found {
            self.push_record(key, &value)?;
        }
        Ok(())
    }

    fn push_record(&mut self, key: Vec<u8>, value: &[u8]) -> Result<()> {
        let (header, doc) = record::read(value).ok_or_else(|| self.damage_error())?;
        let measurement = Measurement {
            insert_seq: header.insert_seq,
            doc: doc.to_buf(),
        };
        self.rows.push_back((key, measurement));
        Ok(())
    }

    /// Reads the entries of the index to find the buckets that may have wanted measurements.
    fn look_up(&mut self) -> Result<()> {
        let ScanPosition::Index(index) = &mut self.place else {
            return Ok(());
        };
        let (first, last) = self.read.times.unwrap_or((i64::MIN, i64::MAX));
        let from = first.saturating_sub(self.options.span_ms);
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let coll = &self.coll;
        let each = &mut |_: &[u8], id: &[u8]| {
            let key = coll.key_of(id);
            let start = bucket::of(&key).map(|k| bucket::start_ms(&k));
            if start.is_none_or(|start| (from..=last).contains(&start)) {
                keys.push(key);
            }
            true
        };
        while index.visit_entries(STEP_ROWS * 4, each)? {}
        self.counts.keys = index.keys_examined();
        keys.sort_unstable();
        keys.dedup();
        if !self.read.reverse {
            keys.reverse();
        }
        self.place = ScanPosition::Keys(keys);
        Ok(())
    }

    /// The next bucket; `Some(None)` when a record came instead, `None` at the end.
    fn next_group(&mut self) -> Result<Option<Option<Group>>> {
        loop {
            let ScanPosition::Range(range) = &mut self.place else {
                return Ok(None);
            };
            let reverse = self.read.reverse;
            let Some((lower, upper)) = range.parts.last() else {
                return Ok(None);
            };
            if range.cursor.is_none() {
                let bounds = KeyRange { lower, upper };
                let opts = CursorOpts {
                    reverse,
                    ..CursorOpts::default()
                };
                let engine = self.coll.shared.engine.as_ref();
                range.cursor = Some(self.view.cursor(engine, Table::Doc, bounds, opts)?);
            }
            let (group, record) = range.gather().map_err(|e| match e {
                Some(e) => error::storage(e),
                None => error::corrupt(&format!("a bucket of {}", self.coll.ns)),
            })?;
            if let Some(group) = group {
                range.resume_behind(&group.key, reverse);
                return Ok(Some(Some(group)));
            }
            if let Some((key, value)) = record {
                range.resume_behind(&key, reverse);
                self.push_record(key, &value)?;
                return Ok(Some(None));
            }
            (range.cursor, range.ahead) = (None, None);
            range.parts.pop();
        }
    }
}

/// A bucket, or a record outside of buckets; neither at the end.
type GroupOrRecord = (Option<Group>, Option<(Vec<u8>, Vec<u8>)>);

impl Range {
    /// Reads the rows of one bucket, or one record. The error is that of the engine, or `None` for
    /// a damaged row.
    fn gather(&mut self) -> std::result::Result<GroupOrRecord, Option<storage::StorageError>> {
        let mut group: Option<Group> = None;
        let mut sound = true;
        if let Some((key, value)) = self.ahead.take() {
            let Some(of) = bucket::of(&key) else {
                return Ok((None, Some((key, value))));
            };
            sound &= group.insert(Group::new(of)).add(&key, &value);
        }
        let Some(cursor) = &mut self.cursor else {
            return Ok((group, None));
        };
        let (mut record, ahead) = (None, &mut self.ahead);
        loop {
            let each = &mut |key: &[u8], value: &[u8]| {
                let of = bucket::of(key);
                match (&mut group, of) {
                    (Some(g), Some(of)) if g.key == of => sound &= g.add(key, value),
                    (Some(_), _) => *ahead = Some((key.to_vec(), value.to_vec())),
                    (None, Some(of)) => {
                        sound &= group.insert(Group::new(of)).add(key, value);
                    }
                    (None, None) => record = Some((key.to_vec(), value.to_vec())),
                }
                ahead.is_none() && record.is_none() && sound
            };
            let more = cursor.visit(STEP_ROWS, each).map_err(Some)?;
            if !sound {
                return Err(None);
            }
            if !more || ahead.is_some() || record.is_some() {
                return Ok((group, record));
            }
        }
    }

    /// Makes a cursor that is opened again begin after this bucket or record.
    fn resume_behind(&mut self, key: &[u8], reverse: bool) {
        let Some((lower, upper)) = self.parts.last_mut() else {
            return;
        };
        if reverse {
            *upper = key.to_vec();
        } else {
            *lower = key.to_vec();
            match key.len() {
                KEY_LEN if bucket::of(key).is_some() => lower.extend_from_slice(&[0xFF; 9]),
                _ => lower.push(0),
            }
        }
    }
}
