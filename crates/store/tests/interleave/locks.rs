//! `LockTable` in every order of steps that the scheduler tries.

use crate::{interleave, yield_task};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use store::locks::{ClaimConflict, KeyId, KeyIds, LockTable, Owner};

const KEYS: usize = 8;

fn keys(of: &[usize]) -> KeyIds {
    of.iter().map(|n| KeyId::of(&[*n as u8, 7])).collect()
}

/// A table in which some keys share stripes, and a value for each key: 1 while somebody is inside.
struct GuardedTable {
    table: LockTable,
    inside: [AtomicU32; KEYS],
}

impl GuardedTable {
    fn new() -> Arc<GuardedTable> {
        Arc::new(GuardedTable {
            table: LockTable::with_stripe_bits(2),
            inside: Default::default(),
        })
    }

    /// Checks that the caller is alone with the documents of these keys, which it has locked.
    fn write(&self, of: &[usize]) {
        for n in of {
            assert_eq!(
                self.inside[*n].swap(1, Relaxed),
                0,
                "two writers have key {n}"
            );
        }
        yield_task();
        of.iter().for_each(|n| self.inside[*n].store(0, Relaxed));
    }

    fn write_locked(&self, of: &[usize], own: Option<Owner>) {
        let held = self.table.lock_for(&mut keys(of), own, None);
        assert!(held.is_ok(), "a lock without a time limit gave up");
        self.write(of);
    }
}

fn far() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(3600))
}

