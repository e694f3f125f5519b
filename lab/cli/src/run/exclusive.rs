//! Only one lab of this machine measures a database at a time, because the writes of another would
//! look like errors of the target.

use std::fs::{File, TryLockError};

use lab_kit::row::contents::hash_of;
use lab_kit::target::TargetError;

use super::arguments::RunArguments;

/// Locks the database of a server for this process while the file is open. `None` for engines in
/// this process, whose directories have their own locks.
///
/// # Errors
/// Another lab uses the database.
pub(super) fn take(arguments: &RunArguments) -> Result<Option<File>, TargetError> {
    let Some((_, rest)) = arguments.target.split_once("://") else {
        return Ok(None);
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let hosts = authority.rsplit('@').next().unwrap_or_default();
    let name = format!("{hosts}/{}", arguments.db);
    let folder = std::env::temp_dir().join("quarry-lab-in-use");
    // If the file cannot be made, the run goes on without a lock.
    if std::fs::create_dir_all(&folder).is_err() {
        return Ok(None);
    }
    let path = folder.join(format!("{:016x}", hash_of(&name)));
    let mut options = File::options();
    options.read(true);
    let mut made = options.clone();
    made.write(true).create(true).truncate(false);
    // Another user may have made the file.
    let Ok(file) = made.open(&path).or_else(|_| options.open(&path)) else {
        return Ok(None);
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(TargetError::Refused {
            what: format!("the database {} at {hosts}", arguments.db),
            reason: "another lab uses it; wait, or give another --db".to_owned(),
        }),
        _ => Ok(Some(file)),
    }
}
