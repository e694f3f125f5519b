//! The scheduler: one thread of a run executes, all others wait. Promises: the seed alone
//! determines which thread runs next, the time and the random numbers. Must not know: what the
//! threads do, which functions call it.

use proof::Random;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The number of a thread in its run; the first one has 0.
pub(crate) type Member = usize;

/// The first thread waits on this until the others have ended. It is never the address of a word.
const OTHERS: usize = 1;
/// A wait for the time alone.
const TIME: usize = 3;
/// Most scheduling points for which a slow commit waits.
const SLOW_PLACES: usize = 1000;

/// Clock difference between two runs, far from the machine's own time: times that the process keeps
/// from earlier runs (of fair lock hand-overs) are then in the past.
const BETWEEN: Duration = Duration::from_secs(3600);
const FIRST: Duration = Duration::from_secs(1 << 30);

/// Longer than the time after which locks are handed over, so that they always are.
const HAND_OVER: Duration = Duration::from_micros(1100);

/// Longest run in its own time: no wait of the server is that long.
const LONGEST: Duration = Duration::from_secs(1000);

/// The wall clock at the beginning of a run.
const WALL: Duration = Duration::from_secs(1_700_000_000);
/// Where the wall clock jumps, it does so at one of this many scheduling points.
const JUMP_PLACES: usize = 200;
/// How far it is from the run's time after a jump, at most, in milliseconds.
const JUMPS_MS: [usize; 5] = [20, 2_000, 60_000, 1_200_000, 100_000_000];

enum State {
    Ready,
    Waits {
        on: usize,
        /// The order in which the threads began to wait.
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
    /// Another thread with this probability in percent.
    Chance(usize),
    /// The thread with the highest priority; at one of this many scheduling points it loses its
    /// priority.
    Priority(usize),
}

struct Schedule {
    seed: u64,
    random: Random,
    choice: Choice,
    threads: Vec<Thread>,
    current: Member,
    lowest: i64,
    /// One of this many allocations is a scheduling point; 0 for none.
    allocations: usize,
    /// Percentage of commits that are slow.
    slow: usize,
    /// Longest time that passes at a scheduling point.
    step: Duration,
    began: Duration,
    now: Duration,
    wall: WallClock,
    trace: u64,
    made: Summary,
}

/// The wall clock, which somebody may set ahead or back.
struct WallClock {
    /// Chooses the jumps; none without it.
    random: Option<Random>,
    /// The difference to the run's time.
    offset_ms: i64,
}

impl WallClock {
    /// True when the clock was set to another time.
    fn jump(&mut self) -> bool {
        let Some(random) = self.random.as_mut() else {
            return false;
        };
        if random.below(JUMP_PLACES) > 0 {
            return false;
        }
        let most = JUMPS_MS[random.below(JUMPS_MS.len())];
        let ms = i64::try_from(random.below(most)).unwrap_or(0);
        self.offset_ms = if random.chance(50) { ms } else { -ms };
        true
    }
}

/// Counters of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Scheduling points with a choice of threads.
    pub(crate) places: u64,
    /// Scheduling points at which the thread changed.
    pub(crate) changes: u64,
    /// Waits on a lock, a condition or the time.
    pub(crate) waits: u64,
    /// Hash of the threads chosen at all scheduling points.
    pub(crate) order: u64,
    /// Milliseconds of the run's own time.
    pub(crate) ms: u64,
    /// Jumps of the wall clock.
    pub(crate) jumps: u64,
}

static SCHEDULE: Mutex<Option<Schedule>> = Mutex::new(None);
static RUNS: AtomicBool = AtomicBool::new(false);
static LAST: Mutex<Duration> = Mutex::new(FIRST);

