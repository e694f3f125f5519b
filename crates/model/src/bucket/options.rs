//! The options of a time-series collection that define its buckets.

use crate::{Doc, Value};

/// The names of the special fields, and the width of buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesOptions {
    /// Name of the time field.
    pub time: String,
    /// Name of the metadata field, whose value is the same for all measurements of a bucket.
    pub meta: Option<String>,
    /// Start times of buckets are multiples of this.
    pub rounding_ms: i64,
    /// Length of a bucket: each measurement is less than this after its start.
    pub span_ms: i64,
}

impl SeriesOptions {
    /// From the options of a collection; `None` when it is no time-series collection.
    pub fn of(options: Doc<'_>) -> Option<SeriesOptions> {
        SeriesOptions::from_doc(options.field("timeseries").as_doc()?)
    }

    /// From the document under `timeseries`.
    pub fn from_doc(d: Doc<'_>) -> Option<SeriesOptions> {
        let seconds = |name: &str| d.field(name).as_i64_exact();
        let rounding = match d.field("granularity").as_str() {
            Some("minutes") => 3600,
            Some("hours") => 86_400,
            Some(_) => 60,
            None => seconds("bucketRoundingSeconds").unwrap_or(60).max(1),
        };
        let span = seconds("bucketMaxSpanSeconds").unwrap_or(3600).max(1);
        Some(SeriesOptions {
            time: d.field("timeField").as_str()?.to_owned(),
            meta: d.field("metaField").as_str().map(str::to_owned),
            rounding_ms: rounding.saturating_mul(1000),
            span_ms: span.saturating_mul(1000),
        })
    }

    /// The time of a measurement in milliseconds; the least number without a time, which only
    /// documents written past all checks lack.
    pub fn time_of(&self, doc: Doc<'_>) -> i64 {
        match doc.field(&self.time) {
            Value::Date(ms) => ms,
            _ => i64::MIN,
        }
    }

    /// The metadata of a measurement.
    pub fn meta_of<'d>(&self, doc: Doc<'d>) -> Value<'d> {
        match &self.meta {
            Some(meta) => doc.field(meta),
            None => Value::Missing,
        }
    }

    /// The start of a new bucket for a measurement of this time.
    pub fn start_of(&self, time_ms: i64) -> i64 {
        time_ms
            .div_euclid(self.rounding_ms)
            .saturating_mul(self.rounding_ms)
    }

    /// Whether a bucket that starts at `start_ms` may contain a measurement of this time.
    pub fn spans(&self, start_ms: i64, time_ms: i64) -> bool {
        time_ms >= start_ms && time_ms.saturating_sub(start_ms) < self.span_ms
    }
}
