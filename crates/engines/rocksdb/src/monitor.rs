//! The monitor: a thread that measures write pressure for admission control, measures the free
//! space while nobody writes, and resumes RocksDB after a background error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rust_rocksdb::WriteBufferManager;
use storage::{Result, StorageError, Table};

use crate::admission::{Admission, Controller};
use crate::config::Config;
use crate::ffi::Db;
use crate::listener::Events;
use crate::load;
use crate::space::Guard;

const TICK_BUSY: Duration = Duration::from_millis(50);
const TICK_IDLE: Duration = Duration::from_millis(250);
const SPACE_EVERY: Duration = Duration::from_secs(1);

/// Values that the monitor publishes.
pub(crate) struct MonitorStats {
    pub(crate) pressure_permille: AtomicU64,
    pub(crate) resumes: AtomicU64,
}

impl MonitorStats {
    pub(crate) fn new() -> Self {
        Self {
            pressure_permille: AtomicU64::new(0),
            resumes: AtomicU64::new(0),
        }
    }
}

/// The owner of the thread.
pub(crate) struct Monitor {
    stop: Arc<StopFlag>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Tells the thread to end.
#[derive(Default)]
struct StopFlag {
    is_set: Mutex<bool>,
    changed: Condvar,
}

/// The sources and controls of the thread.
pub(crate) struct Inputs {
    pub(crate) db: Arc<Db>,
    pub(crate) config: Config,
    pub(crate) admission: Arc<Admission>,
    pub(crate) stats: Arc<MonitorStats>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) events: Arc<Events>,
    pub(crate) memtables: WriteBufferManager,
}

impl Monitor {
    pub(crate) fn start(inputs: Inputs) -> Result<Self> {
        let stop = Arc::new(StopFlag::default());
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("quarry-monitor".to_owned())
            .spawn(move || inputs.run(&seen))
            .map_err(|error| StorageError::io("cannot start the monitor thread", error))?;
        Ok(Self {
            stop,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(crate) fn stop(&self) {
        *self.stop.is_set.lock() = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            // The thread's panic hook has reported a panic.
            let _ = thread.join();
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Inputs {
    fn run(&self, stop: &StopFlag) {
        let mut controller = Controller::new();
        let (mut last_bytes, mut last_tick, mut last_space) = (0, Instant::now(), Instant::now());
        let mut tick = TICK_IDLE;
        loop {
            {
                let mut stopping = stop.is_set.lock();
                if !*stopping {
                    stop.changed.wait_for(&mut stopping, tick);
                }
                if *stopping {
                    return;
                }
            }
            let bytes = self.admission.admitted_bytes();
            let moved = bytes - last_bytes;
            last_bytes = bytes;
            let pressure = self.pressure();
            self.stats
                .pressure_permille
                .store((pressure * 1000.0) as u64, Ordering::Relaxed);
            let rate = controller.tick(pressure, moved, last_tick.elapsed().as_secs_f64());
            last_tick = Instant::now();
            self.admission.set_rate(rate);
            tick = if moved > 0 || rate > 0 {
                TICK_BUSY
            } else {
                TICK_IDLE
            };
            if last_space.elapsed() >= SPACE_EVERY {
                last_space = Instant::now();
                self.guard.measure();
                self.try_resume();
            }
        }
    }

    // The highest of all fill levels; at 1 RocksDB itself would soon delay writers.
    fn pressure(&self) -> f64 {
        let memory =
            self.memtables.get_usage() as f64 / (2 * self.config.write_buffer_bytes.max(1)) as f64;
        Table::ALL.iter().fold(memory, |worst, &table| {
            let load = load::of(&self.db, table);
            worst
                .max(load.l0_files as f64 / (2 * Config::L0_SOFT) as f64)
                .max(load.immutable_memtables as f64 / f64::from(Config::MEMTABLES_MAX - 2))
                .max(load.pending_bytes as f64 / (2 * Config::PENDING_SOFT_BYTES) as f64)
        })
    }

    // RocksDB resumes by itself after most ENOSPC errors; this covers the rest. It also runs while
    // growth is refused: the free space may be enough for the deletes that end that.
    fn try_resume(&self) {
        if self.events.background_error().is_none() {
            return;
        }
        if self.db.admin().resume().is_ok() {
            self.events.clear_background_error();
            self.stats.resumes.fetch_add(1, Ordering::Relaxed);
        }
    }
}
