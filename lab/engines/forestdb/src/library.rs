//! The functions of `ForestDB`'s C interface that the driver calls, found by name at run time.

use std::ffi::{c_char, c_int, c_void};

use lab_kit::engine::EngineError;
use libloading::Library as Shared;

/// A value whose contents only the library knows.
pub(crate) type Opaque = c_void;

/// The status of every successful call.
pub(crate) const SUCCESS: c_int = 0;
/// The status of a key that does not exist.
pub(crate) const KEY_NOT_FOUND: c_int = -9;

/// A document as iterators return it, since version 1. Fields after `body` are not declared.
#[repr(C)]
pub(crate) struct Doc {
    pub(crate) keylen: usize,
    metalen: usize,
    pub(crate) bodylen: usize,
    size_ondisk: usize,
    pub(crate) key: *mut c_void,
    seqnum: u64,
    offset: u64,
    meta: *mut c_void,
    pub(crate) body: *mut c_void,
}

type Step = unsafe extern "C" fn(*mut Opaque) -> c_int;

macro_rules! functions {
    ($($name:ident: $symbol:literal => fn($($argument:ty),*),)*) => {
        /// The library and its functions.
        pub(crate) struct Library {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) -> c_int,)*
            /// Keeps the library loaded, so that the functions stay valid.
            _shared: Shared,
        }

        impl Library {
            /// Opens the library `name` and finds every function.
            pub(crate) fn load(name: &str) -> Result<Self, EngineError> {
                // SAFETY: opening runs the start-up code of the library that the user named.
                let shared = unsafe { Shared::new(name) }.map_err(|error| {
                    let reason = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
                    EngineError(format!("ForestDB's library cannot be opened ({reason}); install \
                        it or name it with ?library=PATH"))
                })?;
                Ok(Self {
                    // SAFETY: the types are those of the C interface, version 1 and later.
                    $($name: *unsafe {
                        shared.get::<unsafe extern "C" fn($($argument),*) -> c_int>(
                            concat!($symbol, "\0").as_bytes(),
                        )
                    }
                        .map_err(|_| EngineError(format!(
                            "the library {name} has no function {}, so it is not ForestDB 1 or \
                             later",
                            $symbol
                        )))?,)*
                    _shared: shared,
                })
            }
        }
    };
}

functions! {
    open: "fdb_open" => fn(*mut *mut Opaque, *const c_char, *mut Opaque),
    close: "fdb_close" => fn(*mut Opaque),
    kvs_open_default: "fdb_kvs_open_default" => fn(*mut Opaque, *mut *mut Opaque, *mut Opaque),
    kvs_close: "fdb_kvs_close" => fn(*mut Opaque),
    get: "fdb_get_kv" => fn(*mut Opaque, *const c_void, usize, *mut *mut c_void, *mut usize),
    set: "fdb_set_kv" => fn(*mut Opaque, *const c_void, usize, *const c_void, usize),
    delete: "fdb_del_kv" => fn(*mut Opaque, *const c_void, usize),
    commit: "fdb_commit" => fn(*mut Opaque, u8),
    free_block: "fdb_free_block" => fn(*mut c_void),
    doc_free: "fdb_doc_free" => fn(*mut Doc),
    iterator_init: "fdb_iterator_init" => fn(*mut Opaque, *mut *mut Opaque, *const c_void, usize,
        *const c_void, usize, u8),
    iterator_seek_to_max: "fdb_iterator_seek_to_max" => fn(*mut Opaque),
    iterator_get: "fdb_iterator_get" => fn(*mut Opaque, *mut *mut Doc),
    iterator_next: "fdb_iterator_next" => fn(*mut Opaque),
    iterator_prev: "fdb_iterator_prev" => fn(*mut Opaque),
    iterator_close: "fdb_iterator_close" => fn(*mut Opaque),
}

// SAFETY: functions of a loaded library may be called from every thread; ForestDB asks only that
// handles are not shared.
unsafe impl Sync for Library {}

impl Library {
    /// Turns an error status into an error that names the function.
    pub(crate) fn check(&self, function: &str, status: c_int) -> Result<(), EngineError> {
        if status == SUCCESS {
            return Ok(());
        }
        Err(EngineError(format!("{function} returned {status}")))
    }
}

/// Checks at compile time that both functions have the type `Step`.
const _: fn(&Library) -> [Step; 2] = |library| [library.iterator_next, library.iterator_prev];
