//! Admission of operations: tickets for reads and for writes, a queue for operations that get no
//! ticket, and an immediate refusal when the queue is too long.
//!
//! Promises: while tickets are left, taking one is one atomic addition and returning it is another;
//! a waiting operation keeps no thread and is woken by the next ticket that is returned; no
//! operation waits longer than allowed. Must not know: which commands read or write, what an
//! operation does.
//! docs/adr/0042-admission.md gives the reasons for this design.

use model::{MongoError, code};
use operation::Link;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Least number of tickets: the network's worker threads and a few operations that wait for the
/// device.
const TICKETS_MIN: i64 = 16;
/// Most operations that may wait, for each ticket.
const QUEUE_PER_TICKET: i64 = 16;
/// The smallest change of the rate that counts: five percent.
const CHANGE: f64 = 0.05;
/// How often a waiting operation checks by itself for a ticket, in case a wake-up was lost, in
/// microseconds.
const LOOK_US: u64 = 1_000_000;
/// The same for an operation that cannot be woken.
const LOOK_ALONE_US: u64 = 2_000;

/// Limits of `baseBackoffMS`, the pause that clients are asked to make before they try again.
const BACKOFF_MS_MIN: i64 = 10;
const BACKOFF_MS_MAX: i64 = 10_000;

/// One admission in the upper half of the word and one ticket in the lower half.
const ONE: u64 = (1 << 32) | 1;
const TICKETS: u64 = (1 << 32) - 1;

/// The admission of operations of one kind.
pub struct Gate {
    /// Admissions since the start (upper 32 bits, wrapping) and tickets in use (lower 32 bits).
    word: AtomicU64,
    /// Most tickets in use at a time.
    limit: AtomicI64,
    waiting: AtomicI64,
    queue: Mutex<Queue>,
    counts: Counts,
    probe: Mutex<Probe>,
}

#[derive(Default)]
struct Queue {
    next: u64,
    waiting: VecDeque<(u64, Option<Arc<dyn Link>>)>,
}

#[derive(Default)]
struct Counts {
    admissions: AtomicU64,
    queued: AtomicI64,
    left: AtomicI64,
    rejected: AtomicI64,
    queued_us: AtomicI64,
    /// Operations that ended per second, by the last measurement.
    per_s: AtomicI64,
}

/// The figures of a gate. The first three are current values, the others are totals since the
/// start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct GateMetrics {
    pub out: i64,
    pub total: i64,
    pub queue_length: i64,
    pub admissions: i64,
    pub queued: i64,
    pub left_queue: i64,
    pub rejected: i64,
    pub queued_us: i64,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate {
            word: AtomicU64::new(0),
            limit: AtomicI64::new(TICKETS_MAX),
            waiting: AtomicI64::new(0),
            queue: Mutex::default(),
            counts: Counts::default(),
            probe: Mutex::new(Probe::new(TICKETS_MAX)),
        }
    }
}

/// Tickets at the start; the parameters of WiredTiger's tickets set the maximum.
pub const TICKETS_MAX: i64 = 128;

/// A ticket, returned when dropped.
pub struct Ticket<'g>(&'g Gate);

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.0.word.fetch_sub(1, SeqCst);
        if self.0.waiting.load(SeqCst) > 0 {
            self.0.wake_one();
        }
    }
}

/// A place in the queue, given up when dropped.
pub struct QueueEntry {
    admission: Arc<Admission>,
    kind: usize,
    number: u64,
    /// When it began to wait, microseconds of the monotonic clock.
    pub since_us: u64,
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        let gate = &self.admission.gates[self.kind];
        let mut queue = gate.queue.lock();
        queue.waiting.retain(|(n, _)| *n != self.number);
        drop(queue);
        gate.waiting.fetch_sub(1, SeqCst);
        gate.counts.left.fetch_add(1, Relaxed);
        // The operation may have been woken for a ticket that it did not take, so the next one is
        // woken.
        gate.wake_one();
    }
}

/// The answer to a request for a ticket.
pub enum TicketAnswer<'g> {
    /// The operation may run.
    Run(Ticket<'g>),
    /// The operation waits in its place, and asks again at this monotonic microsecond at the
    /// latest.
    Wait(QueueEntry, u64),
}

