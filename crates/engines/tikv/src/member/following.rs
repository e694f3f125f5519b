//! The states that a member reads: now, and at earlier positions. Promises: a state of now has
//! every commit that was acknowledged before it was asked for. Must not know: what the rows mean.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use storage::emulate::SharedView;
use storage::{CommitPos, Follower, Moment, Result, Snapshot, StorageError};

use super::TikvMember;
use crate::announcements::ExpectedAnnouncements;
use crate::cluster::millis;

impl Follower for TikvMember {
    fn moment(&self) -> Result<Moment> {
        self.check_open()?;
        self.together.ask(|| self.ask())
    }

    /// Gets one time of the oracle; the client combines requests at the same time.
    fn begin_moment(&self, announced: &[u8]) -> Result<Option<Arc<dyn Snapshot>>> {
        self.check_open()?;
        if !self.seen.are(announced) {
            return Ok(None);
        }
        let ts = self.commits.cluster.fetch_timestamp()?;
        self.newest.fetch_max(ts, Ordering::AcqRel);
        self.offered.add(ts);
        let expected = ExpectedAnnouncements::new(announced, &self.seen);
        let view = self.at(ts).expect(expected);
        Ok(Some(Arc::new(SharedView(Arc::new(view)))))
    }

    fn moment_at(&self, pos: CommitPos) -> Result<Moment> {
        self.check_open()?;
        let membership = &self.commits.membership;
        let age = Duration::from_millis(membership.now_ms().saturating_sub(millis(pos.0)));
        if let Some(kept) = self.keep_versions.filter(|kept| age > *kept) {
            return Err(StorageError::SnapshotTooOld {
                age_s: age.as_secs(),
                kept_s: kept.as_secs(),
            });
        }
        let view = self.at(pos.0);
        let announced = membership.read_shared(pos.0, &[])?.announced;
        Ok(Moment {
            snapshot: Arc::new(SharedView(Arc::new(view))),
            announced,
        })
    }
}
