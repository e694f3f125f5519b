//! The natural order of a time-series collection: that of the buckets its measurements would lie
//! in, and of time inside each. No buckets are kept; where they would begin is worked out from the
//! measurements in order of arrival.

use model::{Doc, Value, compare};
use rustc_hash::FxHashMap;

/// Measurements seen so far.
pub(crate) struct Series {
    time: String,
    meta: Option<String>,
    rounding_ms: i64,
    span_ms: i64,
    /// Arrival, time, metadata.
    seen: Vec<(u64, i64, Vec<u8>)>,
}

impl Series {
    /// From the options of a collection; `None` when it is no time series.
    pub(crate) fn of(options: Doc<'_>) -> Option<Series> {
        let d = options.field("timeseries").as_doc()?;
        let span = d
            .field("bucketMaxSpanSeconds")
            .as_i64_exact()
            .unwrap_or(3600)
            .max(1);
        let rounding = match d.field("granularity").as_str() {
            Some("minutes") => 3600,
            Some("hours") => 86_400,
            Some(_) => 60,
            None => d
                .field("bucketRoundingSeconds")
                .as_i64_exact()
                .unwrap_or(60)
                .max(1),
        };
        Some(Series {
            time: d.field("timeField").as_str()?.to_owned(),
            meta: d.field("metaField").as_str().map(str::to_owned),
            rounding_ms: rounding.saturating_mul(1000),
            span_ms: span.saturating_mul(1000),
            seen: Vec::new(),
        })
    }

    /// Adds a measurement, in any order.
    pub(crate) fn add(&mut self, arrival: u64, doc: Doc<'_>) {
        let time = match doc.field(&self.time) {
            Value::Date(ms) => ms,
            _ => i64::MIN,
        };
        let mut meta = Vec::new();
        if let Some(m) = &self.meta {
            compare::equality_key(&doc.field(m), None, &mut meta);
        }
        self.seen.push((arrival, time, meta));
    }

    /// The place of each arrival: start of its bucket, number of the bucket, time, arrival.
    pub(crate) fn places(mut self) -> FxHashMap<u64, (i64, usize, i64, u64)> {
        self.seen.sort_unstable();
        // The open bucket of each metadata: its number and where it starts.
        let mut open: FxHashMap<Vec<u8>, (usize, i64)> = FxHashMap::default();
        let mut buckets = 0;
        let mut places = FxHashMap::default();
        for (arrival, time, meta) in self.seen {
            let bucket = match open.get(&meta) {
                Some(&(n, start)) if time >= start && time.saturating_sub(start) < self.span_ms => {
                    (n, start)
                }
                _ => {
                    buckets += 1;
                    let start = time
                        .div_euclid(self.rounding_ms)
                        .saturating_mul(self.rounding_ms);
                    open.insert(meta, (buckets, start));
                    (buckets, start)
                }
            };
            places.insert(arrival, (bucket.1, bucket.0, time, arrival));
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn buckets_come_first_then_time() {
        let options = doc! { "timeseries": { "timeField": "t", "metaField": "m",
        "granularity": "seconds", "bucketMaxSpanSeconds": 3600i32 } };
        let mut s = Series::of(options.doc()).unwrap();
        let minute = 60_000i64;
        // Two sensors side by side, one measurement late inside its bucket, one an hour on.
        let measured = [
            (1u64, "a", 5),
            (2, "b", 4),
            (3, "a", 3),
            (4, "a", 70),
            (5, "a", 7),
        ];
        for (arrival, m, t) in measured {
            s.add(arrival, doc! { "t": Value::Date(t * minute), "m": m }.doc());
        }
        let places = s.places();
        let mut order: Vec<u64> = places.keys().copied().collect();
        order.sort_by_key(|a| places[a]);
        // 3 is before the bucket of 1 begins, 5 before that of 4: each opens one of its own.
        assert_eq!(order, [3, 2, 1, 5, 4]);
    }
}
