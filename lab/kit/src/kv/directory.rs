//! Directories that the lab makes for a target, with a list of the entries that the lab made in
//! them.
//!
//! Promises: only entries that the lab wrote into the directory's list are ever removed, and a
//! directory belongs to one run at a time. Must not know: engines, servers.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Component, Path, PathBuf};

use crate::target::TargetError;

/// The file that marks a directory as the lab's; its lines after the first name the entries that
/// the lab made.
const MARK: &str = "quarry-lab-target";
const FIRST_LINE: &str = "Made by quarry-lab, which removes the entries named below and no others.";

/// The directory of an engine's files, below the directory of the engine's address.
pub const ENGINE_DATA: &str = "data";

/// A directory that this process uses exclusively.
#[derive(Debug)]
pub struct OwnDirectory {
    path: PathBuf,
    /// A lock file, which is locked as long as it is open.
    _mark: File,
}

impl OwnDirectory {
    /// Takes `path` for the exclusive use of this process and, without `keep`, removes the entries
    /// that the lab made there before. `entries` are the names of the entries that will be made.
    ///
    /// # Errors
    /// The directory contains files and is not the lab's, another process uses it, one of `entries`
    /// exists and was not made by the lab, or the directory cannot be made.
    pub fn take(path: &Path, entries: &[&str], keep: bool) -> Result<Self, TargetError> {
        let unusable = |reason: String| TargetError::Directory {
            path: path.display().to_string(),
            reason,
        };
        let failed = |error: std::io::Error| unusable(error.to_string());
        std::fs::create_dir_all(path).map_err(failed)?;
        let mut mark = open_mark(path).map_err(unusable)?;
        match mark.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(unusable("another run uses it".to_owned()));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut listed = read_list(&mut mark, path).map_err(unusable)?;
        let is_there = |name: &str| path.join(name).symlink_metadata().is_ok();
        let foreign = |name: &&&str| is_there(name) && !listed.iter().any(|own| own == **name);
        if let Some(name) = entries.iter().find(foreign) {
            return Err(unusable(format!(
                "the lab did not create '{name}' in it and does not remove it; give another \
                 directory"
            )));
        }
        if !keep {
            for name in &listed {
                remove(&path.join(name)).map_err(failed)?;
            }
            listed.clear();
        }
        for name in entries {
            if !listed.iter().any(|own| own == name) {
                listed.push((*name).to_owned());
            }
        }
        write_list(&mut mark, &listed).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            _mark: mark,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A subdirectory, which is made if it does not exist.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn make(&self, name: &str) -> Result<PathBuf, TargetError> {
        let path = self.path.join(name);
        let made = std::fs::create_dir_all(&path);
        made.map_err(|error| TargetError::Directory {
            path: path.display().to_string(),
            reason: error.to_string(),
        })?;
        Ok(path)
    }
}

/// Opens the mark of a directory, or makes a new one in an empty directory.
fn open_mark(path: &Path) -> Result<File, String> {
    let mark = path.join(MARK);
    let mut options = File::options();
    options.read(true).write(true);
    match options.open(&mark) {
        Ok(file) => return Ok(file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.to_string()),
    }
    let entries = std::fs::read_dir(path).map_err(|error| error.to_string())?;
    let entries = entries.filter_map(Result::ok);
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != MARK)
        .collect();
    names.sort();
    if let Some(first) = names.first() {
        return Err(format!(
            "it holds {} entries that the lab did not create ('{first}'), which --drop does not \
             delete either; give another directory",
            names.len()
        ));
    }
    // Another run may make the mark at the same time: the lock decides which run owns the
    // directory.
    let made = options.create(true).truncate(false).open(&mark);
    made.map_err(|error| error.to_string())
}

/// Reads the list of entries that the lab has made.
fn read_list(mark: &mut File, path: &Path) -> Result<Vec<String>, String> {
    let mut text = String::new();
    mark.read_to_string(&mut text)
        .map_err(|error| format!("{MARK}: {error}"))?;
    let mut lines = text.lines();
    match lines.next() {
        // The mark is new and still empty.
        None => return Ok(Vec::new()),
        Some(FIRST_LINE) => {}
        Some(_) => {
            return Err(format!(
                "an older version of the lab created it without a list of its files; remove {} \
                 yourself if nothing in it is yours, or give another directory",
                path.display()
            ));
        }
    }
    let names: Vec<String> = lines.map(str::to_owned).collect();
    let is_name = |name: &String| {
        let mut parts = Path::new(name).components();
        matches!(parts.next(), Some(Component::Normal(_))) && parts.next().is_none()
    };
    match names.iter().find(|name| !is_name(name)) {
        Some(wrong) => Err(format!(
            "{MARK} names '{wrong}', which is not an entry of this directory"
        )),
        None => Ok(names),
    }
}

