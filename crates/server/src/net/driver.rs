//! The driver threads that serve a poll set, and the monitor that starts a spare driver while all
//! drivers of a set are blocked.
//!
//! Promises: a request that blocks although its command is declared short delays other connections
//! by milliseconds, not by its own duration.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::epoll::{Event, EventFlags};

use super::buffers::Buffers;
use super::conn::{Conn, DriveContext};
use super::driver_state::DriverState;
use super::handler::{FlushOutcome, Handler};
use super::inbox::{Token, bits};
use super::set::{EVENT_BATCH, PollSet, Pollable};
use super::shared::Shared;
use super::spare::DriverActivity;
use super::state::StepOutcome;
use super::stats::add;

/// How often the monitor looks while there is traffic; a request seen running twice in a row is
/// stuck.
const SAMPLE: Duration = Duration::from_millis(2);
/// The interval grows to this while there is no traffic.
const SAMPLE_IDLE: Duration = Duration::from_millis(64);
/// How often a spare driver checks whether it is still needed.
const SPARE_SLICE: Duration = Duration::from_millis(5);
/// The same for a lasting spare, which exists because drivers block often.
const LASTING_SPARE_SLICE: Duration = Duration::from_millis(50);

/// Serves set `at` until the server stops.
pub(super) fn run<H: Handler>(shared: &Arc<Shared<H>>, at: usize, driver: &DriverState) {
    serve(shared, at, driver, || None);
}

