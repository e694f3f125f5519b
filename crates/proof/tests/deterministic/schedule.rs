//! The scheduler: of the threads of a run one has its turn, and the others stand still.
//! Promises: which thread goes on, what time it is and what is random follow from the seed alone.
//! Must not know: what the threads do, which functions call it.

use proof::Random;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Which run a thread belongs to is known by its number there; the first has 0.
pub(crate) type Member = usize;

/// What the first thread waits on until the others have ended. No address of a word.
const OTHERS: usize = 1;
/// What waits for the time alone.
const TIME: usize = 3;
/// A slow commit takes as long as so many places, at most.
const SLOW_PLACES: usize = 1000;

/// A run begins behind the last one by so much, far from the machine's own time: what a
/// process keeps from run to run (times of fair hand-overs) lies in the past then.
const BETWEEN: Duration = Duration::from_secs(3600);
const FIRST: Duration = Duration::from_secs(1 << 30);

/// Longer than locks wait before they hand themselves over: so they always do.
const HAND_OVER: Duration = Duration::from_micros(1100);

/// Of the run's own time: no wait of the server is that long.
const LONGEST: Duration = Duration::from_secs(1000);

enum State {
    Ready,
    Waits {
        on: usize,
        /// In the order in which they began to wait.
        order: u64,
        until: Option<Duration>,
    },
    Ended,
}

struct Thread {
    state: State,
    turn: Arc<Condvar>,
    timed_out: bool,
    priority: i64,
}

/// How the next thread is chosen.
enum Choice {
    /// Another one in so many of a hundred places.
    Chance(usize),
    /// The one of the highest priority; it loses it in one of so many places.
    Priority(usize),
}

struct Schedule {
    seed: u64,
    random: Random,
    choice: Choice,
    threads: Vec<Thread>,
    current: Member,
    lowest: i64,
    /// Of so many allocations one is a place; 0 when none is.
    allocations: usize,
    /// So many of a hundred commits are slow.
    slow: usize,
    /// Time that a place takes, at most.
    step: Duration,
    began: Duration,
    now: Duration,
    trace: u64,
    made: Summary,
}

/// What a run was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Places where another thread could have gone on.
    pub(crate) places: u64,
    /// Those where another one went on.
    pub(crate) changes: u64,
    /// Waits on a lock, a condition or the time.
    pub(crate) waits: u64,
    /// Which thread went on at each place, as a number.
    pub(crate) order: u64,
    /// Milliseconds of the run's own time.
    pub(crate) ms: u64,
}

static SCHEDULE: Mutex<Option<Schedule>> = Mutex::new(None);
static RUNS: AtomicBool = AtomicBool::new(false);
static LAST: Mutex<Duration> = Mutex::new(FIRST);

