//! Whose directory it is: one that the lab made may be emptied, any other needs a word of the user.

use std::path::Path;

use crate::target::TargetError;

/// Says that a directory is the lab's and may be emptied.
const MARK: &str = "quarry-lab-target";

/// Empties `path` for an engine, if it may: an absent or empty directory, one of the lab's, or any
/// with `may_drop`.
///
/// # Errors
/// Files that the lab did not make are there, or the directory cannot be made.
pub fn prepare_directory(path: &Path, may_drop: bool, keep: bool) -> Result<(), TargetError> {
    let failed = |error: std::io::Error| TargetError::Refused {
        what: format!("the directory {}", path.display()),
        reason: error.to_string(),
    };
    let mark = path.join(MARK);
    let files = std::fs::read_dir(path).map_or(0, |entries| entries.count() as u64);
    if files > 0 && !mark.exists() && !may_drop {
        return Err(TargetError::InTheWay {
            what: format!("the directory {}", path.display()),
            documents: files,
            instead: "another directory".to_owned(),
        });
    }
    if files > 0 && !keep {
        std::fs::remove_dir_all(path).map_err(failed)?;
    }
    std::fs::create_dir_all(path).map_err(failed)?;
    std::fs::write(mark, "Made by quarry-lab, which may delete it.\n").map_err(failed)
}
