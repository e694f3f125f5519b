//! Building a bucket of version 1.

use super::options::SeriesOptions;
use super::range::{EndRule, Extreme};
use crate::{Collate, Doc, DocBuf, DocWriter, Element, ObjectId, OwnedValue, Value};
use std::cmp::Ordering;

/// A bucket to which measurements are added.
pub struct Bucket<'o> {
    options: &'o SeriesOptions,
    collate: Option<&'o dyn Collate>,
    start_ms: i64,
    meta: OwnedValue,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
}

struct Column {
    name: String,
    /// The fields of the column's document.
    cells: DocBuf,
    min: Extreme,
    max: Extreme,
}

impl Bucket<'_> {
    /// Most measurements of a bucket.
    pub const ROWS_MAX: usize = 1000;
    /// Bytes of measurements at which a bucket is full.
    pub const BYTES_MAX: usize = 125 * 1024;
}

impl<'o> Bucket<'o> {
    /// An empty bucket.
    pub fn new(
        options: &'o SeriesOptions,
        collate: Option<&'o dyn Collate>,
        start_ms: i64,
        meta: Value<'_>,
    ) -> Bucket<'o> {
        Bucket {
            options,
            collate,
            start_ms,
            meta: meta.to_owned_value(),
            columns: Vec::new(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Number of measurements.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The start time of the bucket.
    pub fn start_ms(&self) -> i64 {
        self.start_ms
    }

    /// Whether a measurement fits this bucket by time, metadata and size.
    pub fn takes(&self, time_ms: i64, meta: Value<'_>) -> bool {
        self.rows < Bucket::ROWS_MAX
            && self.bytes < Bucket::BYTES_MAX
            && self.options.spans(self.start_ms, time_ms)
            && self.meta == meta.to_owned_value()
    }

    /// Adds a measurement, whose metadata must be that of the bucket.
    pub fn add(&mut self, measurement: Doc<'_>) {
        let mut digits = itoa::Buffer::new();
        let row = digits.format(self.rows);
        let is_meta = |e: &Element<'_>| self.options.meta.as_deref() == Some(e.name_str());
        for (i, e) in measurement.elements().filter(|e| !is_meta(e)).enumerate() {
            let name = e.name_str();
            let fits = self.columns.get(i).is_some_and(|c| c.name == name);
            let at = match fits {
                true => Some(i),
                false => self.columns.iter().position(|c| c.name == name),
            };
            match at {
                Some(at) => self.columns[at].add(row, &e, self.collate),
                None => self.columns.push(Column::new(row, &e)),
            }
        }
        self.rows += 1;
        self.bytes += measurement.len_bytes();
    }

    /// The bucket as a document.
    pub fn finish(self, id: ObjectId) -> DocBuf {
        DocBuf::build(|w| {
            w.put("_id", id);
            let mut control = w.doc("control");
            control.put("version", 1i32);
            let mut min = control.doc("min");
            for c in &self.columns {
                // The minimum of the time is the start of the bucket, by which buckets are found.
                match c.name == self.options.time {
                    true => _ = min.put(&c.name, Value::Date(self.start_ms)),
                    false => c.min.put(&c.name, &mut min),
                }
            }
            drop(min);
            let mut max = control.doc("max");
            self.columns
                .iter()
                .for_each(|c| c.max.put(&c.name, &mut max));
            drop(max);
            drop(control);
            w.put("meta", self.meta.get());
            let mut data: DocWriter<'_> = w.doc("data");
            for c in &self.columns {
                data.put(&c.name, &c.cells);
            }
        })
    }
}

impl Column {
    fn new(row: &str, e: &Element<'_>) -> Column {
        let mut cells = DocBuf::new();
        cells.append(|w| _ = w.put_raw(row.as_bytes(), e.tag, e.payload));
        Column {
            name: e.name_str().to_owned(),
            cells,
            min: Extreme::of(e.value()),
            max: Extreme::of(e.value()),
        }
    }

    fn add(&mut self, row: &str, e: &Element<'_>, collate: Option<&dyn Collate>) {
        self.cells
            .append(|w| _ = w.put_raw(row.as_bytes(), e.tag, e.payload));
        let end = |towards| EndRule { towards, collate };
        self.min.add(e.value(), end(Ordering::Less));
        self.max.add(e.value(), end(Ordering::Greater));
    }
}

/// The `_id` of a bucket: its start time in seconds, then bytes that distinguish buckets of the
/// same second.
pub fn bucket_id(start_ms: i64, rest: [u8; 8]) -> ObjectId {
    let mut id = [0; 12];
    // Truncated to the lowest bits, as in MongoDB.
    let seconds = start_ms.div_euclid(1000) as u32;
    let (head, tail) = id.split_at_mut(4);
    head.copy_from_slice(&seconds.to_be_bytes());
    tail.copy_from_slice(&rest);
    ObjectId(id)
}
