//! Repairs the buckets of a time-series collection. Promises: afterwards every readable measurement
//! is in a bucket with a head. Must not know: other documents.

use super::entries;
use super::mender::{RepairContext, Row};
use super::work::CollectionRepair;
use crate::format::bucket::{self, BucketKey, Measurement};
use crate::format::record;
use model::{Doc, Result};
use storage::Table;

impl CollectionRepair<'_> {
    /// Repairs a row of a bucket; the head comes before the measurements of its bucket.
    pub(super) fn mend_bucket_row(
        &mut self,
        m: &mut RepairContext<'_>,
        of: &BucketKey,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        match bucket::row_seq(key) {
            Some(_) => self.mend_measurement(m, of, key, value),
            None => self.mend_head(m, key, value),
        }
    }

    fn mend_head(&mut self, m: &mut RepairContext<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        let Some(head) = bucket::read(value) else {
            return self.take_bucket(m, key, value);
        };
        let Some(closed) = head.closed else {
            return self.keep_head(m, key, value, true);
        };
        let Some(packed) = closed.measurements(&|_| true) else {
            return self.take_bucket(m, key, value);
        };
        let whole = |one: &Measurement| model::validate(one.doc.as_bytes()).is_ok();
        if packed.iter().all(whole) {
            packed.iter().for_each(|one| self.count(one.doc.doc()));
            return self.keep_head(m, key, value, false);
        }
        let why = "some of its measurements are damaged";
        m.take_row(Some(self.ns()), Row::of_documents(key, value), why)?;
        let packed: Vec<Measurement> = packed.into_iter().filter(whole).collect();
        if packed.is_empty() {
            self.batch.delete(Table::Doc, key);
            return m.apply(&mut self.batch);
        }
        let mut mended = Vec::new();
        let (first_ms, last_ms) = closed.times;
        bucket::write_closed(&mut mended, head.meta.get(), first_ms, last_ms, &packed);
        self.batch.put(Table::Doc, key, &mended);
        packed.iter().for_each(|one| self.count(one.doc.doc()));
        self.keep_head(m, key, &mended, false)
    }

    fn take_bucket(&mut self, m: &mut RepairContext<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        let why = "the bucket is damaged";
        m.take_row(Some(self.ns()), Row::of_documents(key, value), why)?;
        self.batch.delete(Table::Doc, key);
        m.apply(&mut self.batch)
    }

    fn keep_head(
        &mut self,
        m: &mut RepairContext<'_>,
        key: &[u8],
        head: &[u8],
        is_open: bool,
    ) -> Result<()> {
        self.buckets += 1;
        self.head_bytes += head.len() as u64;
        self.head = bucket::of(key).map(|of| (of, is_open));
        if is_open && m.get(Table::Cap, key)?.is_none() {
            let ns = self.ns();
            m.report_mended(&format!("{ns}: an open bucket had no mark"));
            self.batch.put(Table::Cap, key, &[]);
        }
        entries::put_of_bucket(m, self, key, head)?;
        m.apply(&mut self.batch)
    }

    fn mend_measurement(
        &mut self,
        m: &mut RepairContext<'_>,
        of: &BucketKey,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let whole = |doc: Doc<'_>| model::validate(doc.as_bytes()).is_ok();
        let Some((_, doc)) = record::read(value).filter(|(_, doc)| whole(*doc)) else {
            let why = "the measurement is damaged";
            m.take_row(Some(self.ns()), Row::of_documents(key, value), why)?;
            self.batch.delete(Table::Doc, key);
            return m.apply(&mut self.batch);
        };
        match self.head.filter(|(head, _)| head == of) {
            Some((_, true)) => {}
            Some((_, false)) => {
                m.take_document(self.ns(), doc, "it lies behind a bucket that is closed")?;
                self.batch.delete(Table::Doc, key);
                return m.apply(&mut self.batch);
            }
            None => {
                let ns = self.ns();
                m.report_mended(&format!("{ns}: measurements had no bucket any more"));
                let options = self.coll.series_options();
                let meta = options.map_or(model::Value::Missing, |o| o.meta_of(doc));
                let mut head = Vec::new();
                bucket::write_open(&mut head, meta);
                self.batch.put(Table::Doc, of, &head);
                self.keep_head(m, of, &head, true)?;
            }
        }
        self.count(doc);
        Ok(())
    }
}
