//! Assigns times to entries, and knows up to which time the log can be read. Promises: times of
//! changes to one document grow; a reader that stops at `visible` misses no entry, because every
//! commit with an earlier time was applied or has failed. Must not know: what entries contain, how
//! they are read.
//!
//! Writers commit in parallel, so the engine may apply a later time first. Times are assigned under
//! a lock, and `visible` is the time before the earliest commit in progress.

use super::audience::Audience;
use super::commit_times::end_time;
use super::concerned::NamespaceHash;
use super::due::TruncationTrigger;
use super::ended::end_member_logs;
use super::member::{MemberLog, SharedIdents};
use super::places::UnpublishedLog;
use super::positions::Consumers;
use super::reference_counters::{ReferenceCounters, ReferenceCounts};
use super::retention::{Retention, StoredRetention, last_row};
use super::settings::LogSettings;
use super::watch::{Watch, Watches};
use crate::format::log::LogTotals;
use model::{Result, Timestamp};
use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use storage::{Engine, Follower, Table};

/// For consumers that are behind, the log may grow to this many times its size.
const HELD_SIZES: u64 = 2;
/// Size of a log that is kept only for consumers, once all of them have read it.
const CONSUMED_BYTES_MAX: u64 = 16 << 20;

/// The log of an open store.
pub struct Log {
    pub(crate) ident: u32,
    audience: Audience,
    uuid: [u8; 16],
    pub(super) now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    pub(super) times: Mutex<Times>,
    /// Signalled when no commit is in progress any more, and when times are assigned again.
    drained: Condvar,
    /// Every commit with a time up to here was applied or has failed.
    pub(super) visible: AtomicU64,
    /// Whether entries of inserts may refer to records.
    refers: AtomicBool,
    pub(crate) references: ReferenceCounters,
    /// The latest time received from outside, see [`Log::advance`].
    heard: AtomicU64,
    pub(super) retention: Retention,
    pub(super) consumers: Consumers,
    pub(super) due: TruncationTrigger,
    pub(super) watches: Arc<Watches>,
    /// What this process needs to write it beside others.
    pub(super) member: Option<MemberLog>,
}

/// The assigned times.
pub(super) struct Times {
    /// The last time that was assigned; beside other processes the last one that can be read.
    pub(super) last: u64,
    entries_total: u64,
    /// Beside other processes, those that this one has published.
    pub(super) bytes_total: u64,
    /// Commits in progress and the completed ones after them, by time.
    pending: VecDeque<PendingCommit>,
    /// Whether the assignment of times is stopped.
    held: bool,
}

struct PendingCommit {
    first: u64,
    last: u64,
    arrived: bool,
    concerned: SmallVec<[NamespaceHash; 1]>,
}

/// The times of one commit; dropping it completes the commit.
pub(crate) struct ReservedTimes<'l> {
    log: &'l Log,
    first: u64,
    late: LogTotals,
}

