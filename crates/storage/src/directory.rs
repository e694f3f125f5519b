//! Ownership of a data directory: a file in it names the engine and the format, and is written
//! before the engine's first file. Every refusal is a typed error, and changes nothing.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::error::{Result, StorageError};

/// Name of the marker file.
pub const MARKER: &str = "QUARRY-ENGINE";

/// The content of an engine's marker file.
#[derive(Debug, Clone, Copy)]
pub struct Marker<'a> {
    /// Name of the engine.
    pub engine: &'a str,
    /// Version of the engine's layout.
    pub format: u32,
    /// Further lines, `name value`, for people who look at the file.
    pub details: &'a str,
}

impl Marker<'_> {
    /// Makes sure that `path` belongs to this engine: an empty directory is marked as its own, one
    /// of another engine or of a newer version is refused.
    ///
    /// # Errors
    /// [`StorageError::ForeignDirectory`], [`StorageError::NewerFormat`], [`StorageError::Io`]
    pub fn claim(&self, path: &Path, create: bool) -> Result<()> {
        let fail = |step: &str, error: std::io::Error| {
            StorageError::io(format!("cannot {step} {}", path.display()), error)
        };
        if create {
            make_directory(path).map_err(|error| fail("create", error))?;
        }
        match fs::read_to_string(path.join(MARKER)) {
            Ok(text) => return self.check(path, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(fail("read", error)),
        }
        for entry in fs::read_dir(path).map_err(|error| fail("read", error))? {
            let name = entry.map_err(|error| fail("read", error))?.file_name();
            let name = name.to_string_lossy();
            // A new file system has this directory, and hidden files do no harm.
            if name != "lost+found" && !name.starts_with('.') {
                return Err(foreign(
                    path,
                    &format!("it holds {name:?} but no {MARKER} file"),
                ));
            }
        }
        if !create {
            return Err(foreign(path, "it is empty"));
        }
        self.write(path)?;
        // Whoever created the directory may not have made its name durable.
        sync_name(path).map_err(|error| fail("sync the name of", error))
    }

    /// Writes the marker into a directory of this engine, e.g. a checkpoint.
    ///
    /// # Errors
    /// [`StorageError::Io`]
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = format!(
            "engine {}\nformat {}\n{}",
            self.engine, self.format, self.details
        );
        let target = path.join(MARKER);
        let write = || -> std::io::Result<()> {
            let fresh = path.join(".QUARRY-ENGINE.new");
            let mut file = File::create(&fresh)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&fresh, &target)?;
            File::open(path)?.sync_all()
        };
        write()
            .map_err(|error| StorageError::io(format!("cannot write {}", target.display()), error))
    }

    fn check(&self, path: &Path, text: &str) -> Result<()> {
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
        };
        match field("engine ") {
            Some(name) if name == self.engine => {}
            other => {
                return Err(foreign(
                    path,
                    &format!("it belongs to engine {}", other.unwrap_or("(none)")),
                ));
            }
        }
        match field("format ").and_then(|number| number.parse::<u32>().ok()) {
            Some(found) if found > self.format => Err(StorageError::NewerFormat {
                found,
                supported: self.format,
            }),
            Some(_) => Ok(()),
            None => Err(foreign(path, &format!("its {MARKER} file names no format"))),
        }
    }
}

/// Creates a directory and its missing parents and makes their names durable, so that a loss of
/// power cannot remove them together with files written in them later.
///
/// # Errors
/// Failures of the file system.
pub fn make_directory(path: &Path) -> std::io::Result<()> {
    let above = path.ancestors().filter(|p| !p.as_os_str().is_empty());
    let missing: Vec<&Path> = above.take_while(|p| !p.exists()).collect();
    fs::create_dir_all(path)?;
    missing.into_iter().rev().try_for_each(sync_name)
}

/// Syncs the parent directory of a path.
fn sync_name(path: &Path) -> std::io::Result<()> {
    let above = match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        Some(_) => Path::new("."),
        None => return Ok(()),
    };
    File::open(above)?.sync_all()
}

/// The engine a directory belongs to, by its marker; `None` without one.
///
/// # Errors
/// [`StorageError::Io`], [`StorageError::ForeignDirectory`]
pub fn engine_of(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path.join(MARKER)) {
        Ok(text) => match text.lines().find_map(|line| line.strip_prefix("engine ")) {
            Some(name) => Ok(Some(name.trim().to_owned())),
            None => Err(foreign(path, &format!("its {MARKER} file names no engine"))),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StorageError::io(
            format!("cannot read {}", path.join(MARKER).display()),
            error,
        )),
    }
}

fn foreign(path: &Path, found: &str) -> StorageError {
    StorageError::ForeignDirectory {
        path: path.display().to_string(),
        found: found.to_owned(),
    }
}