thread_local! {
    static MEMBER: Cell<Option<Member>> = const { Cell::new(None) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Allocations of the thread until the next scheduling point.
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

/// Excludes the scheduler's own waits and allocations from scheduling.
struct ScheduleGuard(bool);

impl ScheduleGuard {
    fn new() -> ScheduleGuard {
        ScheduleGuard(INSIDE.replace(true))
    }
}

impl Drop for ScheduleGuard {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

type ScheduleLock = MutexGuard<'static, Option<Schedule>>;

fn lock_schedule() -> ScheduleLock {
    SCHEDULE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a run with the calling thread. In one of five seeds the wall clock jumps.
pub(crate) fn begin(seed: u64) {
    let _inside = ScheduleGuard::new();
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
        wall: WallClock {
            random: (seed % 5 == 4).then(|| Random::new(!seed)),
            offset_ms: 0,
        },
        trace: 0,
        made: Summary::default(),
    };
    schedule.add();
    let mut here = lock_schedule();
    assert!(here.is_none(), "one run at a time");
    *here = Some(schedule);
    MEMBER.set(Some(0));
    RUNS.store(true, Ordering::SeqCst);
}

/// Ends the run, whose other threads have ended.
pub(crate) fn end() -> Summary {
    let _inside = ScheduleGuard::new();
    MEMBER.set(None);
    RUNS.store(false, Ordering::SeqCst);
    let schedule = lock_schedule().take().expect("a run");
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
        // The first thread waits for the others: it runs as soon as it can.
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

    /// Wakes threads whose time is up.
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

    /// Chooses the next thread. If none can run, the clock advances until one can.
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

/// Passes the turn to the next thread, and returns when it is the caller's turn again.
fn change(mut here: ScheduleLock, me: Member, stays: bool) -> ScheduleLock {
    let schedule = here.as_mut().expect("a run");
    schedule.made.places += 1;
    schedule.made.jumps += u64::from(schedule.wall.jump());
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
        // There is no other way to end the threads.
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

fn await_turn(mut here: ScheduleLock, me: Member) -> ScheduleLock {
    let turn = here.as_ref().map(|s| Arc::clone(&s.threads[me].turn));
    let turn = turn.expect("a run");
    while here.as_ref().is_some_and(|s| s.current != me) {
        here = turn.wait(here).unwrap_or_else(PoisonError::into_inner);
    }
    here
}

/// A scheduling point: another thread may run.
pub(crate) fn meet() {
    if let Some(me) = member() {
        let _inside = ScheduleGuard::new();
        drop(change(lock_schedule(), me, true));
    }
}

/// An allocation, which is a scheduling point now and then: allocations are everywhere between the
/// other ones.
pub(crate) fn allocate() {
    let Some(me) = member() else {
        return;
    };
    let left = LEFT.get();
    if left > 1 {
        return LEFT.set(left - 1);
    }
    let _inside = ScheduleGuard::new();
    let mut here = lock_schedule();
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

/// Like [`meet`], in a commit: some commits are slow, while other threads run.
pub(crate) fn commit() {
    let until = {
        let _inside = ScheduleGuard::new();
        let mut here = lock_schedule();
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

/// Waits for the clock.
pub(crate) fn sleep(until: Option<Duration>) {
    wait(TIME, until);
}

/// The caller cannot continue until another thread has done something.
pub(crate) fn give_way() {
    if let Some(me) = member() {
        let _inside = ScheduleGuard::new();
        let mut here = lock_schedule();
        if let Some(schedule) = here.as_mut() {
            schedule.demote();
        }
        drop(change(here, me, true));
    }
}

/// Waits on an address until it is woken, or until a time. False on a timeout.
pub(crate) fn wait(on: usize, until: Option<Duration>) -> bool {
    let Some(me) = member() else {
        return true;
    };
    let _inside = ScheduleGuard::new();
    let mut here = lock_schedule();
    let schedule = here.as_mut().expect("a run");
    schedule.made.waits += 1;
    let order = schedule.made.waits;
    let thread = &mut schedule.threads[me];
    thread.timed_out = false;
    thread.state = State::Waits { on, order, until };
    let here = change(here, me, false);
    !here.as_ref().is_some_and(|s| s.threads[me].timed_out)
}

/// Wakes up to `n` threads that wait on an address; returns their number. The clock is that of the
/// run's threads: a thread outside of it does not advance it.
pub(crate) fn wake(on: usize, n: usize) -> usize {
    let advance = match member() {
        Some(_) => HAND_OVER,
        None => Duration::ZERO,
    };
    if !RUNS.load(Ordering::Relaxed) || INSIDE.try_with(Cell::get).unwrap_or(true) {
        return 0;
    }
    let _inside = ScheduleGuard::new();
    let mut here = lock_schedule();
    let Some(schedule) = here.as_mut() else {
        return 0;
    };
    schedule.now += advance;
    schedule.wake(on, n)
}

/// The time of the run, which advances a little with each call.
pub(crate) fn now() -> Option<Duration> {
    member()?;
    let _inside = ScheduleGuard::new();
    let mut here = lock_schedule();
    let schedule = here.as_mut()?;
    schedule.now += Duration::from_micros(1);
    Some(schedule.now)
}

/// The time of the wall clock.
pub(crate) fn wall() -> Option<Duration> {
    let now = now()?;
    let _inside = ScheduleGuard::new();
    let here = lock_schedule();
    let schedule = here.as_ref()?;
    let offset = Duration::from_millis(schedule.wall.offset_ms.unsigned_abs());
    let time = WALL + (now - schedule.began);
    match schedule.wall.offset_ms < 0 {
        true => Some(time - offset),
        false => Some(time + offset),
    }
}

/// Fills a buffer with random bytes of this run; false outside of a run.
pub(crate) fn fill(bytes: &mut [u8]) -> bool {
    if member().is_none() {
        return false;
    }
    let _inside = ScheduleGuard::new();
    if let Some(schedule) = lock_schedule().as_mut() {
        bytes.fill_with(|| schedule.random.next_u64() as u8);
    }
    true
}

/// Starts a thread of the run. A panic in it is its result.
pub(crate) fn spawn<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<std::thread::Result<T>> {
    let _inside = ScheduleGuard::new();
    let me = lock_schedule().as_mut().expect("a run").add();
    std::thread::spawn(move || {
        let inside = ScheduleGuard::new();
        MEMBER.set(Some(me));
        drop(await_turn(lock_schedule(), me));
        drop(inside);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        let _inside = ScheduleGuard::new();
        MEMBER.set(None);
        let mut here = lock_schedule();
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
        let inside = ScheduleGuard::new();
        if lock_schedule().as_ref().is_none_or(ended) {
            return;
        }
        drop(inside);
        wait(OTHERS, None);
    }
}
