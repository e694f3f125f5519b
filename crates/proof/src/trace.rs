//! What was done to the files of a directory, in the order in which it was done.

use std::sync::Arc;

/// One call, or one thing to know about the calls around it. Files have numbers, because a name
/// may come to lead to another file; paths are relative to the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A new file has a name.
    Create {
        /// Its name.
        path: String,
        /// Its number.
        file: u32,
    },
    /// Bytes were written.
    Write {
        /// Where to.
        file: u32,
        /// At which byte.
        at: u64,
        /// Which.
        bytes: Arc<[u8]>,
        /// They were on the device when the call returned.
        durable: bool,
    },
    /// A file was cut, or made longer by zeros.
    Resize {
        /// Which.
        file: u32,
        /// Its new length in bytes.
        len: u64,
    },
    /// A file is at least so long.
    Extend {
        /// Which.
        file: u32,
        /// Bytes.
        len: u64,
    },
    /// All of a file is on the device.
    Sync {
        /// Which.
        file: u32,
    },
    /// The names in a directory are on the device; with a journaling file system all that were
    /// changed before.
    SyncNames {
        /// Its name; empty for the directory that is recorded.
        directory: String,
    },
    /// A name was changed.
    Rename {
        /// From this.
        from: String,
        /// To this; the file that had it loses it.
        to: String,
    },
    /// A file has one more name.
    Link {
        /// The name it has.
        from: String,
        /// The new one.
        to: String,
    },
    /// A name was removed.
    Remove {
        /// Which.
        path: String,
    },
    /// A directory was made.
    MakeDirectory {
        /// Its name.
        path: String,
    },
    /// A directory was removed.
    RemoveDirectory {
        /// Its name.
        path: String,
    },
    /// A batch is about to be applied.
    Began,
    /// Commits up to this position were said to survive a loss of power.
    Durable(u64),
}

impl Event {
    /// The file whose content it changes.
    pub fn changed_file(&self) -> Option<u32> {
        match self {
            Event::Write { file, .. } | Event::Resize { file, .. } | Event::Extend { file, .. } => {
                Some(*file)
            }
            _ => None,
        }
    }

    /// It changes names.
    pub fn changes_names(&self) -> bool {
        matches!(
            self,
            Event::Create { .. }
                | Event::Rename { .. }
                | Event::Link { .. }
                | Event::Remove { .. }
                | Event::MakeDirectory { .. }
                | Event::RemoveDirectory { .. }
        )
    }
}
