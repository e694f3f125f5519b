//! The folder of a repository: its format, who may write to it, its backups.

use crate::digest::Digest;
use crate::error::{BackupError, Result};
use crate::folder;
use crate::manifest::Manifest;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Version of the format that this code writes; it reads this one.
pub const FORMAT: u32 = 1;

/// The file that says what the folder is.
const MARKER: &str = "QUARRY-BACKUPS";
/// Held by who adds backups or removes them.
const WRITE_LOCK: &str = "write.lock";
/// Held by who ships the log.
const SHIP_LOCK: &str = "ship.lock";
/// Held by who removes; shared by who reads.
const REMOVE_LOCK: &str = "remove.lock";
const BACKUPS: &str = "backups";
const OBJECTS: &str = "objects";
const INCOMING: &str = "incoming";
pub(crate) const UNFINISHED_PIECE: &str = "piece";
const UNFINISHED_MANIFEST: &str = "manifest";
const HELD: &str = "held";

/// An open repository.
#[derive(Debug)]
pub struct Repository {
    path: PathBuf,
    _locks: Vec<File>,
}

impl Repository {
    /// Opens a repository to add to it; an empty folder, or none, becomes one.
    ///
    /// # Errors
    /// Another process adds to it; it is not a repository, or one of a newer format.
    pub fn to_write(path: &Path) -> Result<Repository> {
        prepare(path)?;
        let lock = lock(&path.join(WRITE_LOCK), File::try_lock)?
            .ok_or_else(|| busy(path, "another backup is being made"))?;
        // What an interrupted call was writing.
        for name in [UNFINISHED_PIECE, UNFINISHED_MANIFEST] {
            folder::remove(&path.join(INCOMING).join(name))?;
        }
        Ok(Repository {
            path: path.to_owned(),
            _locks: vec![lock],
        })
    }

    /// Opens a repository to ship the log into it, beside those who add backups; an empty folder,
    /// or none, becomes one.
    ///
    /// # Errors
    /// As [`Repository::to_write`]; another process ships.
    pub fn to_ship(path: &Path) -> Result<Repository> {
        prepare(path)?;
        let lock = lock(&path.join(SHIP_LOCK), File::try_lock)?
            .ok_or_else(|| busy(path, "another process ships the log into it"))?;
        let repository = Repository {
            path: path.to_owned(),
            _locks: vec![lock],
        };
        folder::make(&repository.log_folder())?;
        Ok(repository)
    }

    /// Opens a repository to read from it: nothing is removed meanwhile.
    ///
    /// # Errors
    /// It is not a repository, one of a newer format, or backups are being removed.
    pub fn to_read(path: &Path) -> Result<Repository> {
        check_format(path)?;
        let lock = lock(&path.join(REMOVE_LOCK), File::try_lock_shared)?
            .ok_or_else(|| busy(path, "old backups are being removed"))?;
        Ok(Repository {
            path: path.to_owned(),
            _locks: vec![lock],
        })
    }

    /// Keeps readers out as well, so that something may be removed.
    ///
    /// # Errors
    /// Somebody reads.
    pub(crate) fn lock_readers_out(&self) -> Result<File> {
        let held = lock(&self.path.join(REMOVE_LOCK), File::try_lock)?;
        held.ok_or_else(|| busy(&self.path, "a backup in it is being read"))
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.path.join(OBJECTS)
    }

    pub(crate) fn incoming(&self) -> PathBuf {
        self.path.join(INCOMING)
    }

