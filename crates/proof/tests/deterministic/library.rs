//! Replacements of C library functions for waiting, time and random numbers: in a thread of a run
//! the scheduler answers. So every contended lock of every library in this process is a scheduling
//! point, without a change in the libraries.
//!
//! Promises: other threads get the results of the C library. Must not know: how threads are chosen.

use crate::schedule;
use crate::symbols::find_library_function;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_int, c_long, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// The system's allocator; some allocations are scheduling points.
pub(crate) struct SchedulingAllocator;

// SAFETY: every call is handed to the system's allocator as it is.
unsafe impl GlobalAlloc for SchedulingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        schedule::allocate();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        schedule::allocate();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

/// Defines `real_NAME`, which calls the library's function.
macro_rules! real {
    ($real:ident, $symbol:literal, ($($arg:ident: $type:ty),*) -> $out:ty) => {
        unsafe fn $real($($arg: $type),*) -> $out {
            static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            let found = find_library_function(&NEXT, $symbol);
            // SAFETY: the C library's function of this name has these arguments.
            let f = unsafe {
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> $out>(found)
            };
            // SAFETY: the caller's promise.
            unsafe { f($($arg),*) }
        }
    };
}

real!(real_syscall, c"syscall", (number: c_long, a: c_long, b: c_long, c: c_long, d: c_long,
    e: c_long, f: c_long) -> c_long);
real!(real_clock_gettime, c"clock_gettime", (clock: c_int, time: *mut libc::timespec) -> c_int);
real!(real_sched_yield, c"sched_yield", () -> c_int);
real!(real_getrandom, c"getrandom", (to: *mut c_void, n: usize, flags: c_uint) -> isize);
real!(real_clock_nanosleep, c"clock_nanosleep", (clock: c_int, flags: c_int,
    time: *const libc::timespec, left: *mut libc::timespec) -> c_int);

fn fail(errno: c_int) -> c_long {
    // SAFETY: the thread's own word.
    unsafe { *libc::__errno_location() = errno };
    -1
}

fn time_of(spec: &libc::timespec) -> Duration {
    let s = u64::try_from(spec.tv_sec).unwrap_or(0);
    Duration::new(s, u32::try_from(spec.tv_nsec).unwrap_or(0))
}

/// A futex wait while the word still has the value `expected`.
///
/// # Safety
/// `word` and, where it is there, `time` can be read.
unsafe fn wait(word: usize, op: c_int, expected: c_long, time: *const libc::timespec) -> c_long {
    // SAFETY: the caller's promise; words that are waited on are 32 bits wide.
    let now = unsafe { (*(word as *const AtomicU32)).load(Ordering::SeqCst) };
    if now != expected as u32 {
        return fail(libc::EAGAIN);
    }
    // SAFETY: the caller's promise.
    let time = unsafe { time.as_ref() }.map(time_of);
    let until = match op {
        libc::FUTEX_WAIT_BITSET => time,
        _ => time.and_then(|t| schedule::now().map(|now| now + t)),
    };
    match schedule::wait(word, until) {
        true => 0,
        false => fail(libc::ETIMEDOUT),
    }
}

/// Replaces the C library's function, with which locks and conditions wait. It takes any number of
/// arguments; missing ones are not read.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    let op = b as c_int & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    let waits = op == libc::FUTEX_WAIT || op == libc::FUTEX_WAIT_BITSET;
    if number == libc::SYS_futex && waits && schedule::is_member() {
        // SAFETY: the caller's promise to the kernel.
        return unsafe { wait(a as usize, op, c, d as *const libc::timespec) };
    }
    // SAFETY: the caller's promise.
    let woken = unsafe { real_syscall(number, a, b, c, d, e, f) };
    let wakes = op == libc::FUTEX_WAKE || op == libc::FUTEX_WAKE_BITSET;
    if number == libc::SYS_futex && wakes {
        let most = usize::try_from(c as c_int).unwrap_or(usize::MAX);
        let here = schedule::wake(a as usize, most);
        schedule::meet();
        return woken.max(0) + c_long::try_from(here).unwrap_or(0);
    }
    woken
}

/// Replaces the C library's function: a run has its own clock.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut libc::timespec) -> c_int {
    let asked = matches!(
        clock,
        libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME
    );
    let now = match clock {
        _ if !asked => None,
        libc::CLOCK_REALTIME => schedule::wall(),
        _ => schedule::now(),
    };
    let Some(now) = now else {
        // SAFETY: the caller's promise.
        return unsafe { real_clock_gettime(clock, time) };
    };
    // SAFETY: the caller's promise.
    unsafe {
        (*time).tv_sec = i64::try_from(now.as_secs()).unwrap_or(0);
        (*time).tv_nsec = i64::from(now.subsec_nanos());
    }
    0
}

/// Replaces the C library's function: a spinning thread lets another one run.
#[unsafe(no_mangle)]
unsafe extern "C" fn sched_yield() -> c_int {
    if schedule::is_member() {
        schedule::give_way();
        return 0;
    }
    // SAFETY: no arguments.
    unsafe { real_sched_yield() }
}

/// Replaces the C library's function: sleeping waits for the run's clock.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_nanosleep(
    clock: c_int,
    flags: c_int,
    time: *const libc::timespec,
    left: *mut libc::timespec,
) -> c_int {
    let Some(now) = schedule::now() else {
        // SAFETY: the caller's promise.
        return unsafe { real_clock_nanosleep(clock, flags, time, left) };
    };
    // SAFETY: the caller's promise.
    let time = unsafe { time.as_ref() }.map_or(Duration::ZERO, time_of);
    let until = if flags == libc::TIMER_ABSTIME {
        time
    } else {
        now + time
    };
    schedule::sleep(Some(until));
    0
}

/// Replaces the C library's function: random bytes depend on the seed.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(to: *mut c_void, n: usize, flags: c_uint) -> isize {
    if !to.is_null() && n > 0 && schedule::is_member() {
        // SAFETY: the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), n) };
        if schedule::fill(bytes) {
            return isize::try_from(n).unwrap_or(isize::MAX);
        }
    }
    // SAFETY: the caller's promise.
    unsafe { real_getrandom(to, n, flags) }
}
