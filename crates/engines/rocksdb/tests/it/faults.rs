//! Failures of the device simulated in this process: system calls on files of a kind fail with EIO
//! a given number of times, and then work again. One test at a time.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which system call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Read,
    Sync,
}

struct Fault {
    call: Call,
    /// Part of the file's name.
    file: &'static str,
    /// Part of the directory's name.
    within: String,
    times: u32,
    hits: u32,
}

static ARMED: AtomicBool = AtomicBool::new(false);
static FAULT: Mutex<Option<Fault>> = Mutex::new(None);
static ALONE: Mutex<()> = Mutex::new(());

/// A fault that is active until it has struck the given number of times, or the value is dropped.
pub(crate) struct ActiveFault(
    #[expect(dead_code, reason = "one at a time")] MutexGuard<'static, ()>,
);

impl ActiveFault {
    pub(crate) fn new(
        call: Call,
        file: &'static str,
        within: &std::path::Path,
        times: u32,
    ) -> ActiveFault {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        *fault() = Some(Fault {
            call,
            file,
            within: within.display().to_string(),
            times,
            hits: 0,
        });
        ARMED.store(true, Ordering::SeqCst);
        ActiveFault(alone)
    }

    /// How often it has struck.
    pub(crate) fn hits(&self) -> u32 {
        fault().as_ref().map_or(0, |fault| fault.hits)
    }
}

impl Drop for ActiveFault {
    fn drop(&mut self) {
        ARMED.store(false, Ordering::SeqCst);
        *fault() = None;
    }
}

fn fault() -> MutexGuard<'static, Option<Fault>> {
    FAULT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this call fails now.
fn strikes(call: Call, fd: c_int) -> bool {
    if !ARMED.load(Ordering::SeqCst) {
        return false;
    }
    let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
    let (path, mut fault) = (path.display().to_string(), fault());
    match fault.as_mut() {
        Some(f)
            if f.call == call
                && f.hits < f.times
                && path.contains(&f.within)
                && path
                    .rsplit('/')
                    .next()
                    .is_some_and(|name| name.contains(f.file)) =>
        {
            f.hits += 1;
            true
        }
        _ => false,
    }
}

/// The function of this name that the program would have called.
fn real(known: &AtomicUsize, name: &CStr) -> usize {
    let mut found = known.load(Ordering::Relaxed);
    if found == 0 {
        // SAFETY: the name is a C string; the result is a function of the C library.
        found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize;
        known.store(found, Ordering::Relaxed);
    }
    found
}

fn fail<T: From<i8>>() -> T {
    // SAFETY: the error number of this thread may always be set.
    unsafe { *libc::__errno_location() = libc::EIO };
    T::from(-1)
}

macro_rules! reads {
    ($($name:ident $c:literal),*) => {$(
        /// # Safety
        /// As that of the C library.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            fd: c_int,
            to: *mut c_void,
            count: usize,
            at: i64,
        ) -> isize {
            static REAL: AtomicUsize = AtomicUsize::new(0);
            if strikes(Call::Read, fd) {
                return fail();
            }
            let call: extern "C" fn(c_int, *mut c_void, usize, i64) -> isize =
                // SAFETY: the C library's own function of that name and type.
                unsafe { std::mem::transmute(real(&REAL, $c)) };
            call(fd, to, count, at)
        }
    )*};
}

macro_rules! syncs {
    ($($name:ident $c:literal),*) => {$(
        /// # Safety
        /// As that of the C library.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(fd: c_int) -> c_int {
            static REAL: AtomicUsize = AtomicUsize::new(0);
            if strikes(Call::Sync, fd) {
                return fail();
            }
            let call: extern "C" fn(c_int) -> c_int =
                // SAFETY: the C library's own function of that name and type.
                unsafe { std::mem::transmute(real(&REAL, $c)) };
            call(fd)
        }
    )*};
}

reads!(pread c"pread", pread64 c"pread64");
syncs!(fsync c"fsync", fdatasync c"fdatasync");
