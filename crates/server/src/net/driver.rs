//! The threads that serve a set, and the monitor that sends relief when all of a set's threads are
//! stuck.
//!
//! Promises: a request that blocks although it was called short holds other connections up for
//! milliseconds, not for its own duration.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::epoll::{Event, EventFlags};

use super::buffers::Buffers;
use super::conn::{Conn, Env, Step};
use super::handler::{Handler, Turn};
use super::inbox::{Token, bits};
use super::server::Shared;
use super::set::{EVENT_BATCH, PollSet};
use super::spare::Blocking;
use super::stats::add;

/// How often the monitor looks while there is traffic; a request seen running twice in a row is
/// stuck.
const SAMPLE: Duration = Duration::from_millis(2);
/// How far apart the looks get while there is none.
const SAMPLE_IDLE: Duration = Duration::from_millis(64);
/// A relief thread looks this often whether it is still needed.
const RELIEF_SLICE: Duration = Duration::from_millis(5);
/// A spare driver looks this often whether it is still wanted.
const SPARE_SLICE: Duration = Duration::from_millis(50);

/// Odd while the thread is inside the handler, so that two looks tell whether it is still the same
/// request.
///
/// Decoding is left out on purpose: it always ends, and if a compressed bomb could call relief,
/// every relief thread would unpack one more. This way the drivers bound how many are unpacked at
/// once.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct DriverState {
    ticks: AtomicU64,
    /// The kernel's number of the thread; 0 until it begins.
    thread: AtomicI32,
    /// Inside of a journal flush, which one thread does for all.
    flushes: AtomicBool,
}

impl DriverState {
    /// To be called by the thread itself.
    pub(super) fn begin(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.thread.store(thread, Ordering::Release);
    }

    pub(super) fn thread(&self) -> i32 {
        self.thread.load(Ordering::Acquire)
    }

    /// Inside of the handler for a request of its own.
    pub(super) fn is_in_request(&self) -> bool {
        self.ticks() % 2 == 1 && !self.flushes.load(Ordering::Relaxed)
    }

    pub(super) fn enter(&self) {
        self.ticks.store(
            self.ticks.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
    }

    pub(super) fn leave(&self) {
        self.enter();
    }

    fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }
}

/// Serves set `at` until the server stops.
pub(super) fn run<H: Handler>(shared: &Arc<Shared<H>>, at: usize, driver: &DriverState) {
    serve(shared, at, driver, || None);
}

/// Serves until the server stops or `relieved` says so. `relieved` also bounds each sleep.
fn serve<H: Handler>(
    shared: &Arc<Shared<H>>,
    at: usize,
    driver: &DriverState,
    mut slice: impl FnMut() -> Option<Result<Duration, ()>>,
) {
    let Some(set) = shared.sets.get(at) else {
        return;
    };
    driver.begin();
    let mut buffers = Buffers::new(&shared.memory);
    let mut events: Vec<Event> = Vec::with_capacity(EVENT_BATCH);
    let mut due: Vec<Token> = Vec::new();
    let _serving = set.inbox.serve();
    // A flush of this thread left somebody waiting.
    let mut owes_turn = false;
    loop {
        while let Some((token, why)) = set.inbox.pop() {
            if let Some(conn) = set.get(token) {
                schedule(shared, at, &conn, why, driver, &mut buffers);
            }
        }
        if shared.is_finished() {
            return;
        }
        let mut timeout = set.due(&mut due);
        set.inbox
            .push_quietly(due.drain(..).map(|token| (token, bits::LOOK)));
        match slice() {
            Some(Err(())) => return,
            Some(Ok(most)) => timeout = Some(timeout.map_or(most, |t| t.min(most))),
            None => {}
        }
        // Everything at hand is done: one flush for all replies that it left waiting. Other drivers
        // serve the set meanwhile.
        if timeout != Some(Duration::ZERO)
            && let Some(flushed) = take_turn(shared, set, driver, owes_turn)
        {
            owes_turn = flushed;
            continue;
        }
        owes_turn = false;
        if set.wait(&mut events, timeout).is_err() {
            // Cannot happen with a valid set; if it does, a busy loop is worse than a slow one.
            std::thread::sleep(SAMPLE);
        }
        let mut arrived = events.iter().filter_map(reason);
        let first = arrived.next();
        // With one event, the common case, the shared queue is not touched.
        if events.len() > 1 {
            set.inbox.push_quietly(arrived);
        }
        if let Some((token, why)) = first
            && let Some(conn) = set.get(token)
        {
            schedule(shared, at, &conn, why, driver, &mut buffers);
        }
    }
}

