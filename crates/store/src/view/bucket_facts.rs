//! Facts about buckets that need no measurements: the document by which they are indexed, their
//! number. Must not know: scans.

use crate::catalog::Collection;
use crate::error;
use crate::format::{bucket, meta, record};
use crate::index::Index;
use model::bucket::SeriesOptions;
use model::{DocBuf, Result, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use storage::Table;

/// Metrics of the buckets of a collection; all but the first two count since it was opened.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct BucketStats {
    /// Number of buckets.
    pub buckets: i64,
    /// Bytes of the packed buckets, and of the heads of open ones.
    pub bytes: i64,
    pub inserts: i64,
    pub updates: i64,
    pub opened_for_metadata: i64,
    pub closed_by_count: i64,
    pub closed_by_size: i64,
    pub closed_by_time_forward: i64,
    pub closed_by_time_backward: i64,
    pub closed_by_memory: i64,
    pub measurements: i64,
}

/// The metadata and beginning of a bucket as a document; indexes have entries for this document.
pub(crate) fn index_document(options: &SeriesOptions, start_ms: i64, meta: Value<'_>) -> DocBuf {
    DocBuf::build(|w| {
        w.put(&options.time, Value::Date(start_ms));
        if let Some(name) = &options.meta {
            w.put(name, meta);
        }
    })
}

/// Whether the entries of an index lead to buckets: its fields are only metadata and time.
pub(crate) fn indexes_buckets(index: &Index, options: &SeriesOptions) -> bool {
    let known = |path: &str| {
        path == options.time
            || options.meta.as_deref().is_some_and(|m| {
                let rest = path.strip_prefix(m);
                rest.is_some_and(|r| r.is_empty() || r.starts_with('.'))
            })
    };
    index.is_keyed()
        && !index.is_partial()
        && !index.is_unique()
        && index.fields().iter().all(|f| known(f.path.as_str()))
}

impl Collection {
    /// Whether an index leads to the buckets of this time-series collection.
    pub fn is_index_of_buckets(&self, index: &Index) -> bool {
        self.series_options()
            .is_some_and(|options| indexes_buckets(index, &options))
    }

    /// Whether a time-series collection was created before there were buckets: it has measurements
    /// and has never had a bucket.
    pub fn is_unpacked(&self) -> bool {
        let stats = self.bucket_stats();
        self.is_series() && self.count() > 0 && stats.is_ok_and(|s| s.buckets == 0)
    }

    /// No measurement of a bucket is more than this after the bucket's beginning; 0 without
    /// buckets.
    pub fn bucket_span_ms(&self) -> i64 {
        self.series_options().map_or(0, |o| o.span_ms)
    }

    /// The document for which an index has entries, for a row of the table of documents; for a
    /// bucket it is made from metadata and time. `None` for a row without entries.
    ///
    /// # Errors
    /// 1 InternalError for a damaged row.
    pub(crate) fn indexed_document(
        &self,
        index: &Index,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<DocBuf>> {
        let damaged = || error::corrupt(&format!("a record of {}", self.ns));
        let Some(of) = bucket::of(key) else {
            let (_, doc) = record::read(value).ok_or_else(damaged)?;
            return Ok(Some(doc.to_buf()));
        };
        let options = self.series_options().ok_or_else(damaged)?;
        if bucket::row_seq(key).is_some() || !indexes_buckets(index, &options) {
            return Ok(None);
        }
        let head = bucket::read(value).ok_or_else(damaged)?;
        let start = bucket::start_ms(&of);
        Ok(Some(index_document(&options, start, head.meta.get())))
    }

    /// The number of buckets, and counters since the collection was opened.
    ///
    /// # Errors
    /// Engine failures.
    pub fn bucket_stats(&self) -> Result<BucketStats> {
        let mut pair = [0, 0];
        let see = &mut |value: &[u8]| pair = storage::counter_decode(value);
        let engine = &self.shared.engine;
        engine
            .get_with(Table::Meta, &meta::buckets(self.ident), see)
            .map_err(error::storage)?;
        let counts = &self.buckets.counts;
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed) as i64;
        Ok(BucketStats {
            buckets: pair[0],
            bytes: pair[1],
            inserts: of(&counts.inserts),
            updates: of(&counts.updates),
            opened_for_metadata: of(&counts.opened_for_metadata),
            closed_by_count: of(&counts.closed_by_count),
            closed_by_size: of(&counts.closed_by_size),
            closed_by_time_forward: of(&counts.closed_by_time_forward),
            closed_by_time_backward: of(&counts.closed_by_time_backward),
            closed_by_memory: of(&counts.closed_by_memory),
            measurements: of(&counts.measurements),
        })
    }
}