impl Log {
    /// Opens the log of a store, or creates it.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn open(
        engine: &dyn Engine,
        ident: &mut dyn FnMut() -> Result<u32>,
        settings: &LogSettings,
    ) -> Result<Log> {
        let audience = settings.audience;
        let retention = match find_alone(engine)? {
            // The other kind of log lacks the changes that were made meanwhile.
            Some(stored) if stored.audience != audience => stored.end(engine, audience)?,
            Some(stored) => stored,
            None => StoredRetention::begin(engine, ident()?, settings.bytes_max, audience)?,
        };
        let (last, late) = last_row(engine, retention.ident)?;
        let mut last = last.max(retention.oldest.saturating_sub(1));
        if audience == Audience::Consumers {
            // This log gets no entry at the start, so the clock makes its positions tell when they
            // were taken.
            let now_s = u64::try_from((settings.now_ms)() / 1000).unwrap_or(0);
            last = last.max(now_s << 32);
        }
        let log = Log::new(
            settings,
            retention.ident,
            Times::after(last, late),
            Retention::open(engine, retention)?,
            Consumers::open(engine)?,
        );
        engine.expect_size(Table::Log, log.bytes_max());
        Ok(log)
    }

    /// Joins the log that several processes write, or begins it.
    ///
    /// # Errors
    /// As [`MemberLog::join`].
    pub(crate) fn join(
        follower: &Arc<dyn Follower>,
        ident: &mut dyn FnMut() -> Result<u32>,
        settings: &LogSettings,
    ) -> Result<Log> {
        let (member, stored) = MemberLog::join(follower, ident, settings)?;
        let log = Log::new(
            settings,
            stored.ident,
            Times::after(0, LogTotals::default()),
            Retention::of_several(stored),
            Consumers::default(),
        );
        log.copy_documents();
        let log = Log {
            member: Some(member),
            ..log
        };
        Ok(log)
    }

    /// Whether several processes write a log.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn has_members(engine: &dyn Engine) -> Result<bool> {
        SharedIdents::read(engine).map(|shared| shared.is_some())
    }

    fn new(
        settings: &LogSettings,
        ident: u32,
        times: Times,
        retention: Retention,
        consumers: Consumers,
    ) -> Log {
        Log {
            ident,
            audience: settings.audience,
            uuid: settings.uuid,
            now_ms: Arc::clone(&settings.now_ms),
            visible: AtomicU64::new(times.last),
            times: Mutex::new(times),
            drained: Condvar::new(),
            refers: AtomicBool::new(settings.audience == Audience::Everybody),
            references: ReferenceCounters::default(),
            heard: AtomicU64::new(0),
            retention,
            consumers,
            due: TruncationTrigger::default(),
            watches: Arc::default(),
            member: None,
        }
    }

    /// For a store that is opened without a log: its changes are not logged, so an existing log
    /// ends here.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn abandon(engine: &dyn Engine) -> Result<()> {
        let Some(stored) = find_alone(engine)? else {
            return Ok(());
        };
        let (last, _) = last_row(engine, stored.ident)?;
        match last < stored.oldest {
            true => Ok(()),
            false => stored.end(engine, stored.audience).map(|_| ()),
        }
    }

    /// Whether it has all changes, or only those of collections with search indexes.
    pub(crate) fn has_everything(&self) -> bool {
        self.audience == Audience::Everybody
    }

    /// Assigns times to a commit.
    pub(crate) fn reserve(
        &self,
        entries: u32,
        bytes: u64,
        concerned: SmallVec<[NamespaceHash; 1]>,
    ) -> ReservedTimes<'_> {
        let wall_ms = (self.now_ms)();
        let now = u64::try_from(wall_ms / 1000).unwrap_or(0) << 32 | 1;
        let heard = self.heard.load(Ordering::Acquire);
        let mut times = self.times.lock();
        while times.held {
            self.drained.wait(&mut times);
        }
        let first = now.max(times.last + 1).max(heard + 1);
        let last = first + u64::from(entries.max(1)) - 1;
        times.last = last;
        times.entries_total += u64::from(entries);
        times.bytes_total += bytes;
        self.due.note_written(times.bytes_total);
        times.pending.push_back(PendingCommit {
            first,
            last,
            arrived: false,
            concerned,
        });
        ReservedTimes {
            log: self,
            first,
            late: LogTotals {
                entries_total: times.entries_total,
                bytes_total: times.bytes_total,
                wall_ms,
            },
        }
    }

    fn arrive(&self, first: u64) {
        let mut told: SmallVec<[NamespaceHash; 4]> = SmallVec::new();
        {
            let mut times = self.times.lock();
            let way = &mut times.pending;
            if let Ok(n) = way.binary_search_by_key(&first, |w| w.first)
                && let Some(w) = way.get_mut(n)
            {
                w.arrived = true;
            }
            while let Some(w) = way.pop_front() {
                if !w.arrived {
                    way.push_front(w);
                    break;
                }
                // Marked before the entries can be read, see `watch`.
                self.watches.mark(&w.concerned, w.last);
                self.visible.store(w.last, Ordering::SeqCst);
                told.extend(w.concerned);
            }
            if times.held && times.pending.is_empty() {
                self.drained.notify_all();
            }
        }
        self.watches.wake(&told);
    }

    /// Runs `f` while no commit is in progress: the state that it sees in the engine is exactly
    /// that of the time it gets.
    ///
    /// Beside other processes commits go on: the state has all changes up to the time, and may have
    /// later ones.
    pub fn run_between_commits<T>(&self, f: impl FnOnce(Timestamp) -> T) -> T {
        if self.member.is_some() {
            return f(self.current());
        }
        let mut times = self.times.lock();
        while times.held {
            self.drained.wait(&mut times);
        }
        times.held = true;
        while !times.pending.is_empty() {
            self.drained.wait(&mut times);
        }
        let at = times.last;
        drop(times);
        // Assigns times again, also when `f` unwinds.
        let _opens = HoldGuard(self);
        f(Timestamp::from_u64(at))
    }

    /// Waits until all changes up to a time can be read, or all changes if the time is in the
    /// future.
    ///
    /// # Cost
    /// One atomic load, unless a commit with such a time is in progress.
    pub fn catch_up(&self, to: Timestamp) {
        // Beside other processes every read sees what was committed before it.
        if self.member.is_none() && self.visible() < to && self.visible() < self.latest() {
            self.run_between_commits(|_| ());
        }
    }

    /// Watches for entries that concern `of`. Every existing entry counts as one of them.
    pub fn watch(&self, of: NamespaceHash) -> Watch {
        let watch = self.watches.watch(of);
        // Commits in progress may have marked the watches before this one was added.
        let last = self.times.lock().last;
        watch.expect(last.max(self.visible.load(Ordering::SeqCst)));
        watch
    }

    /// Every entry up to this time can be read, and no earlier one will be added. A read that
    /// begins after this call sees all changes up to it.
    pub fn visible(&self) -> Timestamp {
        Timestamp::from_u64(self.visible.load(Ordering::SeqCst))
    }

    /// The time of the state that a read sees which begins now: changes that were acknowledged
    /// before have earlier times, and later commits get later ones. Beside other processes it may
    /// be later than [`Log::visible`].
    pub fn current(&self) -> Timestamp {
        match &self.member {
            Some(member) => Timestamp::from_u64(end_time(member.newest_pos())),
            None => self.visible(),
        }
    }

    /// Whether several processes write it.
    pub fn is_shared(&self) -> bool {
        self.member.is_some()
    }

    /// The latest time that was assigned to a commit, which may be in progress.
    pub fn latest(&self) -> Timestamp {
        if self.member.is_some() {
            return self.current();
        }
        Timestamp::from_u64(self.times.lock().last)
    }

    /// Entries before this time may have been removed.
    pub fn oldest(&self) -> Timestamp {
        Timestamp::from_u64(self.retention.oldest())
    }

    /// Makes later entries get later times than this. Beside other processes the cluster gives the
    /// times, so this changes nothing.
    pub fn advance(&self, to: Timestamp) {
        self.heard.fetch_max(to.as_u64(), Ordering::AcqRel);
    }

    /// Number of entries that can be read, and the bytes they take.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn counts(&self, engine: &dyn Engine) -> Result<(u64, u64)> {
        if let Some(member) = &self.member {
            let moment = member.take_moment()?;
            let sums = moment.sums_from(moment.oldest())?;
            return Ok((sums.entries, sums.bytes));
        }
        let (entries, bytes) = {
            let times = self.times.lock();
            (times.entries_total, times.bytes_total)
        };
        let before = self.retention.totals_before(engine, self.ident)?;
        Ok((
            entries.saturating_sub(before.entries_total),
            bytes.saturating_sub(before.bytes_total),
        ))
    }

    /// What this process has committed and not published; nothing for a log that it writes alone.
    pub fn unpublished(&self) -> UnpublishedLog {
        let Some(member) = &self.member else {
            return UnpublishedLog::default();
        };
        let now_ms = member.engine.shared_time_ms().unwrap_or(0);
        member.places.unpublished(now_ms)
    }

    /// What was referred to, saved and looked up since the start.
    pub fn reference_counts(&self) -> ReferenceCounts {
        self.references.counts()
    }

    /// Whether entries of inserts may refer to records (ADR 0051).
    pub(crate) fn refers(&self) -> bool {
        self.refers.load(Ordering::Relaxed)
    }

    /// Makes later entries of inserts hold the documents themselves.
    pub fn copy_documents(&self) {
        self.refers.store(false, Ordering::Relaxed);
    }

    pub(crate) fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Number of entries ever written.
    pub(super) fn entries_total(&self) -> u64 {
        self.times.lock().entries_total
    }

    /// Number of bytes ever written.
    pub(super) fn bytes_total(&self) -> u64 {
        self.times.lock().bytes_total
    }

    /// Size in bytes at which the log is kept.
    pub fn bytes_max(&self) -> u64 {
        let bytes_max = self.retention.stored_retention().bytes_max;
        match self.audience {
            Audience::Everybody => bytes_max,
            Audience::Consumers => bytes_max.min(CONSUMED_BYTES_MAX),
        }
    }

    /// Size in bytes up to which the log is kept for consumers that are behind; the row of one
    /// commit may exceed it.
    pub fn held_bytes_max(&self) -> u64 {
        let sizes = self.bytes_max().saturating_mul(HELD_SIZES);
        match self.audience {
            Audience::Everybody => sizes,
            Audience::Consumers => sizes.max(self.retention.stored_retention().bytes_max),
        }
    }

    /// Milliseconds for which entries are kept at least, however large the log is.
    pub fn keep_ms(&self) -> u64 {
        self.retention.stored_retention().keep_ms
    }
}