/// Flushes the journal if connections of the set wait for it, or if this thread owes a turn to
/// others. `Some(more)` when it did; then the released connections are in the inbox.
fn take_turn<H: Handler>(
    shared: &Shared<H>,
    set: &PollSet<H>,
    driver: &DriverState,
    owes: bool,
) -> Option<bool> {
    let position = match set.durable.furthest() {
        Some(position) => position,
        None if owes => 0,
        None => return None,
    };
    // A flush that takes long counts as a request that blocks: the monitor sends relief.
    driver.flushes.store(true, Ordering::Relaxed);
    driver.enter();
    let turn = shared.handler.take_turn(position);
    driver.leave();
    driver.flushes.store(false, Ordering::Relaxed);
    match turn {
        Turn::Idle => None,
        Turn::Flushed { more } => Some(more),
    }
}

fn reason(event: &Event) -> Option<(Token, u8)> {
    let token = Token::from_u64(event.data.u64());
    if token == Token::KICK {
        return None;
    }
    let flags = event.flags;
    let mut why = 0;
    if flags.contains(EventFlags::IN) {
        why |= bits::READABLE;
    }
    if flags.contains(EventFlags::OUT) {
        why |= bits::WRITABLE;
    }
    if flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
        why |= bits::HUNG_UP;
    }
    Some((token, why))
}

/// Runs the connection here unless another thread has it, which then sees the reason.
fn schedule<H: Handler>(
    shared: &Arc<Shared<H>>,
    at: usize,
    conn: &Arc<Conn<H>>,
    why: u8,
    driver: &DriverState,
    buffers: &mut Buffers,
) {
    if conn.claim(why) {
        run_owned(shared, at, conn, driver, buffers, false);
    }
}

fn run_owned<H: Handler>(
    shared: &Arc<Shared<H>>,
    at: usize,
    conn: &Arc<Conn<H>>,
    driver: &DriverState,
    buffers: &mut Buffers,
    may_block: bool,
) {
    let Some(set) = shared.sets.get(at) else {
        return;
    };
    loop {
        let why = conn.take_reasons();
        let mut env = Env {
            shared,
            set,
            buffers: &mut *buffers,
            driver,
            may_block,
        };
        let driven = catch_unwind(AssertUnwindSafe(|| conn.drive(&mut env, why)));
        let step = driven.unwrap_or_else(|_| {
            // A fault of this layer, not of a command: it costs the one connection, never the
            // thread.
            add(&set.counters.panics, 1);
            shared
                .handler
                .panicked("(network)", "while a connection was driven");
            *env.buffers = Buffers::new(&shared.memory);
            conn.abandon(&mut env);
            Step::Close
        });
        buffers.shrink();
        match step {
            // A closed connection stays owned, so that nobody drives it again.
            Step::Close => return,
            Step::HandOff => {
                let (shared, conn) = (Arc::clone(shared), Arc::clone(conn));
                let pool = Arc::clone(&shared.pool);
                pool.submit(move |buffers| {
                    let driver = DriverState::default();
                    run_owned(&shared, at, &conn, &driver, buffers, true);
                    if let Some(set) = shared.sets.get(at) {
                        let mut owes = false;
                        while let Some(more) = take_turn(&shared, set, &driver, owes) {
                            owes = more;
                        }
                    }
                });
                return;
            }
            Step::Yield => {
                if !conn.release() {
                    continue;
                }
                let again = [(conn.token(), bits::LOOK)];
                if may_block {
                    set.inbox.push_all(again)
                } else {
                    set.inbox.push_quietly(again)
                }
                return;
            }
            Step::Idle | Step::Go => {
                if conn.release() {
                    return;
                }
            }
        }
    }
}

