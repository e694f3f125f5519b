//! The settings of `ForestDB` in an address, and the engine's settings structure if one is needed.

use std::ffi::{CString, c_uint, c_ulonglong};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;

use lab_kit::engine::{EngineError, EngineOptions};
use lab_shim::AdapterSpec;

use crate::library::Opaque;

const ADAPTER: &str = include_str!("adapter.c");
const ADVICE: &str = "a threshold needs a C compiler and libforestdb/forestdb.h below \
    ?include=DIR, beside library=PATH";
const PARAMETERS: &str = "library, include, threshold (1 to 99), files (1 to 256)";
const FILES_MAX: usize = 256;
/// The interval of the compactor's checks in seconds, as in the study of 2015; the engine's default
/// is eight hours.
const SLEEP_SECONDS: c_uint = 15;

/// The parsed settings of an address.
pub(crate) struct Settings {
    pub(crate) library: String,
    include: Option<String>,
    threshold: Option<u8>,
    files: usize,
    cache_bytes: u64,
    path: PathBuf,
}

/// The settings in the library's form.
pub(crate) struct ResolvedSettings {
    pub(crate) library: String,
    pub(crate) about: String,
    pub(crate) paths: Vec<CString>,
    config: Option<Config>,
}

struct Config {
    pointer: *mut Opaque,
    adapter: libloading::Library,
}

// SAFETY: after its creation the structure is only read.
unsafe impl Send for Config {}
// SAFETY: as above.
unsafe impl Sync for Config {}

impl Drop for Config {
    fn drop(&mut self) {
        // SAFETY: the type is the adapter's.
        if let Ok(free) = unsafe {
            self.adapter
                .get::<unsafe extern "C" fn(*mut Opaque)>(b"lab_config_free\0")
        } {
            // SAFETY: the structure came from the adapter and is freed once.
            unsafe { free(self.pointer) };
        }
    }
}

impl Settings {
    /// Takes the engine's settings out of `given` and refuses all others.
    pub(crate) fn take(mut given: EngineOptions) -> Result<Self, EngineError> {
        let number = |given: &mut EngineOptions, name: &str, most: usize| match given.take(name) {
            None => Ok(None),
            Some(text) => match text.parse::<usize>() {
                Ok(number) if (1..=most).contains(&number) => Ok(Some(number)),
                _ => Err(EngineError(format!(
                    "{name} is '{text}'; allowed is {PARAMETERS}"
                ))),
            },
        };
        let out = Self {
            library: given
                .take("library")
                .unwrap_or_else(|| "libforestdb.so".to_owned()),
            include: given.take("include"),
            threshold: number(&mut given, "threshold", 99)?
                .and_then(|percent| u8::try_from(percent).ok()),
            files: number(&mut given, "files", FILES_MAX)?.unwrap_or(1),
            cache_bytes: given.cache_bytes,
            path: given.path.clone(),
        };
        given.check_all_taken(PARAMETERS)?;
        Ok(out)
    }

    /// Makes the settings structure, if one is needed.
    pub(crate) fn resolve(self) -> Result<ResolvedSettings, EngineError> {
        let config = self
            .threshold
            .map(|threshold| self.config(threshold))
            .transpose()?;
        let path = |number: usize| {
            let name = if self.files == 1 {
                "data.fdb".to_owned()
            } else {
                format!("data-{number}.fdb")
            };
            CString::new(self.path.join(name).as_os_str().as_bytes()).map_err(EngineError::of)
        };
        let compaction = match self.threshold {
            Some(percent) => format!(
                "files compacted above {percent} % of garbage, cache {} MiB",
                self.cache_bytes >> 20
            ),
            None => "default settings".to_owned(),
        };
        Ok(ResolvedSettings {
            about: if self.files == 1 {
                compaction
            } else {
                format!("{compaction}, {} files", self.files)
            },
            paths: (0..self.files).map(path).collect::<Result<_, _>>()?,
            library: self.library,
            config,
        })
    }

    fn config(&self, threshold: u8) -> Result<Config, EngineError> {
        let adapter_spec = AdapterSpec {
            engine: "ForestDB",
            source: ADAPTER,
            include: self.include.clone(),
            library: self.library.clone(),
            advice: ADVICE,
        };
        let adapter = lab_shim::load(&adapter_spec)?;
        // SAFETY: the type is that of the adapter's source.
        let resolve = unsafe {
            adapter.get::<unsafe extern "C" fn(c_ulonglong, c_uint, c_uint) -> *mut Opaque>(
                b"lab_config\0",
            )
        };
        let resolve = *resolve.map_err(EngineError::of)?;
        // SAFETY: the function accepts any numbers.
        let pointer = unsafe { resolve(self.cache_bytes, c_uint::from(threshold), SLEEP_SECONDS) };
        if pointer.is_null() {
            return Err(EngineError("no memory for ForestDB's settings".to_owned()));
        }
        Ok(Config { pointer, adapter })
    }
}

impl ResolvedSettings {
    /// The argument for `fdb_open`; null for defaults.
    pub(crate) fn config(&self) -> *mut Opaque {
        self.config
            .as_ref()
            .map_or(ptr::null_mut(), |config| config.pointer)
    }
}
