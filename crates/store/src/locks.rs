//! Locks on documents and unique keys. Promises: writers never deadlock; a short lock is held for
//! one commit; a claim belongs to an owner, not to a thread, and lasts until the owner releases it
//! (a transaction keeps claims between its commands). Must not know: collections, engines.
//!
//! A key is represented by a 64-bit hash, whose upper bits select its stripe. Short locks hold the
//! stripes of their keys, taken in one global order. Claims are entries in a stripe. A writer that
//! finds a claim of another owner releases all its stripes before it waits, so a wait for a claim
//! holds no lock.
//!
//! A short lock is released after the commit is in the journal's buffer and before it is flushed; a
//! dependent commit is later in the same journal, so it can never be durable without its
//! predecessor.

use crate::log::Waker;
use crate::released::{Registration, Waiters};
use crate::sync::{Condvar, Mutex, MutexGuard};
use smallvec::SmallVec;
use std::hash::Hasher;
use std::sync::Arc;
use std::time::Instant;

const STRIPE_BITS: u32 = 12;

/// The hash that represents a key in the lock table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KeyId(u64);

impl KeyId {
    /// The id of a full key (ident included).
    pub fn of(key: &[u8]) -> KeyId {
        let mut h = rustc_hash::FxHasher::default();
        h.write(key);
        // The low bits of this hash are weak and the stripe is taken from the high bits: mix once
        // more.
        KeyId(h.finish().wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

/// Keys that are locked together.
pub type KeyIds = SmallVec<[KeyId; 8]>;

/// The holder of claims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner(pub u64);

/// Another owner has claimed this key (and kept the claim until the time limit).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClaimConflict(pub KeyId);

type Claims = Vec<(KeyId, Owner)>;

#[derive(Default)]
struct Stripe {
    claims: Mutex<Claims>,
    released: Condvar,
}

/// All locks of one store.
pub struct LockTable {
    stripes: Arc<[Stripe]>,
    /// A key's stripe is what remains of its hash after this shift, so ascending keys have
    /// ascending stripes.
    shift: u32,
    waiters: Arc<Waiters>,
}

/// Stripes held; released when dropped.
pub struct StripeGuard<'l> {
    guards: SmallVec<[(usize, MutexGuard<'l, Claims>); 4]>,
}

impl LockTable {
    /// A table with nothing locked.
    pub fn new() -> LockTable {
        LockTable::with_stripe_bits(STRIPE_BITS)
    }

    /// A table of `2^bits` stripes, for tests in which many keys share a stripe.
    pub fn with_stripe_bits(bits: u32) -> LockTable {
        let bits = bits.clamp(1, 16);
        LockTable {
            stripes: (0..1usize << bits).map(|_| Stripe::default()).collect(),
            shift: 64 - bits,
            waiters: Arc::default(),
        }
    }

    fn stripe_of(&self, key: KeyId) -> usize {
        (key.0 >> self.shift) as usize
    }

    /// Takes short locks on all keys, after sorting them; waits for claims of others.
    pub fn lock(&self, keys: &mut KeyIds) -> StripeGuard<'_> {
        loop {
            // Without a time limit the wait ends only when the claim is released.
            if let Ok(held) = self.lock_for(keys, None, None) {
                return held;
            }
        }
    }

    /// Takes short locks on all keys, after sorting them. Claims of `own` are ignored; for claims
    /// of others it waits until `until`, or without limit.
    ///
    /// # Errors
    /// [`ClaimConflict`] when the time is up.
    pub fn lock_for(
        &self,
        keys: &mut KeyIds,
        own: Option<Owner>,
        until: Option<Instant>,
    ) -> Result<StripeGuard<'_>, ClaimConflict> {
        loop {
            match self.try_lock(keys, own) {
                Ok(held) => return Ok(held),
                Err(ClaimConflict(key)) => self.wait_for_release(key, own, until)?,
            }
        }
    }

    /// As [`LockTable::lock_for`], without waiting for claims.
    ///
    /// # Errors
    /// [`ClaimConflict`] when another owner has claimed one of the keys.
    pub fn try_lock(
        &self,
        keys: &mut KeyIds,
        own: Option<Owner>,
    ) -> Result<StripeGuard<'_>, ClaimConflict> {
        keys.sort_unstable();
        keys.dedup();
        let held = self.lock_stripes(keys);
        match held.find_claimed(keys, own) {
            None => Ok(held),
            Some(key) => Err(ClaimConflict(key)),
        }
    }

    /// Claims the keys for an owner, all of them or none.
    ///
    /// # Errors
    /// [`ClaimConflict`] at once when another owner has one of them.
    pub fn claim(&self, keys: &mut KeyIds, owner: Owner) -> Result<(), ClaimConflict> {
        keys.sort_unstable();
        keys.dedup();
        let mut held = self.lock_stripes(keys);
        if let Some(key) = held.find_claimed(keys, Some(owner)) {
            return Err(ClaimConflict(key));
        }
        for key in keys.iter() {
            let stripe = self.stripe_of(*key);
            for (_, claims) in held.guards.iter_mut().filter(|(s, _)| *s == stripe) {
                if !claims.contains(&(*key, owner)) {
                    claims.push((*key, owner));
                }
            }
        }
        Ok(())
    }

    /// Releases claims; claims that the owner does not have are ignored.
    pub fn release(&self, keys: &[KeyId], owner: Owner) {
        for key in keys {
            let stripe = &self.stripes[self.stripe_of(*key)];
            let mut claims = stripe.claims.lock();
            let before = claims.len();
            claims.retain(|c| *c != (*key, owner));
            if claims.len() != before {
                stripe.released.notify_all();
                drop(claims);
                self.waiters.released_to_one(key.0);
            }
        }
    }

    /// Has `waker` called when the claim of a key is released; `None` when the key is not claimed.
    /// Of several waiters one is called. The next one is called when that one drops its
    /// registration while the key is free.
    pub fn wake_when_released(&self, key: KeyId, waker: Waker) -> Option<Registration> {
        let (stripes, at) = (Arc::clone(&self.stripes), self.stripe_of(key));
        let is_held = move || {
            let claims = stripes[at].claims.lock();
            claims.iter().any(|(k, _)| *k == key)
        };
        let registered = self
            .waiters
            .register_alone(key.0, waker, Box::new(is_held.clone()));
        is_held().then_some(registered)
    }

    fn lock_stripes(&self, keys: &KeyIds) -> StripeGuard<'_> {
        let mut guards: SmallVec<[(usize, MutexGuard<'_, Claims>); 4]> = SmallVec::new();
        for key in keys {
            let stripe = self.stripe_of(*key);
            if guards.last().is_none_or(|(last, _)| *last != stripe) {
                guards.push((stripe, self.stripes[stripe].claims.lock()));
            }
        }
        StripeGuard { guards }
    }

    fn wait_for_release(
        &self,
        key: KeyId,
        own: Option<Owner>,
        until: Option<Instant>,
    ) -> Result<(), ClaimConflict> {
        let stripe = &self.stripes[self.stripe_of(key)];
        let mut claims = stripe.claims.lock();
        while claims.iter().any(|(k, o)| *k == key && Some(*o) != own) {
            match until {
                None => stripe.released.wait(&mut claims),
                Some(t) if stripe.released.wait_until(&mut claims, t).timed_out() => {
                    return Err(ClaimConflict(key));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

impl StripeGuard<'_> {
    /// The first of `keys` that another owner has claimed. The stripes of these keys must be locked
    /// here.
    fn find_claimed(&self, keys: &KeyIds, own: Option<Owner>) -> Option<KeyId> {
        let all = self
            .guards
            .iter()
            .filter(|(_, g)| !g.is_empty())
            .flat_map(|(_, g)| g.iter());
        all.filter(|(k, o)| Some(*o) != own && keys.binary_search(k).is_ok())
            .map(|(k, _)| *k)
            .next()
    }
}

impl Default for LockTable {
    fn default() -> Self {
        LockTable::new()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    fn keys(of: &[u16]) -> KeyIds {
        of.iter().map(|n| KeyId::of(&n.to_be_bytes())).collect()
    }

    #[test]
    fn overlapping_sets_never_deadlock_and_exclude() {
        let table = Arc::new(LockTable::with_stripe_bits(2));
        let counter = Arc::new(AtomicU32::new(0));
        let (done, ended) = std::sync::mpsc::channel();
        for t in 0..4u16 {
            let (table, counter, done) = (Arc::clone(&table), Arc::clone(&counter), done.clone());
            // The threads are not joined: in a deadlock they never end, and the test reports that.
            std::thread::spawn(move || {
                for i in 0..2000u16 {
                    let _held = table.lock(&mut keys(&[7, i % 5, (i + t) % 9]));
                    let seen = counter.load(Ordering::Relaxed);
                    counter.store(seen + 1, Ordering::Relaxed);
                }
                done.send(()).unwrap();
            });
        }
        for _ in 0..4 {
            let in_time = ended.recv_timeout(Duration::from_secs(30));
            assert_eq!(in_time, Ok(()), "a deadlock, or nothing was done for 30 s");
        }
        assert_eq!(counter.load(Ordering::Relaxed), 8000);
    }

    #[test]
    fn a_claim_outlives_its_thread_and_stops_others_only_on_its_key() {
        let table = LockTable::with_stripe_bits(1);
        let (a, b) = (Owner(1), Owner(2));
        std::thread::scope(|s| s.spawn(|| table.claim(&mut keys(&[1, 2]), a)).join())
            .unwrap()
            .unwrap();
        let second = keys(&[2])[0];
        assert_eq!(
            table.claim(&mut keys(&[3, 2]), b),
            Err(ClaimConflict(second))
        );
        // All or none: the failed claim has not claimed key 3.
        assert_eq!(table.claim(&mut keys(&[3]), a), Ok(()));
        assert!(table.lock_for(&mut keys(&[1]), Some(a), None).is_ok());
        assert!(table.lock_for(&mut keys(&[4]), None, None).is_ok());
        let soon = Instant::now() + Duration::from_millis(5);
        assert_eq!(
            table.lock_for(&mut keys(&[1, 4]), None, Some(soon)).err(),
            Some(ClaimConflict(keys(&[1])[0]))
        );
        std::thread::scope(|s| {
            let waiter = s.spawn(|| drop(table.lock(&mut keys(&[1, 2]))));
            table.release(&keys(&[2]), a);
            assert!(!waiter.is_finished());
            table.release(&keys(&[1, 3]), b);
            table.release(&keys(&[1, 3]), a);
        });
        assert_eq!(table.claim(&mut keys(&[1, 2, 3]), b), Ok(()));
    }

    #[test]
    fn giving_up_one_claim_leaves_those_of_other_keys_and_owners() {
        let table = LockTable::with_stripe_bits(1);
        let (a, b) = (Owner(1), Owner(2));
        let all: Vec<u16> = (0..8).collect();
        assert_eq!(table.claim(&mut keys(&all), a), Ok(()));
        table.release(&keys(&all), b);
        table.release(&keys(&[0]), a);
        for key in all {
            let free = table.try_lock(&mut keys(&[key]), Some(b)).is_ok();
            assert_eq!(free, key == 0, "key {key}");
        }
    }
}
