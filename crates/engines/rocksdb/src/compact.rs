//! Space of deleted rows and old versions on the device: estimated from the table files' statistics
//! of their entries, freed by rewriting the range. Values outside of the table files (large
//! documents) are freed when their whole file is unused, or by the rule of `config.rs`. Must not
//! know: whose range it is.

use rust_rocksdb::{BottommostLevelCompaction, CompactOptions, LiveFile};
use storage::{KeyRange, Result, Table};

use crate::error;
use crate::ffi::{Db, family_name};
use crate::sizes;

/// The unused part of the `bytes` that a range takes on the device.
pub(crate) fn unused(
    db: &Db,
    table: Table,
    range: KeyRange<'_>,
    bytes: u64,
    rows: Option<u64>,
) -> Result<u64> {
    let of_range = sizes::file_bytes(db, table, range)?;
    let (mut inside, mut shared) = (EntryTotals::default(), EntryTotals::default());
    for file in files_of(db, table, range)? {
        match share_of(db, table, range, &file)? {
            1.0 => inside.add(&file, 1.0),
            share => shared.add(&file, share),
        }
    }
    // Other rows in a shared file may have any size, so the average row size comes from files that
    // lie inside the range.
    if inside.puts > 0.0 {
        shared.puts = inside.puts * (of_range as f64 / inside.bytes - 1.0).max(0.0);
    }
    inside.puts += shared.puts;
    inside.deletions += shared.deletions;
    // Data that is only in memory is not counted. Of large documents outside of the table files the
    // same share is assumed to be unused as of the entries that refer to them.
    Ok(match of_range {
        0 => 0,
        _ => inside.unused(bytes.max(of_range), rows),
    })
}

/// The share of a file's entries that lies in the range. The entries of a file that reaches beyond
/// the range are assumed to be distributed as all data between its first and last key.
fn share_of(db: &Db, table: Table, range: KeyRange<'_>, file: &LiveFile) -> Result<f64> {
    let (Some(first), Some(last)) = (&file.start_key, &file.end_key) else {
        return Ok(0.0);
    };
    if first.as_slice() >= range.lower && last.as_slice() < range.upper {
        return Ok(1.0);
    }
    let end = [last.as_slice(), &[0]].concat();
    let common = KeyRange::new(
        first.as_slice().max(range.lower),
        end.as_slice().min(range.upper),
    );
    let all = sizes::file_bytes(db, table, KeyRange::new(first, &end))?;
    let common = sizes::file_bytes(db, table, common)?;
    Ok((common as f64 / all.max(1) as f64).min(1.0))
}

/// The table files' statistics of the entries in a range.
#[derive(Default)]
struct EntryTotals {
    bytes: f64,
    puts: f64,
    deletions: f64,
}

impl EntryTotals {
    fn add(&mut self, file: &LiveFile, share: f64) {
        self.bytes += file.size as f64 * share;
        self.puts += file.num_entries.saturating_sub(file.num_deletions) as f64 * share;
        self.deletions += file.num_deletions as f64 * share;
    }

    /// The unused part of the bytes of the range. A deletion hides at most one row.
    fn unused(&self, bytes: u64, rows: Option<u64>) -> u64 {
        let gone = rows.map_or(self.deletions, |rows| self.puts - rows as f64);
        let part = gone.clamp(0.0, self.puts) / self.puts.max(1.0);
        (bytes as f64 * part) as u64
    }
}

/// Rewrites a range in steps, each up to the next file of its lowest level.
pub(crate) fn compact(
    db: &Db,
    table: Table,
    range: KeyRange<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<()> {
    let Some(family) = db.admin().cf_handle(family_name(table)) else {
        return Ok(());
    };
    if range.is_empty() {
        return Ok(());
    }
    let mut opts = CompactOptions::default();
    opts.set_exclusive_manual_compaction(false);
    opts.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
    let files = files_of(db, table, range)?;
    let lowest = files.iter().map(|f| f.level).max().unwrap_or(0);
    let mut begins: Vec<&[u8]> = files
        .iter()
        .filter(|f| f.level == lowest && lowest > 0)
        .filter_map(|f| f.start_key.as_deref())
        .filter(|key| *key > range.lower)
        .collect();
    begins.sort_unstable();
    let ends = begins.iter().copied().chain([range.upper]);
    let mut lower = range.lower;
    for upper in ends {
        if stop() {
            break;
        }
        db.admin()
            .compact_range_cf_opt(family, Some(lower), Some(upper), &opts);
        lower = upper;
    }
    Ok(())
}

/// The table files that may hold keys of a range.
fn files_of(db: &Db, table: Table, range: KeyRange<'_>) -> Result<Vec<LiveFile>> {
    let files = db.admin().live_files();
    let mut files = files.map_err(|e| error::sort("the list of files", e.into_string()))?;
    files.retain(|file| {
        file.column_family_name == family_name(table)
            && file.start_key.as_deref().is_some_and(|k| k < range.upper)
            && file.end_key.as_deref().is_some_and(|k| k >= range.lower)
    });
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_space_follows_from_rows_or_deletions() {
        let told = EntryTotals {
            bytes: 1000.0,
            puts: 100.0,
            deletions: 40.0,
        };
        assert_eq!(told.unused(1000, Some(100)), 0);
        assert_eq!(told.unused(1000, Some(25)), 750);
        assert_eq!(told.unused(1000, Some(500)), 0);
        assert_eq!(told.unused(1000, None), 400);
        assert_eq!(told.unused(0, None), 0);
        assert_eq!(EntryTotals::default().unused(1000, Some(1)), 0);
        let only_deletions = EntryTotals { puts: 0.0, ..told };
        assert_eq!(only_deletions.unused(1000, None), 0);
    }
}