impl Gate {
    /// A ticket, if one is free and no operation waits for it. `ahead` ignores the waiting
    /// operations.
    #[inline]
    fn take(&self, ahead: bool) -> Option<Ticket<'_>> {
        let before = self.word.fetch_add(ONE, SeqCst);
        let ticket = Ticket(self);
        let out = (before & TICKETS) as i64;
        let free = out < self.limit.load(Relaxed) && (ahead || self.waiting.load(SeqCst) == 0);
        if free {
            return Some(ticket);
        }
        std::mem::forget(ticket);
        self.undo();
        None
    }

    /// Reverts an addition that gave no ticket. A ticket that was returned in the meantime has seen
    /// the addition and may have woken no operation because of it, so one is woken here.
    fn undo(&self) {
        self.word.fetch_sub(ONE, SeqCst);
        if self.waiting.load(SeqCst) > 0 {
            self.wake_one();
        }
    }

    fn is_first(&self, number: u64) -> bool {
        let queue = self.queue.lock();
        queue.waiting.front().is_some_and(|(n, _)| *n == number)
    }

    /// Wakes the first operation of the queue when a ticket is free. When that operation leaves the
    /// queue, it wakes the next.
    fn wake_one(&self) {
        if ((self.word.load(SeqCst) & TICKETS) as i64) < self.limit.load(Relaxed) {
            let link = self.queue.lock().waiting.front().map(|(_, l)| l.clone());
            if let Some(Some(link)) = link {
                link.wake();
            }
        }
    }

    /// Whether one more operation may wait: it should get its ticket within `patience_us`.
    fn has_room(&self, patience_us: u64) -> bool {
        let (waiting, limit) = (self.waiting.load(Relaxed), self.limit.load(Relaxed));
        let per_s = self.counts.per_s.load(Relaxed);
        // Computed from the rate of the last second; a rate of 0 tells nothing.
        let wait_us = match per_s {
            1.. => u64::try_from(waiting.saturating_mul(1_000_000) / per_s).unwrap_or(0),
            _ => 0,
        };
        waiting < limit.saturating_mul(QUEUE_PER_TICKET) && wait_us <= patience_us
    }

    /// 462 with the labels by which drivers back off, and with the expected duration of the queue
    /// as the shortest pause. Without a known rate the error has no pause, and drivers choose their
    /// own.
    fn overload_error(&self) -> MongoError {
        let error = MongoError::new(
            code::INGRESS_REQUEST_RATE_LIMIT_EXCEEDED,
            "Request rejected: the server is overloaded; the operation has not begun and may be \
                sent again later",
        )
        .label("SystemOverloadedError")
        .label("RetryableError")
        .label("NoWritesPerformed");
        let (waiting, per_s) = (self.waiting.load(Relaxed), self.counts.per_s.load(Relaxed));
        if per_s <= 0 {
            return error;
        }
        let ms = (waiting.saturating_mul(1000) / per_s).clamp(BACKOFF_MS_MIN, BACKOFF_MS_MAX);
        error.extra(model::doc! { "baseBackoffMS": i32::try_from(ms).unwrap_or(i32::MAX) })
    }

    fn metrics(&self) -> GateMetrics {
        let word = self.word.load(Relaxed);
        let whole = self.counts.admissions.load(Relaxed);
        // The upper half wraps; the full count is updated once a second.
        let since = (word >> 32).wrapping_sub(whole) & TICKETS;
        GateMetrics {
            out: (word & TICKETS) as i64,
            total: self.limit.load(Relaxed),
            queue_length: self.waiting.load(Relaxed),
            admissions: i64::try_from(whole + since).unwrap_or(i64::MAX),
            queued: self.counts.queued.load(Relaxed),
            left_queue: self.counts.left.load(Relaxed),
            rejected: self.counts.rejected.load(Relaxed),
            queued_us: self.counts.queued_us.load(Relaxed),
        }
    }

    /// Measures the rate and adjusts the number of tickets; called once a second.
    fn adapt(&self, now_us: u64, tickets_max: i64) {
        let metrics = self.metrics();
        let whole = u64::try_from(metrics.admissions).unwrap_or(0);
        self.counts.admissions.store(whole, Relaxed);
        let mut probe = self.probe.lock();
        let ended = metrics.admissions - metrics.out;
        let waited = metrics.queue_length > 0 || metrics.queued > probe.queued;
        probe.queued = metrics.queued;
        if let Some(rate) = probe.rate(ended, now_us) {
            self.counts.per_s.store(rate as i64, Relaxed);
            let most = tickets_max.max(1);
            self.limit.store(probe.decide(rate, waited, most), Relaxed);
        }
        drop(probe);
        // When the number of tickets has grown, more of the waiting operations are woken.
        let free = self.limit.load(Relaxed) - (self.word.load(Relaxed) & TICKETS) as i64;
        (0..free.min(self.waiting.load(Relaxed))).for_each(|_| self.wake_one());
    }
}

