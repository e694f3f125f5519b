//! The adapter's functions, looked up by name. Their types are those of `adapter.h`.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use adapter::Spec;
use parking_lot::Mutex;

/// A type that only the adapter knows.
pub(crate) type Opaque = c_void;

/// Called with a key and its value; returns 0 to end the walk.
pub(crate) type Visitor =
    unsafe extern "C" fn(*mut c_void, *const c_void, usize, *const c_void, usize) -> c_int;
/// Called with a statistic or a name.
pub(crate) type Emitter = unsafe extern "C" fn(*mut c_void, *const c_char, i64);

/// The library name that is used when none is given.
pub const LIBRARY_NAME: &str = "libwiredtiger.so";
/// What the user can do when it is missing.
pub const ADVICE: &str = "install WiredTiger with its header (Debian: libwiredtiger-dev) and a C \
    compiler, or name them with --wiredTigerLibrary PATH and --wiredTigerInclude DIR";

macro_rules! functions {
    ($($name:ident: $symbol:literal => fn($($argument:ty),*) $(-> $result:ty)?,)*) => {
        /// The adapter and its functions.
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Keeps the functions loaded.
            _library: libloading::Library,
        }

        impl Functions {
            fn of(library: libloading::Library) -> Result<Self, String> {
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
    open: "qw_open" => fn(*const c_char, *const c_char, *const *const c_char, c_int,
        *mut *mut Opaque, *mut c_char, usize) -> c_int,
    close: "qw_close" => fn(*mut Opaque) -> c_int,
    said: "qw_said" => fn(*mut Opaque, *mut c_char, usize),
    version: "qw_version" => fn() -> *const c_char,
    text: "qw_text" => fn(c_int) -> *const c_char,
    session_open: "qw_session_open" => fn(*mut Opaque, *mut *mut Opaque) -> c_int,
    session_close: "qw_session_close" => fn(*mut Opaque),
    begin: "qw_begin" => fn(*mut Opaque) -> c_int,
    commit: "qw_commit" => fn(*mut Opaque) -> c_int,
    rollback: "qw_rollback" => fn(*mut Opaque),
    put: "qw_put" => fn(*mut Opaque, c_int, *const c_void, usize, *const c_void, usize) -> c_int,
    delete: "qw_delete" => fn(*mut Opaque, c_int, *const c_void, usize) -> c_int,
    delete_range: "qw_delete_range" => fn(*mut Opaque, c_int, *const c_void, usize, *const c_void,
        usize) -> c_int,
    get: "qw_get" => fn(*mut Opaque, c_int, *const c_void, usize, Visitor, *mut c_void) -> c_int,
    scan: "qw_scan" => fn(*mut Opaque, c_int, *const c_void, usize, *const c_void, usize, c_int,
        Visitor, *mut c_void) -> c_int,
    flush: "qw_flush" => fn(*mut Opaque) -> c_int,
    checkpoint: "qw_checkpoint" => fn(*mut Opaque) -> c_int,
    compact: "qw_compact" => fn(*mut Opaque, c_int, c_int) -> c_int,
    statistics: "qw_statistics" => fn(*mut Opaque, c_int, Emitter, *mut c_void) -> c_int,
    backup: "qw_backup" => fn(*mut Opaque, Emitter, *mut c_void) -> c_int,
}

/// A loaded library with its adapter.
#[derive(Clone)]
pub struct Library(pub(crate) Arc<Functions>);

impl Library {
    /// Compiles and loads the adapter, once for each library of a process. `library` is a path or a
    /// name that the linker finds, `include` the directory of its header; without it the compiler
    /// searches its default directories.
    ///
    /// # Errors
    /// One line: what was searched for and how to get it.
    pub fn load(library: &str, include: Option<&str>) -> Result<Library, String> {
        type Key = (String, Option<String>);
        static LOADED: Mutex<BTreeMap<Key, Arc<Functions>>> = Mutex::new(BTreeMap::new());
        let mut loaded = LOADED.lock();
        let key = (library.to_owned(), include.map(str::to_owned));
        if let Some(functions) = loaded.get(&key) {
            return Ok(Library(Arc::clone(functions)));
        }
        let spec = Spec {
            engine: "WiredTiger",
            source: include_str!("adapter.c"),
            header: include_str!("adapter.h"),
            include,
            library,
            advice: ADVICE,
        };
        let functions =
            Functions::of(spec.load()?).map_err(|reason| spec.failure_message(&reason))?;
        let functions = Arc::new(functions);
        loaded.insert(key, Arc::clone(&functions));
        Ok(Library(functions))
    }

    /// Its version text.
    pub fn version(&self) -> String {
        // SAFETY: the function has no arguments and returns a constant.
        unsafe { copy_text((self.0.version)()) }
    }
}

impl Functions {
    /// The engine's text for an error number.
    pub(crate) fn words(&self, status: c_int) -> String {
        // SAFETY: the function takes any number and returns text that stays until the next call of
        // this thread.
        unsafe { copy_text((self.text)(status)) }
    }
}

/// # Safety
/// The text ends with a zero and stays until it is copied.
pub(crate) unsafe fn copy_text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
