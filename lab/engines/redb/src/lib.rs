//! redb, a copy-on-write B-tree in one file, as a target of the lab.
//!
//! Promises: one table of bytes; a batch is one transaction; unsynced commits reach storage once a
//! second. Must not know: rows, workloads.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lab_kit::engine::{
    BackgroundFlush, Durability, EngineError, EngineOptions, EngineSession, KeyChange, LabEngine,
    RowVisitor,
};
use lab_kit::target::SettleResult;
use lab_kit::workload::Capability;
use redb::{Database, ReadableDatabase, ReadableTableMetadata, TableDefinition};

const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("rows");
const FILE: &str = "data.redb";

/// Opens a database below a directory.
///
/// # Errors
/// The file cannot be made or is damaged, or a parameter is unknown.
pub fn open(options: EngineOptions) -> Result<Box<dyn LabEngine>, EngineError> {
    options.check_all_taken("")?;
    let cache = usize::try_from(options.cache_bytes).unwrap_or(usize::MAX);
    let database = Database::builder()
        .set_cache_size(cache)
        .create(file(&options.path))
        .map_err(EngineError::of)?;
    let begin = database.begin_write().map_err(EngineError::of)?;
    begin.open_table(TABLE).map_err(EngineError::of)?;
    begin.commit().map_err(EngineError::of)?;
    let shared = Arc::new(Shared {
        database,
        always_sync: options.durability == Durability::Sync,
        is_dirty: AtomicBool::new(false),
    });
    let flushed = shared.clone();
    let flush = BackgroundFlush::start(move || {
        let _ = flushed.flush();
    });
    Ok(Box::new(Redb {
        shared,
        cache_bytes: options.cache_bytes,
        _flush: flush,
    }))
}

fn file(directory: &Path) -> std::path::PathBuf {
    directory.join(FILE)
}

struct Shared {
    database: Database,
    always_sync: bool,
    is_dirty: AtomicBool,
}

impl Shared {
    fn flush(&self) -> Result<(), EngineError> {
        if self.is_dirty.swap(false, Ordering::AcqRel) {
            let write = self.database.begin_write().map_err(EngineError::of)?;
            write.commit().map_err(EngineError::of)?;
        }
        Ok(())
    }
}

struct Redb {
    shared: Arc<Shared>,
    cache_bytes: u64,
    /// redb keeps pages of unsynced commits until a synced commit follows.
    _flush: BackgroundFlush,
}

impl LabEngine for Redb {
    fn name(&self) -> String {
        format!("redb 4, cache {} MiB", self.cache_bytes >> 20)
    }

    fn unsupported(&self) -> &'static [Capability] {
        &[Capability::Merge, Capability::Capped]
    }

    fn session(&self) -> Result<Box<dyn EngineSession>, EngineError> {
        Ok(Box::new(Session(self.shared.clone())))
    }

    fn settle(&self, _: Duration) -> SettleResult {
        SettleResult::after_sync(self.shared.flush())
    }

    fn statistics(&self) -> serde_json::Value {
        let cache = self.shared.database.cache_stats();
        let stats = self
            .shared
            .database
            .begin_read()
            .ok()
            .and_then(|read| read.open_table(TABLE).ok()?.stats().ok());
        serde_json::json!({
            "cache_used_bytes": cache.used_bytes(),
            "cache_evictions": cache.evictions(),
            "tree_height": stats.as_ref().map(redb::TableStats::tree_height),
            "leaf_pages": stats.as_ref().map(redb::TableStats::leaf_pages),
            "stored_bytes": stats.as_ref().map(redb::TableStats::stored_bytes),
            "fragmented_bytes": stats.as_ref().map(redb::TableStats::fragmented_bytes),
        })
    }
}

struct Session(Arc<Shared>);

impl EngineSession for Session {
    fn write(&mut self, batch: &[KeyChange], sync: bool) -> Result<(), EngineError> {
        let mut write = self.0.database.begin_write().map_err(EngineError::of)?;
        if !(sync || self.0.always_sync) {
            write
                .set_durability(redb::Durability::None)
                .map_err(EngineError::of)?;
        }
        {
            let mut table = write.open_table(TABLE).map_err(EngineError::of)?;
            for change in batch {
                match change {
                    KeyChange::Put(key, value) => {
                        table
                            .insert(key.as_slice(), value.as_slice())
                            .map_err(EngineError::of)?;
                    }
                    KeyChange::Delete(key) => {
                        table.remove(key.as_slice()).map_err(EngineError::of)?;
                    }
                    KeyChange::Merge(..) => {
                        return Err(EngineError("redb has no merge".to_owned()));
                    }
                }
            }
        }
        write.commit().map_err(EngineError::of)?;
        self.0.is_dirty.store(true, Ordering::Release);
        Ok(())
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, EngineError> {
        let read = self.0.database.begin_read().map_err(EngineError::of)?;
        let table = read.open_table(TABLE).map_err(EngineError::of)?;
        let Some(found) = table.get(key).map_err(EngineError::of)? else {
            return Ok(false);
        };
        out.clear();
        out.extend_from_slice(found.value());
        Ok(true)
    }

    fn scan(
        &mut self,
        from: &[u8],
        end: &[u8],
        reverse: bool,
        visit: RowVisitor<'_>,
    ) -> Result<(), EngineError> {
        let read = self.0.database.begin_read().map_err(EngineError::of)?;
        let table = read.open_table(TABLE).map_err(EngineError::of)?;
        let mut range = table.range(from..end).map_err(EngineError::of)?;
        while let Some(entry) = if reverse {
            range.next_back()
        } else {
            range.next()
        } {
            let (key, value) = entry.map_err(EngineError::of)?;
            if !visit(key.value(), value.value()) {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn passes_the_engine_contract() {
        let directory = tempfile::tempdir().unwrap();
        lab_kit::engine::contract::check(directory.path(), &super::open);
    }
}