/// Searches the number of tickets with the highest rate of ended operations: it keeps its direction
/// while the rate grows, and turns when the rate falls.
struct Probe {
    tickets: i64,
    up: bool,
    /// The best rate since the last turn while operations waited.
    best: Option<f64>,
    ended: i64,
    at_us: Option<u64>,
    queued: i64,
}

impl Probe {
    fn new(tickets: i64) -> Probe {
        Probe {
            tickets,
            up: false,
            best: None,
            ended: 0,
            at_us: None,
            queued: 0,
        }
    }

    /// Operations ended per second since the last call; `None` in the first call.
    fn rate(&mut self, ended: i64, now_us: u64) -> Option<f64> {
        let before = self.at_us.replace(now_us);
        let more = ended - std::mem::replace(&mut self.ended, ended);
        let us = now_us.saturating_sub(before?);
        (us > 0).then(|| more.max(0) as f64 * 1e6 / us as f64)
    }

    /// The next number of tickets. `waited` says that an operation had to wait; without one, the
    /// number of tickets made no difference.
    fn decide(&mut self, rate: f64, waited: bool, most: i64) -> i64 {
        let least = TICKETS_MIN.min(most);
        if !waited {
            // Nothing can be learned; raise the number again, up to the maximum.
            self.best = None;
            self.up = false;
            let step = (self.tickets / 8).max(1);
            self.tickets = (self.tickets + step).clamp(least, most);
            return self.tickets;
        }
        let best = self.best.map_or(rate, |b| b.max(rate));
        self.best = Some(best);
        if rate < best * (1.0 - CHANGE) {
            self.up = !self.up;
            self.best = Some(rate);
        }
        if self.tickets <= least {
            self.up = true;
        } else if self.tickets >= most {
            self.up = false;
        }
        let step = (self.tickets / 8).max(1);
        let to = self.tickets + if self.up { step } else { -step };
        self.tickets = to.clamp(least, most);
        self.tickets
    }
}

/// The gates of reads and of writes.
#[derive(Default)]
pub struct Admission {
    gates: [Gate; 2],
}

/// The index of the gate of reads.
pub const READS: usize = 0;
/// The index of the gate of writes.
pub const WRITES: usize = 1;

