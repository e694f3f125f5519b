//! The memory budget: what is charged, what may be charged, and counters of refused requests.

use model::{MongoError, Result, code};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A stage may always hold this much before it spills: below it, spilling costs more than it saves.
const STAGE_BYTES_MIN: usize = 4 << 20;
/// After an operation that held this much, freed memory may be returned to the system at once.
const RECLAIM_BYTES_MIN: usize = 4 << 20;
/// Giving back this much at once makes room for waiting requests.
const MOVING_BYTES_MIN: usize = 1 << 20;
/// Bytes charged between two looks at the resident memory.
const LOOK_BYTES: usize = 8 << 20;

/// The resident memory of the process, for whatever use. It is more than what is charged: the
/// allocator keeps freed memory for reuse, and C libraries allocate without charging.
pub trait ResidentMemory: Send + Sync {
    /// Returns freed memory to the system if much is resident; true if it did.
    fn trim(&self) -> bool;

    /// Checks whether operations may allocate more, and returns freed memory to the system if
    /// needed.
    fn pressure(&self) -> Pressure;
}

/// How close the resident memory is to the limit of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressure {
    /// There is room.
    None,
    /// There is room after freed memory was returned to the system.
    Trimmed,
    /// There is no room, even after freed memory was returned.
    Over {
        /// Bytes resident.
        resident: u64,
        /// Bytes the process may use.
        allowed: u64,
    },
}

/// The memory budget of all operations together. Shared by all connections.
pub struct Budget {
    limit: usize,
    share: usize,
    /// A limit for one operation, if it is less than its share.
    operation: AtomicUsize,
    used: AtomicUsize,
    most: AtomicUsize,
    refused: AtomicU64,
    reclaimed: AtomicU64,
    resident: Option<Box<dyn ResidentMemory>>,
    /// Bytes charged since the last look at the resident memory.
    unseen: AtomicUsize,
    /// The budget of which this one is a part.
    whole: Option<Arc<Budget>>,
    /// Since when requests are refused for lack of memory without much being given back.
    full_since: Mutex<Option<Instant>>,
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.stats().fmt(f)
    }
}

/// Statistics of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetStats {
    /// Bytes all operations, open cursors and connections may hold together.
    pub limit_bytes: usize,
    /// Bytes one operation may hold.
    pub share_bytes: usize,
    /// Bytes they hold now.
    pub used_bytes: usize,
    /// Most bytes they have held.
    pub used_bytes_max: usize,
    /// Operations and messages that were refused memory.
    pub refused: u64,
    /// How often freed memory was returned to the system early.
    pub reclaimed: u64,
}

impl Budget {
    /// A budget of `limit` bytes, of which one operation may hold `share`.
    pub fn new(limit: usize, share: usize) -> Budget {
        Budget {
            limit,
            share: share.min(limit),
            operation: AtomicUsize::new(usize::MAX),
            used: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            reclaimed: AtomicU64::new(0),
            resident: None,
            unseen: AtomicUsize::new(0),
            whole: None,
            full_since: Mutex::new(None),
        }
    }

    /// A part of `whole` for one purpose: at most `limit` bytes, charged to `whole` as well.
    pub fn part(whole: &Arc<Budget>, limit: usize) -> Budget {
        Budget {
            whole: Some(Arc::clone(whole)),
            ..Budget::new(limit, limit)
        }
    }

    /// A budget that refuses nothing.
    pub fn unlimited() -> Budget {
        Budget::new(usize::MAX / 2, usize::MAX / 2)
    }

    /// Also limits the process's `resident` memory.
    #[must_use]
    pub fn with_resident(self, resident: impl ResidentMemory + 'static) -> Budget {
        Budget {
            resident: Some(Box::new(resident)),
            ..self
        }
    }

    /// Limits one operation to `bytes`, in addition to its share.
    pub fn bound_operations(&self, bytes: usize) {
        self.operation.store(bytes, Relaxed);
    }

