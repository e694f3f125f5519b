//! Finds library functions that this program replaces, for tests.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Finds the next definition of a function after the one in this program, and stores it in `slot`.
pub(crate) fn find_library_function(slot: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let found = slot.load(Ordering::Relaxed);
    if !found.is_null() {
        return found;
    }
    // SAFETY: a name that ends in zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    slot.store(found, Ordering::Relaxed);
    found
}
