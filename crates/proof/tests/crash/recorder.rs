//! Records what this process does to the files below one directory: it replaces functions of the C
//! library, so the engines' own code, in whatever language, is recorded unchanged.
//!
//! Promises: events are in the order of the calls, and each call is recorded completely before the
//! next begins. Must not know: engines, except for the one file that is written through a mapping.

use crate::symbols::find_library_function;
use proof::Event;
use proof::image::move_below;
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The file that RocksDB's engine writes through a memory mapping.
const MAPPED: &str = "JOURNAL-MARK";

/// Kinds of calls that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Open,
    Read,
    Write,
    Sync,
    Allocate,
    Name,
}

/// Which call below the directory fails, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// Calls of the kind that still succeed.
    pub(crate) after: usize,
    pub(crate) errno: c_int,
    /// Every later call of the kind fails, too.
    pub(crate) lasts: bool,
}

#[derive(Default)]
struct Faults {
    planned: Option<Fault>,
    calls: usize,
    struck: usize,
}

static FAULTS: Mutex<Option<Faults>> = Mutex::new(None);

/// The result of a planned fault.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FaultCount {
    /// Number of calls of the kind.
    pub(crate) calls: usize,
    /// Number of those that failed.
    pub(crate) struck: usize,
}

/// Sets the planned fault, or none; returns the result of the previous plan.
pub(crate) fn plan(fault: Option<Fault>) -> FaultCount {
    let mut faults = FAULTS.lock().unwrap_or_else(|e| e.into_inner());
    let met = faults
        .as_ref()
        .map_or_else(FaultCount::default, |f| FaultCount {
            calls: f.calls,
            struck: f.struck,
        });
    *faults = fault.map(|planned| Faults {
        planned: Some(planned),
        ..Faults::default()
    });
    met
}

/// The error to return from a call of this kind, if it must fail.
fn fault(kind: Kind) -> Option<c_int> {
    let mut faults = FAULTS.lock().unwrap_or_else(|e| e.into_inner());
    let faults = faults.as_mut()?;
    let planned = faults.planned.filter(|p| p.kind == kind)?;
    faults.calls += 1;
    if faults.calls <= planned.after || (faults.struck > 0 && !planned.lasts) {
        return None;
    }
    faults.struck += 1;
    Some(planned.errno)
}

static RECORDING: AtomicBool = AtomicBool::new(false);
static RECORD: Mutex<Option<Record>> = Mutex::new(None);

#[derive(Default)]
struct Record {
    root: PathBuf,
    events: Vec<Event>,
    /// Numbers of files, by current name and by device and inode.
    by_path: HashMap<String, u32>,
    by_inode: HashMap<(u64, u64), u32>,
    /// Names of open directories.
    directories: HashMap<(u64, u64), String>,
    files: u32,
    mapped: Vec<MappedFile>,
}

struct MappedFile {
    file: u32,
    fd: c_int,
    seen: Vec<u8>,
}

/// Begins to record calls below an existing directory. Only one recording at a time.
pub(crate) fn begin(root: &Path) {
    let mut record = RECORD.lock().unwrap_or_else(|e| e.into_inner());
    assert!(record.is_none(), "another directory is being recorded");
    *record = Some(Record {
        root: root.to_owned(),
        ..Record::default()
    });
    RECORDING.store(true, Ordering::SeqCst);
}

/// Ends the recording and returns its events.
pub(crate) fn end() -> Vec<Event> {
    RECORDING.store(false, Ordering::SeqCst);
    let record = RECORD.lock().unwrap_or_else(|e| e.into_inner()).take();
    record.map_or_else(Vec::new, |r| r.events)
}

/// Number of events so far.
pub(crate) fn event_count() -> usize {
    let record = lock_record();
    record.map_or(0, |r| r.as_ref().map_or(0, |r| r.events.len()))
}

/// Adds a marker between calls.
pub(crate) fn note(event: Event) {
    if let Some(record) = lock_record().as_mut().and_then(|r| r.as_mut()) {
        record.push(event);
    }
}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The record; `None` when nothing is recorded.
fn lock_record() -> Option<MutexGuard<'static, Option<Record>>> {
    if !RECORDING.load(Ordering::Relaxed) || INSIDE.try_with(Cell::get).unwrap_or(true) {
        return None;
    }
    Some(RECORD.lock().unwrap_or_else(|e| e.into_inner()))
}

impl Record {
    fn push(&mut self, event: Event) {
        self.look_at_mapping();
        self.events.push(event);
    }

