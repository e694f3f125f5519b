//! Directories and engines of tests.

use std::path::Path;

use engine_wiredtiger::{ADVICE, Config, LIBRARY_NAME, Library, WiredTigerEngine};
use storage::Result;

pub(crate) fn config(path: &Path) -> Config {
    Config::at(path, 128 << 20)
}

/// The library, if there is one to test; otherwise the reason is printed.
pub(crate) fn library() -> Option<Library> {
    match Library::load(LIBRARY_NAME, None) {
        Ok(library) => Some(library),
        Err(line) => {
            assert!(line.contains(ADVICE), "{line}");
            eprintln!("skipped: {line}");
            None
        }
    }
}

/// Opens an engine in a test that has checked for the library.
pub(crate) fn open(config: &Config) -> Result<WiredTigerEngine> {
    WiredTigerEngine::open(config, &library().expect("it was there"))
}

/// A directory for thousands of commits with flushes: in memory where there is such a device.
pub(crate) fn root() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    root.expect("a temporary directory")
}
