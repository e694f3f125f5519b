//! The data directory, and the room that there is for data. Must not know: the server.

use std::path::Path;

use storage::Engine;

/// Makes the data directory; refuses what cannot be one.
pub(crate) fn prepare_directory(path: &Path) -> Result<(), String> {
    let shown = path.display();
    std::fs::create_dir_all(path).map_err(|e| {
        format!("cannot make the data directory {shown}: {e}; choose another --dbpath")
    })?;
    let probe = path.join(".quarry-probe");
    std::fs::write(&probe, b"").map_err(|e| {
        format!("cannot write into the data directory {shown}: {e}; check its owner and space")
    })?;
    std::fs::remove_file(&probe)
        .map_err(|e| format!("cannot write into the data directory {shown}: {e}"))
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
