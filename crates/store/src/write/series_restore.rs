//! Inserts buckets that tools have read elsewhere. Must not know: the tools.

use crate::error;
use crate::format::bucket;
use crate::locks::{KeyId, KeyIds};
use crate::view::buckets::{BucketView, StoredBucket};
use crate::write::duplicate::duplicate_id;
use crate::write::insert::InsertOutcome;
use crate::write::mode::Mode;
use crate::write::series::BucketBatch;
use crate::write::session::StatementLog;
use crate::write::writer::Writer;
use model::bucket::bucket_id;
use model::{Doc, DocBuf, Result};
use storage::Table;

impl Writer<'_> {
    /// Inserts a bucket that a tool has read elsewhere, under its former key. Measurements that one
    /// bucket of this collection could not hold together are inserted one by one. All of it is one
    /// statement in the log.
    ///
    /// # Errors
    /// As [`Writer::insert`]; 11000 DuplicateKey when the bucket exists.
    pub fn restore_bucket(
        &self,
        bucket: &BucketView,
        log: Option<&mut StatementLog<'_>>,
    ) -> Result<InsertOutcome> {
        let mut docs: Vec<Doc<'_>> = bucket.measurements.iter().map(DocBuf::doc).collect();
        let mut mode = Mode::of(log);
        let bytes: usize = docs.iter().map(|d| d.len_bytes()).sum();
        let mut done = InsertOutcome::default();
        loop {
            let tried = self.try_restore(bucket, &mut docs, &mut mode, bytes, &mut done);
            if !mode.is_outdated(&tried) {
                return tried.map(|()| done);
            }
            self.operation.check()?;
        }
    }

    fn try_restore(
        &self,
        bucket: &BucketView,
        docs: &mut [Doc<'_>],
        mode: &mut Mode<'_, '_>,
        bytes: usize,
        done: &mut InsertOutcome,
    ) -> Result<()> {
        let inside = mode.enter(self, bytes)?;
        let state = inside.state();
        let options = state
            .series
            .clone()
            .ok_or_else(|| error::corrupt("the options of a time-series collection"))?;
        let fits = |d: &Doc<'_>| {
            options.spans(bucket.start_ms, options.time_of(*d))
                && options.meta_of(*d).to_owned_value() == bucket.meta
        };
        if !docs.iter().all(fits) {
            drop(inside);
            return self.insert_measurements(docs, true, mode, done, &|| {});
        }
        self.check_write()?;
        let key = bucket::key(self.ident, bucket.start_ms, bucket.rest);
        let mut locked = KeyIds::from_slice(&[KeyId::of(&key)]);
        let _held = mode.lock(self, &mut locked)?;
        let reads = mode.begin(self, &[])?;
        if reads.exists(Table::Doc, &key)? {
            let id = bucket_id(bucket.start_ms, bucket.rest);
            let shown = model::doc! { "_id": id };
            let e = duplicate_id(self, state.options.doc(), shown.doc());
            done.errors.push((0, e));
            return Ok(());
        }
        let first_seq = self.allocate_sequences(docs.len())?;
        docs.sort_by_key(|d| options.time_of(*d));
        let numbered = docs.iter().zip(first_seq..);
        let stored = StoredBucket {
            meta: bucket.meta.clone(),
            head_bytes: 0,
            measurements: numbered
                .map(|(doc, insert_seq)| bucket::Measurement {
                    insert_seq,
                    doc: doc.to_buf(),
                })
                .collect(),
            rows: Vec::new(),
        };
        let mut batch = BucketBatch::default();
        let meta = bucket.meta.get();
        self.put_bucket_entries(state, &options, &key, meta, &mut batch)?;
        self.put_packed(state, &options, &key, &stored, &mut batch)?;
        self.put_marks(&mut batch, &reads)?;
        let unit = reads.into_unit();
        done.pos = self.commit_measurements(state, &mut batch.rows, docs, 0, mode, unit)?;
        done.count = docs.len();
        Ok(())
    }
}
