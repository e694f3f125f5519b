//! What keeps a copying process out of the way of a server on the same machine: it gives way at
//! the processors, and leaves to the server what the system has in memory for it.
//!
//! All of it is advice: a system that does not take it copies all the same.

use std::fs::File;
use std::num::NonZeroU64;

use rustix::fs::{Advice, fadvise};

/// Beside a thread that wants all of a processor, this leaves a tenth of it: a backup of a server
/// that is never idle comes to its end, and lets the files go that it holds.
const NICE: i32 = 10;

/// Lowers the priority of this thread, and of those that it starts later, at the processors. The
/// scheduler of a device may lower the priority of their requests as well.
pub fn give_way() {
    // A system that refuses runs it as any other.
    let _ = rustix::process::nice(NICE);
}

/// Bytes of this file are read once: they take no place in memory from what is read more often.
pub(crate) fn read_once(file: &File) {
    let _ = fadvise(file, 0, None, Advice::NoReuse);
}

/// These bytes of this file, which are on the device, are not kept in memory: nobody reads them
/// soon.
pub(crate) fn let_go(file: &File, from: u64, bytes: u64) {
    if let Some(bytes) = NonZeroU64::new(bytes) {
        let _ = fadvise(file, from, Some(bytes), Advice::DontNeed);
    }
}
