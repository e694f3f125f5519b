//! A repository: its format, its locks, its backups.

use crate::digest::Digest;
use crate::error::{BackupError, Result};
use crate::folder;
use crate::manifest::Manifest;
use crate::shelf::{Folder, ObjectStore};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Version of the format that this code writes and reads.
pub const FORMAT: u32 = 1;

/// The file that identifies the folder as a repository.
const MARKER: &str = "QUARRY-BACKUPS";
/// Locked by the process that adds or removes backups.
const WRITE_LOCK: &str = "write.lock";
/// Locked by the process that ships the log.
const SHIP_LOCK: &str = "ship.lock";
/// Locked by the process that removes backups; shared by readers.
const REMOVE_LOCK: &str = "remove.lock";
const BACKUPS: &str = "backups";
pub(crate) const OBJECTS: &str = "objects";
const INCOMING: &str = "incoming";
const UNFINISHED_PIECE: &str = "piece";
const UNFINISHED_SEGMENT: &str = "log-segment";
const UNFINISHED_NOTE: &str = "manifest";
const HELD: &str = "held";

/// An open repository.
#[derive(Debug)]
pub struct Repository {
    shelf: Box<dyn ObjectStore>,
    /// Its folder; `None` for a bucket.
    folder: Option<PathBuf>,
    /// A local folder for unfinished files.
    incoming: PathBuf,
    /// Pieces of the newest backup of a bucket, where checking each one is a request; no other call
    /// removes them.
    needed: OnceLock<HashSet<Digest>>,
    _locks: Vec<File>,
}

/// Location of a repository.
#[derive(Debug)]
pub enum Location {
    /// The repository is a folder.
    Folder(PathBuf),
    /// Another place, and a local folder for unfinished files.
    Elsewhere(Box<dyn ObjectStore>, PathBuf),
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Location {
    fn from(path: &P) -> Location {
        Location::Folder(path.as_ref().to_owned())
    }
}

/// The purpose for which a process opens a repository; it decides which other processes are locked
/// out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Write,
    Ship,
    Read,
}

impl Repository {
    /// Opens a repository to add backups; an empty or missing folder becomes a repository.
    ///
    /// # Errors
    /// Another process adds backups; the folder is not a repository, or one of a newer format.
    pub fn to_write(location: impl Into<Location>) -> Result<Repository> {
        let repository = Repository::open(location.into(), Role::Write)?;
        // Removes the unfinished files of an interrupted call.
        for name in [UNFINISHED_PIECE, UNFINISHED_NOTE] {
            folder::remove(&repository.incoming.join(name))?;
        }
        Ok(repository)
    }

    /// Opens a repository to ship the log into it, while other processes may add backups; an empty
    /// or missing folder becomes a repository.
    ///
    /// # Errors
    /// As [`Repository::to_write`]; another process ships the log.
    pub fn to_ship(location: impl Into<Location>) -> Result<Repository> {
        Repository::open(location.into(), Role::Ship)
    }

    /// Opens a repository for reading: nothing is removed meanwhile.
    ///
    /// # Errors
    /// The folder is not a repository, has a newer format, or backups are being removed.
    pub fn to_read(location: impl Into<Location>) -> Result<Repository> {
        Repository::open(location.into(), Role::Read)
    }

    /// A bucket is not locked against processes on other machines: see [`crate::prune`].
    fn open(location: Location, role: Role) -> Result<Repository> {
        let unfinished = match role {
            Role::Ship => UNFINISHED_SEGMENT,
            Role::Write | Role::Read => UNFINISHED_PIECE,
        };
        let (shelf, folder, work): (Box<dyn ObjectStore>, _, _) = match location {
            Location::Folder(path) => {
                if role != Role::Read {
                    folder::make(&path)?;
                }
                let unfinished = path.join(INCOMING).join(unfinished);
                let shelf = Folder {
                    path: path.clone(),
                    unfinished,
                };
                (Box::new(shelf), Some(path.clone()), path)
            }
            Location::Elsewhere(shelf, work) => {
                folder::make(&work)?;
                (shelf, None, work)
            }
        };
        let mut repository = Repository {
            shelf,
            folder,
            incoming: work.join(INCOMING),
            needed: OnceLock::new(),
            _locks: Vec::new(),
        };
        let is_there = repository.shelf.bytes(MARKER)?.is_some();
        if role != Role::Read {
            if !is_there {
                refuse_content(&repository)?;
            }
            folder::make(&repository.incoming)?;
            if !is_there {
                create(&repository)?;
            }
        }
        check_format(&repository)?;
        if let (Role::Write | Role::Ship, Some(path)) = (role, &repository.folder) {
            for folder in [BACKUPS, OBJECTS] {
                folder::make(&path.join(folder))?;
            }
        }
        let (name, take, why): (_, fn(&File) -> _, _) = match role {
            Role::Write => (WRITE_LOCK, File::try_lock, "another backup is being made"),
            Role::Ship => (
                SHIP_LOCK,
                File::try_lock,
                "another process ships the log into it",
            ),
            Role::Read => (
                REMOVE_LOCK,
                File::try_lock_shared,
                "old backups are being removed",
            ),
        };
        if role != Role::Read {
            open_lock(&work.join(REMOVE_LOCK))?;
        }
        let held = lock(&work.join(name), take)?.ok_or_else(|| busy(&repository, why))?;
        repository._locks.push(held);
        Ok(repository)
    }

