//! The buckets of a time-series collection, as documents.

use crate::exec::{BatchStream, DocBatch, ExecContext};
use model::Result;
use model::bucket::{Bucket, SeriesOptions, bucket_id};
use std::sync::Arc;
use store::{Collection, ReadView, SeriesRead, SeriesScan};

/// The buckets of a time-series collection as documents of version 1.
pub struct BucketStream {
    scan: SeriesScan,
    options: SeriesOptions,
}

impl BucketStream {
    /// All buckets, in the order of their start times. `None` for any other collection.
    pub fn open(coll: &Arc<Collection>, view: &ReadView) -> Option<BucketStream> {
        let options = SeriesOptions::of(coll.options().doc())?;
        let scan = coll.scan_series(view, SeriesRead::default(), None)?;
        Some(BucketStream { scan, options })
    }
}

impl BatchStream for BucketStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        while !out.is_full() {
            exec.env.check_interrupt()?;
            let Some(shown) = self.scan.next_bucket()? else {
                return Ok(false);
            };
            let (start, meta) = (shown.start_ms, shown.meta.get());
            let mut bucket = Bucket::new(&self.options, exec.env.collate(), start, meta);
            shown.measurements.iter().for_each(|d| bucket.add(d.doc()));
            out.push(bucket.finish(bucket_id(start, shown.rest)).doc());
        }
        self.scan.pause();
        Ok(true)
    }
}
