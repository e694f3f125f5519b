//! Limits the effect of a copying process on a server on the same machine: it has a lower processor
//! priority, and does not displace the server's data from the system's page cache.
//!
//! All of this is advice to the system: without support for it copying works as well.

use std::fs::File;
use std::num::NonZeroU64;

use rustix::fs::{Advice, fadvise};

/// Next to a thread that uses a processor fully, a process of this priority gets a tenth of it: so
/// a backup of a busy server still completes, and releases the files that it holds.
const NICE: i32 = 10;

/// Lowers the processor priority of this thread and of the threads that it starts later. The device
/// scheduler may lower the priority of their requests as well.
pub fn give_way() {
    // If the system refuses, the priority stays as it is.
    let _ = rustix::process::nice(NICE);
}

/// Bytes of this file are read once: they need not displace other data in the page cache.
pub(crate) fn read_once(file: &File) {
    let _ = fadvise(file, 0, None, Advice::NoReuse);
}

/// These bytes of this file, which are on the device, may leave the page cache: they will not be
/// read soon.
pub(crate) fn let_go(file: &File, from: u64, bytes: u64) {
    if let Some(bytes) = NonZeroU64::new(bytes) {
        let _ = fadvise(file, from, Some(bytes), Advice::DontNeed);
    }
}
