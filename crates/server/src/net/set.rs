//! A poll set: an epoll instance with its connections, deadlines and waiters. One or more driver
//! threads serve it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::driver_state::DriverState;
use super::inbox::{Inbox, Token};
use super::stats::Counters;
use super::watermark::DurableWaiters;

/// Events taken from the kernel at once. Few, so that the other drivers of the set find events
/// there, too.
pub(super) const EVENT_BATCH: usize = 32;
const INTEREST: EventFlags = EventFlags::IN
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);

/// A connection as its poll set sees it.
pub(super) trait Pollable {
    /// The socket that is watched.
    fn socket(&self) -> &OwnedFd;
    /// Its name within the set.
    fn token(&self) -> Token;
}

pub(super) struct PollSet<C> {
    epoll: OwnedFd,
    pub(super) inbox: Arc<Inbox>,
    pub(super) durable: Arc<DurableWaiters>,
    pub(super) counters: Counters,
    /// The threads that serve this set now; the monitor adds one when all of them are blocked.
    pub(super) drivers: Mutex<Vec<Arc<DriverState>>>,
    /// Number of lasting spare drivers that the set should have.
    pub(super) spares: AtomicUsize,
    slots: Mutex<Slots<C>>,
    deadlines: Mutex<BinaryHeap<Reverse<(Instant, Token)>>>,
}

struct Slots<C> {
    slots: Vec<Slot<C>>,
    free: Vec<u32>,
}

struct Slot<C> {
    generation: u32,
    conn: Option<Arc<C>>,
}

impl<C: Pollable> PollSet<C> {
    pub(super) fn new() -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let inbox = Arc::new(Inbox::new()?);
        let kick = EventData::new_u64(Token::KICK.to_u64());
        epoll::add(
            &epoll,
            inbox.kick_fd(),
            kick,
            EventFlags::IN | EventFlags::ET,
        )?;
        Ok(Self {
            epoll,
            durable: Arc::new(DurableWaiters::new(Arc::clone(&inbox))),
            inbox,
            counters: Counters::default(),
            drivers: Mutex::default(),
            spares: AtomicUsize::new(0),
            slots: Mutex::new(Slots {
                slots: Vec::new(),
                free: Vec::new(),
            }),
            deadlines: Mutex::default(),
        })
    }

    /// Reserves a slot, builds the connection for it and starts watching its socket.
    pub(super) fn insert(
        &self,
        build: impl FnOnce(Token) -> C,
    ) -> Result<(), (std::io::Error, Token)> {
        let token = self.slots.lock().reserve();
        let conn = Arc::new(build(token));
        self.slots.lock().fill(token, Arc::clone(&conn));
        epoll::add(
            &self.epoll,
            conn.socket(),
            EventData::new_u64(token.to_u64()),
            INTEREST,
        )
        .map_err(|error| (error.into(), token))
    }

    pub(super) fn get(&self, token: Token) -> Option<Arc<C>> {
        let slots = self.slots.lock();
        let slot = slots.slots.get(usize::try_from(token.slot).ok()?)?;
        if slot.generation == token.generation {
            slot.conn.clone()
        } else {
            None
        }
    }

    pub(super) fn remove(&self, conn: &C) {
        // Fails only if the socket was never registered.
        let _ = epoll::delete(&self.epoll, conn.socket());
        self.slots.lock().release(conn.token());
    }

    pub(super) fn tokens(&self) -> Vec<Token> {
        let slots = self.slots.lock();
        slots
            .slots
            .iter()
            .filter_map(|s| s.conn.as_ref())
            .map(|c| c.token())
            .collect()
    }

    /// Enables or disables the event for a socket that can take bytes again.
    pub(super) fn watch_writable(&self, conn: &C, on: bool) -> std::io::Result<()> {
        let flags = if on {
            INTEREST | EventFlags::OUT
        } else {
            INTEREST
        };
        Ok(epoll::modify(
            &self.epoll,
            conn.socket(),
            EventData::new_u64(conn.token().to_u64()),
            flags,
        )?)
    }

    /// Schedules `token` at `until`. Wakes a driver that would sleep longer than that.
    pub(super) fn add_deadline(&self, until: Instant, token: Token) {
        let mut deadlines = self.deadlines.lock();
        let earliest = deadlines.peek().is_none_or(|first| until < first.0.0);
        deadlines.push(Reverse((until, token)));
        drop(deadlines);
        if earliest {
            self.inbox.kick();
        }
    }

    /// Removes the deadlines that have passed; returns how long a driver may sleep.
    pub(super) fn take_due(&self, due: &mut Vec<Token>) -> Option<Duration> {
        let mut deadlines = self.deadlines.lock();
        let first = deadlines.peek()?.0.0;
        let now = Instant::now();
        if first > now {
            return Some(first - now);
        }
        while let Some(&Reverse((until, token))) = deadlines.peek() {
            if until > now {
                break;
            }
            deadlines.pop();
            due.push(token);
        }
        Some(Duration::ZERO)
    }

    /// Waits for events.
    pub(super) fn wait(
        &self,
        events: &mut Vec<epoll::Event>,
        timeout: Option<Duration>,
    ) -> std::io::Result<()> {
        events.clear();
        // Rounded up: a wake-up before the deadline would only cost another round.
        let timeout = timeout.map(|t| rustix::time::Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(events),
            timeout.as_ref(),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl<C: Pollable> Slots<C> {
    fn reserve(&mut self) -> Token {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                conn: None,
            });
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let generation = self.at(slot).map_or(0, |s| s.generation);
        Token { slot, generation }
    }

    fn fill(&mut self, token: Token, conn: Arc<C>) {
        if let Some(slot) = self.at(token.slot) {
            slot.conn = Some(conn);
        }
    }

    fn release(&mut self, token: Token) {
        let Some(slot) = self.at(token.slot) else {
            return;
        };
        if slot.generation == token.generation {
            slot.conn = None;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(token.slot);
        }
    }

    fn at(&mut self, slot: u32) -> Option<&mut Slot<C>> {
        self.slots.get_mut(usize::try_from(slot).ok()?)
    }
}
