//! Measurements of a collection to which several processes write. Which of its buckets are open is
//! the memory of each process, and proves nothing: a bucket is open while its mark is there, and
//! every insert into it writes the mark through its unit. So whoever packs or changes a bucket,
//! which removes the mark, conflicts with each insert into it, and an insert that finds no mark
//! takes another bucket. Two processes open different buckets, because their numbers differ. Must
//! not know: who inserts.

use crate::catalog::State;
use crate::commit::WriteUnit;
use crate::error;
use crate::format::bucket::{self, BucketKey};
use crate::locks::{KeyId, KeyIds};
use crate::view::ReadView;
use crate::write::insert::mark_unordered;
use crate::write::mode::Mode;
use crate::write::reads::WriteReader;
use crate::write::series::{BucketAssignment, BucketBatch, put_rows};
use crate::write::writer::Writer;
use model::bucket::SeriesOptions;
use model::{Doc, MongoError, Result};
use storage::{CommitPos, CursorOpts, KeyRange, Reader, Table};

/// How often packing a bucket is tried while another process inserts into it.
const PACK_TRIES: usize = 8;

/// A failure of a commit of measurements.
enum CommitFailure {
    /// Some of the buckets take no measurement any more.
    Closed(Vec<BucketKey>),
    Other(MongoError),
}

impl From<MongoError> for CommitFailure {
    fn from(e: MongoError) -> CommitFailure {
        CommitFailure::Other(e)
    }
}

