//! The memory account of a connection's operations, one after the other.

use crate::STEP_BYTES;
use crate::budget::{Budget, Charge};
use heap::thread_bytes;
use model::Result;
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

/// Marks a thread that works for no operation.
const DETACHED: isize = isize::MAX;

/// Smallest amount for which spilling pays.
const SPILL_BYTES_MIN: usize = 4 << 20;

thread_local! {
    /// The thread's byte count when its operation's account was last settled.
    static SETTLED: Cell<isize> = const { Cell::new(DETACHED) };
}

/// The account of the memory that a connection's operation holds; the next operation uses the same
/// one.
#[derive(Debug)]
pub struct Account {
    budget: Arc<Budget>,
    /// Bytes allocated minus bytes freed by its threads, plus what it took over from a cursor.
    /// Negative if it freed memory of others.
    held: AtomicIsize,
    most: AtomicIsize,
    refused: AtomicBool,
    /// `parked` has a cursor.
    parks: AtomicBool,
    /// The open cursor to which the operation's memory is charged when it ends.
    parked: Mutex<Option<Arc<Charge>>>,
}

impl Account {
    /// An account that charges `budget`.
    pub fn new(budget: Arc<Budget>) -> Account {
        Account {
            budget,
            held: AtomicIsize::new(0),
            most: AtomicIsize::new(0),
            refused: AtomicBool::new(false),
            parks: AtomicBool::new(false),
            parked: Mutex::new(None),
        }
    }

    /// The budget to which it charges.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Begins an operation on this thread.
    pub fn begin(&self) -> Attachment<'_> {
        self.most.store(0, Relaxed);
        self.refused.store(false, Relaxed);
        Attachment {
            operation: self,
            before: SETTLED.replace(thread_bytes()),
            whole: true,
        }
    }

    /// Lets this thread work for the operation, too, between [`Account::begin`] on another thread
    /// and its end.
    pub fn join(&self) -> Attachment<'_> {
        Attachment {
            operation: self,
            before: SETTLED.replace(thread_bytes()),
            whole: false,
        }
    }

    /// For loops: settles the account when enough bytes have accumulated.
    ///
    /// # Errors
    /// 146 ExceededMemoryLimit.
    ///
    /// # Cost
    /// Two thread-local reads.
    #[inline]
    pub fn check(&self) -> Result<()> {
        let unsettled = thread_bytes().wrapping_sub(SETTLED.get());
        if unsettled.unsigned_abs() < STEP_BYTES {
            return Ok(());
        }
        self.settle_and_ask(0)
    }

    /// Must be called before `bytes` are allocated at once. They are charged immediately, so that
    /// several operations are not all promised the same memory. Bytes not allocated by the next
    /// settling are given back.
    ///
    /// # Errors
    /// 146 ExceededMemoryLimit.
    #[inline]
    pub fn room_for(&self, bytes: usize) -> Result<()> {
        if bytes < STEP_BYTES {
            self.check()
        } else {
            self.settle_and_ask(bytes)
        }
    }

    /// Whether the operation holds so much that a stage that can spill should do so now.
    ///
    /// # Cost
    /// Two loads.
    pub fn is_short(&self) -> bool {
        let held = usize::try_from(self.held.load(Relaxed)).unwrap_or(0);
        held >= SPILL_BYTES_MIN && self.budget.is_nearly_used(held)
    }

    #[cold]
    fn settle_and_ask(&self, more: usize) -> Result<()> {
        if SETTLED.get() == DETACHED {
            return Ok(());
        }
        let grew = self.settle().max(0).unsigned_abs();
        // Freeing memory is never refused.
        if grew == 0 && more == 0 {
            return Ok(());
        }
        let ahead = isize::try_from(more).unwrap_or(isize::MAX / 4);
        self.change(ahead);
        let allowed = self
            .budget
            .allows(usize::try_from(self.held.load(Relaxed)).unwrap_or(0), 0)
            .and_then(|()| self.budget.check_resident(grew + more, more));
        match &allowed {
            // The thread's count then treats the bytes as allocated.
            Ok(()) => SETTLED.set(SETTLED.get().wrapping_add(ahead)),
            Err(_) => {
                self.change(-ahead);
                if !self.refused.swap(true, Relaxed) {
                    self.budget.count_refusal();
                }
            }
        }
        allowed
    }

    /// Charges the bytes accumulated on this thread; returns by how much the account grew.
    fn settle(&self) -> isize {
        let now = thread_bytes();
        let delta = now.wrapping_sub(SETTLED.replace(now));
        self.change(delta);
        delta
    }

    fn change(&self, delta: isize) {
        let before = self.held.fetch_add(delta, Relaxed);
        let after = before.wrapping_add(delta);
        self.most.fetch_max(after, Relaxed);
        // Only the positive part is charged.
        let (before, after) = (before.max(0) as usize, after.max(0) as usize);
        if after > before {
            self.budget.add(after - before);
        } else {
            self.budget.sub(before - after);
        }
    }

    /// Charges what the operation holds at its end to `cursor`, which stays open.
    pub fn park(&self, cursor: &Arc<Charge>) {
        *self.parked.lock() = Some(Arc::clone(cursor));
        self.parks.store(true, Relaxed);
    }

    /// Takes over the bytes of an open cursor, with which this operation continues.
    pub fn resume(&self, cursor: &Charge) {
        let bytes = cursor.take();
        let before = self.held.fetch_add(bytes as isize, Relaxed);
        self.most.fetch_max(before + bytes as isize, Relaxed);
        // The bytes are charged already; a negative account was not charged, so that part is
        // uncharged.
        self.budget.sub(before.min(0).unsigned_abs().min(bytes));
    }

    /// Ends the operation. Most operations were never charged and leave no cursor: then no memory
    /// shared with other threads is written.
    fn end(&self, result: usize) {
        let unsettled = thread_bytes().wrapping_sub(SETTLED.get());
        let parks = self.parks.swap(false, Relaxed);
        if unsettled.unsigned_abs() < STEP_BYTES
            && !parks
            && self.held.load(Relaxed) == 0
            && self.most.load(Relaxed) == 0
        {
            return;
        }
        self.settle();
        let held = self.held.swap(0, Relaxed).max(0) as usize;
        let kept = match self.parked.lock().take() {
            Some(cursor) => {
                let kept = held.saturating_sub(result);
                cursor.give(kept);
                kept
            }
            None => 0,
        };
        self.budget.sub(held - kept);
        self.budget
            .end_operation(self.most.load(Relaxed).max(0) as usize);
    }
}

