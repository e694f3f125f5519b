//! The recorded changes of the files in a directory, in order.

use std::sync::Arc;

/// One call, or a marker between calls. Files have numbers, because a name may later belong to
/// another file; paths are relative to the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A new file was created.
    Create {
        /// Its name.
        path: String,
        /// Its number.
        file: u32,
    },
    /// Bytes were written.
    Write {
        /// The file.
        file: u32,
        /// The offset.
        at: u64,
        /// The bytes.
        bytes: Arc<[u8]>,
        /// The bytes were on the device when the call returned.
        durable: bool,
    },
    /// A file was truncated, or extended by zeros.
    Resize {
        /// The file.
        file: u32,
        /// Its new length in bytes.
        len: u64,
    },
    /// A file has at least this length.
    Extend {
        /// The file.
        file: u32,
        /// Length in bytes.
        len: u64,
    },
    /// All of a file is on the device.
    Sync {
        /// The file.
        file: u32,
    },
    /// All names in a directory are on the device; with a journaling file system also all earlier
    /// changes of names.
    SyncNames {
        /// Its name; empty for the recorded directory itself.
        directory: String,
    },
    /// A file or directory was renamed.
    Rename {
        /// The old name.
        from: String,
        /// The new name; a file that had it loses it.
        to: String,
    },
    /// Two directories exchanged their names.
    Exchange {
        /// One name.
        one: String,
        /// The other one.
        other: String,
    },
    /// A file got another name.
    Link {
        /// The existing name.
        from: String,
        /// The new one.
        to: String,
    },
    /// A name was removed.
    Remove {
        /// The name.
        path: String,
    },
    /// A directory was created.
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
    /// The engine reported that commits up to this position survive a loss of power.
    Durable(u64),
}

impl Event {
    /// The file whose content the event changes.
    pub fn changed_file(&self) -> Option<u32> {
        match self {
            Event::Write { file, .. } | Event::Resize { file, .. } | Event::Extend { file, .. } => {
                Some(*file)
            }
            _ => None,
        }
    }

    /// Whether the event changes names.
    pub fn changes_names(&self) -> bool {
        matches!(
            self,
            Event::Create { .. }
                | Event::Rename { .. }
                | Event::Exchange { .. }
                | Event::Link { .. }
                | Event::Remove { .. }
                | Event::MakeDirectory { .. }
                | Event::RemoveDirectory { .. }
        )
    }
}