fn write_list(mark: &mut File, names: &[String]) -> std::io::Result<()> {
    let mut text = format!("{FIRST_LINE}\n");
    names.iter().for_each(|name| {
        text.push_str(name);
        text.push('\n');
    });
    mark.set_len(0)?;
    mark.rewind()?;
    mark.write_all(text.as_bytes())?;
    mark.sync_all()
}

/// Removes an entry; of a link only the link itself.
fn remove(path: &Path) -> std::io::Result<()> {
    match path.symlink_metadata() {
        Ok(about) if about.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(taken: Result<OwnDirectory, TargetError>) -> String {
        taken.map(|own| own.path).unwrap_err().to_string()
    }

    #[test]
    fn files_of_others_stay_beside_and_within_a_directory_of_the_lab() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("target");
        let own = OwnDirectory::take(&path, &["data"], false).unwrap();
        let data = own.make("data").unwrap();
        std::fs::write(data.join("old"), "lab").unwrap();
        std::fs::write(path.join("notes.txt"), "mine").unwrap();
        drop(own);
        let own = OwnDirectory::take(&path, &["data"], true).unwrap();
        assert!(data.join("old").exists(), "kept");
        drop(own);
        drop(OwnDirectory::take(&path, &["data", "log"], false).unwrap());
        assert!(!data.exists(), "what the lab made is gone");
        assert_eq!(
            std::fs::read_to_string(path.join("notes.txt")).unwrap(),
            "mine"
        );
    }

    #[test]
    fn a_directory_with_files_of_others_is_refused_and_nothing_in_it_is_touched() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        std::fs::create_dir(path.join("data")).unwrap();
        std::fs::write(path.join("data/precious"), "mine").unwrap();
        let refused = reason(OwnDirectory::take(path, &["data"], false));
        assert!(refused.contains("did not create ('data')"), "{refused}");
        assert!(!path.join(MARK).exists() && path.join("data/precious").exists());
        // The directory is the lab's, but the user has put an entry of that name into it.
        let marked = directory.path().join("marked");
        drop(OwnDirectory::take(&marked, &[], false).unwrap());
        std::fs::write(marked.join("data"), "mine").unwrap();
        let refused = reason(OwnDirectory::take(&marked, &["data"], false));
        assert!(refused.contains("did not create 'data' in it"), "{refused}");
        assert!(marked.join("data").exists());
    }

    #[test]
    fn a_directory_is_used_by_one_run_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let first = OwnDirectory::take(directory.path(), &["data"], false).unwrap();
        std::fs::write(first.make("data").unwrap().join("row"), "1").unwrap();
        let refused = reason(OwnDirectory::take(directory.path(), &["data"], false));
        assert!(refused.contains("another run uses it"), "{refused}");
        assert!(directory.path().join("data/row").exists());
        drop(first);
        OwnDirectory::take(directory.path(), &["data"], false).unwrap();
    }

    #[test]
    fn a_list_that_leads_outside_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (outside, path) = (
            directory.path().join("outside"),
            directory.path().join("target"),
        );
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(&outside, "mine").unwrap();
        for name in ["../outside", "/etc", ".", ""] {
            std::fs::write(path.join(MARK), format!("{FIRST_LINE}\n{name}\n")).unwrap();
            let refused = reason(OwnDirectory::take(&path, &["data"], false));
            assert!(
                refused.contains("not an entry of this directory"),
                "{refused}"
            );
        }
        let linked = path.join("data");
        std::os::unix::fs::symlink(&outside, &linked).unwrap();
        std::fs::write(path.join(MARK), format!("{FIRST_LINE}\ndata\n")).unwrap();
        drop(OwnDirectory::take(&path, &["data"], false).unwrap());
        assert!(outside.exists() && linked.symlink_metadata().is_err());
        std::fs::write(
            path.join(MARK),
            "Made by quarry-lab, which may delete it.\n",
        )
        .unwrap();
        let refused = reason(OwnDirectory::take(&path, &["data"], false));
        assert!(refused.contains("older version of the lab"), "{refused}");
    }
}