    /// Locks readers out as well, so that contents may be removed.
    ///
    /// # Errors
    /// The repository is being read.
    pub(crate) fn lock_readers_out(&self) -> Result<File> {
        let work = self.incoming.parent().unwrap_or(&self.incoming);
        let held = lock(&work.join(REMOVE_LOCK), File::try_lock)?;
        held.ok_or_else(|| busy(self, "a backup in it is being read"))
    }

    /// Its location, for messages.
    pub fn location(&self) -> String {
        self.shelf.full_name("").trim_end_matches('/').to_owned()
    }

    /// Its folder; `None` for a bucket.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Its contents.
    pub fn shelf(&self) -> &dyn ObjectStore {
        &*self.shelf
    }

    /// A local folder for unfinished files.
    pub fn incoming(&self) -> &Path {
        &self.incoming
    }

    /// Whether the newest backup of a bucket has this piece, so that the piece exists.
    pub(crate) fn is_needed(&self, sha256: &Digest) -> bool {
        let load = || {
            let is_bucket = self.folder.is_none();
            let newest = is_bucket.then(|| self.manifest(None).ok()).flatten();
            let pieces = newest.iter().flat_map(|m| m.pieces().map(|p| p.sha256));
            pieces.collect()
        };
        self.needed.get_or_init(load).contains(sha256)
    }

    /// The names of the backups, the oldest first.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn ids(&self) -> Result<Vec<String>> {
        let names = self.manifests()?;
        Ok(names.into_iter().map(|name| name.id).collect())
    }

    /// One backup; `None` stands for the newest.
    ///
    /// # Errors
    /// There is no such backup, or its manifest is altered; the line names the file.
    pub fn manifest(&self, id: Option<&str>) -> Result<Manifest> {
        let mut names = self.manifests()?;
        let shown = self.location();
        let found = match id {
            None => names.pop(),
            Some(id) => names.into_iter().find(|name| name.id == id),
        };
        let Some(found) = found else {
            return Err(BackupError::new(match id {
                None => format!("{shown} holds no backup"),
                Some(id) => format!("{shown} holds no backup {id:?}"),
            }));
        };
        self.read(&found)
    }

    fn read(&self, name: &ManifestName) -> Result<Manifest> {
        let path = format!("{BACKUPS}/{}", name.file);
        let shown = self.shelf.full_name(&path);
        let missing = || BackupError::new(format!("{shown} is missing"));
        let bytes = self.get(&path)?.ok_or_else(missing)?;
        if Digest::of(&bytes) != name.sha256 {
            return Err(BackupError::new(format!(
                "{shown} is altered: its contents do not have the digest in its name"
            )));
        }
        let of_newer = |format: u64| {
            BackupError::new(format!(
                "{shown} has format {format}, this version reads format {FORMAT}; use a newer \
                 quarry"
            ))
        };
        let wrong = |what: &str| BackupError::new(format!("{shown} is not a manifest: {what}"));
        let json: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|e| wrong(&e.to_string()))?;
        let format = json.get("format").and_then(serde_json::Value::as_u64);
        match format {
            Some(format) if format == u64::from(FORMAT) => {}
            Some(format) => return Err(of_newer(format)),
            None => return Err(wrong("it names no format")),
        }
        let manifest: Manifest = serde_json::from_value(json).map_err(|e| wrong(&e.to_string()))?;
        match manifest.complaint() {
            None => Ok(manifest),
            Some(complaint) => Err(wrong(&complaint)),
        }
    }

    /// Records what the current backup holds open at its source, for the process that continues
    /// after a kill; `None` when it was released.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn note_held(&self, held: Option<&str>) -> Result<()> {
        let path = self.incoming.join(HELD);
        match held {
            None => folder::remove(&path),
            Some(held) => {
                let unfinished = self.incoming.join(UNFINISHED_NOTE);
                folder::write(&unfinished, &path, held.as_bytes())
            }
        }
    }

    /// The record of an interrupted backup.
    pub fn read_interrupted(&self) -> Option<String> {
        fs::read_to_string(self.incoming.join(HELD)).ok()
    }

    fn manifests(&self) -> Result<Vec<ManifestName>> {
        let mut names: Vec<_> = (self.shelf.all(BACKUPS)?.iter())
            .filter_map(|item| ManifestName::parse(item.name.strip_prefix(BACKUPS)?.get(1..)?))
            .collect();
        names.sort_unstable_by(|a, b| a.file.cmp(&b.file));
        Ok(names)
    }

    /// The complete contents of a small object.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some((_, mut contents)) = self.shelf.read(name)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        match contents.read_to_end(&mut bytes) {
            Ok(_) => Ok(Some(bytes)),
            Err(e) => {
                let shown = self.shelf.full_name(name);
                Err(BackupError::new(format!("cannot read {shown}: {e}")))
            }
        }
    }

    /// Adds a backup: from here on it exists.
    pub(crate) fn add(&self, manifest: &Manifest) -> Result<()> {
        let fail = |e: serde_json::Error| BackupError::new(format!("no manifest: {e}"));
        let bytes = serde_json::to_vec_pretty(manifest).map_err(fail)?;
        let name = format!("{BACKUPS}/{}.{}.json", manifest.id, Digest::of(&bytes));
        self.shelf.write(&name, &bytes)
    }

    /// Removes a backup, without its pieces.
    pub(crate) fn forget(&self, id: &str) -> Result<()> {
        for name in self.manifests()?.iter().filter(|name| name.id == id) {
            self.shelf.remove(&format!("{BACKUPS}/{}", name.file))?;
        }
        let synced = self
            .folder
            .as_ref()
            .map(|path| folder::sync(&path.join(BACKUPS)));
        synced.unwrap_or(Ok(()))
    }
}

