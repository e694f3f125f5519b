//! Opens the readable part of a directory with damaged files. Promises: the files are only linked,
//! not changed; a key that it reports as the next part is the beginning of another block. Must not
//! know: how the readable rows are used.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use cipher::{DataKey, KEYS_FILE};
use rust_rocksdb::DB;
use storage::{KeyRange, Result, StorageError, Table};

use crate::config::{self, Config};
use crate::error;
use crate::ffi::{Db, encrypt};
use crate::files::link_or_copy;
use crate::filter::DroppedSets;
use crate::listener::{Events, Listener};
use crate::open;
use crate::sizes;

/// Where RocksDB moves the files that it cannot read.
const LOST: &str = "lost";
/// Longest key prefix of a block that is searched for; later bytes are ignored.
const KEY_BYTES_MAX: usize = 16 << 10;

/// The first key of the next block after the beginning of a range; `None` when there is none. A
/// block ends where the estimated size of the data before a key grows: RocksDB estimates it from
/// the index of each file, without reading the blocks.
pub(crate) fn next_block(db: &Db, table: Table, range: KeyRange<'_>) -> Result<Option<Vec<u8>>> {
    let lies_behind = |key: &[u8]| -> Result<bool> {
        if key >= range.upper {
            return Ok(true);
        }
        Ok(sizes::file_bytes(db, table, KeyRange::new(range.lower, key))? > 0)
    };
    if sizes::file_bytes(db, table, range)? == 0 {
        return Ok(None);
    }
    // The last key of the block, or a key between it and the next block: the longest string that is
    // not after the block, found byte by byte.
    let mut last = Vec::new();
    while last.len() < KEY_BYTES_MAX {
        // Bytes below `low` do not lead beyond the block, those from `high` on do.
        let (mut low, mut high) = (0u16, 256u16);
        while low < high {
            let middle = low.midpoint(high);
            last.push(u8::try_from(middle).unwrap_or(u8::MAX));
            let behind = lies_behind(&last)?;
            last.pop();
            match behind {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        match low.checked_sub(1).and_then(|byte| u8::try_from(byte).ok()) {
            Some(byte) => last.push(byte),
            None => break,
        }
    }
    last.push(0);
    Ok(Some(last).filter(|next| next.as_slice() < range.upper))
}

/// Makes the directory `to` from the readable part of a directory, without the tables that cannot
/// be read in full, and returns the options for opening it. The manifest is written again, so it
/// may be damaged or missing. With `live`, only these tables are included. Large documents, which
/// are outside of the tables, are not included.
///
/// # Errors
/// [`StorageError::Io`], [`StorageError::Corrupt`]
pub(crate) fn make_rest(
    config: &Config,
    to: &Path,
    live: Option<&[String]>,
    data_key: Option<&Arc<DataKey>>,
) -> Result<Config> {
    let fail = |error| StorageError::io(format!("cannot link files into {}", to.display()), error);
    fs::create_dir_all(to).map_err(fail)?;
    for entry in fs::read_dir(&config.path).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        let shown = name.to_string_lossy();
        let is_table = shown.ends_with(".sst");
        let is_wanted = match live {
            Some(live) if is_table => live.iter().any(|l| l.trim_start_matches('/') == shown),
            // Their content is in tables already.
            Some(_) => name == KEYS_FILE,
            None => is_table || shown.ends_with(".log") || name == KEYS_FILE,
        };
        if is_wanted {
            link_or_copy(&entry.path(), &to.join(&name)).map_err(fail)?;
        }
    }
    let events = Arc::new(Events::default());
    let dropped = DroppedSets::default();
    let mut built = config::build(config, &dropped, Listener(events));
    if let Some(data) = data_key {
        encrypt(&mut built.db, data);
    }
    let repaired = DB::repair(&built.db, to);
    repaired.map_err(|e| error::sort_open(to, e.into_string()))?;
    drop(built);
    open::mark(to)?;
    Ok(Config {
        path: to.to_owned(),
        create: false,
        delete_bytes_per_s: 0,
        ..config.clone()
    })
}

/// The tables that are in use.
pub(crate) fn live_tables(db: &Db) -> Result<Vec<String>> {
    let files = db.admin().live_files();
    let files = files.map_err(|e| error::sort("a list of files", e.into_string()))?;
    Ok(files.into_iter().map(|f| f.name).collect())
}

/// The tables that [`make_rest`] left out.
pub(crate) fn list_omitted_tables(of: &Path) -> Vec<String> {
    let entries = fs::read_dir(of.join(LOST)).into_iter().flatten().flatten();
    let names = entries.map(|e| e.file_name().to_string_lossy().into_owned());
    let mut tables: Vec<String> = names.filter(|name| name.ends_with(".sst")).collect();
    tables.sort();
    tables
}