    /// Bytes one operation may hold.
    fn share(&self) -> usize {
        self.share.min(self.operation.load(Relaxed))
    }

    /// Its statistics now.
    pub fn stats(&self) -> BudgetStats {
        BudgetStats {
            limit_bytes: self.limit,
            share_bytes: self.share(),
            used_bytes: self.used.load(Relaxed),
            used_bytes_max: self.most.load(Relaxed),
            refused: self.refused.load(Relaxed),
            reclaimed: self.reclaimed.load(Relaxed),
        }
    }

    /// Bytes one blocking stage may hold before it spills or fails: `most`, less when one
    /// operation's share is small or the process is short of memory.
    pub fn stage_bytes(&self, most: usize) -> usize {
        let left = self.limit.saturating_sub(self.used.load(Relaxed));
        most.min((self.share() / 2).min(left / 2).max(STAGE_BYTES_MIN))
    }

    /// A charge of zero bytes, which may grow later.
    pub fn charge(self: &Arc<Self>) -> Charge {
        Charge {
            budget: Arc::clone(self),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Whether an operation that holds `held` bytes has little left of its share or of the budget.
    pub(crate) fn is_nearly_used(&self, held: usize) -> bool {
        held > self.share() / 4 * 3 || self.used.load(Relaxed) > self.limit / 8 * 7
    }

    /// Charges memory that is already allocated.
    pub(crate) fn add(&self, bytes: usize) {
        let used = self.used.fetch_add(bytes, Relaxed) + bytes;
        self.most.fetch_max(used, Relaxed);
        if let Some(whole) = &self.whole {
            whole.add(bytes);
        }
    }

    pub(crate) fn sub(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
        if bytes >= MOVING_BYTES_MIN {
            *self.full_since.lock() = None;
        }
        if let Some(whole) = &self.whole {
            whole.sub(bytes);
        }
    }

    /// Refuses `more` bytes for an operation that holds `held` bytes, if they exceed a limit.
    pub(crate) fn allows(&self, held: usize, more: usize) -> Result<()> {
        let used = self.used.load(Relaxed);
        let share = self.share();
        if held.saturating_add(more) > share {
            return Err(refusal(format!(
                "the operation would use too much memory: {} bytes, {} are allowed for one \
                    operation",
                held.saturating_add(more),
                share
            )));
        }
        if used.saturating_add(more) > self.limit {
            return Err(refusal(format!(
                "the server is short of memory: all operations would use {} bytes, {} are allowed; \
                    try again later or start it with more --memory",
                used.saturating_add(more),
                self.limit
            )));
        }
        match &self.whole {
            Some(whole) => whole.allows(0, more),
            None => Ok(()),
        }
    }

    /// Counts an operation or a message that was refused.
    pub(crate) fn count_refusal(&self) {
        self.refused.fetch_add(1, Relaxed);
        if let Some(whole) = &self.whole {
            whole.count_refusal();
        }
    }

    /// Must be called when `bytes` more are charged, of which `at_once` are not allocated yet.
    /// Checks the resident memory from time to time: memory that others have freed should be
    /// returned before more is allocated.
    ///
    /// # Errors
    /// 146 ExceededMemoryLimit when the process exceeds its limit even after freed memory was
    /// returned, and the operations hold most of their part. If something else holds the memory,
    /// refusing operations would not help.
    pub(crate) fn check_resident(&self, bytes: usize, at_once: usize) -> Result<()> {
        if let Some(whole) = &self.whole {
            return whole.check_resident(bytes, at_once);
        }
        let Some(resident) = &self.resident else {
            return Ok(());
        };
        self.end_operation(at_once);
        if self.unseen.fetch_add(bytes, Relaxed) + bytes < LOOK_BYTES {
            return Ok(());
        }
        self.unseen.store(0, Relaxed);
        match resident.pressure() {
            Pressure::None => return Ok(()),
            Pressure::Trimmed => {}
            Pressure::Over { resident, allowed } if self.used.load(Relaxed) > self.limit / 2 => {
                return Err(refusal(format!(
                    "the server is short of memory: {resident} bytes are resident, {allowed} are \
                        allowed; try again later or start it with more --memory",
                )));
            }
            Pressure::Over { .. } => {}
        }
        self.reclaimed.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Must be called when an operation that held at most `most` bytes has freed them.
    pub(crate) fn end_operation(&self, most: usize) {
        if most >= RECLAIM_BYTES_MIN
            && let Some(resident) = &self.resident
            && resident.trim()
        {
            self.reclaimed.fetch_add(1, Relaxed);
        }
    }
}

fn refusal(message: String) -> MongoError {
    MongoError::new(code::EXCEEDED_MEMORY_LIMIT, message)
}

/// Memory that is held by something other than a running operation, such as an open cursor or a
/// connection's buffers. Given back on drop.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<Budget>,
    bytes: AtomicUsize,
}

impl Charge {
    /// Bytes charged.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Sets the charge to `bytes`, which are allocated already, without a check.
    pub fn set(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Relaxed);
        if bytes >= before {
            self.budget.add(bytes - before);
        } else {
            self.budget.sub(before - bytes);
        }
    }

    /// Sets the charge to `bytes` if the budget allows it.
    ///
    /// # Errors
    /// 146 ExceededMemoryLimit; then the charge is unchanged.
    pub fn try_set(&self, bytes: usize) -> Result<()> {
        let more = bytes.saturating_sub(self.bytes());
        let allowed = self
            .budget
            .allows(0, more)
            .and_then(|()| self.budget.check_resident(more, 0));
        match &allowed {
            Ok(()) => self.set(bytes),
            Err(_) => self.budget.count_refusal(),
        }
        allowed
    }

    /// As [`Charge::try_set`], for a caller that can wait: false if there is no room now, but
    /// others have given much back within `patience`.
    ///
    /// # Errors
    /// 146 ExceededMemoryLimit if nothing was given back, or if `bytes` exceed the limit itself;
    /// then the charge is unchanged.
    pub fn set_or_wait(&self, bytes: usize, patience: Duration) -> Result<bool> {
        let more = bytes.saturating_sub(self.bytes());
        let allowed = self
            .budget
            .allows(0, more)
            .and_then(|()| self.budget.check_resident(more, 0));
        let Err(refused) = allowed else {
            self.set(bytes);
            return Ok(true);
        };
        let since = *self
            .budget
            .full_since
            .lock()
            .get_or_insert_with(Instant::now);
        if bytes <= self.budget.limit && since.elapsed() < patience {
            return Ok(false);
        }
        self.budget.count_refusal();
        Err(refused)
    }

    /// Hands the charged bytes over to the caller, which accounts for them from now on.
    pub(crate) fn take(&self) -> usize {
        self.bytes.swap(0, Relaxed)
    }

    /// Takes over bytes that the caller has charged.
    pub(crate) fn give(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Relaxed);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.sub(self.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_bounded_and_come_back() {
        let budget = Arc::new(Budget::new(100, 60));
        let (a, b) = (budget.charge(), budget.charge());
        a.try_set(50).unwrap();
        b.try_set(40).unwrap();
        let refused = b.try_set(51).unwrap_err();
        assert_eq!((refused.code(), b.bytes()), (146, 40), "{refused:?}");
        assert_eq!(
            a.try_set(61).unwrap_err().code(),
            146,
            "one operation's share"
        );
        b.try_set(50).unwrap();
        drop(a);
        b.set(90);
        assert_eq!(
            (budget.stats().used_bytes, budget.stats().used_bytes_max),
            (90, 100)
        );
        drop(b);
        assert_eq!((budget.stats().used_bytes, budget.stats().refused), (0, 2));
    }

    /// A process that has this much resident and may use 1,000 bytes.
    struct FixedProcess(Arc<AtomicU64>);

    impl ResidentMemory for FixedProcess {
        fn trim(&self) -> bool {
            false
        }

        fn pressure(&self) -> Pressure {
            match self.0.load(Relaxed) {
                resident @ 1001.. => Pressure::Over {
                    resident,
                    allowed: 1000,
                },
                901..=1000 => Pressure::Trimmed,
                _ => Pressure::None,
            }
        }
    }

    #[test]
    fn growth_is_refused_beyond_the_process_limit_if_operations_hold_most_memory() {
        let resident = Arc::new(AtomicU64::new(0));
        let limit = 10 * LOOK_BYTES;
        let budget =
            Arc::new(Budget::new(limit, limit).with_resident(FixedProcess(Arc::clone(&resident))));
        let messages = Arc::new(Budget::part(&budget, limit));
        let (a, b) = (budget.charge(), messages.charge());
        resident.store(2000, Relaxed);
        a.try_set(4 * LOOK_BYTES).expect("others hold it");
        a.try_set(6 * LOOK_BYTES).unwrap();
        let refused = b.try_set(LOOK_BYTES).unwrap_err();
        assert_eq!((refused.code(), b.bytes()), (146, 0), "{refused:?}");
        b.try_set(LOOK_BYTES / 4)
            .expect("it is not looked for so little");
        resident.store(950, Relaxed);
        b.try_set(2 * LOOK_BYTES).unwrap();
        assert_eq!(budget.stats().reclaimed, 3);
        resident.store(10, Relaxed);
        b.try_set(3 * LOOK_BYTES).unwrap();
        assert_eq!((budget.stats().reclaimed, budget.stats().refused), (3, 1));
    }

    #[test]
    fn a_waiting_operation_is_refused_when_no_memory_is_freed() {
        let budget = Arc::new(Budget::new(4 << 20, 4 << 20));
        let (a, b) = (budget.charge(), budget.charge());
        assert_eq!(a.set_or_wait(3 << 20, Duration::ZERO).ok(), Some(true));
        let patience = Duration::from_secs(3600);
        assert_eq!(b.set_or_wait(2 << 20, patience).ok(), Some(false));
        assert_eq!((b.bytes(), budget.stats().refused), (0, 0));
        let refused = b.set_or_wait(2 << 20, Duration::ZERO).unwrap_err();
        assert_eq!((refused.code(), budget.stats().refused), (146, 1));
        assert!(b.set_or_wait(5 << 20, patience).is_err(), "never to be had");
        drop(a);
        assert!(budget.full_since.lock().is_none(), "much was given back");
        assert_eq!(b.set_or_wait(2 << 20, Duration::ZERO).ok(), Some(true));
    }

    #[test]
    fn a_part_is_bounded_by_itself_and_by_the_whole() {
        let whole = Arc::new(Budget::new(100, 100));
        let part = Arc::new(Budget::part(&whole, 50));
        let (a, other) = (part.charge(), whole.charge());
        assert_eq!(a.try_set(51).unwrap_err().code(), 146);
        a.try_set(40).unwrap();
        assert_eq!(whole.stats().used_bytes, 40);
        other.set(55);
        assert_eq!(
            a.try_set(46).unwrap_err().code(),
            146,
            "the whole is used up"
        );
        drop(a);
        assert_eq!((part.stats().used_bytes, whole.stats().used_bytes), (0, 55));
    }

    #[test]
    fn stages_spill_earlier_when_memory_is_short() {
        let budget = Arc::new(Budget::new(100 << 20, 60 << 20));
        assert_eq!(budget.stage_bytes(100 << 20), 30 << 20);
        assert_eq!(budget.stage_bytes(1000), 1000);
        let other = budget.charge();
        other.set(80 << 20);
        assert_eq!(budget.stage_bytes(100 << 20), 10 << 20);
        other.set(120 << 20);
        assert_eq!(budget.stage_bytes(100 << 20), STAGE_BYTES_MIN);
    }
}
