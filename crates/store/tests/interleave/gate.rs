//! `Gate` under every order of its steps that the scheduler tries.

use crate::{interleave, others_run};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use store::Gate;

#[derive(Default)]
struct Guarded {
    gate: Gate,
    inside: AtomicU32,
    changing: AtomicBool,
    changes: AtomicU32,
}

impl Guarded {
    fn write(&self) {
        let _inside = self.gate.enter();
        self.inside.fetch_add(1, Relaxed);
        for _ in 0..2 {
            assert!(
                !self.changing.load(Relaxed),
                "a writer inside sees a change"
            );
            others_run();
        }
        self.inside.fetch_sub(1, Relaxed);
    }

    /// False when it gave up.
    fn change(&self, until: Option<Instant>) -> bool {
        let alone = match until {
            Some(until) => self.gate.close_until(until),
            None => self.gate.close_while(&|| Ok::<(), ()>(())).ok(),
        };
        let Some(_alone) = alone else {
            return false;
        };
        assert!(!self.changing.swap(true, Relaxed), "two changes at once");
        assert_eq!(self.inside.load(Relaxed), 0, "a change is not alone");
        others_run();
        assert_eq!(
            self.inside.load(Relaxed),
            0,
            "a writer came in during a change"
        );
        self.changing.store(false, Relaxed);
        self.changes.fetch_add(1, Relaxed);
        true
    }
}

fn spawn(g: &Arc<Guarded>, n: usize, f: fn(&Guarded)) -> Vec<thread::JoinHandle<()>> {
    (0..n)
        .map(|_| {
            let g = g.clone();
            thread::spawn(move || f(&g))
        })
        .collect()
}

#[test]
fn changes_are_alone_and_nobody_is_forgotten() {
    interleave(500, || {
        let g = Arc::new(Guarded::default());
        let mut tasks = spawn(&g, 3, |g| (0..2).for_each(|_| g.write()));
        tasks.extend(spawn(&g, 2, |g| assert!(g.change(None))));
        tasks.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(g.changes.load(Relaxed), 2);
    });
}

#[test]
fn a_token_is_given_back_by_another_thread() {
    interleave(500, || {
        let g = Arc::new(Guarded::default());
        g.gate.enter_unguarded();
        let mut tasks = spawn(&g, 1, |g| assert!(g.change(None)));
        tasks.extend(spawn(&g, 1, Guarded::write));
        tasks.extend(spawn(&g, 1, |g| g.gate.leave()));
        tasks.into_iter().for_each(|t| t.join().unwrap());
    });
}

#[test]
fn a_change_that_gives_up_leaves_the_gate_open_for_all() {
    interleave(500, || {
        let g = Arc::new(Guarded::default());
        let mut tasks = spawn(&g, 2, Guarded::write);
        tasks.extend(spawn(&g, 2, |g| {
            g.change(Some(Instant::now()));
        }));
        tasks.extend(spawn(&g, 1, |g| {
            assert!(g.change(Some(Instant::now() + Duration::from_secs(3600))))
        }));
        tasks.into_iter().for_each(|t| t.join().unwrap());
        // Open again, and closable again.
        g.write();
        assert!(g.change(None));
    });
}

#[test]
fn a_change_gives_up_while_somebody_stays_inside() {
    interleave(200, || {
        let g = Arc::new(Guarded::default());
        let inside = g.gate.enter();
        let tasks = spawn(&g, 2, |g| {
            assert!(
                !g.change(Some(Instant::now())),
                "closed with somebody inside"
            )
        });
        tasks.into_iter().for_each(|t| t.join().unwrap());
        g.write();
        drop(inside);
        assert!(g.change(None));
    });
}
