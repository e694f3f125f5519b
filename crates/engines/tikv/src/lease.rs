//! One server at a time. The lease row names the holder and the end of its lease, in the oracle's
//! time. A commit begins at a timestamp before that end and writes the fence row; a new holder
//! begins at or after that end and writes the fence row, too. So a commit of the old holder either
//! comes before the new holder's beginning, and is visible to it, or conflicts. This costs no
//! additional request: a commit needs a timestamp anyway.
//!
//! Reads are allowed without a request to the oracle, by the monotonic clock of the holder. The
//! oracle may jump relative to that clock. Therefore a new holder must also have observed, by its
//! own monotonic clock, that the row was not renewed for as long as the lease holds.
//!
//! After a jump ahead the oracle stands still until the machines' clocks have caught up, which may
//! take hours; a lease does not expire by the oracle's time meanwhile. A holder that sees the
//! oracle move differently from its own clock reads the fence before each commit and says so in the
//! lease row. The lease of such a holder may be taken as soon as the row was not renewed for as
//! long as the lease holds: later commits of the old holder see the new fence.
//!
//! A holder whose process has ended on this machine answers no reads any more; its lease is taken
//! at once. Commits that it sent before it ended meet the fence, too.
//!
//! Promises: two servers never both believe that they may commit at one timestamp; reads are
//! allowed only as long as no other server can have taken over, however the oracle's time moves.
//! Must not know: batches, tables.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use storage::{Result, StorageError};

use crate::cluster::{Change, Cluster, RETRY_FOR, millis};
use crate::error::{corrupt, unreachable_error};
use crate::layout::Layout;
use crate::lease_row::{LeaseOptions, LeaseRow, fence_row, locked_error, millis_of};
use crate::membership::find_member;
use crate::oracle_clock::OracleClock;
use crate::process;

const PAUSE: Duration = Duration::from_millis(200);

/// Largest difference between the oracle and this machine's clock, from one renewal to the next, at
/// which the oracle counts as steady.
const STEADY: Duration = Duration::from_secs(1);

/// The row of another holder, and since when it is unchanged by this machine's clock.
struct RowObservation {
    row: LeaseRow,
    since: Instant,
}

impl RowObservation {
    /// Records the current row. The output is how much longer it has to stay unchanged before its
    /// holder certainly answers no more reads.
    ///
    /// # Input
    /// `own`: how long a lease of this server holds; `by_oracle`: what is left by the oracle's
    /// time.
    fn note(
        watched: &mut Option<RowObservation>,
        row: &LeaseRow,
        own: Duration,
        by_oracle: Duration,
    ) -> Duration {
        let holds = own.max(Duration::from_millis(row.holds_ms));
        let left = match watched {
            Some(watched) if watched.row == *row => holds.saturating_sub(watched.since.elapsed()),
            _ => {
                let (row, since) = (row.clone(), Instant::now());
                *watched = Some(RowObservation { row, since });
                holds
            }
        };
        match row.reads_fence {
            _ if process::is_gone(&row.process) => Duration::ZERO,
            true => left,
            false => left.max(by_oracle),
        }
    }
}

/// What the fence row says about a commit whose answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FenceOwner {
    /// The last commit was this server's, with this number.
    Own(u64),
    /// Another server has taken over.
    Foreign,
}

struct LeaseState {
    /// Commits must begin before this time of the oracle.
    until_ms: u64,
    /// The same time or an earlier one, by this machine's clock.
    until: Instant,
    /// The reason why the lease is lost for good.
    lost: Option<String>,
    /// Whether the oracle moves like this machine's clock.
    is_steady: bool,
}

/// The right to use the database.
pub(crate) struct Lease {
    cluster: Arc<Cluster>,
    layout: Layout,
    holder: u64,
    name: String,
    duration: Duration,
    held: Mutex<LeaseState>,
    // Locked during a renewal; only one runs at a time.
    renewing: Mutex<()>,
    clock: OracleClock,
}

