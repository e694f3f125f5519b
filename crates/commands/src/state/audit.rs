//! Which events the audit wants and where they go. What is told of whom is in `audited.rs`.
//!
//! Promises: without an audit a question costs one load. Must not know: the service, who asks.
//! docs/adr/0043-audit.md says why it is built this way.

use arc_swap::ArcSwap;
use model::{Doc, DocBuf, Timestamp};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// How the server was started.
#[derive(Debug)]
pub struct AuditSettings {
    /// Where events go.
    pub to: Arc<logs::Audit>,
    /// A query over events; an empty one wants all.
    pub filter: DocBuf,
    /// Clients may change the filter (`setAuditConfig`).
    pub runtime: bool,
}

/// Whether a filter matches an event at a time. An event it fails on matches: too much is better
/// than too little.
pub(super) type Matches = Box<dyn Fn(Doc<'_>, i64) -> bool + Send + Sync>;

/// Which events are wanted.
pub(super) struct EventFilter {
    pub(super) filter: DocBuf,
    /// None wants all.
    pub(super) matcher: Option<Matches>,
    /// Checks of rights that were passed are events, too.
    pub(super) success: bool,
    /// Of the last change by a client.
    pub(super) changed: Timestamp,
}

pub(super) struct Running {
    pub(super) to: Arc<logs::Audit>,
    pub(super) runtime: bool,
    pub(super) wanted: ArcSwap<EventFilter>,
    pub(super) change: Mutex<()>,
}

/// The audit; there is none until it is started.
#[derive(Default)]
pub struct Audit {
    pub(super) running: OnceLock<Running>,
    /// The end of the server was told of, by the client that asked for it.
    pub(super) ending: AtomicBool,
}

impl Audit {
    #[inline]
    pub(super) fn running(&self) -> Option<&Running> {
        self.running.get()
    }

    /// Whether events are written at all.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.running.get().is_some()
    }

    /// Whether `setAuditConfig` may change what is wanted.
    pub(crate) fn is_changed_by_clients(&self) -> bool {
        self.running().is_some_and(|r| r.runtime)
    }

    /// Whether checks of rights that were passed are wanted.
    #[inline]
    pub(crate) fn wants_success(&self) -> bool {
        self.running().is_some_and(|r| r.wanted.load().success)
    }

    /// Begins a new file, where events go to one: the name the old one has now.
    ///
    /// # Errors
    /// One line; events go on in the old file.
    pub(crate) fn rotate(&self) -> Result<Option<PathBuf>, String> {
        self.running().map_or(Ok(None), |r| r.to.rotate())
    }

    /// What is wanted: the filter, successful checks, and when a client has last changed it.
    pub(crate) fn config(&self) -> Option<(DocBuf, bool, Timestamp)> {
        let wanted = self.running()?.wanted.load();
        Some((wanted.filter.clone(), wanted.success, wanted.changed))
    }
}
