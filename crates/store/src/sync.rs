//! The synchronisation primitives of the modules whose interleavings are tested (`locks`, `gate`):
//! the real ones, or with the feature `shuttle` those of the scheduler of `tests/interleave`. Both
//! have the same interface.

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(feature = "shuttle")]
pub(crate) use self::scheduled::{Condvar, Mutex, MutexGuard};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::atomic::{AtomicU32, Ordering};

/// The scheduler's primitives with the interface of `parking_lot`.
#[cfg(feature = "shuttle")]
mod scheduled {
    use shuttle::rand::Rng;
    use shuttle::sync;
    use std::ops::{Deref, DerefMut};
    use std::sync::PoisonError;
    use std::time::Instant;

    #[derive(Default)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    /// Empty only inside a wait.
    pub(crate) struct MutexGuard<'m, T>(Option<sync::MutexGuard<'m, T>>, &'m Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(
                Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)),
                self,
            )
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.0
                .as_ref()
                .expect("a guard is used outside of waits only")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0
                .as_mut()
                .expect("a guard is used outside of waits only")
        }
    }

    #[derive(Default)]
    pub(crate) struct Condvar(sync::Condvar);

    /// The result of a wait with a time limit.
    pub(crate) struct WaitResult(bool);

    impl WaitResult {
        pub(crate) fn timed_out(&self) -> bool {
            self.0
        }
    }

    impl Condvar {
        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let inner = guard
                .0
                .take()
                .expect("a guard is used outside of waits only");
            guard.0 = Some(self.0.wait(inner).unwrap_or_else(PoisonError::into_inner));
        }
        /// Time does not pass under the scheduler. A limit in the future is never reached, so that
        /// a lost wake-up shows as a deadlock. A limit in the past is reached at once, or after a
        /// spurious wake-up, as the scheduler chooses.
        pub(crate) fn wait_until<T>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            until: Instant,
        ) -> WaitResult {
            if until > Instant::now() {
                self.wait(guard);
                return WaitResult(false);
            }
            let mutex = guard.1;
            guard.0 = None;
            shuttle::thread::yield_now();
            guard.0 = mutex.lock().0;
            WaitResult(shuttle::rand::thread_rng().gen_bool(0.5))
        }
    }
}
