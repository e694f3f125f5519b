//! Several servers that write to one database at the same time. Each is a member with a number of
//! its own, and has slots (`slots`). A member's row is a lease in the oracle's time. It says which
//! members are alive. Stored data does not depend on it: after another member has taken the number,
//! commits of the former member conflict with the rows of the slots, at whatever time they arrive.
//!
//! Promises: a number belongs to one member; no member writes while one server holds the whole
//! database ([`crate::lease`]). Must not know: commits, tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use storage::{Result, StorageError};

use crate::cluster::{Change, Cluster, RETRY_FOR, Row, ScanOrder, millis};
use crate::error::{corrupt, unreachable_error};
use crate::layout::{Layout, SCAN_ROWS, SlotId};
use crate::lease_row::{LeaseOptions, LeaseRow, fence_row, locked_error, millis_of};
use crate::oracle_clock::OracleClock;
use crate::process;
use crate::turn_row::TurnRow;
use crate::versions::SafePointRole;

/// Slots of a member: this many of its commits run at a time.
pub(crate) const SLOTS: u8 = 16;
/// Most members of a database at a time.
const MEMBERS_MAX: u16 = 256;
const PAUSE: Duration = Duration::from_millis(50);
/// How many milliseconds of row numbers a member has before the first renewal of its lease.
const FIRST_NUMBERS_MS: u64 = 1000;

/// Rows that all members read when they begin something.
#[derive(Default)]
pub(crate) struct SharedRows {
    pub(crate) announced: Vec<u8>,
    /// The last turn that was taken.
    pub(crate) turn: Option<TurnRow>,
    /// The existing ones of the other rows that were asked for.
    pub(crate) others: Vec<Row>,
}

/// What a server gets that joins.
pub(crate) struct Joined {
    pub(crate) membership: Membership,
    /// The time of the commit with which it has joined.
    pub(crate) ts: u64,
    /// No other member was alive.
    pub(crate) is_alone: bool,
    /// Earlier members with the number have given no number to a row from this millisecond on.
    pub(crate) numbers_from_ms: u64,
}

/// The right of this server to write beside others.
pub(crate) struct Membership {
    cluster: Arc<Cluster>,
    layout: Layout,
    number: u16,
    holder: u64,
    duration: Duration,
    /// The reason why it is lost for good.
    lost: Mutex<Option<String>>,
    clock: OracleClock,
    /// Until when the lease was written last, in milliseconds of the oracle.
    until_ms: AtomicU64,
    /// Up to which millisecond this member may number rows. The next member with its number begins
    /// above it: the oracle's time may stand still meanwhile.
    numbered_ms: AtomicU64,
}