    fn look_at_mapping(&mut self) {
        for mapped in &mut self.mapped {
            let mut page = vec![0u8; 4096];
            // SAFETY: the buffer is as long as is said.
            let n = unsafe { real_pread(mapped.fd, page.as_mut_ptr().cast(), page.len(), 0) };
            page.truncate(usize::try_from(n).unwrap_or(0));
            if page != mapped.seen {
                mapped.seen.clone_from(&page);
                self.events.push(Event::Write {
                    file: mapped.file,
                    at: 0,
                    bytes: page.into(),
                    durable: false,
                });
            }
        }
    }

    /// The name relative to the directory; `None` for paths outside of it.
    fn relative(&self, path: &CStr) -> Option<String> {
        let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
        let inside = path.strip_prefix(&self.root).ok()?;
        inside.to_str().map(|p| p.trim_end_matches('/').to_owned())
    }

    fn record_open(&mut self, path: &CStr, fd: c_int, flags: c_int) {
        let Some(name) = self.relative(path) else {
            return;
        };
        let Some((inode, stat)) = inode(fd) else {
            return;
        };
        if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
            self.directories.insert(inode, name);
            return;
        }
        let known = self.by_path.get(&name).copied();
        let file = known.unwrap_or(self.files);
        if known.is_none() {
            self.files += 1;
            self.by_path.insert(name.clone(), file);
            let path = name.clone();
            self.push(Event::Create { path, file });
        } else if flags & libc::O_TRUNC != 0 {
            self.push(Event::Resize { file, len: 0 });
        }
        // RocksDB writes its text log for people and never reads it again.
        let last = name.rsplit('/').next().unwrap_or(&name);
        if !last.starts_with("LOG") {
            self.by_inode.insert(inode, file);
        }
        if last == MAPPED && self.mapped.iter().all(|m| m.file != file) {
            let read = libc::O_RDONLY | libc::O_CLOEXEC;
            // SAFETY: a name that ends in zero; the descriptor stays open to the end of the test.
            let fd = unsafe { real_open(path.as_ptr(), read, 0) };
            let seen = Vec::new();
            self.mapped.push(MappedFile { file, fd, seen });
        }
    }

    /// The number of an open file below the directory; text logs are ignored.
    fn file(&self, fd: c_int) -> Option<u32> {
        self.by_inode.get(&inode(fd)?.0).copied()
    }

    fn directory(&self, fd: c_int) -> Option<String> {
        self.directories.get(&inode(fd)?.0).cloned()
    }

    fn record_rename(&mut self, from: &CStr, to: &CStr) {
        if let (Some(from), Some(to)) = (self.relative(from), self.relative(to)) {
            if let Some(file) = self.by_path.remove(&from) {
                self.by_path.insert(to.clone(), file);
            }
            self.move_names(|name| move_below(name, &from, &to));
            self.push(Event::Rename { from, to });
        }
    }

    fn move_names(&mut self, moved: impl Fn(&str) -> Option<String>) {
        let files = std::mem::take(&mut self.by_path).into_iter();
        let new_name = |name: String| moved(&name).unwrap_or(name);
        self.by_path = files.map(|(name, n)| (new_name(name), n)).collect();
        for name in self.directories.values_mut() {
            *name = new_name(std::mem::take(name));
        }
    }

    /// Records an exchange of two directories, for which the C library's function is not used: it
    /// shows when a directory is synced.
    fn record_exchange(&mut self) {
        let exchanged = self.directories.iter().find_map(|(then, one)| {
            let stat = std::fs::metadata(self.root.join(one)).ok()?;
            let now = (stat.dev(), stat.ino());
            let other = self.directories.get(&now).filter(|_| now != *then)?;
            (one != other).then(|| (one.clone(), other.clone()))
        });
        if let Some((one, other)) = exchanged {
            self.move_names(|name| {
                move_below(name, &one, &other).or_else(|| move_below(name, &other, &one))
            });
            self.push(Event::Exchange { one, other });
        }
    }

    fn record_write(&mut self, fd: c_int, at: u64, bytes: &[u8]) {
        if let Some(file) = self.file(fd) {
            // SAFETY: asks for the flags of an open descriptor.
            let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
            self.push(Event::Write {
                file,
                at,
                bytes: bytes.into(),
                durable: flags & libc::O_DSYNC != 0,
            });
        }
    }
}

fn inode(fd: c_int) -> Option<((u64, u64), libc::stat)> {
    // SAFETY: plain data, filled in by the call.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let known = unsafe { libc::fstat(fd, &raw mut stat) } == 0;
    known.then_some(((stat.st_dev, stat.st_ino), stat))
}