impl Writer<'_> {
    /// Inserts the measurements of a chunk up to the first that is refused. The caller leaves the
    /// buckets.
    ///
    /// # Output
    /// The buckets, and the result of the commit.
    pub(super) fn insert_beside_others(
        &self,
        state: &State,
        options: &SeriesOptions,
        docs: &[Doc<'_>],
        base: usize,
        mode: &mut Mode<'_, '_>,
    ) -> Result<(BucketAssignment, Result<CommitPos>)> {
        loop {
            let first_seq = self.allocate_sequences(docs.len())?;
            let mut open = self.buckets.lock();
            let places = self.choose_places(&mut open, state, options, docs, first_seq)?;
            drop(open);
            let docs = &docs[..places.keys.len()];
            let closed = loop {
                match self.commit_beside_others(state, docs, &places, base, mode) {
                    Ok(pos) => return Ok((places, Ok(pos))),
                    Err(CommitFailure::Closed(keys)) => break keys,
                    Err(CommitFailure::Other(e)) if error::is_conflict(&e) => {
                        if let Err(e) = self.operation.check() {
                            self.forget_buckets(&places.opened);
                            return Ok((places, Err(e)));
                        }
                    }
                    Err(CommitFailure::Other(e)) => {
                        // They may be there: then the sweep packs them.
                        self.forget_buckets(&places.opened);
                        return Ok((places, Err(e)));
                    }
                }
            };
            self.forget_buckets(&closed);
            self.forget_buckets(&places.opened);
            let mut open = self.buckets.lock();
            places.keys.iter().for_each(|key| open.leave(*key));
        }
    }

    /// Takes these buckets for closed.
    fn forget_buckets(&self, keys: &[BucketKey]) {
        let mut open = self.buckets.lock();
        keys.iter().for_each(|key| open.forget(key));
    }

    /// Commits the measurements with the heads of new buckets, if all buckets are open.
    fn commit_beside_others(
        &self,
        state: &State,
        docs: &[Doc<'_>],
        places: &BucketAssignment,
        base: usize,
        mode: &mut Mode<'_, '_>,
    ) -> std::result::Result<CommitPos, CommitFailure> {
        if docs.is_empty() {
            return Ok(CommitPos::default());
        }
        let mut keys = places.keys.clone();
        keys.sort_unstable();
        keys.dedup();
        // The writers of this process do not conflict with one another.
        let mut locked: KeyIds = keys.iter().map(|key| KeyId::of(key)).collect();
        let _held = mode.lock(self, &mut locked)?;
        let reads = mode.begin(self, &[])?;
        let closed = find_closed(&keys, &places.opened, &reads)?;
        if !closed.is_empty() {
            return Err(CommitFailure::Closed(closed));
        }
        let mut batch = places.heads.copy();
        self.put_marks(&mut batch, &reads)?;
        let mut batch = batch.rows;
        put_rows(docs, places, &mut batch);
        let last = places.first_seq + docs.len() as u64;
        for key in &keys {
            batch.put(Table::Cap, key, &self.shared.open_mark(last));
        }
        if self.live.is_in_order() {
            mark_unordered(&mut batch, self.ident);
        }
        let unit = reads.into_unit();
        Ok(self.commit_measurements(state, &mut batch, docs, base, mode, unit)?)
    }

    /// As [`Writer::pack`]: a bucket that another process changes meanwhile is read again.
    pub(super) fn pack_beside_others(&self, state: &State, key: &BucketKey) -> Result<()> {
        let options = state
            .series
            .clone()
            .ok_or_else(|| error::corrupt("the options of a time-series collection"))?;
        let mut tries = 0;
        loop {
            let mut locked = KeyIds::from_slice(&[KeyId::of(key)]);
            let _held = self.shared.lock_keys(self.operation, &mut locked)?;
            let unit = self.begin_unit(&[])?;
            let mark = unit.get_with(Table::Cap, key, &mut |_| {});
            if !mark.map_err(error::storage)? {
                return Ok(());
            }
            let head = unit.get_with(Table::Doc, key, &mut |_| {});
            head.map_err(error::storage)?;
            let mut batch = BucketBatch::default();
            // Read after the unit began: an insert since then has written the mark.
            if let Some(stored) = self.read_bucket(&ReadView::LATEST, key)? {
                self.put_packed(state, &options, key, &stored, &mut batch)?;
            }
            batch.rows.delete(Table::Cap, key);
            let write = WriteUnit::new(&batch.rows).commit_through(Some(unit));
            tries += 1;
            match self.commit(write) {
                Err(e) if error::is_conflict(&e) && tries < PACK_TRIES => self.operation.check()?,
                committed => return committed.map(|_| ()),
            }
        }
    }

    /// Packs the buckets that others have left open which are not alive, and those of this process
    /// which it does not know any more; returns their number.
    pub(crate) fn pack_left(
        &self,
        is_alive: &dyn Fn(u64) -> bool,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<usize> {
        let (_inside, state) = self.enter(self.operation)?;
        let (lower, upper) = self.key_bounds();
        let range = KeyRange::new(&lower, &upper);
        let engine = &self.shared.engine;
        let cursor = engine.cursor(Table::Cap, range, CursorOpts::default());
        let mut cursor = cursor.map_err(error::storage)?;
        let mut left = Vec::new();
        let each = &mut |key: &[u8], mark: &[u8]| {
            // A process that wrote alone has left no owner.
            let owner = mark.first_chunk::<8>().map(|b| u64::from_be_bytes(*b));
            if owner.is_none_or(|owner| owner == self.shared.peer || !is_alive(owner)) {
                left.extend(bucket::of(key).map(|key| (key, owner)));
            }
            true
        };
        while cursor.visit(1024, each).map_err(error::storage)? {
            go_on()?;
        }
        let mut packed = 0;
        for (key, owner) in left {
            go_on()?;
            let is_own = owner == Some(self.shared.peer);
            if !is_own || !self.buckets.lock().knows(&key) {
                self.pack_beside_others(&state, &key)?;
                packed += 1;
            }
        }
        Ok(packed)
    }

    /// Reads what changes with a bucket through the unit, before the bucket itself is read.
    pub(super) fn watch_bucket(&self, key: &BucketKey, reads: &WriteReader<'_>) -> Result<()> {
        if self.shared.has_joined {
            reads.exists(Table::Cap, key)?;
            reads.exists(Table::Doc, key)?;
        }
        Ok(())
    }
}

/// Which buckets cannot take the measurements: those without a mark, and new ones whose key is in
/// use.
fn find_closed(
    keys: &[BucketKey],
    opened: &[BucketKey],
    reads: &WriteReader<'_>,
) -> Result<Vec<BucketKey>> {
    let mut closed = Vec::new();
    let old: Vec<&[u8]> = keys
        .iter()
        .filter(|key| !opened.contains(key))
        .map(|key| key.as_slice())
        .collect();
    let mut note = |key: Option<&&[u8]>| {
        closed.extend(key.and_then(|key| key.first_chunk().copied()));
    };
    reads.multi_get(Table::Cap, &old, &mut |n, mark| {
        if mark.is_none() {
            note(old.get(n));
        }
    })?;
    let new: Vec<&[u8]> = opened.iter().map(BucketKey::as_slice).collect();
    reads.multi_get(Table::Doc, &new, &mut |n, head| {
        if head.is_some() {
            note(new.get(n));
        }
    })?;
    Ok(closed)
}
