//! Moving the files of a closed engine up to the directory they were made for. Promises: it may be
//! repeated after an end at any moment; the directory has the engine's marker only when it is
//! whole. Must not know: how the files came about.

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
    // A directory with the marker is whole.
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
