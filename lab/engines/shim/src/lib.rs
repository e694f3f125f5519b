//! Engines whose C interface is a structure of functions that differs by version: an adapter in C
//! is compiled against the header of the user's own library when the engine is opened, and talks to
//! the lab in functions that never change (`adapter.h`).
//!
//! Promises: one clear line when compiler, header or library is absent; a session per thread; a
//! batch is a transaction, tried again when the engine says so; unsynced commits reach storage once
//! a second where a log is kept. Must not know: which engine it is, rows, workloads.

mod compile;
mod functions;
mod session;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lab_kit::engine::{Counters, Durability, Engine, EngineError, EngineOptions, EngineSession};
use lab_kit::target::Rest;
use lab_kit::workload::Need;

pub use compile::load;
use functions::{Functions, Opaque};
use session::Session;

const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// The engine is asked this often whether it is at rest.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// It is at rest if it was so at this many looks in a row.
const LOOKS: u32 = 5;

/// What the engine counts, by its own names.
pub type Statistics = BTreeMap<String, f64>;

/// What an adapter is made of.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The engine in words, for messages.
    pub engine: &'static str,
    /// The adapter's text in C.
    pub source: &'static str,
    /// The directory of the header; the compiler's own places without it.
    pub include: Option<String>,
    /// The shared library: a path, or a name that the linker finds.
    pub library: String,
    /// What to do when it cannot be made.
    pub advice: &'static str,
}

impl Recipe {
    /// With the header and library that an address names by `include` and `library`.
    pub fn of(
        options: &mut EngineOptions,
        engine: &'static str,
        source: &'static str,
        library: &str,
        advice: &'static str,
    ) -> Self {
        let include = options.take("include");
        let library = options
            .take("library")
            .unwrap_or_else(|| library.to_owned());
        Self {
            engine,
            source,
            include,
            library,
            advice,
        }
    }
}

/// What differs by engine beyond its adapter.
#[derive(Clone, Debug)]
pub struct Manner {
    /// The settings that matter, in words.
    pub about: String,
    /// When commits are durable.
    pub durability: Durability,
    /// Whether there is a log; without one a synced commit is a checkpoint.
    pub has_log: bool,
    /// Whether work is under way in the background, told from statistics then and now.
    pub is_busy: fn(&Statistics, &Statistics) -> bool,
    /// The figures that all engines share.
    pub counters: fn(&Statistics) -> Counters,
}

/// Compiles the adapter, loads it and opens the engine with `settings`, pairs that the adapter
/// understands.
///
/// # Errors
/// There is no compiler, header or library, or the engine refuses.
pub fn open(
    recipe: &Recipe,
    directory: &Path,
    settings: &[(&str, String)],
    manner: Manner,
) -> Result<Box<dyn Engine>, EngineError> {
    let functions = Functions::of(load(recipe)?).map_err(|reason| recipe.failed(&reason))?;
    let path = CString::new(directory.as_os_str().as_bytes()).map_err(EngineError::of)?;
    let mut words = Vec::new();
    for (name, value) in settings {
        words.push(CString::new(*name).map_err(EngineError::of)?);
        words.push(CString::new(value.as_str()).map_err(EngineError::of)?);
    }
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(ptr::null());
    let (mut handle, mut said) = (ptr::null_mut(), [0_u8; 512]);
    // SAFETY: path and options end as the adapter expects and live through the call; the
    // out-pointers are valid, and the buffer has the length given, less the zero that stays at its
    // end.
    let status = unsafe {
        (functions.open)(
            path.as_ptr(),
            pointers.as_ptr(),
            &mut handle,
            said.as_mut_ptr().cast(),
            said.len() - 1,
        )
    };
    if status != 0 {
        let length = said
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(said.len());
        let said = String::from_utf8_lossy(said.get(..length).unwrap_or_default()).into_owned();
        let text = functions.text(status);
        return Err(EngineError(format!(
            "{} cannot be opened: {text}{}{said}",
            recipe.engine,
            if said.is_empty() { "" } else { "; " }
        )));
    }
    let name = format!(
        "{} {}, {}",
        recipe.engine,
        functions.version(),
        manner.about
    );
    let shared = Arc::new(Shared {
        functions,
        handle,
        manner,
        name,
        stop: Mutex::new(false),
        stopped: Condvar::new(),
    });
    let flusher = if shared.manner.has_log && shared.manner.durability == Durability::Lazy {
        let session = Session::open(shared.clone())?;
        Some(std::thread::spawn(move || session.flush_now_and_then()))
    } else {
        None
    };
    Ok(Box::new(Shim { shared, flusher }))
}