/// Watches all drivers until the server stops.
pub(super) fn monitor<H: Handler>(shared: &Arc<Shared<H>>) {
    let mut last: Vec<Vec<u64>> = Vec::new();
    let mut sleep = SAMPLE;
    let mut blocking: Vec<Blocking> = shared.sets.iter().map(|_| Blocking::new()).collect();
    while !shared.is_finished() {
        std::thread::sleep(sleep);
        for (at, (set, blocking)) in shared.sets.iter().zip(&mut blocking).enumerate() {
            let drivers = set.drivers.lock();
            let wanted = blocking.look(&drivers, shared.spares_per_set);
            drop(drivers);
            if let Some(wanted) = wanted {
                adjust_spares(shared, at, wanted);
            }
        }
        let now: Vec<Vec<u64>> = shared
            .sets
            .iter()
            .map(|s| s.drivers.lock().iter().map(|d| d.ticks()).collect())
            .collect();
        let busy = now.iter().flatten().any(|t| t % 2 == 1) || now != last;
        sleep = if busy {
            SAMPLE
        } else {
            (sleep * 2).min(SAMPLE_IDLE)
        };
        for (at, (now, last)) in now.iter().zip(&last).enumerate() {
            let stuck = now
                .iter()
                .zip(last)
                .filter(|(now, last)| now == last && *now % 2 == 1)
                .count();
            if stuck == now.len() && now.len() == last.len() {
                relieve(shared, at);
            } else if let Some(set) = shared.sets.get(at)
                && set.inbox.has_work()
            {
                // A driver fetched more than it has got to, and the others may sleep without
                // knowing.
                set.inbox.kick();
            }
        }
        last = now;
    }
}

/// Makes the set have `wanted` spare drivers: starts them here; those that are too many leave by
/// themselves.
fn adjust_spares<H: Handler>(shared: &Arc<Shared<H>>, at: usize, wanted: usize) {
    let Some(set) = shared.sets.get(at) else {
        return;
    };
    let had = set.spares.swap(wanted, Ordering::AcqRel);
    for number in had..wanted {
        let driver = Arc::new(DriverState::default());
        set.drivers.lock().push(Arc::clone(&driver));
        let until = move |set: &PollSet<H>| set.spares.load(Ordering::Acquire) > number;
        if !lend(shared, at, driver, SPARE_SLICE, until) {
            set.spares.store(number, Ordering::Release);
            return;
        }
    }
}

/// Lends the set another driver for as long as all the others stay where they are.
fn relieve<H: Handler>(shared: &Arc<Shared<H>>, at: usize) {
    let Some(set) = shared.sets.get(at) else {
        return;
    };
    let driver = Arc::new(DriverState::default());
    let stuck: Vec<(Arc<DriverState>, u64)> = {
        let mut drivers = set.drivers.lock();
        if drivers.len() >= shared.max_drivers_per_set {
            return;
        }
        let stuck = drivers.iter().map(|d| (Arc::clone(d), d.ticks())).collect();
        drivers.push(Arc::clone(&driver));
        stuck
    };
    let needed = move |_: &PollSet<H>| stuck.iter().all(|(d, ticks)| d.ticks() == *ticks);
    if lend(shared, at, driver, RELIEF_SLICE, needed) {
        add(&shared.relieved, 1);
    }
}

/// Lets another thread be the driver, which the set lists already, for as long as it is `needed`.
fn lend<H: Handler>(
    shared: &Arc<Shared<H>>,
    at: usize,
    driver: Arc<DriverState>,
    slice: Duration,
    needed: impl Fn(&PollSet<H>) -> bool + Send + 'static,
) -> bool {
    let Some(set) = shared.sets.get(at) else {
        return false;
    };
    let task_shared = Arc::clone(shared);
    let task_driver = Arc::clone(&driver);
    // Threads apart from the pool of long requests, which may be full of requests that wait for
    // this very set.
    let submitted = shared.relief.submit(move |_| {
        let Some(set) = task_shared.sets.get(at) else {
            return;
        };
        serve(&task_shared, at, &task_driver, || {
            Some(if needed(set) { Ok(slice) } else { Err(()) })
        });
        set.drivers.lock().retain(|d| !Arc::ptr_eq(d, &task_driver));
        // It may have taken a wake-up that was meant for the others.
        set.inbox.kick();
    });
    if !submitted {
        set.drivers.lock().retain(|d| !Arc::ptr_eq(d, &driver));
    }
    submitted
}
