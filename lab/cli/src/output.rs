//! Files that commands write in addition to the folders of runs: pages and JSON.

use std::path::Path;

use lab_kit::folder::{FolderError, write_whole};

use crate::errors::LabError;

/// Makes a folder for results.
pub(crate) fn make_folder(path: &Path) -> Result<(), FolderError> {
    std::fs::create_dir_all(path).map_err(|source| FolderError::Write {
        path: path.to_owned(),
        source,
    })
}

/// Writes a page and prints its path.
pub(crate) fn write_page(path: &Path, text: &str) -> Result<(), LabError> {
    write_whole(path, text)?;
    print_line!("{}", path.display());
    Ok(())
}

/// Writes a value as JSON.
pub(crate) fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), FolderError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| FolderError::Write {
        path: path.to_owned(),
        source: std::io::Error::other(error),
    })?;
    write_whole(path, &text)
}