/// Attaches a thread to an operation until dropped.
#[derive(Debug)]
pub struct Attachment<'o> {
    operation: &'o Account,
    /// The thread's settled count before, if it worked for another operation.
    before: isize,
    /// Dropping this ends the operation.
    whole: bool,
}

impl Attachment<'_> {
    /// Ends the operation. `result` bytes of its memory are the reply; from here on the caller
    /// accounts for them.
    pub fn end(self, result: usize) {
        self.finish(result);
        std::mem::forget(self);
    }

    fn finish(&self, result: usize) {
        if self.whole {
            self.operation.end(result);
        } else {
            self.operation.settle();
        }
        SETTLED.set(self.before);
    }
}

impl Drop for Attachment<'_> {
    fn drop(&mut self) {
        self.finish(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heap::CountingAllocator;
    use std::alloc::System;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator<System> = CountingAllocator(System);

    const MB: usize = 1 << 20;

    fn operation(limit: usize, share: usize) -> (Arc<Budget>, Account) {
        let budget = Arc::new(Budget::new(limit, share));
        (budget.clone(), Account::new(budget))
    }

    #[test]
    fn an_operation_has_a_share_and_gives_it_back() {
        let (budget, op) = operation(100 * MB, 10 * MB);
        let at = op.begin();
        let mut held = Vec::new();
        let refused = loop {
            held.push(vec![1u8; MB]);
            if let Err(e) = op.check() {
                break e;
            }
        };
        assert_eq!(
            (refused.code(), held.len()),
            (146, 10),
            "the list itself counts: {refused:?}"
        );
        assert!(budget.stats().used_bytes > 10 * MB);
        held.truncate(5);
        op.check().expect("what was given back may be used again");
        assert_eq!(
            op.room_for(6 * MB).unwrap_err().code(),
            146,
            "before it is allocated"
        );
        op.room_for(4 * MB).unwrap();
        drop(held);
        drop(at);
        let f = budget.stats();
        assert_eq!(
            (f.used_bytes, f.refused),
            (0, 1),
            "operations are counted, not requests"
        );
        assert!(f.used_bytes_max > 10 * MB);
    }

    #[test]
    fn requested_memory_is_not_available_to_others() {
        let budget = Arc::new(Budget::new(10 * MB, 10 * MB));
        let (first, second) = (Account::new(budget.clone()), Account::new(budget.clone()));
        let at = first.begin();
        first.room_for(7 * MB).unwrap();
        let other = || {
            let _at = second.begin();
            second.room_for(4 * MB).map_err(|e| e.code())
        };
        assert_eq!(
            std::thread::scope(|s| s.spawn(other).join().unwrap()),
            Err(146)
        );
        let held = vec![1u8; 7 * MB];
        first.check().unwrap();
        assert!(budget.stats().used_bytes < 8 * MB, "not charged twice");
        drop(held);
        first.check().unwrap();
        first
            .room_for(6 * MB)
            .expect("room that was not used is given back with the next settling");
        first.check().unwrap();
        assert!(budget.stats().used_bytes < MB, "{:?}", budget.stats());
        drop(at);
        assert_eq!(budget.stats().used_bytes, 0);
    }

    #[test]
    fn small_operations_are_served_when_everything_is_taken() {
        let (budget, op) = operation(10 * MB, 10 * MB);
        let large = budget.charge();
        large.set(11 * MB);
        let _at = op.begin();
        let small = vec![1u8; STEP_BYTES / 2];
        op.check().unwrap();
        let more = vec![1u8; STEP_BYTES];
        assert_eq!(op.check().unwrap_err().code(), 146);
        drop((small, more));
    }

    #[test]
    fn the_later_of_two_operations_is_refused_and_the_first_completes() {
        let budget = Arc::new(Budget::new(12 * MB, 10 * MB));
        let first = Account::new(budget.clone());
        let _a = first.begin();
        let held = vec![1u8; 8 * MB];
        first.check().unwrap();
        let other = budget.clone();
        let code = std::thread::spawn(move || {
            let later = Account::new(other);
            let _b = later.begin();
            let _held = vec![1u8; 6 * MB];
            later.check().map_err(|e| e.code())
        });
        assert_eq!(code.join().unwrap(), Err(146));
        let more = vec![1u8; MB];
        first.check().expect("the first completes");
        drop((held, more));
    }

    #[test]
    fn an_operation_leaves_its_memory_charge_with_a_cursor_and_takes_it_back() {
        let (budget, op) = operation(100 * MB, 50 * MB);
        let cursor = Arc::new(budget.charge());
        let at = op.begin();
        let (held, reply) = (vec![1u8; 5 * MB], vec![1u8; 2 * MB]);
        op.check().unwrap();
        op.park(&cursor);
        at.end(reply.capacity());
        assert!(
            (cursor.bytes() as isize - 5 * MB as isize).unsigned_abs() < 1 << 16,
            "{}",
            cursor.bytes()
        );
        assert_eq!(budget.stats().used_bytes, cursor.bytes());

        let at = op.begin();
        op.resume(&cursor);
        assert_eq!(cursor.bytes(), 0);
        drop(held);
        op.check().unwrap();
        op.park(&cursor);
        at.end(0);
        assert!(cursor.bytes() < 1 << 16, "{}", cursor.bytes());
        drop(cursor);
        assert_eq!(budget.stats().used_bytes, 0);
        drop(reply);
    }

    #[test]
    fn a_second_thread_counts_and_freeing_for_others_is_no_debt() {
        let (budget, op) = operation(100 * MB, 10 * MB);
        let foreign = vec![1u8; 20 * MB];
        let at = op.begin();
        let held = std::thread::scope(|s| {
            s.spawn(|| {
                let _joined = op.join();
                vec![1u8; 4 * MB]
            })
            .join()
            .unwrap()
        });
        assert!(budget.stats().used_bytes >= 4 * MB);
        drop(foreign);
        op.check().unwrap();
        assert_eq!(
            budget.stats().used_bytes,
            0,
            "it gave back more than it took"
        );
        drop(held);
        drop(at);
        assert_eq!(budget.stats().used_bytes, 0);
    }

    #[test]
    fn an_operation_is_short_before_it_is_refused() {
        let (budget, op) = operation(100 * MB, 20 * MB);
        let at = op.begin();
        let held = vec![1u8; 12 * MB];
        op.check().unwrap();
        assert!(!op.is_short());
        let other = budget.charge();
        other.set(80 * MB);
        assert!(op.is_short(), "the process is short");
        drop(other);
        let more = vec![1u8; 5 * MB];
        op.check().unwrap();
        assert!(op.is_short(), "its own share is nearly used");
        drop((held, more, at));
        assert!(!op.is_short());
    }

    #[test]
    fn a_panic_ends_the_account() {
        let (budget, op) = operation(100 * MB, 50 * MB);
        let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _at = op.begin();
            let _held = vec![1u8; 5 * MB];
            op.check().unwrap();
            panic!("as a fault of ours would");
        }));
        assert!(r.is_err());
        assert_eq!(budget.stats().used_bytes, 0);
    }
}
