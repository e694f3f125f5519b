//! Estimates of the space of a range. RocksDB knows where a range begins and ends in its table
//! files, but not how much of the blob files (large documents) belongs to it: that is extrapolated
//! from some of its rows.

use std::sync::Arc;

use rust_rocksdb::{Range, SizeApproximationFlags};
use storage::{KeyRange, Result, Table};

use crate::error;
use crate::ffi::{Db, Iter, IterOpts, family_name};

/// Rows in a sample. Each may be a document of megabytes, and sizes are rarely asked for.
const SAMPLE_ROWS: u64 = 16;

/// Rows that are counted. Fewer rows take so little of a table file that its blocks are too coarse
/// a measure.
const COUNT_ROWS: u64 = 1000;

/// An estimate below this is checked against the rows themselves.
const FEW_BYTES: u64 = 16 << 10;

/// Bytes of the reference in a table file to a value in a blob file.
const REFERENCE_BYTES: u64 = 24;

/// Bytes of the range on the device and in memory; values of at least `apart_bytes_min` are in blob
/// files.
pub(crate) fn estimate(
    db: &Arc<Db>,
    table: Table,
    range: KeyRange<'_>,
    apart_bytes_min: u64,
) -> Result<u64> {
    let memory = ask_size(db, table, range, SizeApproximationFlags::INCLUDE_MEMTABLE)?;
    let files = file_bytes(db, table, range)?;
    // RocksDB estimates by blocks of files and by the levels of a skip list: for few rows the
    // result is often zero.
    let least = match memory + files < FEW_BYTES {
        true => bytes_of_first(db, table, range)?,
        false => 0,
    };
    if db.property(table, c"rocksdb.num-blob-files").unwrap_or(0) == 0 {
        return Ok((memory + files).max(least));
    }
    let sample = Sample::of(db, table, range, apart_bytes_min)?;
    let apart = match count_up_to(db, table, range, COUNT_ROWS)? {
        Some(rows) => u128::from(sample.apart) * u128::from(rows) / u128::from(sample.rows.max(1)),
        None => u128::from(files) * u128::from(sample.apart) / u128::from(sample.inside.max(1)),
    };
    // The estimate for memory includes large documents.
    Ok(memory
        .max(u64::try_from(apart).unwrap_or(u64::MAX))
        .saturating_add(files)
        .max(least))
}

/// Bytes of the range in table files.
pub(crate) fn file_bytes(db: &Db, table: Table, range: KeyRange<'_>) -> Result<u64> {
    if range.is_empty() {
        return Ok(0);
    }
    ask_size(db, table, range, SizeApproximationFlags::INCLUDE_FILES)
}

/// Bytes of the range's rows, up to [`FEW_BYTES`].
fn bytes_of_first(db: &Arc<Db>, table: Table, range: KeyRange<'_>) -> Result<u64> {
    let how = IterOpts::default();
    let mut iter = Iter::new(db, None, table, range.lower, range.upper, &how);
    iter.seek_to_first();
    let mut bytes = 0;
    while bytes < FEW_BYTES && iter.valid() {
        bytes += (iter.key().len() + iter.value().len()) as u64;
        iter.step(false);
    }
    iter.status().map(|()| bytes)
}

/// Number of rows of the range, if fewer than `most`.
fn count_up_to(db: &Arc<Db>, table: Table, range: KeyRange<'_>, most: u64) -> Result<Option<u64>> {
    let how = IterOpts {
        keys_only: true,
        ..IterOpts::default()
    };
    let mut iter = Iter::new(db, None, table, range.lower, range.upper, &how);
    iter.seek_to_first();
    for rows in 0..most {
        if !iter.valid() {
            return iter.status().map(|()| Some(rows));
        }
        iter.step(false);
    }
    Ok(None)
}

fn ask_size(
    db: &Db,
    table: Table,
    range: KeyRange<'_>,
    flags: SizeApproximationFlags,
) -> Result<u64> {
    let admin = db.admin();
    let Some(family) = admin.cf_handle(family_name(table)) else {
        return Ok(0);
    };
    let sizes = admin
        .get_approximate_sizes_cf_with_flags(family, flags, &[Range::new(range.lower, range.upper)])
        .map_err(|error| error::sort("a size estimate", error.into_string()))?;
    Ok(sizes.iter().sum())
}

/// The first rows of a range: their bytes in table files and in blob files.
#[derive(Default)]
struct Sample {
    rows: u64,
    inside: u64,
    apart: u64,
}

impl Sample {
    fn of(db: &Arc<Db>, table: Table, range: KeyRange<'_>, apart_bytes_min: u64) -> Result<Self> {
        let mut sample = Self::default();
        let mut iter = Iter::new(
            db,
            None,
            table,
            range.lower,
            range.upper,
            &IterOpts::default(),
        );
        iter.seek_to_first();
        while sample.rows < SAMPLE_ROWS && iter.valid() {
            let value = iter.value().len() as u64;
            let apart = value >= apart_bytes_min;
            sample.rows += 1;
            sample.apart += if apart { value } else { 0 };
            sample.inside += iter.key().len() as u64 + if apart { REFERENCE_BYTES } else { value };
            iter.step(false);
        }
        iter.status().map(|()| sample)
    }
}