/// Serves until the server stops or `slice` returns an error; otherwise `slice` bounds each sleep.
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
    let mut buffers = Buffers::new(&shared.context.memory);
    let mut events: Vec<Event> = Vec::with_capacity(EVENT_BATCH);
    let mut due: Vec<Token> = Vec::new();
    let _serving = set.inbox.serve();
    // Replies of other threads wait for a position beyond the last flush of this thread.
    let mut flush_again = false;
    loop {
        while let Some((token, why)) = set.inbox.pop() {
            if let Some(conn) = set.get(token) {
                schedule(shared, at, &conn, why, driver, &mut buffers);
            }
        }
        if shared.context.is_finished() {
            return;
        }
        let mut timeout = set.take_due(&mut due);
        set.inbox
            .push_quietly(due.drain(..).map(|token| (token, bits::LOOK)));
        match slice() {
            Some(Err(())) => return,
            Some(Ok(most)) => timeout = Some(timeout.map_or(most, |t| t.min(most))),
            None => {}
        }
        // No event is left: one flush releases all replies that wait for the journal. Other drivers
        // serve the set meanwhile.
        if timeout != Some(Duration::ZERO)
            && let Some(flushed) = try_flush(shared, set, driver, flush_again)
        {
            flush_again = flushed;
            continue;
        }
        flush_again = false;
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

/// Flushes the journal if connections of the set wait for it, or if `again` says that others do.
/// `Some(more)` if it did; the connections it released are then in the inbox.
fn try_flush<H: Handler>(
    shared: &Shared<H>,
    set: &PollSet<Conn<H>>,
    driver: &DriverState,
    again: bool,
) -> Option<bool> {
    let position = match set.durable.furthest() {
        Some(position) => position,
        None if again => 0,
        None => return None,
    };
    // A flush that takes long counts as a request that blocks: the monitor starts a spare
    // driver.
    driver.flushes(true);
    driver.enter();
    let turn = shared.context.handler.try_flush(position);
    driver.leave();
    driver.flushes(false);
    match turn {
        FlushOutcome::Idle => None,
        FlushOutcome::Flushed { more } => Some(more),
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

/// Runs the connection on this thread unless another thread owns it; the owner then sees the new
/// reason.
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
        let mut env = DriveContext {
            server: &shared.context,
            set,
            buffers: &mut *buffers,
            driver,
            may_block,
        };
        let driven = catch_unwind(AssertUnwindSafe(|| conn.drive(&mut env, why)));
        let step = driven.unwrap_or_else(|_| {
            // A bug in this layer, not in a command: it costs the one connection, never the thread.
            add(&set.counters.panics, 1);
            shared
                .context
                .handler
                .report_panic("(network)", "while a connection was driven");
            *env.buffers = Buffers::new(&shared.context.memory);
            conn.abandon(&mut env);
            StepOutcome::Close
        });
        buffers.shrink();
        match step {
            // A closed connection keeps its owner bit, so that no thread drives it again.
            StepOutcome::Close => return,
            StepOutcome::HandOff => {
                let (shared, conn) = (Arc::clone(shared), Arc::clone(conn));
                let pool = Arc::clone(&shared.pool);
                pool.submit(move |buffers| {
                    let driver = DriverState::default();
                    run_owned(&shared, at, &conn, &driver, buffers, true);
                    if let Some(set) = shared.sets.get(at) {
                        let mut again = false;
                        while let Some(more) = try_flush(&shared, set, &driver, again) {
                            again = more;
                        }
                    }
                });
                return;
            }
            StepOutcome::Yield => {
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
            StepOutcome::Idle | StepOutcome::Go => {
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
    let mut blocking: Vec<DriverActivity> =
        shared.sets.iter().map(|_| DriverActivity::new()).collect();
    while !shared.context.is_finished() {
        std::thread::sleep(sleep);
        for (at, (set, blocking)) in shared.sets.iter().zip(&mut blocking).enumerate() {
            let drivers = set.drivers.lock();
            let wanted = blocking.record_activity(&drivers, shared.spares_per_set);
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
                start_spare(shared, at);
            } else if let Some(set) = shared.sets.get(at)
                && set.inbox.has_work()
            {
                // A driver has fetched more connections than it has handled, and the other drivers
                // may sleep because they do not know of them.
                set.inbox.kick();
            }
        }
        last = now;
    }
}

/// Sets the number of lasting spare drivers of the set: missing ones are started here, superfluous
/// ones end by themselves.
fn adjust_spares<H: Handler>(shared: &Arc<Shared<H>>, at: usize, wanted: usize) {
    let Some(set) = shared.sets.get(at) else {
        return;
    };
    let had = set.spares.swap(wanted, Ordering::AcqRel);
    for number in had..wanted {
        let driver = Arc::new(DriverState::default());
        set.drivers.lock().push(Arc::clone(&driver));
        let needed = move |set: &PollSet<Conn<H>>| set.spares.load(Ordering::Acquire) > number;
        if !run_spare(shared, at, driver, LASTING_SPARE_SLICE, needed) {
            set.spares.store(number, Ordering::Release);
            return;
        }
    }
}

/// Gives the set another driver for as long as all the others stay blocked.
fn start_spare<H: Handler>(shared: &Arc<Shared<H>>, at: usize) {
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
    let needed = move |_: &PollSet<Conn<H>>| stuck.iter().all(|(d, ticks)| d.ticks() == *ticks);
    run_spare(shared, at, driver, SPARE_SLICE, needed);
}

/// Runs a driver, which the set lists already, on a thread of its own as long as it is `needed`.
fn run_spare<H: Handler>(
    shared: &Arc<Shared<H>>,
    at: usize,
    driver: Arc<DriverState>,
    slice: Duration,
    needed: impl Fn(&PollSet<Conn<H>>) -> bool + Send + 'static,
) -> bool {
    let Some(set) = shared.sets.get(at) else {
        return false;
    };
    let task_shared = Arc::clone(shared);
    let task_driver = Arc::clone(&driver);
    // Not in the pool of long requests: that may be full of requests that wait for this very set.
    let submitted = shared.spare.submit(move |_| {
        let Some(set) = task_shared.sets.get(at) else {
            return;
        };
        serve(&task_shared, at, &task_driver, || {
            Some(if needed(set) { Ok(slice) } else { Err(()) })
        });
        set.drivers.lock().retain(|d| !Arc::ptr_eq(d, &task_driver));
        // It may have consumed a wake-up that was meant for the other drivers.
        set.inbox.kick();
    });
    if submitted {
        add(&shared.spares_started, 1);
    } else {
        set.drivers.lock().retain(|d| !Arc::ptr_eq(d, &driver));
    }
    submitted
}
