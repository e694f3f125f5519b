//! Files of a directory that is read beside its owner. Must not know: what is in them.

use std::fs;
use std::path::Path;

/// Tables and blob files are complete once they have their name; everything else is appended to or
/// overwritten.
pub fn is_final(file: &Path) -> bool {
    file.extension().is_some_and(|e| e == "sst" || e == "blob")
}

pub(crate) fn lend(from: &Path, to: &Path) -> std::io::Result<()> {
    if is_final(from) && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    // Not linked: the file may lie on another device.
    fs::copy(from, to).map(|_| ())
}