/// The open engine; closed when its last session is gone.
struct Shared {
    functions: Functions,
    handle: *mut Opaque,
    manner: Manner,
    name: String,
    stop: Mutex<bool>,
    stopped: Condvar,
}

// SAFETY: the handle is the adapter's, whose engine-wide functions may be called from every thread.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the handle is open, every session is closed (each holds an `Arc` of this), and it
        // is not used again.
        unsafe { (self.functions.close)(self.handle) };
    }
}

struct Shim {
    shared: Arc<Shared>,
    flusher: Option<JoinHandle<()>>,
}

impl Drop for Shim {
    fn drop(&mut self) {
        *self
            .shared
            .stop
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.stopped.notify_all();
        if let Some(flusher) = self.flusher.take() {
            let _ = flusher.join();
        }
    }
}

impl Shim {
    fn look(&self) -> Result<Statistics, EngineError> {
        Session::open(self.shared.clone())?.statistics()
    }
}

impl Engine for Shim {
    fn name(&self) -> String {
        self.shared.name.clone()
    }

    fn lacks(&self) -> &'static [Need] {
        &[Need::Merge, Need::Capped]
    }

    fn session(&self) -> Result<Box<dyn EngineSession>, EngineError> {
        Ok(Box::new(Session::open(self.shared.clone())?))
    }

    fn settle(&self, patience: Duration) -> Rest {
        let begun = Instant::now();
        match self.rest(begun, patience) {
            Ok(true) => Rest {
                quiet: true,
                remark: format!(
                    "checkpoint made, at rest after {:.1} s",
                    begun.elapsed().as_secs_f64()
                ),
            },
            Ok(false) => Rest {
                quiet: false,
                remark: "still at work in the background".to_owned(),
            },
            Err(error) => Rest {
                quiet: false,
                remark: error.to_string(),
            },
        }
    }

    fn statistics(&self) -> serde_json::Value {
        match self.look() {
            Ok(found) => found
                .into_iter()
                .map(|(name, value)| (name, number(value)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            Err(error) => serde_json::json!({ "unknown": error.to_string() }),
        }
    }

    fn counters(&self) -> Counters {
        self.look().map_or_else(
            |_| Counters::default(),
            |found| (self.shared.manner.counters)(&found),
        )
    }

    fn debt_bytes(&self) -> Option<u64> {
        self.counters().debt_bytes
    }
}

impl Shim {
    fn rest(&self, begun: Instant, patience: Duration) -> Result<bool, EngineError> {
        let session = Session::open(self.shared.clone())?;
        session.checkpoint()?;
        let mut before = session.statistics()?;
        let mut quiet_looks = 0;
        while quiet_looks < LOOKS {
            if begun.elapsed() >= patience {
                return Ok(false);
            }
            std::thread::sleep(LOOK_EVERY);
            let now = session.statistics()?;
            quiet_looks = if (self.shared.manner.is_busy)(&before, &now) {
                0
            } else {
                quiet_looks + 1
            };
            before = now;
        }
        Ok(true)
    }
}

/// Whole numbers without a decimal point.
fn number(value: f64) -> serde_json::Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        (value as i64).into()
    } else {
        value.into()
    }
}

/// A statistic as a count, if it is there and not negative.
pub fn count(statistics: &Statistics, name: &str) -> Option<u64> {
    statistics
        .get(name)
        .filter(|value| **value >= 0.0)
        .map(|value| *value as u64)
}