impl Lease {
    /// Takes the lease. The second output is the time of its commit: all commits of earlier holders
    /// are before it.
    ///
    /// # Errors
    /// [`StorageError::Locked`], [`StorageError::Unreachable`]
    pub(crate) fn take(
        cluster: &Arc<Cluster>,
        layout: &Layout,
        terms: &LeaseOptions<'_>,
    ) -> Result<(Lease, u64)> {
        // Unique in the cluster for all time.
        let holder = cluster.fetch_timestamp()?;
        let mut until = Instant::now() + RETRY_FOR;
        let mut watched = None;
        loop {
            let began = Instant::now();
            let (mut txn, ts) = cluster.begin(false)?;
            if must_wait_for_members(cluster, layout, ts, terms, &mut until)? {
                continue;
            }
            let taken = cluster.get_in(&mut txn, &layout.lease()).map(|found| {
                let found = found.as_deref().and_then(LeaseRow::decode);
                found.filter(|row| row.holder != holder && !row.is_released())
            });
            let taken = taken.map(|found| {
                let other = found?;
                let by_oracle = other.until_ms.saturating_sub(millis(ts));
                let left = Duration::from_millis(by_oracle);
                let left = RowObservation::note(&mut watched, &other, terms.duration, left);
                (!left.is_zero()).then_some((other, by_oracle, left))
            });
            let row = LeaseRow::new(holder, ts, terms);
            let failed = match taken {
                Ok(Some((other, by_oracle, _))) if by_oracle > 0 && !terms.waits() => {
                    return Err(locked_error(&other, ts));
                }
                Ok(Some((other, _, left))) => {
                    if let Some(awaited) = terms.awaited {
                        awaited.lock().clone_from(&other.address);
                    }
                    if terms.is_ending() {
                        return Err(locked_error(&other, ts));
                    }
                    std::thread::sleep(left.min(PAUSE));
                    until = Instant::now() + RETRY_FOR;
                    continue;
                }
                Ok(None) => {
                    let changes = [
                        (layout.lease(), Some(row.encode())),
                        (layout.fence(), Some(fence_row(holder, 0))),
                        (layout.announcement_key(), Some(fence_row(holder, 0))),
                        (layout.format(), Some(terms.format.clone())),
                    ];
                    match cluster.commit(&mut txn, &changes) {
                        Ok(at) => {
                            let held = LeaseState {
                                until_ms: row.until_ms,
                                until: began + terms.duration,
                                lost: None,
                                is_steady: false,
                            };
                            let lease = Lease {
                                cluster: Arc::clone(cluster),
                                layout: layout.clone(),
                                holder,
                                name: row.name,
                                duration: terms.duration,
                                held: Mutex::new(held),
                                renewing: Mutex::default(),
                                clock: OracleClock::start(millis(at)),
                            };
                            return Ok((lease, at));
                        }
                        Err(e) => e,
                    }
                }
                Err(e) => e,
            };
            if Instant::now() >= until {
                return Err(unreachable_error("taking the lease", failed));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The first change of every commit.
    pub(crate) fn fence(&self, number: u64) -> Change {
        (self.layout.fence(), Some(fence_row(self.holder, number)))
    }

    /// The change that announces to readers on other machines that rows have changed which they
    /// keep in memory.
    pub(crate) fn announcement(&self, number: u64) -> Change {
        let row = fence_row(self.holder, number);
        (self.layout.announcement_key(), Some(row))
    }

    /// Which server wrote the fence row.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]
    pub(crate) fn read_fence(&self, row: Option<&[u8]>) -> Result<FenceOwner> {
        let row = row.and_then(|row| Some((row.first_chunk::<8>()?, row.last_chunk::<8>()?)));
        let (holder, number) = row.ok_or_else(|| corrupt("the fence row"))?;
        if u64::from_be_bytes(*holder) == self.holder {
            Ok(FenceOwner::Own(u64::from_be_bytes(*number)))
        } else {
            Ok(FenceOwner::Foreign)
        }
    }

    /// Whether a commit may begin at this time.
    pub(crate) fn covers(&self, ts: u64) -> bool {
        let held = self.held.lock();
        held.lost.is_none() && millis(ts) < held.until_ms
    }

    /// Whether a commit has to read the fence first, because the oracle's time cannot be relied on
    /// to end the lease.
    pub(crate) fn must_read_fence(&self) -> bool {
        !self.held.lock().is_steady
    }

    /// Fails when another server may have committed already.
    ///
    /// # Errors
    /// [`StorageError::Unreachable`]
    pub(crate) fn check(&self) -> Result<()> {
        let held = self.held.lock();
        match &held.lost {
            Some(why) => Err(StorageError::Unreachable(why.clone())),
            None if Instant::now() < held.until => Ok(()),
            None => Err(StorageError::Unreachable(
                "the lease on the database has run out and could not be renewed".to_owned(),
            )),
        }
    }

    /// Milliseconds since 1970 by the oracle, as of the last renewal.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// The reason why the lease is lost for good.
    pub(crate) fn lost_reason(&self) -> Option<String> {
        self.held.lock().lost.clone()
    }

    /// For how long it has been expired, by this machine's clock.
    pub(crate) fn overdue(&self) -> Duration {
        Instant::now().saturating_duration_since(self.held.lock().until)
    }

    /// Ends the right of this server to commit.
    pub(crate) fn lose(&self, why: &str) {
        self.held.lock().lost.get_or_insert_with(|| why.to_owned());
    }

    /// Extends the lease.
    ///
    /// # Errors
    /// Those of the cluster; [`StorageError::ReadOnly`] when another server has it.
    pub(crate) fn renew(&self) -> Result<()> {
        let _one = self.renewing.lock();
        let began = Instant::now();
        let (until_ms, row) = self.write(|ts| millis(ts) + millis_of(self.duration))?;
        let mut held = self.held.lock();
        held.until_ms = until_ms;
        held.until = began + self.duration;
        // Only when the row says so: a server that saw the earlier mark has taken over already, or
        // will not.
        held.is_steady = !row.reads_fence;
        Ok(())
    }

    /// Releases the lease, so that another server need not wait.
    ///
    /// # Errors
    /// As [`Lease::renew`].
    pub(crate) fn release(&self) -> Result<()> {
        let _one = self.renewing.lock();
        self.lose("the lease was given up");
        self.write(|_| 0).map(|_| ())
    }

    fn write(&self, until_ms: impl FnOnce(u64) -> u64) -> Result<(u64, LeaseRow)> {
        let step = "renewing the lease";
        let (mut txn, ts) = self.cluster.begin(false)?;
        let is_steady = self.clock.set(millis(ts)) <= STEADY;
        if !is_steady {
            // Set before the row is written.
            self.held.lock().is_steady = false;
        }
        let found = self.cluster.get_in(&mut txn, &self.layout.lease());
        let found = found.map_err(|e| unreachable_error(step, e))?;
        let found = found.as_deref().and_then(LeaseRow::decode);
        let mut row = match found {
            Some(row) if row.holder == self.holder => row,
            Some(other) => {
                let why = format!("another server has taken over: {}", other.name);
                self.lose(&why);
                return Err(StorageError::ReadOnly { context: why });
            }
            None => return Err(corrupt("the lease row is gone")),
        };
        row.until_ms = until_ms(ts);
        row.reads_fence = !is_steady;
        row.name.clone_from(&self.name);
        let change = [(self.layout.lease(), Some(row.encode()))];
        let written = self.cluster.commit(&mut txn, &change);
        written.map_err(|e| unreachable_error(step, e))?;
        Ok((row.until_ms, row))
    }
}

/// Whether members write to the database (`membership`), so that the lease cannot be taken now;
/// sleeps then. `until` is when an unreachable cluster is given up.
///
/// # Errors
/// [`StorageError::Locked`] when this server does not wait; those of the cluster.
fn must_wait_for_members(
    cluster: &Cluster,
    layout: &Layout,
    ts: u64,
    terms: &LeaseOptions<'_>,
    until: &mut Instant,
) -> Result<bool> {
    match find_member(cluster, layout, ts)? {
        None => Ok(false),
        Some(member) if !terms.waits() => Err(locked_error(&member, ts)),
        Some(_) => {
            std::thread::sleep(PAUSE);
            *until = Instant::now() + RETRY_FOR;
            Ok(true)
        }
    }
}

/// Whether the holder of the lease has written the row of announcements: a server of an earlier
/// version announces nothing, and leaves the row of an earlier holder.
pub(crate) fn announces(lease: Option<&[u8]>, announced: &[u8]) -> bool {
    let holder = lease.and_then(LeaseRow::decode).map(|row| row.holder);
    let by = announced.first_chunk().map(|by| u64::from_be_bytes(*by));
    holder.is_some() && holder == by
}
