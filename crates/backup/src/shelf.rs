//! Storage for the contents of a repository: each has a name with `/` between its parts, and exists
//! completely or not at all. It is a folder, or a bucket for which the caller provides the access
//! (docs/adr/0087-buckets.md).
//!
//! Must not know: what the contents are.

use crate::digest::{Digest, Hasher};
use crate::error::{BackupError, Result};
use crate::folder;
use crate::manifest::Piece;
use crate::manners;
use crate::quiet::{AlignedBuffer, QuietFile};
use crate::reading::{CHUNK_BYTES, fill};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// An existing object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its name from the root of the repository.
    pub name: String,
    /// Length of the object.
    pub bytes: u64,
    /// Whether a call that is still running may have put it there.
    pub is_fresh: bool,
}

/// Called with the number of bytes moved; its error ends the call.
pub type TransferCallback<'m> = dyn FnMut(u64) -> Result<()> + 'm;

/// Storage for contents. Errors are one line with the name.
pub trait ObjectStore: std::fmt::Debug + Send + Sync {
    /// The full name of an object, for messages.
    fn full_name(&self, name: &str) -> String;

    /// All objects below a folder, in any depth.
    ///
    /// # Errors
    /// The folder cannot be listed.
    fn all(&self, folder: &str) -> Result<Vec<Item>>;

    /// The length of an object, if it exists and will not be removed.
    ///
    /// # Errors
    /// The object cannot be queried.
    fn bytes(&self, name: &str) -> Result<Option<u64>>;

    /// Its length and contents; `None` when it does not exist.
    ///
    /// # Errors
    /// The object cannot be read.
    fn read(&self, name: &str) -> Result<Option<(u64, Box<dyn Read>)>>;

    /// Stores an object durably; an older object of this name is replaced.
    ///
    /// # Errors
    /// The object cannot be written.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<()>;

    /// Stores the contents of a file under a name that follows from their digest; returns whether
    /// they were new.
    ///
    /// # Errors
    /// The file cannot be read, or the object cannot be written.
    fn take(
        &self,
        from: &Path,
        name_of: &dyn Fn(&Digest) -> String,
        moved: &mut TransferCallback<'_>,
    ) -> Result<(Piece, bool)>;

    /// Removes an object if it exists.
    ///
    /// # Errors
    /// The object cannot be removed.
    fn remove(&self, name: &str) -> Result<()>;
}

/// The digest and the length of a file.
///
/// # Errors
/// The file cannot be read, or `moved` ends the call.
pub fn digest_of(from: &Path, moved: &mut TransferCallback<'_>) -> Result<Piece> {
    let fail = |e: std::io::Error| BackupError::io("read", from, &e);
    let mut file = File::open(from).map_err(fail)?;
    manners::read_once(&file);
    let (mut hasher, mut bytes) = (Hasher::default(), 0);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = fill(&mut file, &mut chunk).map_err(fail)?;
        let part = chunk.get(..read).unwrap_or_default();
        if part.is_empty() {
            let sha256 = hasher.finish();
            return Ok(Piece { sha256, bytes });
        }
        hasher.add(part);
        bytes += read as u64;
        moved(read as u64)?;
    }
}

/// A folder as the storage.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// Where an object is written until it is complete; nobody else writes there.
    pub(crate) unfinished: PathBuf,
}

impl Folder {
    fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The path of a name; creates its folder.
    fn place(&self, name: &str) -> Result<PathBuf> {
        let at = self.at(name);
        at.parent().map_or(Ok(()), folder::make)?;
        Ok(at)
    }
}

impl ObjectStore for Folder {
    fn full_name(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }

    fn all(&self, folder: &str) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for name in folder::names(&self.at(&folder))? {
                let name = format!("{folder}/{name}");
                match fs::metadata(self.at(&name)) {
                    Ok(found) if found.is_dir() => folders.push(name),
                    Ok(found) => items.push(Item {
                        name,
                        bytes: found.len(),
                        is_fresh: false,
                    }),
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    Err(e) => return Err(BackupError::io("read", &self.at(&name), &e)),
                }
            }
        }
        Ok(items)
    }

    fn bytes(&self, name: &str) -> Result<Option<u64>> {
        Ok(fs::metadata(self.at(name)).ok().map(|found| found.len()))
    }

    fn read(&self, name: &str) -> Result<Option<(u64, Box<dyn Read>)>> {
        let path = self.at(name);
        let fail = |e: std::io::Error| BackupError::io("read", &path, &e);
        let file = match File::open(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(fail)?,
        };
        let bytes = file.metadata().map_err(fail)?.len();
        Ok(Some((bytes, Box::new(file))))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        folder::write(&self.unfinished, &self.place(name)?, bytes)
    }

    fn take(
        &self,
        from: &Path,
        name_of: &dyn Fn(&Digest) -> String,
        moved: &mut TransferCallback<'_>,
    ) -> Result<(Piece, bool)> {
        let unfinished = &self.unfinished;
        let mut source = File::open(from).map_err(|e| BackupError::io("read", from, &e))?;
        manners::read_once(&source);
        let fail = |e: &std::io::Error| BackupError::io("write", unfinished, e);
        let mut copy = QuietFile::create(unfinished).map_err(|e| fail(&e))?;
        let (mut hasher, mut bytes) = (Hasher::default(), 0);
        let mut buffer = AlignedBuffer::default();
        let chunk = buffer.chunk();
        loop {
            let read = fill(&mut source, chunk);
            let read = read.map_err(|e| BackupError::io("read", from, &e))?;
            let part = chunk.get(..read).unwrap_or_default();
            if part.is_empty() {
                break;
            }
            hasher.add(part);
            copy.append(part).map_err(|e| fail(&e))?;
            bytes += read as u64;
            moved(read as u64)?;
        }
        let sha256 = hasher.finish();
        let piece = Piece { sha256, bytes };
        let name = name_of(&sha256);
        if self.bytes(&name)? == Some(bytes) {
            folder::remove(unfinished)?;
            return Ok((piece, false));
        }
        copy.finish().map_err(|e| fail(&e))?;
        folder::publish(unfinished, &self.place(&name)?)?;
        Ok((piece, true))
    }

    fn remove(&self, name: &str) -> Result<()> {
        folder::remove(&self.at(name))
    }
}
