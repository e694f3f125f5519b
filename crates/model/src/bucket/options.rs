//! What the options of a time-series collection say of its buckets.

use crate::{Doc, Value};

/// The fields with a meaning of their own and the width of buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesOptions {
    /// Name of the field with the time.
    pub time: String,
    /// Name of the field that all measurements of a bucket have in common.
    pub meta: Option<String>,
    /// Buckets begin at multiples of this.
    pub rounding_ms: i64,
    /// No measurement of a bucket is this long after its beginning.
    pub span_ms: i64,
}

impl SeriesOptions {
    /// From the options of a collection; `None` when it is no time series.
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

    /// The time of a measurement in milliseconds; the earliest when it has none, which only
    /// documents written past all checks have not.
    pub fn time_of(&self, doc: Doc<'_>) -> i64 {
        match doc.field(&self.time) {
            Value::Date(ms) => ms,
            _ => i64::MIN,
        }
    }

    /// What a measurement has in common with the others of its bucket.
    pub fn meta_of<'d>(&self, doc: Doc<'d>) -> Value<'d> {
        match &self.meta {
            Some(meta) => doc.field(meta),
            None => Value::Missing,
        }
    }

    /// Where a bucket begins that is opened for a measurement of this time.
    pub fn start_of(&self, time_ms: i64) -> i64 {
        time_ms
            .div_euclid(self.rounding_ms)
            .saturating_mul(self.rounding_ms)
    }

    /// Whether a bucket that begins at `start_ms` may take a measurement of this time.
    pub fn spans(&self, start_ms: i64, time_ms: i64) -> bool {
        time_ms >= start_ms && time_ms.saturating_sub(start_ms) < self.span_ms
    }
}
