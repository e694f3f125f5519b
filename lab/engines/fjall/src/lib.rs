//! fjall, a log-structured merge tree in Rust, as a target of the lab.
//!
//! Promises: one keyspace of bytes; a batch is one journal record. Must not know: rows, workloads.

use std::time::Duration;

use fjall::{Database, Guard, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode};
use lab_kit::engine::{
    BackgroundFlush, Counters, Durability, EngineError, EngineOptions, EngineSession, KeyChange,
    LabEngine, RowVisitor, wait_until_idle,
};
use lab_kit::target::SettleResult;
use lab_kit::workload::Capability;

const KEYSPACE: &str = "rows";
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Opens a database in a directory. `blobs=true` stores large values separately from keys.
///
/// # Errors
/// The directory cannot be used, or a parameter is unknown.
pub fn open(mut options: EngineOptions) -> Result<Box<dyn LabEngine>, EngineError> {
    let blobs = options.take_bool("blobs")?;
    options.check_all_taken("blobs")?;
    let database = Database::builder(&options.path)
        .cache_size(options.cache_bytes)
        .open()
        .map_err(EngineError::of)?;
    let create = || {
        let options = KeyspaceCreateOptions::default();
        if blobs {
            options.with_kv_separation(Some(KvSeparationOptions::default()))
        } else {
            options
        }
    };
    let rows = database
        .keyspace(KEYSPACE, create)
        .map_err(EngineError::of)?;
    let lazy = database.clone();
    let flush = (options.durability == Durability::Lazy).then(|| {
        BackgroundFlush::start(move || {
            // The next synced write reports a failed flush.
            let _ = lazy.persist(PersistMode::SyncData);
        })
    });
    Ok(Box::new(Fjall {
        _flush: flush,
        database,
        rows,
        durability: options.durability,
        about: format!(
            "cache {} MiB{}",
            options.cache_bytes >> 20,
            if blobs { ", blobs" } else { "" }
        ),
    }))
}

struct Fjall {
    /// Declared before the database, so that it is dropped and flushes first.
    _flush: Option<BackgroundFlush>,
    database: Database,
    rows: Keyspace,
    durability: Durability,
    about: String,
}

impl LabEngine for Fjall {
    fn name(&self) -> String {
        format!("fjall 3, {}", self.about)
    }

    fn unsupported(&self) -> &'static [Capability] {
        &[Capability::Merge, Capability::Capped]
    }

    fn session(&self) -> Result<Box<dyn EngineSession>, EngineError> {
        Ok(Box::new(Session {
            database: self.database.clone(),
            rows: self.rows.clone(),
            durability: self.durability,
        }))
    }

    fn settle(&self, timeout: Duration) -> SettleResult {
        let rotated = self.rows.rotate_memtable_and_wait();
        let waited = rotated.map_err(EngineError::of).and_then(|()| {
            wait_until_idle(timeout, POLL_INTERVAL, || {
                Ok(self.database.outstanding_flushes() == 0
                    && self.database.active_compactions() == 0)
            })
        });
        SettleResult::after_compaction(waited)
    }

    fn statistics(&self) -> serde_json::Value {
        serde_json::json!({
            "tables": self.rows.table_count(),
            "tables_in_level_0": self.rows.l0_table_count(),
            "blob_files": self.rows.blob_file_count(),
            "disk_space_bytes": self.database.disk_space().ok(),
            "journals": self.database.journal_count(),
            "write_buffer_bytes": self.database.write_buffer_size(),
            "cache_used_bytes": self.database.cache_size(),
            "compactions_completed": self.database.compactions_completed(),
            "compacting_seconds": self.database.time_compacting().as_secs_f64(),
        })
    }

    fn counters(&self) -> Counters {
        Counters {
            debt_bytes: Some(self.database.write_buffer_size()),
            ..Counters::default()
        }
    }
}

struct Session {
    database: Database,
    rows: Keyspace,
    durability: Durability,
}

impl EngineSession for Session {
    fn write(&mut self, changes: &[KeyChange], sync: bool) -> Result<(), EngineError> {
        let mode = match self.durability {
            _ if sync => Some(PersistMode::SyncData),
            Durability::Sync => Some(PersistMode::SyncData),
            Durability::Lazy => Some(PersistMode::Buffer),
            // fjall always writes its journal; without durability it only skips passing the journal
            // to the system.
            Durability::None => None,
        };
        let mut batch = self.database.batch().durability(mode);
        for change in changes {
            match change {
                KeyChange::Put(key, value) => {
                    batch.insert(&self.rows, key.as_slice(), value.as_slice())
                }
                KeyChange::Delete(key) => batch.remove(&self.rows, key.as_slice()),
                KeyChange::Merge(..) => return Err(EngineError("fjall has no merge".to_owned())),
            }
        }
        batch.commit().map_err(EngineError::of)
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, EngineError> {
        let Some(found) = self.rows.get(key).map_err(EngineError::of)? else {
            return Ok(false);
        };
        out.clear();
        out.extend_from_slice(&found);
        Ok(true)
    }

    fn scan(
        &mut self,
        from: &[u8],
        end: &[u8],
        reverse: bool,
        visit: RowVisitor<'_>,
    ) -> Result<(), EngineError> {
        let mut range = self.rows.range(from..end);
        let mut next = || {
            if reverse {
                range.next_back()
            } else {
                range.next()
            }
        };
        while let Some(entry) = next() {
            let (key, value) = Guard::into_inner(entry).map_err(EngineError::of)?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use lab_kit::engine::contract;

    #[test]
    fn passes_the_engine_contract() {
        let directory = tempfile::tempdir().unwrap();
        contract::check(directory.path(), &super::open);
    }

    #[test]
    fn passes_it_with_blobs() {
        let directory = tempfile::tempdir().unwrap();
        contract::check_with(directory.path(), "blobs=true", &super::open);
    }
}