/// Defines `real_NAME`, which calls the library's function, and the replacement under the
/// function's names; `after` gets the record when the call has succeeded.
macro_rules! stand_in {
    ($real:ident, $symbol:literal, [$name:ident, $wide:ident], ($($arg:ident: $type:ty),*)
        -> $out:ty, $($rest:tt)*) => {
        /// The same under the name for large files.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $wide($($arg: $type),*) -> $out {
            // SAFETY: the caller's promise.
            unsafe { $name($($arg),*) }
        }
        stand_in!($real, $symbol, [$name], ($($arg: $type),*) -> $out, $($rest)*);
    };
    ($real:ident, $symbol:literal, [$name:ident], ($($arg:ident: $type:ty),*) -> $out:ty,
        $kind:ident if |$seen:ident| $below:expr, before $state:ident = $before:expr,
        after |$record:ident, $result:ident| $after:expr) => {
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
        /// Stands in for the C library's function.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $type),*) -> $out {
            let Some(mut guard) = lock_record() else {
                // SAFETY: the caller's promise.
                return unsafe { $real($($arg),*) };
            };
            INSIDE.with(|inside| inside.set(true));
            let below = guard.as_ref().is_some_and(|$seen| $below);
            if let Some(errno) = below.then(|| fault(Kind::$kind)).flatten() {
                drop(guard);
                // SAFETY: errno is the thread's own.
                unsafe { *libc::__errno_location() = errno };
                INSIDE.with(|inside| inside.set(false));
                return -1;
            }
            #[allow(unused_variables)]
            let $state = $before;
            // SAFETY: the caller's promise.
            let $result = unsafe { $real($($arg),*) };
            // SAFETY: errno is the thread's own; what follows must not change it.
            let errno = unsafe { *libc::__errno_location() };
            if let (Some($record), true) = (guard.as_mut(), $result >= 0) {
                let () = $after;
            }
            // SAFETY: as above.
            unsafe { *libc::__errno_location() = errno };
            drop(guard);
            INSIDE.with(|inside| inside.set(false));
            $result
        }
    };
}

/// A name that was passed to a replacement.
fn name<'a>(path: *const c_char) -> &'a CStr {
    // SAFETY: the caller of the C library's function promises a name that ends in zero.
    unsafe { CStr::from_ptr(path) }
}

/// Bytes that were passed to a replacement and written.
fn slice<'a>(bytes: *const c_void, n: isize) -> &'a [u8] {
    // SAFETY: the C library's function has read as many bytes from there.
    unsafe { std::slice::from_raw_parts(bytes.cast(), usize::try_from(n).unwrap_or(0)) }
}

fn place(fd: c_int) -> u64 {
    // SAFETY: asks an open descriptor.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags & libc::O_APPEND != 0 {
        return inode(fd).map_or(0, |(_, s)| u64::try_from(s.st_size).unwrap_or(0));
    }
    // SAFETY: as above.
    u64::try_from(unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }).unwrap_or(0)
}

/// Bytes of the buffers that were passed to a replacement.
fn gather(buffers: *const libc::iovec, count: c_int, n: isize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for i in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller of the C library's function promises so many buffers.
        let one = unsafe { *buffers.add(i) };
        let len = isize::try_from(one.iov_len).unwrap_or(0);
        bytes.extend_from_slice(slice(one.iov_base, len));
    }
    bytes.truncate(usize::try_from(n).unwrap_or(0));
    bytes
}