fn join_all(tasks: Vec<thread::JoinHandle<()>>) {
    tasks.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn short_locks_exclude_and_overlapping_sets_never_deadlock() {
    interleave(400, || {
        let g = GuardedTable::new();
        let sets: [&'static [usize]; 4] = [&[0, 3, 5, 1], &[5, 2, 0], &[1, 6, 7, 3], &[7, 5, 4, 2]];
        join_all(
            sets.into_iter()
                .map(|set| {
                    let g = g.clone();
                    thread::spawn(move || (0..2).for_each(|_| g.write_locked(set, None)))
                })
                .collect(),
        );
    });
}

#[test]
fn a_claim_blocks_other_owners_until_its_release() {
    interleave(400, || {
        let g = GuardedTable::new();
        let owner = Owner(1);
        g.table.claim(&mut keys(&[0, 1]), owner).unwrap();
        g.inside[0].store(1, Relaxed);
        let mut tasks: Vec<_> = [&[0usize, 2][..], &[3, 0, 1], &[1, 4]]
            .into_iter()
            .map(|set| {
                let g = g.clone();
                thread::spawn(move || g.write_locked(set, None))
            })
            .collect();
        let g = g.clone();
        // The owner's next command runs on another thread, and takes short locks that the waiting
        // writers want, too.
        tasks.push(thread::spawn(move || {
            assert!(
                g.table
                    .lock_for(&mut keys(&[0, 1, 2, 3, 4]), Some(owner), None)
                    .is_ok()
            );
            yield_task();
            g.inside[0].store(0, Relaxed);
            g.table.release(&keys(&[0, 1]), owner);
        }));
        join_all(tasks);
    });
}

#[test]
fn claims_of_many_owners_are_released_and_nobody_waits_for_ever() {
    interleave(400, || {
        let g = GuardedTable::new();
        let claimers = [(1u64, &[0usize, 1, 2][..]), (2, &[2, 3]), (3, &[3, 0])]
            .into_iter()
            .map(|(n, set)| {
                let g = g.clone();
                thread::spawn(move || {
                    let owner = Owner(n);
                    for _ in 0..2 {
                        if g.table.claim(&mut keys(set), owner).is_ok() {
                            // Nobody else is inside while the claim exists, also between two
                            // commands.
                            g.write(set);
                            yield_task();
                            g.write_locked(set, Some(owner));
                            g.table.release(&keys(set), owner);
                        }
                    }
                })
            });
        let writers = [&[0usize, 2][..], &[1, 3]].into_iter().map(|set| {
            let g = g.clone();
            thread::spawn(move || g.write_locked(set, None))
        });
        join_all(claimers.chain(writers).collect());
    });
}

#[test]
fn claims_are_made_all_or_none() {
    interleave(400, || {
        let g = GuardedTable::new();
        let won = Arc::new(AtomicU32::new(0));
        let sets: [&'static [usize]; 3] = [&[0, 4, 5], &[1, 4, 6], &[2, 5, 6]];
        join_all(
            (0..3usize)
                .map(|n| {
                    let (g, won) = (g.clone(), won.clone());
                    thread::spawn(move || {
                        match g.table.claim(&mut keys(sets[n]), Owner(n as u64)) {
                            Ok(()) => assert_eq!(won.fetch_or(1 << n, Relaxed) & (1 << n), 0),
                            Err(ClaimConflict(_)) => {}
                        }
                    })
                })
                .collect(),
        );
        // Any two of the sets overlap: exactly one owner has all its keys, and the others have
        // none.
        let won = won.load(Relaxed);
        assert_eq!(won.count_ones(), 1, "owners {won:b}");
        let winner = won.trailing_zeros() as usize;
        for key in 0..KEYS {
            let expected = if sets[winner].contains(&key) {
                Err(ClaimConflict(keys(&[key])[0]))
            } else {
                Ok(())
            };
            assert_eq!(
                g.table.claim(&mut keys(&[key]), Owner(9)),
                expected,
                "key {key}, winner {winner}"
            );
        }
    });
}

#[test]
fn a_limited_wait_gives_up_or_has_all_the_locks() {
    interleave(400, || {
        let g = GuardedTable::new();
        let owner = Owner(1);
        g.table.claim(&mut keys(&[0]), owner).unwrap();
        let limits = [Some(Instant::now()), far(), Some(Instant::now())];
        let mut tasks: Vec<_> = limits
            .into_iter()
            .map(|until| {
                let g = g.clone();
                thread::spawn(move || {
                    let held = g.table.lock_for(&mut keys(&[0, 1]), None, until);
                    match held {
                        Ok(_held) => g.write(&[0, 1]),
                        Err(ClaimConflict(_)) => assert!(until < far(), "gave up before its time"),
                    }
                    assert!(until.is_some());
                })
            })
            .collect();
        tasks.push(thread::spawn(move || {
            g.write(&[0]);
            g.table.release(&keys(&[0]), owner);
            // An owner that gave up holds nothing.
            g.write_locked(&[0, 1], None);
        }));
        join_all(tasks);
    });
}

/// Tasks that wait for a claim without a thread: each runs when it is called, and then claims the
/// key or gives up.
#[test]
fn a_waiter_without_a_thread_is_woken_however_others_end() {
    interleave(400, || {
        let g = GuardedTable::new();
        g.table.claim(&mut keys(&[0]), Owner(1)).unwrap();
        let mut tasks: Vec<_> = (2..5u64)
            .map(|n| {
                let g = g.clone();
                thread::spawn(move || waits_for_the_key(&g, Owner(n)))
            })
            .collect();
        tasks.push(thread::spawn(move || {
            yield_task();
            g.table.release(&keys(&[0]), Owner(1));
        }));
        join_all(tasks);
    });
}

fn waits_for_the_key(g: &GuardedTable, owner: Owner) {
    let key = keys(&[0])[0];
    loop {
        let called = Arc::new((Mutex::new(false), Condvar::new()));
        let bell = called.clone();
        let waker = Arc::new(move || {
            *bell.0.lock().unwrap() = true;
            bell.1.notify_all();
        });
        let Some(registered) = g.table.wake_when_released(key, waker) else {
            return;
        };
        let mut rung = called.0.lock().unwrap();
        while !*rung {
            rung = called.1.wait(rung).unwrap();
        }
        drop(rung);
        // The second owner ends without claiming the key.
        if owner == Owner(2) {
            return;
        }
        let has = g.table.claim(&mut keys(&[0]), owner).is_ok();
        drop(registered);
        if has {
            g.write(&[0]);
            g.table.release(&keys(&[0]), owner);
            return;
        }
    }
}
