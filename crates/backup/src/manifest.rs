//! The contents of one backup: a JSON document, in a file whose name includes its digest.

use crate::digest::Digest;
use serde::{Deserialize, Serialize};

/// One backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the repository's format in which it was written.
    pub format: u32,
    /// Name of the backup: its start time in UTC, such as `20261125T140500.123Z`.
    pub id: String,
    /// Its start time, milliseconds since the epoch.
    pub begun_ms: i64,
    /// Version of Quarry that made it.
    pub quarry: String,
    /// Storage engine of the data.
    pub engine: String,
    /// The backup has every change up to this time of the log; `None` when the source has no log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optime: Option<Optime>,
    /// The backup has no change after this time; the log can be applied to it from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete: Option<Optime>,
    /// The files, sorted by path.
    pub files: Vec<FileEntry>,
}

/// A position in the log of changes: a BSON timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Optime {
    /// Seconds since the epoch.
    pub time: u32,
    /// Counter within the second.
    pub increment: u32,
}

/// One file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Path below the data directory, `/` between its parts.
    pub path: String,
    /// Length of the file.
    pub bytes: u64,
    /// Permission bits of the file.
    pub mode: u32,
    /// Whether it is never written again after it is complete, so that it is one piece and may be
    /// linked.
    pub fixed: bool,
    /// Its contents in order.
    pub pieces: Vec<Piece>,
    /// The identity of the file at the source; only fixed files have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<FileIdentity>,
}

/// A part of a file, an object of the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Name of the object.
    pub sha256: Digest,
    /// Length of the piece.
    pub bytes: u64,
}

/// Identifies a file on one device that was not written to since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Number of the device.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// Last change of its contents, nanoseconds since the epoch.
    pub modified_ns: i64,
}

impl Optime {
    /// Parses seconds and counter with a separator between them.
    pub(crate) fn parse(text: &str, sign: char) -> Option<Optime> {
        let (time, increment) = text.split_once(sign)?;
        Some(Optime {
            time: time.parse().ok()?,
            increment: increment.parse().ok()?,
        })
    }
}

impl std::fmt::Display for Optime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.time, self.increment)
    }
}

impl Manifest {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|f| f.bytes).sum()
    }

    /// All pieces of all files.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.files.iter().flat_map(|f| &f.pieces)
    }

    /// What is wrong with the manifest, for a JSON document of the right form that is no valid
    /// backup.
    pub(crate) fn complaint(&self) -> Option<String> {
        for file in &self.files {
            let whole = file.pieces.iter().map(|p| p.bytes).sum::<u64>() == file.bytes;
            let mut parts = file.path.split('/');
            let inside = parts.all(|part| !matches!(part, "" | "." | ".."));
            if !whole || !inside {
                return Some(format!("its entry of file {:?} is wrong", file.path));
            }
        }
        None
    }
}