impl Membership {
    /// Joins: takes a number that belongs to no living member, and its slots.
    ///
    /// # Errors
    /// [`StorageError::Locked`] while one server holds the whole database or all numbers are taken,
    /// [`StorageError::Unreachable`]
    pub(crate) fn join(
        cluster: &Arc<Cluster>,
        layout: &Layout,
        terms: &LeaseOptions<'_>,
    ) -> Result<Joined> {
        // Unique in the cluster for all time.
        let holder = cluster.fetch_timestamp()?;
        let until = Instant::now() + RETRY_FOR;
        loop {
            let (mut txn, ts) = cluster.begin_beside_others()?;
            check_not_held(cluster, layout, ts)?;
            let taken = living_numbers(cluster, layout, holder, ts)?;
            let number = find_free(&taken)?;
            let row = LeaseRow::new(holder, ts, terms);
            let numbered = cluster.get(ts, &layout.numbered(number))?;
            let numbers_from_ms = millis(ts).max(read_millis(numbered.as_deref())?) + 1;
            let numbered_ms = numbers_from_ms + FIRST_NUMBERS_MS;
            let mut changes = vec![
                (layout.numbered(number), Some(encode_millis(numbered_ms))),
                (layout.roster(), Some(fence_row(holder, 0))),
                (layout.member(number), Some(row.encode())),
                // A server that holds the whole database has lost it.
                (layout.fence(), Some(fence_row(holder, 0))),
                (layout.announcement_key(), Some(fence_row(holder, 0))),
                (layout.format(), Some(terms.format.clone())),
            ];
            changes
                .extend(slots_of(number).map(|id| (layout.slot(id), Some(fence_row(holder, 0)))));
            let failed = match cluster.commit(&mut txn, &changes) {
                Ok(at) => {
                    let membership = Membership {
                        cluster: Arc::clone(cluster),
                        layout: layout.clone(),
                        number,
                        holder,
                        duration: terms.duration,
                        lost: Mutex::default(),
                        clock: OracleClock::start(millis(at)),
                        until_ms: AtomicU64::new(row.until_ms),
                        numbered_ms: AtomicU64::new(numbered_ms),
                    };
                    return Ok(Joined {
                        membership,
                        ts: at,
                        is_alone: taken.is_empty(),
                        numbers_from_ms,
                    });
                }
                Err(e) => e,
            };
            let _ = cluster.roll_back(&mut txn);
            if Instant::now() >= until {
                return Err(unreachable_error("joining the database", failed));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The slots of this member.
    pub(crate) fn slots(&self) -> impl Iterator<Item = SlotId> {
        slots_of(self.number)
    }

    /// The number of this member.
    pub(crate) fn number(&self) -> u8 {
        // There are no more than 256.
        self.number as u8
    }

    /// The row of a slot after its commit with this number.
    pub(crate) fn slot_change(&self, id: SlotId, number: u64) -> Change {
        (self.layout.slot(id), Some(fence_row(self.holder, number)))
    }

    /// The row that announces a change to the memory of other servers. Each number of a slot
    /// belongs to one commit.
    pub(crate) fn announcement(&self, id: SlotId, number: u64) -> Change {
        let row = [fence_row(self.holder, number), vec![id.slot]].concat();
        (self.layout.announcement_key(), Some(row))
    }

    /// Up to which millisecond this member may number rows.
    pub(crate) fn numbered_ms(&self) -> u64 {
        self.numbered_ms.load(Ordering::Acquire)
    }

    /// Lets this member number rows up to a millisecond. If that fails, the membership is lost: the
    /// next member with the number could give the same numbers.
    pub(crate) fn extend_numbers(&self, to_ms: u64) {
        let until = Instant::now() + RETRY_FOR;
        while self.numbered_ms() < to_ms && self.lost_reason().is_none() {
            match self.extend(to_ms) {
                Ok(()) => return,
                Err(_) if Instant::now() < until => std::thread::sleep(PAUSE),
                Err(_) => self.lose("no numbers for rows could be reserved"),
            }
        }
    }

    /// Names this member for all time.
    pub(crate) fn holder(&self) -> u64 {
        self.holder
    }

    /// The rows that all members read when they begin something, and others.
    ///
    /// # Errors
    /// Those of the cluster.
    pub(crate) fn read_shared(&self, ts: u64, others: &[Vec<u8>]) -> Result<SharedRows> {
        let (announcement, turn) = (self.layout.announcement_key(), self.layout.turn());
        let keys = [&[announcement.clone(), turn.clone()], others].concat();
        let mut rows = SharedRows::default();
        for (key, row) in self.cluster.batch_get(ts, &keys)? {
            if key == turn {
                rows.turn = TurnRow::decode(&row);
            } else if key == announcement {
                rows.announced = row;
            } else {
                rows.others.push((key, row));
            }
        }
        Ok(rows)
    }

    /// The number of the last commit in a slot; `None` when another member has the slot.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]
    pub(crate) fn read_slot(&self, row: Option<&[u8]>) -> Result<Option<u64>> {
        let row = row.and_then(|row| Some((row.first_chunk::<8>()?, row.last_chunk::<8>()?)));
        let (holder, number) = row.ok_or_else(|| corrupt("the row of a slot"))?;
        let is_own = u64::from_be_bytes(*holder) == self.holder;
        Ok(is_own.then(|| u64::from_be_bytes(*number)))
    }

    /// Milliseconds since 1970 by the oracle, as of the last renewal.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// How long the lease holds without another renewal.
    pub(crate) fn left_ms(&self) -> u64 {
        let until_ms = self.until_ms.load(Ordering::Relaxed);
        until_ms.saturating_sub(self.now_ms())
    }

    /// The living member with the smallest number moves the safe point.
    ///
    /// # Errors
    /// Those of the cluster.
    pub(crate) fn safe_point_role(&self) -> Result<SafePointRole> {
        if self.lost_reason().is_some() {
            return Ok(SafePointRole::Ended);
        }
        let ts = self.cluster.fetch_timestamp()?;
        let all = members(&self.cluster, &self.layout, ts)?;
        let first = all.iter().find(|(_, row)| is_alive(row, ts));
        Ok(match first {
            Some((_, row)) if row.holder == self.holder => SafePointRole::Mover,
            _ => SafePointRole::Other,
        })
    }

    /// The reason why it is lost for good.
    pub(crate) fn lost_reason(&self) -> Option<String> {
        self.lost.lock().clone()
    }

    /// Ends the right of this server to write.
    pub(crate) fn lose(&self, why: &str) {
        self.lost.lock().get_or_insert_with(|| why.to_owned());
    }

    /// Extends the lease.
    ///
    /// # Errors
    /// Those of the cluster; [`StorageError::ReadOnly`] when another member has the number.
    pub(crate) fn renew(&self) -> Result<()> {
        self.extend(0)
    }

    fn extend(&self, numbered_ms: u64) -> Result<()> {
        self.write(numbered_ms, |ts| millis(ts) + millis_of(self.duration))
    }

    /// Gives the number back.
    ///
    /// # Errors
    /// As [`Membership::renew`].
    pub(crate) fn leave(&self) -> Result<()> {
        self.lose("the member has left");
        self.write(0, |_| 0)
    }

    /// Writes the lease, and up to which millisecond rows are numbered: that of the lease, and at
    /// least `numbered_ms`.
    fn write(&self, numbered_ms: u64, until_ms: impl FnOnce(u64) -> u64) -> Result<()> {
        let step = "renewing a member's lease";
        let (mut txn, ts) = self.cluster.begin_beside_others()?;
        self.clock.set(millis(ts));
        let key = self.layout.member(self.number);
        let found = self.cluster.get_in(&mut txn, &key);
        let found = found.map_err(|e| unreachable_error(step, e))?;
        let found = found.as_deref().and_then(LeaseRow::decode);
        let Some(mut row) = found.filter(|row| row.holder == self.holder) else {
            let why = format!("another server has become member {}", self.number);
            self.lose(&why);
            return Err(StorageError::ReadOnly { context: why });
        };
        row.until_ms = until_ms(ts);
        let numbered_ms = numbered_ms.max(row.until_ms).max(self.numbered_ms());
        let numbered = self.layout.numbered(self.number);
        let changes = [
            (key, Some(row.encode())),
            (numbered, Some(encode_millis(numbered_ms))),
        ];
        let written = self.cluster.commit(&mut txn, &changes);
        written.map_err(|e| unreachable_error(step, e))?;
        self.until_ms.store(row.until_ms, Ordering::Relaxed);
        self.numbered_ms.fetch_max(numbered_ms, Ordering::AcqRel);
        Ok(())
    }
}

fn encode_millis(ms: u64) -> Vec<u8> {
    ms.to_be_bytes().to_vec()
}

/// 0 when there is no row: an earlier version wrote none.
fn read_millis(row: Option<&[u8]>) -> Result<u64> {
    match row {
        None => Ok(0),
        Some(row) => match row.try_into() {
            Ok(bytes) => Ok(u64::from_be_bytes(bytes)),
            Err(_) => Err(corrupt("the row that says how far rows are numbered")),
        },
    }
}

fn slots_of(member: u16) -> impl Iterator<Item = SlotId> {
    (0..SLOTS).map(move |slot| SlotId { member, slot })
}

fn is_alive(row: &LeaseRow, ts: u64) -> bool {
    row.until_ms > millis(ts) && !process::is_gone(&row.process)
}

/// Fails while one server holds the whole database. Its reads rest on the clock of its machine, so
/// its lease must have run out for as long as it held.
fn check_not_held(cluster: &Cluster, layout: &Layout, ts: u64) -> Result<()> {
    let row = cluster.get(ts, &layout.lease())?;
    let row = row.as_deref().and_then(LeaseRow::decode);
    let Some(row) = row.filter(|row| !row.is_released()) else {
        return Ok(());
    };
    let reads_until = row.until_ms.saturating_add(row.holds_ms);
    match reads_until > millis(ts) && !process::is_gone(&row.process) {
        true => Err(locked_error(&row, ts)),
        false => Ok(()),
    }
}

/// The rows of all members, by number.
fn members(cluster: &Cluster, layout: &Layout, ts: u64) -> Result<Vec<(u16, LeaseRow)>> {
    let mut all = Vec::new();
    let mut left = layout.members();
    loop {
        let rows = cluster.scan(ts, &left, SCAN_ROWS, ScanOrder::ROWS)?;
        all.extend(
            rows.iter()
                .filter_map(|(key, row)| Some((layout.parse_member(key)?, LeaseRow::decode(row)?))),
        );
        match rows.into_iter().nth(SCAN_ROWS - 1) {
            Some((last, _)) => left.start = [&last[..], &[0]].concat(),
            None => return Ok(all),
        }
    }
}

/// A living member, for a server that wants the whole database.
///
/// # Errors
/// Those of the cluster.
pub(crate) fn find_member(cluster: &Cluster, layout: &Layout, ts: u64) -> Result<Option<LeaseRow>> {
    let mut all = members(cluster, layout, ts)?.into_iter();
    Ok(all.find_map(|(_, row)| is_alive(&row, ts).then_some(row)))
}

/// The numbers of living members, without `holder`: its row is from an earlier attempt to join, for
/// which no answer arrived.
fn living_numbers(cluster: &Cluster, layout: &Layout, holder: u64, ts: u64) -> Result<Vec<u16>> {
    let all = members(cluster, layout, ts)?.into_iter();
    let others = all.filter(|(_, row)| row.holder != holder && is_alive(row, ts));
    Ok(others.map(|(number, _)| number).collect())
}

/// The smallest number that is not taken.
fn find_free(taken: &[u16]) -> Result<u16> {
    let free = (0..MEMBERS_MAX).find(|number| !taken.contains(number));
    free.ok_or_else(|| StorageError::Locked {
        path: format!("on TiKV, which has {MEMBERS_MAX} members,"),
    })
}
