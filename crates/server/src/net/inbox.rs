//! The queue of connections that need a thread. Promises: a push by a thread that does not serve
//! the set wakes a sleeping driver of the set.

use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

/// Reasons why a connection needs a thread; also the bits of its schedule word.
pub(super) mod bits {
    /// Some thread owns the connection.
    pub(crate) const RUNNING: u8 = 1;
    pub(crate) const READABLE: u8 = 1 << 1;
    pub(crate) const WRITABLE: u8 = 1 << 2;
    pub(crate) const WOKEN: u8 = 1 << 3;
    /// A deadline or the watermark may have passed, or the server is stopping: check again.
    pub(crate) const LOOK: u8 = 1 << 4;
    pub(crate) const HUNG_UP: u8 = 1 << 5;
    pub(crate) const CLOSE: u8 = 1 << 6;
}

/// Identifies a connection within its set. The generation keeps late events away from a reused
/// slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Token {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl Token {
    /// The inbox's own eventfd.
    pub(super) const KICK: Self = Self {
        slot: u32::MAX,
        generation: u32::MAX,
    };

    pub(super) fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    pub(super) fn from_u64(value: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
        Self {
            slot: u32::from_le_bytes([a, b, c, d]),
            generation: u32::from_le_bytes([e, f, g, h]),
        }
    }
}

thread_local! {
    /// Address of the inbox of the set this thread serves; 0 for none.
    static SERVED: Cell<usize> = const { Cell::new(0) };
}

/// See [`Inbox::serve`].
pub(super) struct ServeGuard;

impl Drop for ServeGuard {
    fn drop(&mut self) {
        SERVED.set(0);
    }
}

/// One per set.
#[derive(Debug)]
pub(super) struct Inbox {
    queue: Mutex<VecDeque<(Token, u8)>>,
    /// Registered edge-triggered: every write is an event of its own and never has to be read back.
    kick: OwnedFd,
}

impl Inbox {
    pub(super) fn new() -> std::io::Result<Self> {
        let kick = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self {
            queue: Mutex::new(VecDeque::new()),
            kick,
        })
    }

    pub(super) fn kick_fd(&self) -> &OwnedFd {
        &self.kick
    }

    /// From any thread.
    pub(super) fn push(&self, token: Token, why: u8) {
        self.queue.lock().push_back((token, why));
        self.kick();
    }

    /// From any thread, one wake-up for all.
    pub(super) fn push_all(&self, items: impl IntoIterator<Item = (Token, u8)>) {
        self.queue.lock().extend(items);
        self.kick();
    }

    /// From any thread, one wake-up for all. Without a wake-up if the calling thread serves this
    /// set, because it checks the queue before it sleeps.
    pub(super) fn push_released(&self, items: impl IntoIterator<Item = (Token, u8)>) {
        self.queue.lock().extend(items);
        if SERVED.get() != self.address() {
            self.kick();
        }
    }

    /// Marks the calling thread as a driver of this set until the guard is dropped.
    pub(super) fn serve(&self) -> ServeGuard {
        SERVED.set(self.address());
        ServeGuard
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// For a driver of this set that will check the queue again before it sleeps.
    pub(super) fn push_quietly(&self, items: impl IntoIterator<Item = (Token, u8)>) {
        self.queue.lock().extend(items);
    }

    pub(super) fn pop(&self) -> Option<(Token, u8)> {
        self.queue.lock().pop_front()
    }

    pub(super) fn has_work(&self) -> bool {
        !self.queue.lock().is_empty()
    }

    /// Wakes one sleeping driver.
    pub(super) fn kick(&self) {
        // The counter cannot overflow within the life of a machine; no other error is possible.
        let _ = rustix::io::write(&self.kick, &1u64.to_ne_bytes());
    }
}
