//! Which events the audit wants and where they are written. `audited.rs` has the contents of
//! events.
//!
//! Promises: without an audit, each check costs one load. Must not know: the service, which code
//! reports events.
//! docs/adr/0043-audit.md gives the reasons for this design.

use arc_swap::ArcSwap;
use model::{Doc, DocBuf, Timestamp};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// The audit's settings at the start of the server.
#[derive(Debug)]
pub struct AuditSettings {
    /// Destination of events.
    pub to: Arc<logs::Audit>,
    /// A query over events; an empty one selects all.
    pub filter: DocBuf,
    /// Whether clients may change the filter (`setAuditConfig`).
    pub runtime: bool,
}

/// Whether a filter matches an event at a time. An event on which the filter fails counts as a
/// match: writing too many events is better than too few.
pub(super) type Matches = Box<dyn Fn(Doc<'_>, i64) -> bool + Send + Sync>;

/// The events that are written.
pub(super) struct EventFilter {
    pub(super) filter: DocBuf,
    /// `None` selects all events.
    pub(super) matcher: Option<Matches>,
    /// Successful authorization checks are events too.
    pub(super) success: bool,
    /// The time of the last change by a client.
    pub(super) changed: Timestamp,
}

pub(super) struct ActiveAudit {
    pub(super) to: Arc<logs::Audit>,
    pub(super) runtime: bool,
    pub(super) wanted: ArcSwap<EventFilter>,
    pub(super) change: Mutex<()>,
}

/// The audit; it is off until it is started.
#[derive(Default)]
pub struct Audit {
    pub(super) running: OnceLock<ActiveAudit>,
    /// The end of the server has been reported, with the client that requested it.
    pub(super) ending: AtomicBool,
}

impl Audit {
    #[inline]
    pub(super) fn running(&self) -> Option<&ActiveAudit> {
        self.running.get()
    }

    /// Whether events are written at all.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.running.get().is_some()
    }

    /// Whether `setAuditConfig` may change the filter.
    pub fn is_changed_by_clients(&self) -> bool {
        self.running().is_some_and(|r| r.runtime)
    }

    /// Whether successful authorization checks are events.
    #[inline]
    pub fn wants_success(&self) -> bool {
        self.running().is_some_and(|r| r.wanted.load().success)
    }

    /// Rotates the audit's file, if events go to a file; returns the new name of the old file.
    ///
    /// # Errors
    /// A message in one line; events continue to go to the old file.
    pub(crate) fn rotate(&self) -> Result<Option<PathBuf>, String> {
        self.running().map_or(Ok(None), |r| r.to.rotate())
    }

    /// The filter, whether successful authorization checks are events, and the time of the last
    /// change by a client.
    pub fn config(&self) -> Option<(DocBuf, bool, Timestamp)> {
        let wanted = self.running()?.wanted.load();
        Some((wanted.filter.clone(), wanted.success, wanted.changed))
    }
}
