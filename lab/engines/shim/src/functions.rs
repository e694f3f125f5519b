//! The adapter's functions, found by name. Their types are those of `adapter.h`.

use std::ffi::{CStr, c_char, c_int, c_void};

use libloading::Library;

/// A value whose contents only the adapter knows.
pub(crate) type Opaque = c_void;

/// The status of a transaction that lost a conflict with another one.
pub(crate) const AGAIN: c_int = 1_000_001;
const NO_MEMORY: c_int = 1_000_002;

/// A callback that gets a key and its value; returning 0 ends the scan.
pub(crate) type Visitor =
    unsafe extern "C" fn(*mut c_void, *const c_void, usize, *const c_void, usize) -> c_int;
/// A callback that gets a statistic.
pub(crate) type Emitter = unsafe extern "C" fn(*mut c_void, *const c_char, f64);

macro_rules! functions {
    ($($name:ident: $symbol:literal => fn($($argument:ty),*) $(-> $result:ty)?,)*) => {
        /// The adapter and its functions.
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Keeps the library loaded, so that the functions stay valid.
            _library: Library,
        }

        impl Functions {
            /// Finds every function.
            pub(crate) fn of(library: Library) -> Result<Self, String> {
                Ok(Self {
                    // SAFETY: the adapter was compiled against `adapter.h`, whose types these are.
                    $($name: *unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                            concat!($symbol, "\0").as_bytes(),
                        )
                    }
                        .map_err(|error| error.to_string())?,)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    open: "lab_open" => fn(*const c_char, *const *const c_char, *mut *mut Opaque, *mut c_char,
        usize) -> c_int,
    close: "lab_close" => fn(*mut Opaque) -> c_int,
    version: "lab_version" => fn() -> *const c_char,
    text: "lab_text" => fn(c_int) -> *const c_char,
    session_open: "lab_session_open" => fn(*mut Opaque, *mut *mut Opaque) -> c_int,
    session_close: "lab_session_close" => fn(*mut Opaque),
    begin: "lab_begin" => fn(*mut Opaque) -> c_int,
    put: "lab_put" => fn(*mut Opaque, *const c_void, usize, *const c_void, usize) -> c_int,
    delete: "lab_delete" => fn(*mut Opaque, *const c_void, usize) -> c_int,
    commit: "lab_commit" => fn(*mut Opaque, c_int) -> c_int,
    rollback: "lab_rollback" => fn(*mut Opaque),
    get: "lab_get" => fn(*mut Opaque, *const c_void, usize, Visitor, *mut c_void) -> c_int,
    scan: "lab_scan" => fn(*mut Opaque, *const c_void, usize, *const c_void, usize, c_int, Visitor,
        *mut c_void) -> c_int,
    flush: "lab_flush" => fn(*mut Opaque) -> c_int,
    checkpoint: "lab_checkpoint" => fn(*mut Opaque) -> c_int,
    statistics: "lab_statistics" => fn(*mut Opaque, Emitter, *mut c_void) -> c_int,
}

impl Functions {
    /// The engine's message for a status.
    pub(crate) fn text(&self, status: c_int) -> String {
        match status {
            AGAIN => "the transaction lost against another one".to_owned(),
            NO_MEMORY => "out of memory".to_owned(),
            // SAFETY: the function takes any number.
            _ => words(unsafe { (self.text)(status) }),
        }
    }

    /// The engine's version.
    pub(crate) fn version(&self) -> String {
        // SAFETY: the function has no arguments.
        words(unsafe { (self.version)() })
    }
}

fn words(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the adapter returns zero-terminated text that stays valid, and it is copied
    // immediately.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
