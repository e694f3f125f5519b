//! Makes a backup of a directory to which nobody writes.

use crate::digest::Digest;
use crate::error::{BackupError, Result};
use crate::known::FileCache;
use crate::manifest::{FileEntry, FileIdentity, Manifest, Optime, Piece};
use crate::manners;
use crate::pace::Pace;
use crate::reading::{CHUNK_BYTES, fill};
use crate::repository::{FORMAT, Repository};
use crate::{ProgressCallback, ProgressEvent};
use jiff::Timestamp;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// The source of a backup.
pub struct Source<'a> {
    /// Directory of the files; they must not change during the backup.
    pub directory: &'a Path,
    /// Storage engine of the files.
    pub engine: &'a str,
    /// Version of Quarry that makes the backup.
    pub quarry: &'a str,
    /// The files have every change up to this time.
    pub optime: Option<Optime>,
    /// The files have no change after this time.
    pub complete: Option<Optime>,
    /// When the backup began, milliseconds since the epoch.
    pub begun_ms: i64,
    /// Whether a file of this name is never written again after it is complete.
    pub is_fixed: fn(&Path) -> bool,
}

/// The result of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupResult {
    /// Name of the new backup.
    pub id: String,
    /// Number of files in the backup.
    pub files: u64,
    /// Total bytes of the files.
    pub bytes: u64,
    /// Bytes that were read from the source.
    pub read_bytes: u64,
    /// Bytes by which the repository grew, without the manifest.
    pub stored_bytes: u64,
}

/// Makes a backup. It continues an interrupted backup: pieces that were stored are not stored
/// again, and completed fixed files are not read again.
///
/// # Errors
/// A file that cannot be read or written. The repository then has the same backups as before, and
/// may hold pieces that the next call uses.
pub fn back_up(
    repository: &Repository,
    source: &Source<'_>,
    pace: &mut Pace,
    watch: &mut ProgressCallback<'_>,
) -> Result<BackupResult> {
    let mut known = FileCache::open(repository)?;
    let mut files = Vec::new();
    let mut cost = Cost::default();
    for path in paths(source.directory)? {
        let from = source.directory.join(&path);
        let found = fs::metadata(&from).map_err(|e| BackupError::io("read", &from, &e))?;
        let fixed = (source.is_fixed)(&from);
        let identity = FileIdentity {
            device: found.dev(),
            inode: found.ino(),
            modified_ns: found
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(found.mtime_nsec()),
        };
        if fixed && let Some(entry) = known.find(repository, &path, found.len(), identity) {
            files.push(entry);
            continue;
        }
        let pieces = match fixed {
            true => {
                let (piece, is_new) = repository.put_whole(&from, pace, watch)?;
                cost.count(&piece, is_new, watch)?;
                vec![piece]
            }
            false => put_pieces(repository, &from, pace, &mut cost, watch)?,
        };
        let entry = FileEntry {
            bytes: pieces.iter().map(|p| p.bytes).sum(),
            mode: found.permissions().mode() & 0o777,
            fixed,
            pieces,
            source: fixed.then_some(identity),
            path,
        };
        if fixed {
            known.note(&entry)?;
        }
        watch(ProgressEvent::File(&entry.path))?;
        files.push(entry);
    }
    watch(ProgressEvent::Manifest)?;
    let manifest = Manifest {
        format: FORMAT,
        id: free_id(repository, source.begun_ms)?,
        begun_ms: source.begun_ms,
        quarry: source.quarry.to_owned(),
        engine: source.engine.to_owned(),
        optime: source.optime,
        complete: source.complete,
        files,
    };
    repository.add(&manifest)?;
    known.end()?;
    Ok(BackupResult {
        files: manifest.files.len() as u64,
        bytes: manifest.bytes(),
        read_bytes: cost.read_bytes,
        stored_bytes: cost.stored_bytes,
        id: manifest.id,
    })
}

#[derive(Default)]
struct Cost {
    read_bytes: u64,
    stored_bytes: u64,
}

impl Cost {
    fn count(
        &mut self,
        piece: &Piece,
        is_new: bool,
        watch: &mut ProgressCallback<'_>,
    ) -> Result<()> {
        self.read_bytes += piece.bytes;
        if is_new {
            self.stored_bytes += piece.bytes;
            watch(ProgressEvent::Piece)?;
        }
        Ok(())
    }
}

/// Stores a file that is written in place as pieces of equal size, so that unchanged pieces are
/// found again.
fn put_pieces(
    repository: &Repository,
    from: &Path,
    pace: &mut Pace,
    cost: &mut Cost,
    watch: &mut ProgressCallback<'_>,
) -> Result<Vec<Piece>> {
    let fail = |e: std::io::Error| BackupError::io("read", from, &e);
    let mut file = File::open(from).map_err(fail)?;
    manners::read_once(&file);
    let (mut pieces, mut chunk) = (Vec::new(), vec![0; CHUNK_BYTES]);
    loop {
        let read = fill(&mut file, &mut chunk).map_err(fail)?;
        let part = chunk.get(..read).unwrap_or_default();
        if part.is_empty() {
            return Ok(pieces);
        }
        let piece = Piece {
            sha256: Digest::of(part),
            bytes: read as u64,
        };
        pace.spend(piece.bytes);
        watch(ProgressEvent::Moved(piece.bytes))?;
        cost.count(&piece, repository.put(&piece, part)?, watch)?;
        pieces.push(piece);
    }
}

/// The files below a directory, sorted, `/` between the parts of their paths.
fn paths(directory: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for name in crate::folder::names(&directory.join(&folder))? {
            let path = match folder.is_empty() {
                true => name,
                false => format!("{folder}/{name}"),
            };
            let whole = directory.join(&path);
            let kind = fs::metadata(&whole).map_err(|e| BackupError::io("read", &whole, &e))?;
            match kind.is_dir() {
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// A name from the time that no backup has yet.
fn free_id(repository: &Repository, begun_ms: i64) -> Result<String> {
    let taken = repository.ids()?;
    let mut at_ms = begun_ms;
    loop {
        let at = Timestamp::from_millisecond(at_ms)
            .map_err(|e| BackupError::new(format!("the clock is wrong: {e}")))?;
        let id = at.strftime("%Y%m%dT%H%M%S.%3fZ").to_string();
        if !taken.contains(&id) {
            return Ok(id);
        }
        at_ms = at_ms.saturating_add(1);
    }
}