fn len(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

stand_in!(real_open, c"open", [open, open64],
    (path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int,
    Open if |x| x.relative(name(path)).is_some(), before s = (),
    after |r, fd| r.record_open(name(path), fd, flags));
stand_in!(real_openat, c"openat", [openat, openat64],
    (at: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int,
    Open if |x| x.relative(name(path)).is_some(), before s = (),
    after |r, fd| r.record_open(name(path), fd, flags));
stand_in!(real_read, c"read", [read],
    (fd: c_int, bytes: *mut c_void, count: usize) -> isize,
    Read if |x| x.file(fd).is_some(), before s = (), after |_r, n| ());
stand_in!(real_pread, c"pread", [pread, pread64],
    (fd: c_int, bytes: *mut c_void, count: usize, at: i64) -> isize,
    Read if |x| x.file(fd).is_some(), before s = (), after |_r, n| ());
stand_in!(real_write, c"write", [write],
    (fd: c_int, bytes: *const c_void, count: usize) -> isize,
    Write if |x| x.file(fd).is_some(), before at = place(fd),
    after |r, n| r.record_write(fd, at, slice(bytes, n)));
stand_in!(real_pwrite, c"pwrite", [pwrite, pwrite64],
    (fd: c_int, bytes: *const c_void, count: usize, at: i64) -> isize,
    Write if |x| x.file(fd).is_some(), before s = (),
    after |r, n| r.record_write(fd, len(at), slice(bytes, n)));
stand_in!(real_writev, c"writev", [writev],
    (fd: c_int, buffers: *const libc::iovec, count: c_int) -> isize,
    Write if |x| x.file(fd).is_some(), before at = place(fd),
    after |r, n| r.record_write(fd, at, &gather(buffers, count, n)));
stand_in!(real_pwritev, c"pwritev", [pwritev, pwritev64],
    (fd: c_int, buffers: *const libc::iovec, count: c_int, at: i64) -> isize,
    Write if |x| x.file(fd).is_some(), before s = (),
    after |r, n| r.record_write(fd, len(at), &gather(buffers, count, n)));
stand_in!(real_ftruncate, c"ftruncate", [ftruncate, ftruncate64],
(fd: c_int, to: i64) -> c_int,
    Allocate if |x| x.file(fd).is_some(), before s = (),
after |r, n| if let Some(file) = r.file(fd) {
    r.push(Event::Resize { file, len: len(to) });
});
stand_in!(real_fallocate, c"fallocate", [fallocate, fallocate64],
(fd: c_int, mode: c_int, at: i64, bytes: i64) -> c_int,
    Allocate if |x| x.file(fd).is_some(), before s = (),
after |r, n| if let (Some(file), 0) = (r.file(fd), mode) {
    r.push(Event::Extend { file, len: len(at + bytes) });
});
// Never made to fail here: it returns its error instead of setting errno.
stand_in!(real_posix_fallocate, c"posix_fallocate", [posix_fallocate, posix_fallocate64],
(fd: c_int, at: i64, bytes: i64) -> c_int,
    Allocate if |_x| false, before s = (),
after |r, n| if let (Some(file), 0) = (r.file(fd), n) {
    r.push(Event::Extend { file, len: len(at + bytes) });
});
stand_in!(real_fsync, c"fsync", [fsync], (fd: c_int) -> c_int,
    Sync if |x| x.file(fd).is_some() || x.directory(fd).is_some(), before s = (),
    after |r, n| r.record_sync(fd));
stand_in!(real_fdatasync, c"fdatasync", [fdatasync], (fd: c_int) -> c_int,
    Sync if |x| x.file(fd).is_some(), before s = (),
    after |r, n| r.record_sync(fd));
stand_in!(real_rename, c"rename", [rename],
    (from: *const c_char, to: *const c_char) -> c_int,
    Name if |x| x.relative(name(from)).is_some(), before s = (),
    after |r, n| r.record_rename(name(from), name(to)));
stand_in!(real_link, c"link", [link],
    (from: *const c_char, to: *const c_char) -> c_int,
    Name if |x| x.relative(name(from)).is_some(), before s = (),
    after |r, n| r.record_link(name(from), name(to)));
stand_in!(real_linkat, c"linkat", [linkat],
    (a: c_int, from: *const c_char, b: c_int, to: *const c_char, flags: c_int) -> c_int,
    Name if |x| x.relative(name(from)).is_some(), before s = (),
    after |r, n| r.record_link(name(from), name(to)));
stand_in!(real_unlink, c"unlink", [unlink], (path: *const c_char) -> c_int,
    Name if |x| x.relative(name(path)).is_some(), before s = (),
after |r, n| if let Some(path) = r.relative(name(path)) {
    r.by_path.remove(&path);
    r.push(Event::Remove { path });
});
stand_in!(real_mkdir, c"mkdir", [mkdir],
(path: *const c_char, mode: libc::mode_t) -> c_int,
    Name if |x| x.relative(name(path)).is_some(), before s = (),
after |r, n| if let Some(path) = r.relative(name(path)) {
    r.push(Event::MakeDirectory { path });
});
stand_in!(real_rmdir, c"rmdir", [rmdir], (path: *const c_char) -> c_int,
    Name if |x| x.relative(name(path)).is_some(), before s = (),
after |r, n| if let Some(path) = r.relative(name(path)) {
    r.push(Event::RemoveDirectory { path });
});

impl Record {
    fn record_sync(&mut self, fd: c_int) {
        if let Some(file) = self.file(fd) {
            self.push(Event::Sync { file });
            return;
        }
        self.record_exchange();
        if let Some(directory) = self.directory(fd) {
            self.push(Event::SyncNames { directory });
        }
    }

    fn record_link(&mut self, from: &CStr, to: &CStr) {
        if let (Some(from), Some(to)) = (self.relative(from), self.relative(to)) {
            if let Some(file) = self.by_path.get(&from).copied() {
                self.by_path.insert(to.clone(), file);
            }
            self.push(Event::Link { from, to });
        }
    }
}
