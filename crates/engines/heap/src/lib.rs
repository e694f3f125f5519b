//! A global allocator that counts the bytes each thread has allocated and not freed. Promises:
//! exact (it counts requested sizes, so the capacity of a vector and the chunks of an arena), one
//! addition to a thread-local word per call. Must not know: what the bytes are for, who limits
//! them. It is among the storage engines because `unsafe` code is allowed only here.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

thread_local! {
    // A constant without a destructor needs no registration at first use and can be used until the
    // thread ends.
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

/// Bytes allocated minus bytes freed by the calling thread since it started. Negative in a thread
/// that frees memory of other threads. Always 0 when [`CountingAllocator`] is not the process's
/// allocator. Does not include memory of C and C++ libraries.
#[inline]
pub fn thread_bytes() -> isize {
    BYTES.get()
}

#[inline]
fn add(bytes: isize) {
    BYTES.set(BYTES.get().wrapping_add(bytes));
}

/// The allocator `A` with counting, for the `#[global_allocator]` of a binary or a test.
#[derive(Debug)]
pub struct CountingAllocator<A>(pub A);

// SAFETY: every call goes to the inner allocator unchanged, and its answer comes back unchanged.
// The counter is a thread-local word: reading and writing it neither allocates nor panics.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`, which is the inner allocator's as well.
        let new = unsafe { self.0.alloc(layout) };
        if !new.is_null() {
            add(layout.size() as isize);
        }
        new
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let new = unsafe { self.0.alloc_zeroed(layout) };
        if !new.is_null() {
            add(layout.size() as isize);
        }
        new
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        add((layout.size() as isize).wrapping_neg());
        // SAFETY: `ptr` came from this allocator, so from the inner one, with this layout.
        unsafe { self.0.dealloc(ptr, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as in `dealloc`; the caller answers for `new_size`.
        let new = unsafe { self.0.realloc(ptr, layout, new_size) };
        // When reallocation fails, the old block remains allocated.
        if !new.is_null() {
            add((new_size as isize).wrapping_sub(layout.size() as isize));
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator<System> = CountingAllocator(System);

    #[test]
    fn counts_capacity_and_what_is_given_back() {
        let before = thread_bytes();
        let mut v: Vec<u8> = Vec::with_capacity(1000);
        assert_eq!(thread_bytes() - before, 1000, "capacity, not length");
        v.resize(5000, 1);
        assert_eq!(thread_bytes() - before, v.capacity() as isize);
        let zeroed = vec![0u64; 100];
        assert_eq!(thread_bytes() - before, v.capacity() as isize + 800);
        drop((v, zeroed));
        assert_eq!(thread_bytes(), before);
    }

    #[test]
    fn what_another_thread_frees_is_counted_there() {
        let v = vec![1u8; 1 << 20];
        let before = thread_bytes();
        let other = std::thread::spawn(move || {
            let before = thread_bytes();
            drop(v);
            thread_bytes() - before
        });
        assert_eq!(other.join().unwrap(), -(1 << 20));
        assert!((thread_bytes() - before).abs() < 1 << 16);
    }
}
