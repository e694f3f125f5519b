//! An allocator that measures the peak memory of a thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn add(bytes: isize) {
    let held = HELD.get().wrapping_add(bytes);
    HELD.set(held);
    MOST.set(MOST.get().max(held));
}

/// The result of a closure, and the peak of additional bytes that its thread held.
pub(crate) fn measure_peak<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    MOST.set(before);
    let made = run();
    let most = MOST.get().wrapping_sub(before);
    (made, usize::try_from(most).unwrap_or(0))
}

/// The system's allocator, counted.
pub(crate) struct CountingAllocator;

// SAFETY: every call goes to the system's allocator unchanged, and its answer comes back unchanged.
// The counters are thread-local words: reading and writing them neither allocates nor panics.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        add((layout.size() as isize).wrapping_neg());
        // SAFETY: `ptr` came from the system's allocator with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Both blocks may exist at the same time.
        add(new_size as isize);
        add((layout.size() as isize).wrapping_neg());
        // SAFETY: as in `dealloc`; the caller answers for `new_size`.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}
