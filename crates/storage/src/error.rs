//! Every way an engine may fail, closed and small. No MongoDB numbers here; `store` translates.
//! The engine's own text is kept in `source()` only, so a message never depends on the
//! engine's wording.

use std::error::Error;
use std::sync::Arc;

/// Result of storage calls.
pub type Result<T> = std::result::Result<T, StorageError>;

/// The engine's own error behind ours; shared, so that an error can be cloned for many waiters.
pub type Cause = Arc<dyn Error + Send + Sync>;

/// Why a storage call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StorageError {
    /// Another writer changed or holds the same key; the caller may try again.
    #[error("write conflict")]
    Conflict,
    /// The device or the operating system failed; the text names the file or the step.
    #[error("input/output error: {context}")]
    Io {
        /// The step or file that failed.
        context: String,
        /// The engine's own error.
        #[source]
        source: Option<Cause>,
    },
    /// Stored bytes differ from those that were written.
    #[error("stored data is corrupt: {context}")]
    Corrupt {
        /// The damaged file, table or key.
        context: String,
        /// The engine's own error.
        #[source]
        source: Option<Cause>,
    },
    /// No space on the device, or the reserve that the engine keeps for itself is reached.
    /// Reads, deletes and drops still work.
    #[error("no space left for growing writes: {context}")]
    Full {
        /// How much is free and how much must stay free.
        context: String,
    },
    /// A key is empty, too long, or not below [`crate::MAX_KEY`].
    #[error("key of {len} bytes is too long, at most {max} are allowed")]
    KeyTooLong {
        /// Length of the key.
        len: usize,
        /// Longest length allowed.
        max: usize,
    },
    /// A value or a whole batch exceeds what the engine takes.
    #[error("{what} of {len} bytes is too large, at most {max} are allowed")]
    TooLarge {
        /// `value` or `batch`.
        what: &'static str,
        /// Size in bytes.
        len: usize,
        /// Largest size allowed.
        max: usize,
    },
    /// The caller broke the contract (empty key, inverted range, ...): a bug in the layers above,
    /// never caused by a client.
    #[error("contract violation: {0}")]
    Contract(String),
    /// The engine accepts no writes until an operator acts or the background error is resolved.
    #[error("storage is read-only: {context}")]
    ReadOnly {
        /// The reason.
        context: String,
    },
    /// The engine was closed.
    #[error("storage is closed")]
    Closed,
    /// This engine cannot do it; `Caps` says so.
    #[error("not supported by this storage engine: {0}")]
    Unsupported(&'static str),
    /// The outcome of a commit is unknown (a remote engine lost its answer).
    #[error("the outcome of the commit is unknown")]
    Undetermined,
    /// A temporary failure (overload, timeout); the same call may work in a moment.
    #[error("storage is busy: {0}")]
    Busy(String),
    /// The cluster that holds the data did not answer, or has withdrawn this process's right to the
    /// data. Nothing was done; the same call may work later, here or on another server.
    #[error("the data cannot be reached: {0}")]
    Unreachable(String),
    /// The announcements of a state are others than those that were expected of it, see
    /// [`crate::Follower::begin_moment`]. Nothing was read.
    #[error("something was announced since the state that the operation rests on")]
    Outdated,
    /// A snapshot or a cursor is older than the time for which the engine keeps overwritten
    /// versions.
    #[error("the state read from is {age_s} s old, the storage engine keeps it for {kept_s} s")]
    SnapshotTooOld {
        /// Seconds since the view was taken.
        age_s: u64,
        /// Seconds for which a view may be read.
        kept_s: u64,
    },
    /// At open: another process holds the directory.
    #[error("data directory {path} is in use by another process")]
    Locked {
        /// The directory as given.
        path: String,
    },
    /// At open: the directory holds files that are not this engine's.
    #[error("{path} is not a data directory of this storage engine: {found}")]
    ForeignDirectory {
        /// The directory as given.
        path: String,
        /// What the directory holds.
        found: String,
    },
    /// At open: commits that were flushed to the journal are missing from it. Nothing was changed.
    #[error("the journal has lost durable commits: {found}")]
    JournalDamaged {
        /// The file, the byte in it, and what is missing.
        found: String,
    },
    /// At open: the data is encrypted and the key does not fit, or a key was given and the data is
    /// not encrypted. Nothing was changed.
    #[error("{found}")]
    NotUnlocked {
        /// What was found and what was given.
        found: String,
    },
    /// At open: this process and the cluster that holds the data do not trust each other. Other
    /// certificates are needed; waiting does not help.
    #[error("the cluster is not reached over TLS: {found}")]
    Untrusted {
        /// What was found, by file or by address.
        found: String,
    },
    /// At open: the data was written by a newer version.
    #[error("data directory has on-disk format {found}, this program reads up to {supported}")]
    NewerFormat {
        /// Version on disk.
        found: u32,
        /// Newest version that this program reads.
        supported: u32,
    },
}

impl StorageError {
    /// True when the same call may succeed later without intervention.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Conflict | Self::Busy(_) | Self::Unreachable(_))
    }

    /// True when the write was refused before it changed anything.
    pub fn is_clean_refusal(&self) -> bool {
        match self {
            Self::Conflict
            | Self::Full { .. }
            | Self::KeyTooLong { .. }
            | Self::TooLarge { .. }
            | Self::Contract(_)
            | Self::ReadOnly { .. }
            | Self::Closed
            | Self::Unsupported(_)
            | Self::Busy(_)
            | Self::Unreachable(_)
            | Self::Outdated
            | Self::SnapshotTooOld { .. }
            | Self::Locked { .. }
            | Self::ForeignDirectory { .. }
            | Self::JournalDamaged { .. }
            | Self::NotUnlocked { .. }
            | Self::Untrusted { .. }
            | Self::NewerFormat { .. } => true,
            Self::Io { .. } | Self::Corrupt { .. } | Self::Undetermined => false,
        }
    }

    /// An input/output error with its context.
    pub fn io(context: impl Into<String>, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Io {
            context: context.into(),
            source: Some(Arc::new(source)),
        }
    }
}
