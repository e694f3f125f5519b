//! The open engine that all sessions share.

use std::collections::BTreeMap;

use crate::functions::{Functions, Opaque};
use crate::spec::EngineSpec;

/// The open engine, which is closed when this and all sessions are dropped.
pub(crate) struct Shared {
    pub(crate) functions: Functions,
    pub(crate) handle: *mut Opaque,
    pub(crate) spec: EngineSpec,
    pub(crate) name: String,
    /// The settings with which it was opened, one per entry.
    pub(crate) configuration: BTreeMap<String, String>,
}

// SAFETY: the handle belongs to the adapter, whose engine-wide functions may be called from every
// thread.
unsafe impl Send for Shared {}

// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the handle is open, every session is closed (each holds an `Arc` of this), and it
        // is not used again.
        unsafe { (self.functions.close)(self.handle) };
    }
}
