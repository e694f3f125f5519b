//! The size of a directory tree: apparent, allocated, and by what the files hold.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The size of a directory and everything below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectorySize {
    /// Sum of file lengths.
    pub apparent_bytes: u64,
    /// Allocated blocks: less than the length for sparse files, more for reserved space.
    pub allocated_bytes: u64,
    /// Files.
    pub files: u64,
    /// The part of the allocated bytes in logs and journals.
    pub log_bytes: u64,
    /// The part of the allocated bytes in files that contain only indexes.
    pub index_bytes: u64,
    /// The part of the allocated bytes in files that contain only large values.
    pub blob_bytes: u64,
}

/// The content of a file, judged by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Data,
    Log,
    Index,
    Blob,
}

/// File names of RocksDB, WiredTiger, InnoDB, LMDB and fjall.
fn class(directory: &str, name: &str) -> Class {
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    let begins = |beginnings: &[&str]| {
        beginnings
            .iter()
            .any(|beginning| name.starts_with(beginning))
    };
    if ends(&[".blob"]) || directory == "blobs" {
        Class::Blob
    } else if ends(&[".log", ".wal", ".jnl"])
        || begins(&[
            "WiredTigerLog",
            "WiredTigerPreplog",
            "ib_logfile",
            "#ib_redo",
            "LOG",
            "binlog.",
        ])
        || ["journal", "journals", "wal"].contains(&directory)
    {
        Class::Log
    } else if begins(&["index-"]) {
        Class::Index
    } else {
        Class::Data
    }
}

/// Sums up `root` and everything below it. Files that vanish meanwhile are skipped, because engines
/// delete files all the time.
///
/// # Errors
/// `root` cannot be read.
///
/// # Cost
/// One `stat` per file: about a second for a million.
pub fn directory_size(root: &Path) -> io::Result<DirectorySize> {
    let mut out = DirectorySize::default();
    let mut open = vec![root.to_owned()];
    fs::read_dir(root)?;
    while let Some(directory) = open.pop() {
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        let directory_name = directory
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                open.push(entry.path());
            } else if metadata.is_file() {
                let allocated = metadata.blocks() * 512;
                out.files += 1;
                out.apparent_bytes += metadata.len();
                out.allocated_bytes += allocated;
                match class(&directory_name, &entry.file_name().to_string_lossy()) {
                    Class::Log => out.log_bytes += allocated,
                    Class::Index => out.index_bytes += allocated,
                    Class::Blob => out.blob_bytes += allocated,
                    Class::Data => {}
                }
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_a_directory_tree() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("deep")).unwrap();
        fs::write(dir.path().join("deep/000012.sst"), vec![1_u8; 100_000]).unwrap();
        fs::write(dir.path().join("000013.log"), vec![1_u8; 8_192]).unwrap();
        let holes = fs::File::create(dir.path().join("data.mdb")).unwrap();
        holes.set_len(1 << 30).unwrap();
        let size = directory_size(dir.path()).unwrap();
        assert_eq!(
            (size.files, size.apparent_bytes),
            (3, 100_000 + 8_192 + (1 << 30))
        );
        assert!(
            (108_192..300_000).contains(&size.allocated_bytes),
            "{size:?}"
        );
        assert!((8_192..50_000).contains(&size.log_bytes), "{size:?}");
        assert!(directory_size(&dir.path().join("absent")).is_err());
    }

    #[test]
    fn names_tell_what_a_file_holds() {
        for (directory, name, wanted) in [
            ("db", "000004.sst", Class::Data),
            ("db", "000005.log", Class::Log),
            ("db", "LOG.old.1", Class::Log),
            ("db", "000006.blob", Class::Blob),
            ("db", "index-3--812.wt", Class::Index),
            ("db", "collection-2--812.wt", Class::Data),
            ("journal", "WiredTigerLog.0000000001", Class::Log),
            ("journals", "0", Class::Log),
            ("blobs", "1", Class::Blob),
        ] {
            assert_eq!(class(directory, name), wanted, "{directory}/{name}");
        }
    }
}