    /// The names of the backups, the oldest first.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn ids(&self) -> Result<Vec<String>> {
        let names = self.manifests()?;
        Ok(names.into_iter().map(|name| name.id).collect())
    }

    /// One backup; `None` is the newest.
    ///
    /// # Errors
    /// There is none, or its manifest is altered; the line names the file.
    pub fn manifest(&self, id: Option<&str>) -> Result<Manifest> {
        let mut names = self.manifests()?;
        let shown = self.path.display();
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
        let path = self.path.join(BACKUPS).join(&name.file);
        let bytes = fs::read(&path).map_err(|e| BackupError::io("read", &path, &e))?;
        let shown = path.display();
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

    /// Notes what a backup under way holds open at its source, for whoever goes on after a kill;
    /// `None` when it has been let go.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn note_held(&self, held: Option<&str>) -> Result<()> {
        let path = self.incoming().join(HELD);
        match held {
            None => folder::remove(&path),
            Some(held) => {
                let unfinished = self.incoming().join(UNFINISHED_MANIFEST);
                folder::write(&unfinished, &path, held.as_bytes())
            }
        }
    }

    /// What an interrupted backup had noted.
    pub fn held(&self) -> Option<String> {
        fs::read_to_string(self.incoming().join(HELD)).ok()
    }

    fn manifests(&self) -> Result<Vec<ManifestName>> {
        let names = folder::names(&self.path.join(BACKUPS))?;
        Ok(names
            .iter()
            .filter_map(|n| ManifestName::parse(n))
            .collect())
    }

    /// Adds a backup: from here on it is there.
    pub(crate) fn add(&self, manifest: &Manifest) -> Result<()> {
        let fail = |e: serde_json::Error| BackupError::new(format!("no manifest: {e}"));
        let bytes = serde_json::to_vec_pretty(manifest).map_err(fail)?;
        let name = format!("{}.{}.json", manifest.id, Digest::of(&bytes));
        let unfinished = self.incoming().join(UNFINISHED_MANIFEST);
        folder::write(&unfinished, &self.path.join(BACKUPS).join(name), &bytes)
    }

    /// Removes a backup; its pieces stay.
    pub(crate) fn forget(&self, id: &str) -> Result<()> {
        let backups = self.path.join(BACKUPS);
        for name in self.manifests()?.iter().filter(|name| name.id == id) {
            folder::remove(&backups.join(&name.file))?;
        }
        folder::sync(&backups)
    }
}

/// The file of a manifest: `ID.DIGEST.json`.
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

/// Makes what a repository has, unless it is there.
fn prepare(path: &Path) -> Result<()> {
    folder::make(path)?;
    if !path.join(MARKER).exists() {
        create(path)?;
    }
    check_format(path)?;
    for folder in [BACKUPS, OBJECTS, INCOMING] {
        folder::make(&path.join(folder))?;
    }
    open_lock(&path.join(REMOVE_LOCK)).map(|_| ())
}

fn create(path: &Path) -> Result<()> {
    let shown = path.display();
    if let Some(name) = folder::names(path)?.iter().find(|n| !n.starts_with('.')) {
        return Err(BackupError::new(format!(
            "{shown} holds {name:?} and is not a repository of backups; choose an empty folder"
        )));
    }
    let text = format!("quarry backups\nformat {FORMAT}\n");
    folder::write(&path.join(".marker"), &path.join(MARKER), text.as_bytes())
}

fn check_format(path: &Path) -> Result<()> {
    let marker = path.join(MARKER);
    let text = match fs::read_to_string(&marker) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let shown = path.display();
            let line = format!("{shown} is not a repository of backups: it holds no {MARKER}");
            return Err(BackupError::new(line));
        }
        Err(e) => return Err(BackupError::io("read", &marker, &e)),
    };
    let number = text.lines().find_map(|line| line.strip_prefix("format "));
    let shown = marker.display();
    match number.and_then(|number| number.trim().parse::<u32>().ok()) {
        Some(FORMAT) => Ok(()),
        Some(found) => Err(BackupError::new(format!(
            "{shown} says format {found}, this version reads format {FORMAT}; use a newer quarry"
        ))),
        None => Err(BackupError::new(format!("{shown} names no format"))),
    }
}

/// `None` when another process has it.
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
        // Who only reads may have no right to write.
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

fn busy(path: &Path, why: &str) -> BackupError {
    BackupError::new(format!(
        "{} is in use: {why}; try again later",
        path.display()
    ))
}
