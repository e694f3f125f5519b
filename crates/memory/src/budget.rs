//! The budget: how much is charged, how much may be, and what became of requests beyond it.

use model::{MongoError, Result, code};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A stage may always hold this much before it has to spill: below it, spilling costs more than it
/// saves.
const STAGE_BYTES_MIN: usize = 4 << 20;
/// After an operation that held this much it is looked whether freed memory should be returned to
/// the system at once.
const RECLAIM_BYTES_MIN: usize = 4 << 20;

/// The operations' part of the process's memory. Shared by all connections.
pub struct Budget {
    limit: usize,
    share: usize,
    used: AtomicUsize,
    most: AtomicUsize,
    refused: AtomicU64,
    reclaimed: AtomicU64,
    reclaim: Option<Box<dyn Fn() -> bool + Send + Sync>>,
    /// The budget this one is a part of.
    whole: Option<Arc<Budget>>,
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
    /// How often freed memory was returned to the system at the end of a large operation.
    pub reclaimed: u64,
}

impl Budget {
    /// A budget of `limit` bytes, of which one operation may hold `share`.
    pub fn new(limit: usize, share: usize) -> Budget {
        Budget {
            limit,
            share: share.min(limit),
            used: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            reclaimed: AtomicU64::new(0),
            reclaim: None,
            whole: None,
        }
    }

    /// A part of `whole` for one purpose: at most `limit` bytes, charged to `whole` as well.
    pub fn part(whole: &Arc<Budget>, limit: usize) -> Budget {
        Budget {
            whole: Some(Arc::clone(whole)),
            ..Budget::new(limit, limit)
        }
    }

    /// One that refuses nothing.
    pub fn unlimited() -> Budget {
        Budget::new(usize::MAX / 2, usize::MAX / 2)
    }

    /// The same, which calls `f` when an operation that held much has ended: it returns freed
    /// memory to the system if there is much of it, and says whether it did.
    #[must_use]
    pub fn reclaiming(self, f: impl Fn() -> bool + Send + Sync + 'static) -> Budget {
        Budget {
            reclaim: Some(Box::new(f)),
            ..self
        }
    }

    /// Its statistics now.
    pub fn stats(&self) -> BudgetStats {
        BudgetStats {
            limit_bytes: self.limit,
            share_bytes: self.share,
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
        most.min((self.share / 2).min(left / 2).max(STAGE_BYTES_MIN))
    }

    /// A charge of nothing, to be set later.
    pub fn charge(self: &Arc<Self>) -> Charge {
        Charge {
            budget: Arc::clone(self),
            bytes: AtomicUsize::new(0),
        }
    }

    /// True when little is left for an operation that holds `held`, of its share or of the whole.
    pub(crate) fn is_nearly_used(&self, held: usize) -> bool {
        held > self.share / 4 * 3 || self.used.load(Relaxed) > self.limit / 8 * 7
    }

    /// Adds what is already allocated.
    pub(crate) fn add(&self, bytes: usize) {
        let used = self.used.fetch_add(bytes, Relaxed) + bytes;
        self.most.fetch_max(used, Relaxed);
        if let Some(whole) = &self.whole {
            whole.add(bytes);
        }
    }

    pub(crate) fn sub(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
        if let Some(whole) = &self.whole {
            whole.sub(bytes);
        }
    }

    /// Refuses when an operation that holds `held` wants `more` besides.
    pub(crate) fn allows(&self, held: usize, more: usize) -> Result<()> {
        let used = self.used.load(Relaxed);
        if held.saturating_add(more) > self.share {
            return Err(refusal(format!(
                "the operation would use too much memory: {} bytes, {} are allowed for one \
                    operation",
                held.saturating_add(more),
                self.share
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

    /// To be called before `bytes` are made at once: memory freed by others shall not stay resident
    /// beside them.
    pub(crate) fn reclaim_for(&self, bytes: usize) {
        if bytes >= RECLAIM_BYTES_MIN {
            self.ended(bytes);
        }
    }

    /// To be called when an operation that held at most `most` bytes has freed them.
    pub(crate) fn ended(&self, most: usize) {
        if most >= RECLAIM_BYTES_MIN
            && let Some(reclaim) = &self.reclaim
            && reclaim()
        {
            self.reclaimed.fetch_add(1, Relaxed);
        }
    }
}

fn refusal(message: String) -> MongoError {
    MongoError::new(code::EXCEEDED_MEMORY_LIMIT, message)
}

/// Bytes that something other than a running operation holds: an open cursor, a connection's
/// buffers. Given back on drop.
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

    /// Charges `bytes` in place of what was charged, without asking: they are there already.
    pub fn set(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Relaxed);
        if bytes >= before {
            self.budget.add(bytes - before);
        } else {
            self.budget.sub(before - bytes);
        }
    }

    /// Charges `bytes` in place of what was charged, if the budget has so many.
    ///
    /// # Errors
    /// 146 ExceededMemoryLimit; then nothing has changed.
    pub fn try_set(&self, bytes: usize) -> Result<()> {
        let allowed = self.budget.allows(0, bytes.saturating_sub(self.bytes()));
        match &allowed {
            Ok(()) => self.set(bytes),
            Err(_) => self.budget.count_refusal(),
        }
        allowed
    }

    /// Hands the bytes over to the caller, who answers for them from now on.
    pub(crate) fn take(&self) -> usize {
        self.bytes.swap(0, Relaxed)
    }

    /// Takes over bytes the caller has charged.
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
