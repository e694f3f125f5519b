//! LMDB, a copy-on-write B-tree in a memory map, as a target of the lab.
//!
//! Promises: one database of bytes; a batch is one transaction, and there is one writer at a time;
//! unsynced commits reach storage once a second. Must not know: rows, workloads.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, WithoutTls};
use lab_kit::engine::{
    BackgroundFlush, Durability, EngineError, EngineOptions, EngineSession, KeyChange, LabEngine,
    RowVisitor,
};
use lab_kit::target::SettleResult;
use lab_kit::workload::Capability;

/// The default size of the map, which is address space and not memory. `map=SIZE` changes it.
const MAP_BYTES: u64 = 1 << 40;
const READERS_MAX: u32 = 8_192;

/// Opens an environment in a directory. LMDB has no cache of its own: it uses the system's page
/// cache, and `cache` is ignored.
///
/// # Errors
/// The directory cannot be used, or a parameter is unknown.
pub fn open(mut options: EngineOptions) -> Result<Box<dyn LabEngine>, EngineError> {
    let map_bytes = options.take_bytes("map")?.unwrap_or(MAP_BYTES);
    let reads_ahead = options.take_one_of("readahead", &["off", "on"])? == "on";
    options.check_all_taken("map, readahead (on, off)")?;
    let mut builder = EnvOpenOptions::new().read_txn_without_tls();
    builder.map_size(usize::try_from(map_bytes).unwrap_or(usize::MAX));
    builder.max_readers(READERS_MAX);
    let read_ahead = if reads_ahead {
        EnvFlags::empty()
    } else {
        EnvFlags::NO_READ_AHEAD
    };
    // SAFETY: NO_SYNC leaves the order of writes to the system, so that a crash of the machine may
    // damage the file. The lab can make its data again, and the result names the durability.
    // NO_READ_AHEAD only advises the system.
    unsafe { builder.flags(EnvFlags::NO_SYNC | read_ahead) };
    // SAFETY: the directory belongs to the lab (its mark was checked or made), so that no other
    // program changes the mapped file.
    let env = unsafe { builder.open(&options.path) }.map_err(EngineError::of)?;
    let mut write = env.write_txn().map_err(EngineError::of)?;
    let rows = env
        .create_database(&mut write, None)
        .map_err(EngineError::of)?;
    write.commit().map_err(EngineError::of)?;
    let shared = Arc::new(Shared {
        env,
        rows,
        always_sync: options.durability == Durability::Sync,
        is_dirty: AtomicBool::new(false),
    });
    let flush = (options.durability == Durability::Lazy).then(|| {
        let flushed = shared.clone();
        BackgroundFlush::start(move || flushed.flush())
    });
    Ok(Box::new(Lmdb {
        shared,
        _flush: flush,
        reads_ahead,
    }))
}

struct Shared {
    env: Env<WithoutTls>,
    rows: Database<Bytes, Bytes>,
    always_sync: bool,
    is_dirty: AtomicBool,
}

impl Shared {
    fn flush(&self) {
        if self.is_dirty.swap(false, Ordering::AcqRel) {
            let _ = self.env.force_sync();
        }
    }
}

struct Lmdb {
    shared: Arc<Shared>,
    _flush: Option<BackgroundFlush>,
    reads_ahead: bool,
}

impl Drop for Lmdb {
    fn drop(&mut self) {
        let _ = self.shared.env.force_sync();
    }
}

impl LabEngine for Lmdb {
    fn name(&self) -> String {
        let read_ahead = if self.reads_ahead {
            "the system's read-ahead"
        } else {
            "no read-ahead"
        };
        format!("LMDB 0.9, page cache of the system, {read_ahead}")
    }

