//! Changes and deletes measurements: each bucket concerned is read, changed and packed again, in
//! one commit. Writers are kept out meanwhile, so that the bucket has none. Must not know: filters,
//! update operators.

use crate::catalog::State;
use crate::error;
use crate::format::bucket::{self, BucketKey, Measurement};
use crate::locks::{KeyId, KeyIds};
use crate::view::ReadView;
use crate::view::buckets::StoredBucket;
use crate::write::change::{Change, DecideFn, ModifyOutcome};
use crate::write::fill::effect_of;
use crate::write::mode::Mode;
use crate::write::modify::{ChunkBatch, Scratch};
use crate::write::reads::WriteReader;
use crate::write::series::BucketBatch;
use crate::write::session::StatementLog;
use crate::write::unit::DocumentUnit;
use crate::write::writer::Writer;
use model::bucket::SeriesOptions;
use model::{Doc, DocBuf, MongoError, OwnedValue, Result, code};
use storage::{CommitPos, Unit};

/// A bucket that is changed, and the reads that decide that.
#[derive(Clone, Copy)]
struct BucketRead<'b> {
    key: &'b BucketKey,
    reads: &'b WriteReader<'b>,
}

impl Writer<'_> {
    /// As [`Writer::modify_many`], for a time-series collection.
    pub(super) fn modify_measurements(
        &self,
        keys: &[&[u8]],
        decide: &mut DecideFn<'_>,
        mode: &mut Mode<'_, '_>,
        each: &mut dyn FnMut(usize, ModifyOutcome),
    ) -> Result<()> {
        if mode.is_transaction() {
            return Err(MongoError::new(
                code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                format!(
                    "Cannot change a time-series collection in a multi-document transaction: {}",
                    self.ns
                ),
            ));
        }
        let mut scratch = Scratch::default();
        let mut at = 0;
        while at < keys.len() {
            let Some(key) = bucket::of(keys[at]) else {
                // This measurement is a record of its own.
                let one = &keys[at..=at];
                self.modify_records(one, &mut |_, _, doc| decide(at, doc), mode, &mut |_, m| {
                    each(at, m)
                })?;
                at += 1;
                continue;
            };
            let rest = keys[at..].iter();
            let number = rest.take_while(|k| bucket::of(k) == Some(key)).count();
            let end = at + number;
            // The gate is closed, so that no writer is inside while a bucket changes.
            let closed = self.close(self.operation)?;
            let state = State::clone(&self.state());
            if state.dropped {
                return Err(self.gone_error());
            }
            let decide = &mut |n: usize, doc: Doc<'_>| decide(at + n, doc);
            let group = &keys[at..end];
            let (filled, pos) = loop {
                let mut locked = KeyIds::from_slice(&[KeyId::of(&key)]);
                let _held = mode.lock(self, &mut locked)?;
                let reads = mode.begin(self, &[])?;
                self.watch_bucket(&key, &reads)?;
                let read = BucketRead {
                    key: &key,
                    reads: &reads,
                };
                let filled = self.modify_bucket(&state, &mut scratch, read, group, decide, mode)?;
                let unit = reads.into_unit();
                let done = self.commit_bucket(&state, &mut scratch, &key, &filled, mode, unit);
                if mode.is_outdated(&done) {
                    self.operation.check()?;
                    continue;
                }
                break (filled, done?);
            };
            drop(closed);
            filled.report(pos, &mut |n, outcome| each(at + n, outcome));
            if let Some(e) = filled.failure {
                return Err(e);
            }
            at = end;
        }
        Ok(())
    }

    fn commit_bucket(
        &self,
        state: &State,
        s: &mut Scratch,
        key: &BucketKey,
        filled: &ChunkBatch,
        mode: &mut Mode<'_, '_>,
        decided_by: Option<Unit<'_>>,
    ) -> Result<CommitPos> {
        if s.batch.is_empty() {
            return Ok(CommitPos::default());
        }
        self.check_write()?;
        let unit = DocumentUnit::new(*self, state).add_changes(filled.of_unit(&mut s.log));
        let pos = unit.commit(&mut s.batch, mode, decided_by)?;
        // The bucket is packed now and takes no further measurement.
        self.buckets.lock().forget(key);
        Ok(pos)
    }

    /// Calls `decide` for measurements of one bucket and adds the changed bucket to the batch.
    fn modify_bucket(
        &self,
        state: &State,
        s: &mut Scratch,
        read: BucketRead<'_>,
        wanted: &[&[u8]],
        decide: &mut DecideFn<'_>,
        mode: &mut Mode<'_, '_>,
    ) -> Result<ChunkBatch> {
        s.batch.clear();
        s.log.clear();
        let mut filled = ChunkBatch::default();
        let Some(mut stored) = self.read_bucket(&ReadView::LATEST, read.key)? else {
            filled.outcomes = wanted.iter().map(|_| ModifyOutcome::Absent).collect();
            return Ok(filled);
        };
        let options = state
            .series
            .clone()
            .ok_or_else(|| error::corrupt("the options of a time-series collection"))?;
        let mut new: Vec<Option<DocBuf>> = vec![None; stored.measurements.len()];
        let mut gone = vec![false; stored.measurements.len()];
        for (n, row) in wanted.iter().enumerate() {
            let seq = bucket::row_seq(row);
            let at = stored
                .measurements
                .iter()
                .position(|m| Some(m.insert_seq) == seq);
            let Some(at) = at else {
                filled.outcomes.push(ModifyOutcome::Absent);
                continue;
            };
            let old = stored.measurements[at].doc.clone();
            let (change, after) = match ask(decide, n, old.doc()) {
                Ok(made) => made,
                Err(e) => {
                    filled.failure = Some(e);
                    break;
                }
            };
            if let Change::Keep = change {
                filled.outcomes.push(ModifyOutcome::Kept);
                continue;
            }
            self.log_change(state, &mut s.log, old.doc(), &change, mode);
            if let Mode::Logged(StatementLog { keep, .. }) = mode {
                filled.effect = Some(effect_of(*keep, old.doc(), after.as_ref().map(DocBuf::doc)));
            }
            filled.bytes -= old.as_bytes().len() as i64;
            let unknown = CommitPos::default();
            match after {
                Some(doc) => {
                    filled.bytes += doc.as_bytes().len() as i64;
                    filled.outcomes.push(ModifyOutcome::Replaced(unknown));
                    new[at] = Some(doc);
                }
                None => {
                    filled.docs -= 1;
                    filled.outcomes.push(ModifyOutcome::Deleted(unknown));
                    gone[at] = true;
                }
            }
        }
        let untouched = !gone.contains(&true) && new.iter().all(Option::is_none);
        if untouched {
            return Ok(filled);
        }
        let mut left = Vec::new();
        for ((m, new), gone) in stored.measurements.drain(..).zip(new).zip(gone) {
            if !gone {
                let doc = new.unwrap_or(m.doc);
                left.push(Measurement { doc, ..m });
            }
        }
        let mut rows = BucketBatch::default();
        self.put_regrouped(state, &options, read.key, stored, left, &mut rows)?;
        self.put_marks(&mut rows, read.reads)?;
        s.batch.append(&rows.rows);
        Ok(filled)
    }

    /// Puts the measurements of a changed bucket: those with other metadata than the bucket's go
    /// into buckets of their own with the same beginning.
    fn put_regrouped(
        &self,
        state: &State,
        options: &SeriesOptions,
        key: &BucketKey,
        mut stored: StoredBucket,
        left: Vec<Measurement>,
        rows: &mut BucketBatch,
    ) -> Result<()> {
        let mut groups: Vec<(OwnedValue, Vec<Measurement>)> = Vec::new();
        for m in left {
            let meta = options.meta_of(m.doc.doc()).to_owned_value();
            match groups.iter_mut().find(|(other, _)| *other == meta) {
                Some((_, group)) => group.push(m),
                None => groups.push((meta, vec![m])),
            }
        }
        let own = groups.iter().position(|(meta, _)| *meta == stored.meta);
        stored.measurements = match own {
            Some(at) => groups.remove(at).1,
            None if groups.is_empty() => Vec::new(),
            // No measurement has the old metadata: the bucket keeps its key and gets new metadata.
            None => {
                let (meta, measurements) = groups.remove(0);
                let old = stored.meta.get();
                self.delete_bucket_entries(state, options, key, old, rows)?;
                self.put_bucket_entries(state, options, key, meta.get(), rows)?;
                stored.meta = meta;
                measurements
            }
        };
        self.put_packed(state, options, key, &stored, rows)?;
        for (meta, measurements) in groups {
            let seq = measurements.first().map_or(0, |m| m.insert_seq);
            let key = self.free_key(bucket::start_ms(key), seq | 1 << 63)?;
            let fresh = StoredBucket {
                meta,
                head_bytes: 0,
                measurements,
                rows: Vec::new(),
            };
            let meta = fresh.meta.get();
            self.put_bucket_entries(state, options, &key, meta, rows)?;
            self.put_packed(state, options, &key, &fresh, rows)?;
        }
        Ok(())
    }
}

/// The decision on a measurement, and the new measurement.
fn ask(decide: &mut DecideFn<'_>, n: usize, old: Doc<'_>) -> Result<(Change, Option<DocBuf>)> {
    let change = decide(n, old)?;
    let new = match &change {
        Change::Keep | Change::Delete => None,
        Change::Replace(b) | Change::Update(b, _) => {
            let doc = Doc::new(b).ok_or_else(|| error::corrupt("a document to be stored"))?;
            Some(doc.to_buf())
        }
    };
    Ok((change, new))
}
