//! The data directory, and the room that there is for data. Must not know: the server.

use std::fs::{Metadata, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use storage::Engine;

/// Makes the data directory; refuses what cannot be one. In one that an earlier version has left
/// open to other users the files are closed to them.
pub(crate) fn prepare_directory(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let is_open = |file: &Metadata| file.permissions().mode() & OF_OTHERS != 0;
    if std::fs::metadata(path.join(storage::MARKER)).is_ok_and(|marker| is_open(&marker)) {
        close_to_others(path);
    }
    storage::make_directory(path).map_err(|e| {
        format!("cannot make the data directory {shown}: {e}; choose another --dbpath")
    })?;
    let probe = path.join(".quarry-probe");
    std::fs::write(&probe, b"").map_err(|e| {
        format!("cannot write into the data directory {shown}: {e}; check its owner and space")
    })?;
    std::fs::remove_file(&probe)
        .map_err(|e| format!("cannot write into the data directory {shown}: {e}"))
}

/// Rights of the group and of everybody.
const OF_OTHERS: u32 = 0o077;

/// Takes the rights of others from all files and folders below. What cannot be changed stays: it
/// is somebody else's, or opening it will say what is wrong.
fn close_to_others(path: &Path) {
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        let Ok(found) = entry.metadata() else {
            continue;
        };
        if found.is_symlink() {
            continue;
        }
        let closed = Permissions::from_mode(found.permissions().mode() & !OF_OTHERS);
        let _ = std::fs::set_permissions(entry.path(), closed);
        if found.is_dir() {
            close_to_others(&entry.path());
        }
    }
}

/// Bytes used and all bytes of the file system of a path.
pub(crate) fn disk_bytes(path: &Path) -> Option<(u64, u64)> {
    let stat = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Some((
        bytes(stat.f_blocks.saturating_sub(stat.f_bfree)),
        bytes(stat.f_blocks),
    ))
}

/// Bytes the engine may still fill; one that keeps data in memory knows of no device.
pub(crate) fn free_bytes(engine: &dyn Engine, memory_bytes: u64) -> u64 {
    let mut free = None;
    engine.stats(&mut |name, value| {
        if name == "free_bytes" {
            free = u64::try_from(value).ok();
        }
    });
    free.unwrap_or(memory_bytes / 4)
}
