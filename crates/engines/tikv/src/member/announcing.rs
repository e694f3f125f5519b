//! Announcements of a member, and looking for those of all. Must not know: what is announced.

use std::sync::atomic::Ordering;

use storage::{FlushEvent, Result, StorageError};

use super::TikvMember;
use crate::announcements::ExpectedAnnouncements;
use crate::view::View;

impl TikvMember {
    /// Commits an announcement and nothing else.
    pub(super) fn announce_alone(&self) -> Result<()> {
        loop {
            let unit = self.begin_unit(false, &[])?;
            let mut slot = unit.slot;
            slot.number += 1;
            let change = self.commits.membership.announcement(slot.id, slot.number);
            match self
                .commits
                .commit(&mut slot, unit.txn, vec![change], Vec::new())
            {
                Err(StorageError::Conflict) => {}
                Ok(at) => {
                    self.newest.fetch_max(at, Ordering::AcqRel);
                    return Ok(());
                }
                Err(e) => {
                    self.hooks.call(FlushEvent::Lost);
                    return Err(e);
                }
            }
        }
    }

    /// The latest state. The first read through it also reads the announcements and records them.
    pub(super) fn look_for_announcements(&self) -> Result<View> {
        self.check_open()?;
        let view = self.at(self.newest.load(Ordering::Acquire));
        Ok(view.expect(ExpectedAnnouncements::any(&self.seen)))
    }
}
