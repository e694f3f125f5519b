//! The commit protocol under a scheduler: `src/commits.rs` itself, compiled with locks that shuttle
//! controls. A schedule in which a thread waits for ever is reported as a deadlock, so the test for
//! missed positions needs no clock.

use std::sync::Arc;
use std::time::Duration;

use shuttle::thread;

#[path = "../../src/commits.rs"]
#[allow(dead_code)]
mod commits;

use commits::{Commits, FlushError, FlushNotice, Log, OfferResult, WaitError};

/// `crate::sync` over shuttle.
#[path = "../../../../server/tests/it/shuttled.rs"]
pub(crate) mod sync;

use sync::{AtomicU64, Condvar, Mutex, Ordering};

/// A journal that checks its calls.
struct Model {
    committed: AtomicU64,
    /// The position that is certainly on the device.
    device: AtomicU64,
    syncing: AtomicU64,
    syncs: AtomicU64,
    /// The number of the flush that fails, counted from 1, and whether the failure is final.
    fails: Option<(u64, bool)>,
    told: Mutex<JournalState>,
    changed: Condvar,
}

#[derive(Default)]
struct JournalState {
    durable: u64,
    failed: u64,
    lost: bool,
}

impl Model {
    fn new(fails: Option<(u64, bool)>) -> Self {
        Self {
            committed: AtomicU64::new(0),
            device: AtomicU64::new(0),
            syncing: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            fails,
            told: Mutex::new(JournalState::default()),
            changed: Condvar::new(),
        }
    }

    fn commit(&self) -> u64 {
        self.committed.fetch_add(1, Ordering::SeqCst) + 1
    }
}

impl Log for Arc<Model> {
    type Error = &'static str;

    fn last(&self) -> u64 {
        self.committed.load(Ordering::SeqCst)
    }

    fn sync(&self, target: u64) -> Result<(), FlushError<&'static str>> {
        assert_eq!(
            self.syncing.fetch_add(1, Ordering::SeqCst),
            0,
            "two flushes at once"
        );
        // A flush covers what was committed when it began.
        let covered = self.committed.load(Ordering::SeqCst);
        assert!(covered >= target);
        thread::yield_now();
        let number = self.syncs.fetch_add(1, Ordering::SeqCst) + 1;
        let fails = self
            .fails
            .filter(|(at, lasting)| number == *at || (*lasting && number > *at));
        if let Some((_, lasting)) = fails {
            assert!(
                !lasting || number == self.fails.unwrap().0,
                "a flush was tried after the journal was lost"
            );
            self.syncing.fetch_sub(1, Ordering::SeqCst);
            return Err(FlushError {
                error: "the device failed",
                lasting,
            });
        }
        self.device.fetch_max(covered, Ordering::SeqCst);
        self.syncing.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    fn announce(&self, outcome: FlushNotice) {
        let mut told = self.told.lock();
        match outcome {
            FlushNotice::Durable(pos) => {
                assert!(
                    self.device.load(Ordering::SeqCst) >= pos,
                    "announced before it is durable"
                );
                told.durable = told.durable.max(pos);
            }
            FlushNotice::Failed(pos) => told.failed = told.failed.max(pos),
            FlushNotice::Lost => told.lost = true,
        }
        self.changed.notify_all();
    }
}

/// A thread that blocks: DDL, `apply` with `Journaled`.
fn blocking(commits: &Commits<Arc<Model>>, times: u32) {
    for _ in 0..times {
        let pos = commits.log().commit();
        match commits.wait(pos) {
            Ok(()) => assert!(
                commits.log().device.load(Ordering::SeqCst) >= pos,
                "answered before it is durable"
            ),
            Err(WaitError::Failed(_)) => {
                assert!(commits.log().fails.is_some(), "failed without a failure")
            }
            Err(WaitError::Stopped) => panic!("nobody stops it meanwhile"),
        }
    }
}

/// A thread that collects replies and sleeps until an announcement, as a driver of the server does.
fn run_driver(commits: &Commits<Arc<Model>>, times: u32) {
    for _ in 0..times {
        let pos = commits.log().commit();
        let mut turn = commits.offer(pos);
        while turn == (OfferResult::Flushed { more: true }) {
            turn = commits.offer(0);
        }
        let mut told = commits.log().told.lock();
        while told.durable < pos && told.failed < pos && !told.lost {
            commits.log().changed.wait(&mut told);
        }
    }
}

fn play(fails: Option<(u64, bool)>) {
    let commits = Arc::new(Commits::new(Arc::new(Model::new(fails)), 0));
    let run = Arc::clone(&commits);
    let interval = thread::spawn(move || run.run(Duration::from_secs(1)));
    type Work = fn(&Commits<Arc<Model>>, u32);
    let works: [Work; 4] = [blocking, run_driver, run_driver, blocking];
    let threads: Vec<_> = works
        .into_iter()
        .map(|work| {
            let commits = Arc::clone(&commits);
            thread::spawn(move || work(&commits, 2))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let last = commits.log().commit();
    commits.stop();
    interval.join().unwrap();
    commits.wake_waiters();
    let lost = commits.log().told.lock().lost;
    let failing = commits.has_failed();
    assert!(
        commits.durable() == last || lost || failing,
        "the last flush covers everything"
    );
    assert!(commits.log().device.load(Ordering::SeqCst) >= commits.durable());
}

#[test]
fn every_position_becomes_durable_before_its_waiters_are_woken() {
    shuttle::check_random(|| play(None), 4000);
    shuttle::check_pct(|| play(None), 2000, 3);
}

#[test]
fn a_failed_flush_fails_all_waiters_and_the_next_may_succeed() {
    for at in 1..=3 {
        shuttle::check_random(move || play(Some((at, false))), 1500);
    }
}

#[test]
fn after_a_final_failure_waiters_fail_and_no_flush_is_tried() {
    for at in 1..=3 {
        shuttle::check_random(move || play(Some((at, true))), 1500);
    }
}
