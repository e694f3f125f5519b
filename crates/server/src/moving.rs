//! Moves the files of a closed engine up to their final directory. Promises: it may be repeated
//! after an interruption at any moment; the directory has the engine's marker only when it is
//! complete. Must not know: where the files come from.

use std::fs::{self, File};
use std::path::Path;
use storage::MARKER;

/// Moves everything in `from`, which may be gone already, to `to` on the same device.
///
/// # Errors
/// Those of the system.
pub(crate) fn move_up(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut names = Vec::new();
    if from.is_dir() {
        for entry in fs::read_dir(from)? {
            names.push(entry?.file_name());
        }
    }
    // The marker is moved last: a directory that has it is complete.
    names.sort_by_key(|name| name == MARKER);
    let sync = || File::open(to)?.sync_all();
    for name in names {
        if name == MARKER {
            sync()?;
        }
        fs::rename(from.join(&name), to.join(&name))?;
    }
    sync()
}