/// The file name of a manifest: `ID.DIGEST.json`.
struct ManifestName {
    id: String,
    sha256: Digest,
    file: String,
}

impl ManifestName {
    fn parse(file: &str) -> Option<ManifestName> {
        let (id, digest) = file.strip_suffix(".json")?.rsplit_once('.')?;
        Some(ManifestName {
            id: id.to_owned(),
            sha256: Digest::parse(digest)?,
            file: file.to_owned(),
        })
    }
}

fn refuse_content(repository: &Repository) -> Result<()> {
    let held = match &repository.folder {
        Some(path) => {
            let begun = is_only_begun(&repository.incoming)?;
            folder::names(path)?
                .into_iter()
                .find(|n| !(n.starts_with('.') || begun && n == INCOMING))
        }
        None => repository.shelf.all("")?.pop().map(|item| item.name),
    };
    match held {
        None => Ok(()),
        Some(name) => Err(BackupError::new(format!(
            "{} holds {name:?} and is not a repository of backups; choose an empty folder",
            repository.location()
        ))),
    }
}

/// Whether the folder has only the unfinished files of an interrupted first call, without a marker.
fn is_only_begun(incoming: &Path) -> Result<bool> {
    let left = [UNFINISHED_PIECE, UNFINISHED_SEGMENT, UNFINISHED_NOTE];
    Ok(incoming.is_dir()
        && folder::names(incoming)?
            .iter()
            .all(|n| left.contains(&n.as_str())))
}

fn create(repository: &Repository) -> Result<()> {
    let text = format!("quarry backups\nformat {FORMAT}\n");
    repository.shelf.write(MARKER, text.as_bytes())
}

fn check_format(repository: &Repository) -> Result<()> {
    let Some(bytes) = repository.get(MARKER)? else {
        let shown = repository.location();
        let line = format!("{shown} is not a repository of backups: it holds no {MARKER}");
        return Err(BackupError::new(line));
    };
    let text = String::from_utf8_lossy(&bytes);
    let shown = repository.shelf.full_name(MARKER);
    let number = text.lines().find_map(|line| line.strip_prefix("format "));
    match number.and_then(|number| number.trim().parse::<u32>().ok()) {
        Some(FORMAT) => Ok(()),
        Some(found) => Err(BackupError::new(format!(
            "{shown} says format {found}, this version reads format {FORMAT}; use a newer quarry"
        ))),
        None => Err(BackupError::new(format!("{shown} names no format"))),
    }
}

/// Takes a lock; `None` when another process has it.
fn lock(
    path: &Path,
    take: impl Fn(&File) -> std::result::Result<(), TryLockError>,
) -> Result<Option<File>> {
    let file = open_lock(path)?;
    match take(&file) {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(BackupError::io("lock", path, &e)),
    }
}

fn open_lock(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    let opened = match options.open(path) {
        // A reader may have no right to write.
        Err(e)
            if matches!(
                e.kind(),
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            File::open(path)
        }
        opened => opened,
    };
    opened.map_err(|e| BackupError::io("open", path, &e))
}

fn busy(repository: &Repository, why: &str) -> BackupError {
    let shown = repository.location();
    BackupError::new(format!("{shown} is in use: {why}; try again later"))
}
