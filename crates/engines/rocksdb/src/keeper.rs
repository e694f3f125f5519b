//! The keeper: one slow thread that measures pressure for the gate, watches the free space, and resumes RocksDB after
//! a background error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rust_rocksdb::WriteBufferManager;
use storage::{Batch, BatchOp, Result, StorageError, Table};

use crate::config::Config;
use crate::ffi::Db;
use crate::flow::{Controller, Gate};
use crate::listener::Events;
use crate::space::Space;
use crate::stats;

const TICK_BUSY: Duration = Duration::from_millis(50);
const TICK_IDLE: Duration = Duration::from_millis(250);
const SPACE_EVERY: Duration = Duration::from_secs(1);

/// What the keeper publishes.
pub(crate) struct Watch {
    pub(crate) full: AtomicBool,
    pub(crate) free_bytes: AtomicU64,
    pub(crate) reserve_bytes: AtomicU64,
    pub(crate) pressure_permille: AtomicU64,
    pub(crate) resumes: AtomicU64,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self {
            full: AtomicBool::new(false),
            free_bytes: AtomicU64::new(u64::MAX),
            reserve_bytes: AtomicU64::new(0),
            pressure_permille: AtomicU64::new(0),
            resumes: AtomicU64::new(0),
        }
    }

    /// Refuses batches that add data while space is short. Deletes, catalog rows and log entries pass, so that space
    /// can be made.
    pub(crate) fn check_room(&self, batch: &Batch) -> Result<()> {
        if !self.full.load(Ordering::Relaxed) {
            return Ok(());
        }
        let grows = batch.iter().any(|op| {
            matches!(
                op,
                BatchOp::Put {
                    table: Table::Doc | Table::Idx | Table::Cap | Table::Tmp,
                    ..
                }
            )
        });
        if !grows {
            return Ok(());
        }
        let (free, reserve) = (
            self.free_bytes.load(Ordering::Relaxed),
            self.reserve_bytes.load(Ordering::Relaxed),
        );
        Err(StorageError::Full {
            context: format!("{} MB are free, {} MB must stay free", free >> 20, reserve >> 20),
        })
    }
}

/// Owns the thread.
pub(crate) struct Keeper {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread works with.
pub(crate) struct Charge {
    pub(crate) db: Arc<Db>,
    pub(crate) config: Config,
    pub(crate) gate: Arc<Gate>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) events: Arc<Events>,
    pub(crate) memtables: WriteBufferManager,
}

impl Keeper {
    pub(crate) fn start(charge: Charge) -> Result<Self> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let seen = Arc::clone(&stop);
        charge.look_at_space();
        let thread = std::thread::Builder::new()
            .name("quarry-keeper".to_owned())
            .spawn(move || charge.run(&seen))
            .map_err(|error| StorageError::io("cannot start the keeper thread", error))?;
        Ok(Self {
            stop,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(crate) fn stop(&self) {
        *self.stop.0.lock() = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            // A panicked keeper has nothing left to tell.
            let _ = thread.join();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Charge {
    fn run(&self, stop: &(Mutex<bool>, Condvar)) {
        let mut controller = Controller::new();
        let (mut last_bytes, mut last_tick, mut last_space) = (0, Instant::now(), Instant::now());
        let mut tick = TICK_IDLE;
        loop {
            {
                let mut stopping = stop.0.lock();
                if !*stopping {
                    stop.1.wait_for(&mut stopping, tick);
                }
                if *stopping {
                    return;
                }
            }
            let bytes = self.gate.admitted_bytes();
            let moved = bytes - last_bytes;
            last_bytes = bytes;
            let pressure = self.pressure();
            self.watch
                .pressure_permille
                .store((pressure * 1000.0) as u64, Ordering::Relaxed);
            let rate = controller.tick(pressure, moved, last_tick.elapsed().as_secs_f64());
            last_tick = Instant::now();
            self.gate.set_rate(rate);
            tick = if moved > 0 || rate > 0 { TICK_BUSY } else { TICK_IDLE };
            if last_space.elapsed() >= SPACE_EVERY {
                last_space = Instant::now();
                self.look_at_space();
                self.try_resume();
            }
        }
    }

    // The largest of all fill levels; 1 is where RocksDB's own brakes would come near.
    fn pressure(&self) -> f64 {
        let memory = self.memtables.get_usage() as f64 / (2 * self.config.write_buffer_bytes.max(1)) as f64;
        Table::ALL.iter().fold(memory, |worst, &table| {
            let load = stats::load(&self.db, table);
            worst
                .max(load.l0_files as f64 / (2 * Config::L0_SOFT) as f64)
                .max(load.immutable_memtables as f64 / f64::from(Config::MEMTABLES_MAX - 2))
                .max(load.pending_bytes as f64 / (2 * Config::PENDING_SOFT_BYTES) as f64)
        })
    }

    fn look_at_space(&self) {
        let Ok(space) = Space::of(&self.config.path) else {
            return;
        };
        let reserve = space.reserve_bytes(self.config.free_bytes_min, self.config.free_percent_min);
        self.watch.free_bytes.store(space.free_bytes, Ordering::Relaxed);
        self.watch.reserve_bytes.store(reserve, Ordering::Relaxed);
        self.watch.full.store(space.free_bytes < reserve, Ordering::Relaxed);
    }

    // RocksDB resumes by itself after most ENOSPC errors; this covers the rest, once there is room again.
    fn try_resume(&self) {
        if self.events.background_error().is_none() || self.watch.full.load(Ordering::Relaxed) {
            return;
        }
        if self.db.admin().resume().is_ok() {
            self.events.clear_background_error();
            self.watch.resumes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_space_refuses_growth_and_allows_making_room() {
        let watch = Watch::new();
        let mut grow = Batch::new();
        grow.put(Table::Doc, b"\0\0\0\x01k", b"v");
        assert!(watch.check_room(&grow).is_ok());
        watch.full.store(true, Ordering::Relaxed);
        watch.free_bytes.store(100 << 20, Ordering::Relaxed);
        watch.reserve_bytes.store(256 << 20, Ordering::Relaxed);
        let error = watch.check_room(&grow).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no space left for growing writes: 100 MB are free, 256 MB must stay free"
        );
        let mut shrink = Batch::new();
        shrink.delete(Table::Doc, b"\0\0\0\x01k");
        shrink.put(Table::Meta, b"d|1", b"dropped");
        shrink.add(Table::Meta, b"n|1", [-1, -1]);
        assert!(watch.check_room(&shrink).is_ok());
    }
}
