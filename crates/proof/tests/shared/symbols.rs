//! Functions of the libraries behind this program, for tests that stand in for them.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Finds the function of a name behind the one of this program, and keeps it in `slot`.
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
