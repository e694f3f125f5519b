//! `Gate` in every order of steps that the scheduler tries.

use crate::{interleave, yield_task};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use store::{ClosingGuard, Gate, Registration};

#[derive(Default)]
struct GuardedGate {
    gate: Arc<Gate>,
    inside: AtomicU32,
    changing: AtomicBool,
    changes: AtomicU32,
}

impl GuardedGate {
    fn write(&self) {
        let _inside = self.gate.enter();
        self.work_inside();
    }

    fn work_inside(&self) {
        self.inside.fetch_add(1, Relaxed);
        for _ in 0..2 {
            assert!(
                !self.changing.load(Relaxed),
                "a writer inside sees a change"
            );
            yield_task();
        }
        self.inside.fetch_sub(1, Relaxed);
    }

    /// A change that waits until `until`; false when it gave up.
    fn change(&self, until: Option<Instant>) -> bool {
        let alone = match until {
            Some(until) => self.gate.close_until(until),
            None => self.gate.close_while(&|| Ok::<(), ()>(())).ok(),
        };
        let Some(_alone) = alone else {
            return false;
        };
        self.work_alone();
        true
    }

    fn work_alone(&self) {
        assert!(!self.changing.swap(true, Relaxed), "two changes at once");
        assert_eq!(self.inside.load(Relaxed), 0, "a change is not alone");
        yield_task();
        assert_eq!(
            self.inside.load(Relaxed),
            0,
            "a writer came in during a change"
        );
        self.changing.store(false, Relaxed);
        self.changes.fetch_add(1, Relaxed);
    }

    /// A writer that is set aside while the gate is closed.
    fn write_set_aside(&self) {
        loop {
            let bell = Arc::new(OperationWaker::default());
            let go_on = || match self.gate.wake_when_open(bell.waker()) {
                Some(registered) => Err(registered),
                None => Ok(()),
            };
            match self.gate.enter_while(&go_on) {
                Ok(_inside) => return self.work_inside(),
                Err(registered) => bell.wait(registered),
            }
        }
    }

    /// A change that is set aside while somebody is inside; `goes` says whether it gives up
    /// meanwhile.
    fn change_set_aside(&self, goes: bool) {
        let mut closing: Option<ClosingGuard> = None;
        loop {
            let bell = Arc::new(OperationWaker::default());
            let Some(own) = closing.take() else {
                closing = self.gate.begin_closing(Instant::now());
                if closing.is_none()
                    && let Some(registered) = self.gate.wake_when_open(bell.waker())
                {
                    bell.wait(registered);
                }
                continue;
            };
            if own.is_alone_by(Instant::now()) {
                return self.work_alone();
            }
            let registered = own.wake_when_alone(bell.waker());
            if goes {
                return;
            }
            if let Some(registered) = registered {
                bell.wait(registered);
            }
            closing = Some(own);
        }
    }
}

/// Wakes an operation that is set aside.
#[derive(Default)]
struct OperationWaker {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl OperationWaker {
    fn waker(self: &Arc<OperationWaker>) -> Arc<dyn Fn() + Send + Sync> {
        let bell = Arc::clone(self);
        Arc::new(move || {
            *bell.rung.lock().unwrap() = true;
            bell.changed.notify_all();
        })
    }

    /// Waits without a limit: an operation that misses its wake-up hangs, which the test reports.
    fn wait(&self, registered: Registration) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
        drop((rung, registered));
    }
}

fn spawn(g: &Arc<GuardedGate>, n: usize, f: fn(&GuardedGate)) -> Vec<thread::JoinHandle<()>> {
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
        let g = Arc::new(GuardedGate::default());
        let mut tasks = spawn(&g, 3, |g| (0..2).for_each(|_| g.write()));
        tasks.extend(spawn(&g, 2, |g| assert!(g.change(None))));
        tasks.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(g.changes.load(Relaxed), 2);
    });
}

#[test]
fn a_token_is_given_back_by_another_thread() {
    interleave(500, || {
        let g = Arc::new(GuardedGate::default());
        g.gate.enter_unguarded();
        let mut tasks = spawn(&g, 1, |g| assert!(g.change(None)));
        tasks.extend(spawn(&g, 1, GuardedGate::write));
        tasks.extend(spawn(&g, 1, |g| g.gate.leave()));
        tasks.into_iter().for_each(|t| t.join().unwrap());
    });
}

#[test]
fn a_timed_out_change_leaves_the_gate_open() {
    interleave(500, || {
        let g = Arc::new(GuardedGate::default());
        let mut tasks = spawn(&g, 2, GuardedGate::write);
        tasks.extend(spawn(&g, 2, |g| {
            g.change(Some(Instant::now()));
        }));
        tasks.extend(spawn(&g, 1, |g| {
            assert!(g.change(Some(Instant::now() + Duration::from_secs(3600))))
        }));
        tasks.into_iter().for_each(|t| t.join().unwrap());
        // The gate is open again and can be closed again.
        g.write();
        assert!(g.change(None));
    });
}

#[test]
fn a_change_times_out_while_an_operation_stays_inside() {
    interleave(200, || {
        let g = Arc::new(GuardedGate::default());
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

#[test]
fn who_is_set_aside_at_the_gate_is_woken() {
    interleave(1000, || {
        let g = Arc::new(GuardedGate::default());
        // A transaction stays inside between its commands.
        g.gate.enter_unguarded();
        let mut tasks = spawn(&g, 2, GuardedGate::write_set_aside);
        tasks.extend(spawn(&g, 2, |g| g.change_set_aside(false)));
        tasks.extend(spawn(&g, 1, |g| g.gate.leave()));
        tasks.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(g.changes.load(Relaxed), 2);
    });
}

#[test]
fn a_change_cancelled_while_it_waits_opens_the_gate() {
    interleave(1000, || {
        let g = Arc::new(GuardedGate::default());
        g.gate.enter_unguarded();
        let mut tasks = spawn(&g, 2, GuardedGate::write_set_aside);
        tasks.extend(spawn(&g, 1, GuardedGate::write));
        tasks.extend(spawn(&g, 2, |g| g.change_set_aside(true)));
        tasks.into_iter().for_each(|t| t.join().unwrap());
        g.gate.leave();
        g.change_set_aside(false);
    });
}