    fn unsupported(&self) -> &'static [Capability] {
        &[Capability::Merge, Capability::Capped]
    }

    fn session(&self) -> Result<Box<dyn EngineSession>, EngineError> {
        Ok(Box::new(Session(self.shared.clone())))
    }

    fn settle(&self, _: Duration) -> SettleResult {
        SettleResult::after_sync(self.shared.env.force_sync())
    }

    fn statistics(&self) -> serde_json::Value {
        let info = self.shared.env.info();
        let stat = self
            .shared
            .env
            .read_txn()
            .ok()
            .and_then(|read| self.shared.rows.stat(&read).ok());
        serde_json::json!({
            "last_page_number": info.last_page_number,
            "last_transaction": info.last_txn_id,
            "depth": stat.as_ref().map(|stat| stat.depth),
            "branch_pages": stat.as_ref().map(|stat| stat.branch_pages),
            "leaf_pages": stat.as_ref().map(|stat| stat.leaf_pages),
            "overflow_pages": stat.as_ref().map(|stat| stat.overflow_pages),
            "entries": stat.as_ref().map(|stat| stat.entries),
        })
    }
}

struct Session(Arc<Shared>);

impl EngineSession for Session {
    fn write(&mut self, batch: &[KeyChange], sync: bool) -> Result<(), EngineError> {
        let shared = &self.0;
        let mut write = shared.env.write_txn().map_err(EngineError::of)?;
        for change in batch {
            match change {
                KeyChange::Put(key, value) => shared
                    .rows
                    .put(&mut write, key, value)
                    .map_err(EngineError::of)?,
                KeyChange::Delete(key) => {
                    shared
                        .rows
                        .delete(&mut write, key)
                        .map_err(EngineError::of)?;
                }
                KeyChange::Merge(..) => return Err(EngineError("LMDB has no merge".to_owned())),
            }
        }
        write.commit().map_err(EngineError::of)?;
        if sync || shared.always_sync {
            return shared.env.force_sync().map_err(EngineError::of);
        }
        shared.is_dirty.store(true, Ordering::Release);
        Ok(())
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, EngineError> {
        let read = self.0.env.read_txn().map_err(EngineError::of)?;
        let Some(found) = self.0.rows.get(&read, key).map_err(EngineError::of)? else {
            return Ok(false);
        };
        out.clear();
        out.extend_from_slice(found);
        Ok(true)
    }

    fn scan(
        &mut self,
        from: &[u8],
        end: &[u8],
        reverse: bool,
        visit: RowVisitor<'_>,
    ) -> Result<(), EngineError> {
        let read = self.0.env.read_txn().map_err(EngineError::of)?;
        // LMDB does not accept an empty key, not even as a bound.
        let first = if from.is_empty() {
            Bound::Unbounded
        } else {
            Bound::Included(from)
        };
        let bounds = (first, Bound::Excluded(end));
        let mut walk = |entry: heed::Result<(&[u8], &[u8])>| {
            let (key, value) = entry.map_err(EngineError::of)?;
            Ok::<bool, EngineError>(visit(key, value))
        };
        if reverse {
            for entry in self
                .0
                .rows
                .rev_range(&read, &bounds)
                .map_err(EngineError::of)?
            {
                if !walk(entry)? {
                    break;
                }
            }
        } else {
            for entry in self.0.rows.range(&read, &bounds).map_err(EngineError::of)? {
                if !walk(entry)? {
                    break;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use lab_kit::engine::EngineOptions;

    #[test]
    fn read_ahead_is_a_choice_that_the_name_tells() {
        for (choice, words) in [("on", "the system's read-ahead"), ("off", "no read-ahead")] {
            let directory = tempfile::tempdir().unwrap();
            let address = format!("{}?readahead={choice}&map=1G", directory.path().display());
            let engine = super::open(EngineOptions::parse(&address).unwrap()).unwrap();
            assert!(engine.name().contains(words), "{}", engine.name());
        }
        let refused = super::open(EngineOptions::parse("x?readahead=much").unwrap());
        assert!(refused.err().unwrap().to_string().contains("'much'"));
    }

    #[test]
    fn passes_the_engine_contract() {
        let directory = tempfile::tempdir().unwrap();
        lab_kit::engine::contract::check(directory.path(), &super::open);
    }
}