thread_local! {
    static MEMBER: Cell<Option<Member>> = const { Cell::new(None) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Allocations of the thread until the next one that is a place.
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// True in a thread of the run, outside of the scheduler.
pub(crate) fn is_member() -> bool {
    member().is_some()
}

fn member() -> Option<Member> {
    if !RUNS.load(Ordering::Relaxed) || INSIDE.try_with(Cell::get).unwrap_or(true) {
        return None;
    }
    MEMBER.try_with(Cell::get).ok().flatten()
}

/// The scheduler's own waits and allocations are nothing it schedules.
struct Inside(bool);

impl Inside {
    fn new() -> Inside {
        Inside(INSIDE.replace(true))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

type Locked = MutexGuard<'static, Option<Schedule>>;

fn locked() -> Locked {
    SCHEDULE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a run with the calling thread.
pub(crate) fn begin(seed: u64) {
    let _inside = Inside::new();
    let mut random = Random::new(seed);
    let choice = match random.below(3) {
        0 => Choice::Chance([3, 20, 60, 100][random.below(4)]),
        1 => Choice::Chance(30),
        _ => Choice::Priority([10, 100, 1000][random.below(3)]),
    };
    let allocations = [0, 4, 30, 200][random.below(4)];
    let slow = [0, 10, 30][random.below(3)];
    let step = Duration::from_micros([5, 100, 1000][random.below(3)]);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    *last += BETWEEN;
    let mut schedule = Schedule {
        seed,
        random,
        choice,
        threads: Vec::new(),
        current: 0,
        lowest: 0,
        allocations,
        slow,
        step,
        began: *last,
        now: *last,
        trace: 0,
        made: Summary::default(),
    };
    schedule.add();
    let mut here = locked();
    assert!(here.is_none(), "one run at a time");
    *here = Some(schedule);
    MEMBER.set(Some(0));
    RUNS.store(true, Ordering::SeqCst);
}

/// Ends the run, whose other threads have ended.
pub(crate) fn end() -> Summary {
    let _inside = Inside::new();
    MEMBER.set(None);
    RUNS.store(false, Ordering::SeqCst);
    let schedule = locked().take().expect("a run");
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = schedule.now;
    let ms = (schedule.now - schedule.began).as_millis();
    Summary {
        order: schedule.trace,
        ms: u64::try_from(ms).unwrap_or(u64::MAX),
        ..schedule.made
    }
}

impl Schedule {
    fn add(&mut self) -> Member {
        // The first one waits for the others: it goes on at once when it may.
        let priority = match self.threads.is_empty() {
            true => i64::MAX,
            false => (self.random.next_u64() >> 8) as i64,
        };
        self.threads.push(Thread {
            state: State::Ready,
            turn: Arc::default(),
            timed_out: false,
            priority,
        });
        self.threads.len() - 1
    }

    fn ready(&self) -> impl Iterator<Item = Member> + '_ {
        let is_ready = |t: &Thread| matches!(t.state, State::Ready);
        (0..self.threads.len()).filter(move |n| is_ready(&self.threads[*n]))
    }

    /// Those whose time is up go on.
    fn wake_late(&mut self) {
        let now = self.now;
        for thread in &mut self.threads {
            let State::Waits {
                until: Some(until), ..
            } = thread.state
            else {
                continue;
            };
            if until <= now {
                (thread.state, thread.timed_out) = (State::Ready, true);
            }
        }
    }

    /// Who goes on. Where nobody can, the time goes on to when somebody can.
    fn next(&mut self, current_stays: bool) -> Option<Member> {
        self.wake_late();
        if self.ready().next().is_none() {
            let until = |t: &Thread| match t.state {
                State::Waits { until, .. } => until,
                _ => None,
            };
            self.now = self.threads.iter().filter_map(until).min()?;
            self.wake_late();
        }
        let ready: Vec<Member> = self.ready().collect();
        let chosen = match self.choice {
            Choice::Chance(percent) => match current_stays && !self.random.chance(percent) {
                true => self.current,
                false => ready[self.random.below(ready.len())],
            },
            Choice::Priority(places) => {
                if current_stays && self.random.below(places) == 0 {
                    self.demote();
                }
                let priority = |n: &Member| self.threads[*n].priority;
                ready.into_iter().max_by_key(priority)?
            }
        };
        self.trace = (self.trace ^ chosen as u64).wrapping_mul(0x0100_0000_01B3);
        Some(chosen)
    }

    fn demote(&mut self) {
        self.lowest -= 1;
        self.threads[self.current].priority = self.lowest;
    }

    fn wake(&mut self, on: usize, n: usize) -> usize {
        let mut waiting: Vec<(u64, Member)> = Vec::new();
        for (member, thread) in self.threads.iter().enumerate() {
            match thread.state {
                State::Waits { on: it, order, .. } if it == on => waiting.push((order, member)),
                _ => {}
            }
        }
        waiting.sort_unstable();
        waiting.truncate(n);
        for (_, member) in &waiting {
            self.threads[*member].state = State::Ready;
        }
        waiting.len()
    }
}

/// Gives the turn to whoever is next and comes back when it is the caller's again.
fn change(mut here: Locked, me: Member, stays: bool) -> Locked {
    let schedule = here.as_mut().expect("a run");
    schedule.made.places += 1;
    let step = u64::try_from(schedule.step.as_nanos()).unwrap_or(1);
    schedule.now += Duration::from_nanos(schedule.random.next_u64() % step);
    let chosen = schedule.next(stays);
    let Some(next) = chosen.filter(|_| schedule.now - schedule.began < LONGEST) else {
        let ended = |t: &Thread| matches!(t.state, State::Ended);
        let waiting: Vec<usize> = (0..schedule.threads.len())
            .filter(|n| !ended(&schedule.threads[*n]))
            .collect();
        eprintln!(
            "seed {}: threads {waiting:?} have not ended after {} s of the run's time",
            schedule.seed,
            (schedule.now - schedule.began).as_secs()
        );
        // The threads cannot be ended otherwise.
        std::process::exit(1);
    };
    if next == me {
        return here;
    }
    schedule.made.changes += 1;
    schedule.current = next;
    schedule.threads[next].turn.notify_one();
    if matches!(schedule.threads[me].state, State::Ended) {
        return here;
    }
    await_turn(here, me)
}

fn await_turn(mut here: Locked, me: Member) -> Locked {
    let turn = here.as_ref().map(|s| Arc::clone(&s.threads[me].turn));
    let turn = turn.expect("a run");
    while here.as_ref().is_some_and(|s| s.current != me) {
        here = turn.wait(here).unwrap_or_else(PoisonError::into_inner);
    }
    here
}

/// A place where threads meet: another one may go on.
pub(crate) fn meet() {
    if let Some(me) = member() {
        let _inside = Inside::new();
        drop(change(locked(), me, true));
    }
}

/// An allocation, which now and then is such a place: they lie everywhere between the others.
pub(crate) fn allocate() {
    let Some(me) = member() else {
        return;
    };
    let left = LEFT.get();
    if left > 1 {
        return LEFT.set(left - 1);
    }
    let _inside = Inside::new();
    let mut here = locked();
    let schedule = here.as_mut().expect("a run");
    let every = schedule.allocations;
    match every {
        0 => LEFT.set(usize::MAX),
        _ => LEFT.set(1 + schedule.random.below(2 * every)),
    }
    if left == 1 {
        drop(change(here, me, true));
    }
}

/// As [`meet`], in a commit: some are slow, while others go on.
pub(crate) fn commit() {
    let until = {
        let _inside = Inside::new();
        let mut here = locked();
        let Some(schedule) = here.as_mut() else {
            return;
        };
        let places = schedule.random.below(SLOW_PLACES) as u32;
        let percent = schedule.slow;
        let slow = schedule.random.chance(percent);
        slow.then(|| schedule.now + schedule.step * places / 2)
    };
    match until {
        Some(_) => sleep(until),
        None => meet(),
    }
}

/// Waits for the time.
pub(crate) fn sleep(until: Option<Duration>) {
    wait(TIME, until);
}

/// The caller can do nothing until another one has done something.
pub(crate) fn give_way() {
    if let Some(me) = member() {
        let _inside = Inside::new();
        let mut here = locked();
        if let Some(schedule) = here.as_mut() {
            schedule.demote();
        }
        drop(change(here, me, true));
    }
}

/// Waits on an address until it is woken, or until a time. False when the time was up.
pub(crate) fn wait(on: usize, until: Option<Duration>) -> bool {
    let Some(me) = member() else {
        return true;
    };
    let _inside = Inside::new();
    let mut here = locked();
    let schedule = here.as_mut().expect("a run");
    schedule.made.waits += 1;
    let order = schedule.made.waits;
    let thread = &mut schedule.threads[me];
    thread.timed_out = false;
    thread.state = State::Waits { on, order, until };
    let here = change(here, me, false);
    !here.as_ref().is_some_and(|s| s.threads[me].timed_out)
}

/// Wakes up to `n` of those who wait on an address; how many.
pub(crate) fn wake(on: usize, n: usize) -> usize {
    if !RUNS.load(Ordering::Relaxed) || INSIDE.try_with(Cell::get).unwrap_or(true) {
        return 0;
    }
    let _inside = Inside::new();
    let mut here = locked();
    let Some(schedule) = here.as_mut() else {
        return 0;
    };
    schedule.now += HAND_OVER;
    schedule.wake(on, n)
}

/// The time of the run, which goes on a little when it is asked for.
pub(crate) fn now() -> Option<Duration> {
    member()?;
    let _inside = Inside::new();
    let mut here = locked();
    let schedule = here.as_mut()?;
    schedule.now += Duration::from_micros(1);
    Some(schedule.now)
}

/// How long the run has gone on, of its own time.
pub(crate) fn elapsed() -> Option<Duration> {
    let now = now()?;
    let _inside = Inside::new();
    let began = locked().as_ref().map(|s| s.began);
    began.map(|began| now - began)
}

/// Fills a buffer with what is random in this run; false outside of one.
pub(crate) fn fill(bytes: &mut [u8]) -> bool {
    if member().is_none() {
        return false;
    }
    let _inside = Inside::new();
    if let Some(schedule) = locked().as_mut() {
        bytes.fill_with(|| schedule.random.next_u64() as u8);
    }
    true
}

/// Begins a thread of the run. What it panics with is its result.
pub(crate) fn spawn<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<std::thread::Result<T>> {
    let _inside = Inside::new();
    let me = locked().as_mut().expect("a run").add();
    std::thread::spawn(move || {
        let inside = Inside::new();
        MEMBER.set(Some(me));
        drop(await_turn(locked(), me));
        drop(inside);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        let _inside = Inside::new();
        MEMBER.set(None);
        let mut here = locked();
        let schedule = here.as_mut().expect("a run");
        schedule.threads[me].state = State::Ended;
        schedule.wake(OTHERS, 1);
        drop(change(here, me, false));
        result
    })
}

/// Waits until the threads of the run from the second to number `last` have ended.
pub(crate) fn await_ended(last: Member) {
    let ended = |s: &Schedule| {
        let mut others = s.threads.iter().skip(1).take(last);
        others.all(|t| matches!(t.state, State::Ended))
    };
    loop {
        let inside = Inside::new();
        if locked().as_ref().is_none_or(ended) {
            return;
        }
        drop(inside);
        wait(OTHERS, None);
    }
}
