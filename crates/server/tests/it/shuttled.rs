//! The server's module `sync` over shuttle, with parking_lot's interface: for tests that compile a
//! file of the server under a scheduler.

#![allow(dead_code)]

use std::ops::{Deref, DerefMut};
use std::time::Duration;

pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

pub(crate) struct Guard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        Guard(Some(self.0.lock().unwrap()))
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_deref().unwrap()
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_deref_mut().unwrap()
    }
}

#[derive(Debug)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut Guard<'_, T>) {
        guard.0 = Some(self.0.wait(guard.0.take().unwrap()).unwrap());
    }

    /// The timeout never passes: nothing may depend on the clock.
    pub(crate) fn wait_for<T>(&self, guard: &mut Guard<'_, T>, _: Duration) {
        self.wait(guard);
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}
