//! The buckets of a time-series collection as documents, for who reads `system.buckets.NAME`; it
//! has no name in pipelines. Measurements come in the order of their buckets, so that each bucket is
//! complete when one of the next comes.

use crate::exec::{BatchStream, DocBatch, ExecContext};
use crate::stage::Stage;
use model::bucket::{Bucket, SeriesOptions, bucket_id};
use model::{Collate, Doc, DocBuf, Result};
use std::sync::Arc;

/// Packs measurements into buckets.
pub(super) struct PackBuckets {
    pub(super) options: SeriesOptions,
}

struct PackStream {
    stage: Arc<PackBuckets>,
    input: Box<dyn BatchStream>,
    inbox: DocBatch,
    at: usize,
    more: bool,
    /// Measurements of the bucket that is being read.
    held: Vec<DocBuf>,
    held_bytes: usize,
    /// Where the bucket before began, and how many began there before it.
    before: Option<(i64, u64)>,
}

impl PackStream {
    /// True when a measurement belongs to the bucket that is being read.
    fn joins(&self, doc: Doc<'_>) -> bool {
        let o = &self.stage.options;
        self.held.first().is_none_or(|first| {
            self.held.len() < Bucket::ROWS_MAX
                && self.held_bytes < Bucket::BYTES_MAX
                && o.spans(o.start_of(o.time_of(first.doc())), o.time_of(doc))
                && same(&o.meta_of(first.doc()), &o.meta_of(doc))
        })
    }

    fn flush(&mut self, collate: Option<&dyn Collate>, out: &mut DocBatch) {
        let o = &self.stage.options;
        let Some(first) = self.held.first() else {
            return;
        };
        let start = o.start_of(o.time_of(first.doc()));
        let mut bucket = Bucket::new(o, collate, start, o.meta_of(first.doc()));
        self.held.iter().for_each(|d| bucket.add(d.doc()));
        let n = match self.before {
            Some((before, n)) if before == start => n + 1,
            _ => 0,
        };
        self.before = Some((start, n));
        out.push(bucket.finish(bucket_id(start, n.to_be_bytes())).doc());
        self.held.clear();
        self.held_bytes = 0;
    }
}

fn same(a: &model::Value<'_>, b: &model::Value<'_>) -> bool {
    a.to_owned_value() == b.to_owned_value()
}

impl BatchStream for PackStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        if self.at >= self.inbox.len() && self.more {
            self.at = 0;
            self.inbox.clear();
            self.more = self.input.next_batch(exec, &mut self.inbox)?;
        }
        while self.at < self.inbox.len() && !out.is_full() {
            exec.env.check_interrupt()?;
            let doc = self.inbox.doc(self.at).to_buf();
            if !self.joins(doc.doc()) {
                self.flush(exec.env.collate(), out);
            }
            self.held_bytes += doc.as_bytes().len();
            self.held.push(doc);
            self.at += 1;
        }
        if self.more || self.at < self.inbox.len() {
            return Ok(true);
        }
        self.flush(exec.env.collate(), out);
        Ok(false)
    }
}

impl Stage for PackBuckets {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(PackStream {
            stage: self,
            input,
            inbox: DocBatch::new(),
            at: 0,
            more: true,
            held: Vec::new(),
            held_bytes: 0,
            before: None,
        }))
    }

    fn describe(&self) -> DocBuf {
        model::doc! { "$_internalPackBuckets": { "timeField": self.options.time.as_str() } }
    }
}