/// The settings of a log that one process writes. What several have written ends here.
fn find_alone(engine: &dyn Engine) -> Result<Option<StoredRetention>> {
    match StoredRetention::read(engine)? {
        Some(stored) => end_member_logs(engine, stored).map(Some),
        None => Ok(None),
    }
}

impl Times {
    fn after(last: u64, late: LogTotals) -> Times {
        Times {
            last,
            entries_total: late.entries_total,
            bytes_total: late.bytes_total,
            pending: VecDeque::new(),
            held: false,
        }
    }
}

struct HoldGuard<'l>(&'l Log);

impl Drop for HoldGuard<'_> {
    fn drop(&mut self) {
        self.0.times.lock().held = false;
        self.0.drained.notify_all();
    }
}

impl ReservedTimes<'_> {
    /// The sums including this commit's entries.
    pub(crate) fn end_totals(&self) -> LogTotals {
        self.late
    }

    /// Time of the first entry.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }
}

impl Drop for ReservedTimes<'_> {
    fn drop(&mut self) {
        self.log.arrive(self.first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::MemoryEngine;

    fn log() -> Log {
        let settings = LogSettings {
            bytes_max: 1 << 20,
            uuid: [0; 16],
            audience: Audience::Everybody,
            now_ms: Arc::new(|| 5_000),
        };
        Log::open(&MemoryEngine::new(), &mut || Ok(7), &settings).unwrap()
    }

    #[test]
    fn a_commit_on_its_way_hides_later_ones() {
        let log = log();
        let first = log.reserve(2, 0, SmallVec::new());
        let second = log.reserve(1, 0, SmallVec::new());
        assert_eq!((first.first, second.first), (5 << 32 | 1, 5 << 32 | 3));
        drop(second);
        assert_eq!(log.visible().as_u64(), 0);
        drop(first);
        assert_eq!(log.visible().as_u64(), 5 << 32 | 3);
    }

    #[test]
    fn times_heard_of_are_passed() {
        let log = log();
        log.advance(Timestamp {
            time: 9,
            increment: 4,
        });
        assert_eq!(log.reserve(1, 0, SmallVec::new()).first, 9 << 32 | 5);
    }

    #[test]
    fn nobody_is_woken_before_an_entry_can_be_read() {
        let log = Arc::new(log());
        let (a, b) = (
            NamespaceHash::hash("a", Some("x")),
            NamespaceHash::hash("b", None),
        );
        let watch = log.watch(NamespaceHash::hash("b", Some("y")));
        let woken = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&woken);
        let waking = watch.wake(Arc::new(move || {
            counter.fetch_add(1, Ordering::SeqCst);
        }));
        let next = || Timestamp::from_u64(log.visible().as_u64() + 1);
        let begin = next();
        assert!(!watch.has_from(begin));
        let first = log.reserve(1, 0, smallvec::smallvec![a]);
        drop(log.reserve(1, 0, smallvec::smallvec![b]));
        assert_eq!(woken.load(Ordering::SeqCst), 0);
        assert!(!watch.has_from(begin));
        drop(first);
        assert_eq!(woken.load(Ordering::SeqCst), 1);
        assert!(watch.has_from(begin) && !watch.has_from(next()));
        drop(log.reserve(1, 0, smallvec::smallvec![a, NamespaceHash::ALL]));
        assert!(!watch.has_from(next()), "it concerns others");
        drop(waking);
        let begin = next();
        drop(log.reserve(1, 0, smallvec::smallvec![b]));
        assert_eq!(woken.load(Ordering::SeqCst), 1);
        assert!(watch.has_from(begin));
        assert!(!a.meets(&b) && a.meets(&NamespaceHash::ALL));
    }

    /// A watch is marked a moment before the entry can be read. A reader that looked in that
    /// moment, and found nothing, must look again.
    #[test]
    fn a_read_between_mark_and_visibility_loses_nothing() {
        let log = log();
        let of = NamespaceHash::hash("b", Some("y"));
        let watch = log.watch(of);
        let begin = Timestamp::from_u64(log.visible().as_u64() + 1);
        let entry = log.reserve(1, 0, smallvec::smallvec![of]);
        log.watches.mark(&[of], entry.first);
        for _ in 0..2 {
            assert!(watch.has_from(begin), "told of");
            assert!(log.visible() < begin, "and not to be read yet");
        }
        drop(entry);
        assert!(log.visible() >= begin && watch.has_from(begin));
    }
}
