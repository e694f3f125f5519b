//! Files of a directory that is read while its owner uses it. Must not know: their content.

use std::fs;
use std::path::Path;

/// Tables and blob files are complete once they have their name; all other files are appended to or
/// overwritten.
pub fn is_final(file: &Path) -> bool {
    file.extension().is_some_and(|e| e == "sst" || e == "blob")
}

pub(crate) fn link_or_copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if is_final(from) && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    // Copied when linking fails: the file may be on another device.
    fs::copy(from, to).map(|_| ())
}
