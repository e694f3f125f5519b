//! The data directory, and the free space for data. Must not know: the server.

use std::fs::{Metadata, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use storage::Engine;

/// Makes the data directory; refuses a path that cannot be one. In an existing directory, files
/// that an earlier version left open to other users lose those permissions.
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

/// Permissions of the group and of everybody.
const OF_OTHERS: u32 = 0o077;

/// Removes the permissions of others from all files and folders below. A failure is ignored: the
/// file belongs to another user, or opening it will fail with an error.
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

/// Bytes that the engine may still fill; for an engine without a device, a quarter of the memory
/// limit.
pub(crate) fn free_bytes(engine: &dyn Engine, memory_bytes: u64) -> u64 {
    let mut free = None;
    engine.stats(&mut |name, value| {
        if name == "free_bytes" {
            free = u64::try_from(value).ok();
        }
    });
    free.unwrap_or(memory_bytes / 4)
}