impl Admission {
    /// A ticket, if one is free and no operation waits for it.
    #[inline]
    pub fn try_ticket(&self, kind: usize) -> Option<Ticket<'_>> {
        self.gates[kind].take(false)
    }

    /// Asks for a ticket. `before` is the place of an operation that has waited already;
    /// `patience_us` is how long it may wait in total.
    ///
    /// # Errors
    /// 462 IngressRequestRateLimitExceeded, with the labels by which drivers back off.
    pub fn ask<'g>(
        self: &'g Arc<Self>,
        kind: usize,
        before: Option<QueueEntry>,
        link: Option<&Arc<dyn Link>>,
        now_us: u64,
        patience_us: u64,
    ) -> Result<TicketAnswer<'g>, MongoError> {
        let gate = &self.gates[kind];
        let is_first = before.as_ref().is_some_and(|p| gate.is_first(p.number));
        if let Some(ticket) = gate.take(is_first) {
            if let Some(place) = before {
                self.add_wait(&place, now_us);
            }
            return Ok(TicketAnswer::Run(ticket));
        }
        let place = match before {
            Some(place) if now_us.saturating_sub(place.since_us) >= patience_us => {
                self.add_wait(&place, now_us);
                gate.counts.rejected.fetch_add(1, Relaxed);
                return Err(gate.overload_error());
            }
            Some(place) => place,
            None if !gate.has_room(patience_us) => {
                gate.counts.rejected.fetch_add(1, Relaxed);
                return Err(gate.overload_error());
            }
            None => self.queue(kind, link, now_us),
        };
        // Try again: a ticket that was returned before this operation joined the queue woke no
        // operation.
        if gate.is_first(place.number)
            && let Some(ticket) = gate.take(true)
        {
            self.add_wait(&place, now_us);
            return Ok(TicketAnswer::Run(ticket));
        }
        let look = if link.is_some() {
            LOOK_US
        } else {
            LOOK_ALONE_US
        };
        let until = place.since_us.saturating_add(patience_us);
        Ok(TicketAnswer::Wait(
            place,
            now_us.saturating_add(look).min(until),
        ))
    }

    fn queue(
        self: &Arc<Self>,
        kind: usize,
        link: Option<&Arc<dyn Link>>,
        now_us: u64,
    ) -> QueueEntry {
        let gate = &self.gates[kind];
        gate.waiting.fetch_add(1, SeqCst);
        gate.counts.queued.fetch_add(1, Relaxed);
        let mut queue = gate.queue.lock();
        queue.next += 1;
        let number = queue.next;
        queue.waiting.push_back((number, link.cloned()));
        QueueEntry {
            admission: Arc::clone(self),
            kind,
            number,
            since_us: now_us,
        }
    }

    fn add_wait(&self, place: &QueueEntry, now_us: u64) {
        let us = now_us.saturating_sub(place.since_us);
        let us = i64::try_from(us).unwrap_or(i64::MAX);
        let counts = &self.gates[place.kind].counts;
        counts.queued_us.fetch_add(us, Relaxed);
    }

    /// The figures of both gates, reads first.
    pub fn metrics(&self) -> [GateMetrics; 2] {
        [self.gates[READS].metrics(), self.gates[WRITES].metrics()]
    }

    /// Adjusts the number of tickets of each gate towards the highest rate of ended operations, up
    /// to `most`; to be called about once a second.
    pub fn adapt(&self, now_us: u64, most: [i64; 2]) {
        for (gate, most) in self.gates.iter().zip(most) {
            gate.adapt(now_us, most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Link for Woken {
        fn wake(&self) {
            self.0.fetch_add(1, SeqCst);
        }
        fn is_gone(&self) -> bool {
            false
        }
    }

    fn of(tickets: i64) -> Arc<Admission> {
        let admission = Arc::new(Admission::default());
        for gate in &admission.gates {
            gate.limit.store(tickets, Relaxed);
        }
        admission
    }

    const PATIENCE: u64 = 10_000_000;

    #[test]
    fn an_operation_without_a_ticket_waits_its_turn_and_is_woken() {
        let admission = of(1);
        let (one, two) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
        let links = [one.clone(), two.clone()].map(|w| -> Arc<dyn Link> { w });
        let ask = |place, link: usize, now_us| {
            admission.ask(READS, place, Some(&links[link]), now_us, PATIENCE)
        };
        let Ok(TicketAnswer::Run(held)) = ask(None, 0, 0) else {
            panic!("a ticket is free")
        };
        let Ok(TicketAnswer::Wait(first, until)) = ask(None, 0, 5) else {
            panic!("no ticket is left")
        };
        assert_eq!(until, 5 + LOOK_US);
        let Ok(TicketAnswer::Wait(second, _)) = ask(None, 1, 6) else {
            panic!("no ticket is left")
        };
        // Writes have tickets of their own.
        let write = admission.ask(WRITES, None, None, 6, PATIENCE);
        assert!(matches!(write, Ok(TicketAnswer::Run(_))));
        drop(write);
        drop(held);
        assert_eq!((one.0.load(SeqCst), two.0.load(SeqCst)), (1, 0));
        // A new operation does not overtake the waiting ones.
        let Ok(TicketAnswer::Wait(third, _)) = ask(None, 1, 7) else {
            panic!("two wait before it")
        };
        drop(third);
        let Ok(TicketAnswer::Run(held)) = ask(Some(first), 0, 105) else {
            panic!("it was woken")
        };
        drop(held);
        assert!(two.0.load(SeqCst) > 0);
        // An operation that was woken and gives up its place passes its turn to the next.
        drop(second);
        let f = admission.metrics()[READS];
        assert_eq!((f.out, f.queue_length, f.queued), (0, 0, 3));
        assert_eq!((f.admissions, f.left_queue, f.queued_us), (2, 3, 100));
    }

    #[test]
    fn a_returned_ticket_wakes_the_waiter_although_another_request_fails() {
        let admission = of(1);
        let waiter = Arc::new(Woken::default());
        let link: Arc<dyn Link> = waiter.clone();
        let ask = || admission.ask(READS, None, Some(&link), 0, PATIENCE);
        let (Ok(TicketAnswer::Run(held)), Ok(TicketAnswer::Wait(_place, _))) = (ask(), ask())
        else {
            panic!("one ticket is there")
        };
        // Simulates another thread between its addition and the reverting of it.
        let gate = &admission.gates[READS];
        gate.word.fetch_add(ONE, SeqCst);
        drop(held);
        assert_eq!(waiter.0.load(SeqCst), 0);
        gate.undo();
        assert_eq!(waiter.0.load(SeqCst), 1);
    }

    #[test]
    fn nobody_waits_longer_than_allowed_nor_in_a_queue_without_an_end() {
        let admission = of(1);
        let ask = |place, now_us| admission.ask(WRITES, place, None, now_us, PATIENCE);
        let _held = ask(None, 0);
        let Ok(TicketAnswer::Wait(place, until)) = ask(None, 0) else {
            panic!("no ticket is left")
        };
        assert_eq!(until, LOOK_ALONE_US);
        let refused = ask(Some(place), PATIENCE).err().expect("too long");
        assert_eq!(refused.code(), 462);
        let labels = [
            "SystemOverloadedError",
            "RetryableError",
            "NoWritesPerformed",
        ];
        assert_eq!(refused.labels(), labels);
        assert!(refused.extra_fields().is_none(), "nothing has ended yet");
        let places: Vec<_> = (0..QUEUE_PER_TICKET).map(|_| ask(None, 0)).collect();
        assert!(
            places
                .iter()
                .all(|p| matches!(p, Ok(TicketAnswer::Wait(..))))
        );
        assert!(ask(None, 0).is_err(), "the queue is full");
        drop(places);
        // At three a second the fortieth would wait longer than allowed.
        admission.gates[WRITES].limit.store(10, Relaxed);
        let held: Vec<_> = (0..9).map(|_| ask(None, 0)).collect();
        admission.gates[WRITES].counts.per_s.store(3, Relaxed);
        let mut waiting = Vec::new();
        while let Ok(asked) = ask(None, 0) {
            waiting.push(asked);
        }
        assert_eq!(waiting.len(), 31);
        // The queue takes ten seconds.
        let refused = ask(None, 0).err().expect("no room");
        let extra = refused.extra_fields().expect("how long to wait");
        let backoff = extra.doc().field("baseBackoffMS").as_i64_exact();
        assert_eq!(backoff, Some(10_000));
        drop(held);
        assert_eq!(admission.metrics()[WRITES].rejected, 4);
    }

    #[test]
    fn the_number_of_tickets_goes_to_where_most_operations_end() {
        for best in [24.0, 60.0, 110.0] {
            let mut probe = Probe::new(TICKETS_MAX);
            let rate = |n: i64| 1000.0 - (n as f64 - best).abs() * 8.0;
            let seen: Vec<i64> = (0..200)
                .map(|_| {
                    let n = probe.tickets;
                    probe.decide(rate(n), true, TICKETS_MAX)
                })
                .collect();
            let late = &seen[100..];
            let mean = late.iter().sum::<i64>() as f64 / late.len() as f64;
            assert!((mean - best).abs() < best * 0.4, "{best}: {late:?}");
            assert!(seen.iter().all(|n| (TICKETS_MIN..=TICKETS_MAX).contains(n)));
        }
        let mut probe = Probe::new(20);
        (0..50).for_each(|_| _ = probe.decide(10.0, false, TICKETS_MAX));
        assert_eq!(
            probe.tickets, TICKETS_MAX,
            "when nobody waits all come back"
        );
        assert_eq!(probe.decide(10.0, true, 4), 4, "never more than allowed");
    }
}
