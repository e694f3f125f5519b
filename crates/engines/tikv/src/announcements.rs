//! What is known of the announcements without asking, and views for which they are only expected.
//!
//! Promises: no data of a view is shown before its announcements were compared with the expected
//! ones. Must not know: what is announced, requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use storage::{Result, StorageError};

/// The announcements at some time.
#[derive(Default)]
struct Sighting {
    announced: Vec<u8>,
    ts: u64,
}

/// The announcements at the latest time at which this process has read them. The same ones are
/// never announced twice.
#[derive(Default)]
pub(crate) struct SeenAnnouncements(RwLock<Sighting>);

impl SeenAnnouncements {
    /// Records what was announced up to a time.
    pub(crate) fn note(&self, announced: &[u8], ts: u64) {
        let newest = self.0.read();
        if newest.ts >= ts {
            return;
        }
        drop(newest);
        let mut newest = self.0.write();
        if newest.ts < ts {
            newest.ts = ts;
            if newest.announced != announced {
                newest.announced = announced.to_vec();
            }
        }
    }

    /// Whether these were the announcements at the latest time.
    pub(crate) fn are(&self, announced: &[u8]) -> bool {
        self.0.read().announced == announced
    }

    /// Whether they are known at a time.
    fn has_looked_at(&self, ts: u64) -> bool {
        self.0.read().ts >= ts
    }

    /// Whether these are the announcements at a time, if they were so at some time before it.
    fn are_at(&self, announced: &[u8], ts: u64) -> bool {
        let newest = self.0.read();
        newest.ts >= ts && newest.announced == announced
    }
}

/// The announcements that a view is expected to have; they were seen at an earlier time.
pub(crate) struct ExpectedAnnouncements {
    /// `None` when it may have any: they are only noted.
    announced: Option<Vec<u8>>,
    seen: Arc<SeenAnnouncements>,
    is_met: AtomicBool,
}

impl ExpectedAnnouncements {
    pub(crate) fn new(announced: &[u8], seen: &Arc<SeenAnnouncements>) -> ExpectedAnnouncements {
        ExpectedAnnouncements {
            announced: Some(announced.to_vec()),
            seen: Arc::clone(seen),
            is_met: AtomicBool::new(false),
        }
    }

    /// For a view with any announcements, which are noted.
    pub(crate) fn any(seen: &Arc<SeenAnnouncements>) -> ExpectedAnnouncements {
        ExpectedAnnouncements {
            announced: None,
            seen: Arc::clone(seen),
            is_met: AtomicBool::new(false),
        }
    }

    /// Whether it is known, without a request, that the view at this time has them.
    pub(crate) fn is_met(&self, ts: u64) -> bool {
        if self.is_met.load(Ordering::Acquire) {
            return true;
        }
        let is_met = match &self.announced {
            Some(announced) => self.seen.are_at(announced, ts),
            None => self.seen.has_looked_at(ts),
        };
        if is_met {
            self.is_met.store(true, Ordering::Release);
        }
        is_met
    }

    /// Compares them with those of the view.
    ///
    /// # Errors
    /// [`StorageError::Outdated`]
    pub(crate) fn compare(&self, announced: &[u8], ts: u64) -> Result<()> {
        self.seen.note(announced, ts);
        match self.announced.as_ref().is_none_or(|own| own == announced) {
            true => {
                self.is_met.store(true, Ordering::Release);
                Ok(())
            }
            false => Err(StorageError::Outdated),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expectation_is_met_by_a_later_sighting_only() {
        let seen = Arc::new(SeenAnnouncements::default());
        seen.note(b"a", 10);
        let expected = ExpectedAnnouncements::new(b"a", &seen);
        assert!(!expected.is_met(11));
        seen.note(b"a", 11);
        assert!(expected.is_met(11) && !ExpectedAnnouncements::new(b"a", &seen).is_met(12));
        seen.note(b"b", 13);
        // Nobody has looked between 11 and 13.
        let expected = ExpectedAnnouncements::new(b"a", &seen);
        assert!(!expected.is_met(12) && seen.are(b"b") && !seen.are(b"a"));
        seen.note(b"a", 12);
        assert!(seen.are(b"b"));
        assert!(expected.compare(b"a", 12).is_ok() && expected.is_met(12));
        let expected = ExpectedAnnouncements::new(b"b", &seen);
        let differs = expected.compare(b"c", 14);
        assert!(matches!(differs, Err(StorageError::Outdated)));
        assert!(!expected.is_met(14) && !seen.are(b"b"));
    }

    #[test]
    fn a_view_with_any_announcements_notes_them_once() {
        let seen = Arc::new(SeenAnnouncements::default());
        let any = ExpectedAnnouncements::any(&seen);
        assert!(!any.is_met(10) && any.compare(b"a", 10).is_ok() && any.is_met(10));
        assert!(seen.are(b"a") && ExpectedAnnouncements::any(&seen).is_met(10));
        assert!(!ExpectedAnnouncements::any(&seen).is_met(11));
    }
}
