//! Restores a backup into an empty folder.

use crate::error::{BackupError, Result};
use crate::folder;
use crate::manifest::{FileEntry, Manifest};
use crate::objects::object;
use crate::pace::Pace;
use crate::reading::CHUNK_BYTES;
use crate::repository::Repository;
use crate::{Digest, ProgressCallback, ProgressEvent};
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A file in a folder that is being restored; it names the backup. The name is not hidden, so that
/// no engine takes the folder for an empty one.
const UNDER_WAY: &str = "QUARRY-RESTORE";
/// Suffix of the names of incomplete files.
const UNFINISHED: &str = ".unfinished";

/// The result of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreResult {
    /// Number of files in the backup.
    pub files: u64,
    /// Total bytes of the files.
    pub bytes: u64,
    /// Bytes written by this call; the others existed already.
    pub written_bytes: u64,
}

/// Restores a backup into `target`: an empty folder, a new one, or one in which the same restore
/// was interrupted. `last` is the path of the file without which an engine does not accept the
/// folder; it is written when everything else is complete.
///
/// # Errors
/// The folder holds something else; a piece is missing, truncated or altered. No engine opens the
/// folder then.
pub fn restore(
    repository: &Repository,
    manifest: &Manifest,
    target: &Path,
    last: &str,
    pace: &mut Pace,
    watch: &mut ProgressCallback<'_>,
) -> Result<RestoreResult> {
    prepare(target, manifest)?;
    let mut done = RestoreResult::default();
    let (end, rest): (Vec<_>, Vec<_>) = manifest.files.iter().partition(|f| f.path == last);
    for file in rest.into_iter().chain(end) {
        let to = target.join(&file.path);
        to.parent().map_or(Ok(()), folder::make)?;
        if !is_same(&to, file)? {
            copy(repository, file, &to, pace, watch)?;
            done.written_bytes += file.bytes;
        }
        done.files += 1;
        done.bytes += file.bytes;
        watch(ProgressEvent::File(&file.path))?;
    }
    finish(target)?;
    Ok(done)
}

/// As [`restore`], but fixed files become links to the repository's own: hard links, or symbolic
/// ones where the folder is on another device. The repository must stay open while the folder is
/// used.
///
/// # Errors
/// As [`restore`]; of linked pieces only the length is checked.
pub fn link(
    repository: &Repository,
    manifest: &Manifest,
    target: &Path,
    last: &str,
) -> Result<RestoreResult> {
    let Some(folder) = repository.folder() else {
        return Err(BackupError::new(format!(
            "{} is not a folder, so its files cannot be linked; restore the backup",
            repository.location()
        )));
    };
    prepare(target, manifest)?;
    let mut done = RestoreResult::default();
    let mut pace = Pace::new(None);
    let (end, rest): (Vec<_>, Vec<_>) = manifest.files.iter().partition(|f| f.path == last);
    for file in rest.into_iter().chain(end) {
        let to = target.join(&file.path);
        to.parent().map_or(Ok(()), folder::make)?;
        folder::remove(&to)?;
        match (file.fixed, file.pieces.as_slice()) {
            (true, [piece]) if repository.has(piece) => {
                let object = folder.join(object(&piece.sha256));
                let object = object.canonicalize();
                let object = object.map_err(|e| BackupError::io("read", &to, &e))?;
                let linked = fs::hard_link(&object, &to)
                    .or_else(|_| std::os::unix::fs::symlink(&object, &to));
                linked.map_err(|e| BackupError::io("link", &to, &e))?;
            }
            _ => {
                copy(repository, file, &to, &mut pace, &mut |_| Ok(()))?;
                done.written_bytes += file.bytes;
            }
        }
        done.files += 1;
        done.bytes += file.bytes;
    }
    finish(target)?;
    Ok(done)
}

/// Makes sure that the folder belongs to this backup.
fn prepare(target: &Path, manifest: &Manifest) -> Result<()> {
    folder::make(target)?;
    let note = target.join(UNDER_WAY);
    let shown = target.display();
    match fs::read_to_string(&note) {
        Ok(id) if id == manifest.id => return Ok(()),
        Ok(id) => {
            return Err(BackupError::new(format!(
                "{shown} holds a part of backup {id:?}; empty it, or restore that backup"
            )));
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(BackupError::io("read", &note, &e)),
    }
    let names = folder::names(target)?;
    // A new file system has the first one.
    let held = names
        .iter()
        .find(|n| *n != "lost+found" && !n.starts_with('.'));
    if let Some(name) = held {
        return Err(BackupError::new(format!(
            "{shown} is not empty: it holds {name:?}; choose an empty folder"
        )));
    }
    let unfinished = target.join(format!(".{UNDER_WAY}{UNFINISHED}"));
    folder::write(&unfinished, &note, manifest.id.as_bytes())
}

fn finish(target: &Path) -> Result<()> {
    folder::remove(&target.join(UNDER_WAY))?;
    folder::sync(target)
}

/// Whether an earlier call has restored this file.
fn is_same(path: &Path, file: &FileEntry) -> Result<bool> {
    match fs::metadata(path) {
        Ok(found) if found.len() == file.bytes => {}
        _ => return Ok(false),
    }
    let fail = |e: std::io::Error| BackupError::io("read", path, &e);
    let mut copy = File::open(path).map_err(fail)?;
    for piece in &file.pieces {
        if read_digest(&mut copy, piece.bytes).map_err(fail)? != piece.sha256 {
            return Ok(false);
        }
    }
    Ok(true)
}

fn read_digest(file: &mut File, bytes: u64) -> std::io::Result<Digest> {
    let mut hasher = crate::digest::Hasher::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let wanted = usize::try_from(left)
            .unwrap_or(CHUNK_BYTES)
            .min(CHUNK_BYTES);
        let part = chunk.get_mut(..wanted).unwrap_or_default();
        let read = crate::reading::fill(file, part)?;
        if read == 0 {
            break;
        }
        hasher.add(part.get(..read).unwrap_or_default());
        left -= read as u64;
    }
    Ok(hasher.finish())
}

fn copy(
    repository: &Repository,
    file: &FileEntry,
    to: &Path,
    pace: &mut Pace,
    watch: &mut ProgressCallback<'_>,
) -> Result<()> {
    let mut unfinished = to.as_os_str().to_owned();
    unfinished.push(UNFINISHED);
    let unfinished = Path::new(&unfinished);
    let fail = |e: std::io::Error| BackupError::io("write", to, &e);
    let mut out = File::create(unfinished).map_err(fail)?;
    for piece in &file.pieces {
        repository.read_piece(piece, &file.path, &mut |part| {
            out.write_all(part).map_err(fail)?;
            pace.spend(part.len() as u64);
            watch(ProgressEvent::Moved(part.len() as u64))
        })?;
    }
    let mode = Permissions::from_mode(file.mode);
    out.set_permissions(mode).map_err(fail)?;
    out.sync_all().map_err(fail)?;
    folder::publish(unfinished, to)
}
