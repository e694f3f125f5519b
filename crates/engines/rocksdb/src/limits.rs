//! How many files the process may open, and how many of them the engine should use. Depends on the
//! operating system's limit and the memory of an open table; knows nothing of the database.

/// Memory of an open table file outside of the block cache: 5.2 KB measured with
/// `examples/tables.rs`, plus the kernel's share.
const TABLE_READER_BYTES: usize = 8 << 10;

/// Raises the process's limit of open files as far as possible without privileges. To be called
/// once at the start, before sizes are chosen.
///
/// # Output
/// The limit after the call.
pub fn raise_open_files_limit() -> u64 {
    let mut limit = current();
    if limit.rlim_cur < limit.rlim_max {
        let wanted = libc::rlimit {
            rlim_cur: limit.rlim_max,
            rlim_max: limit.rlim_max,
        };
        // SAFETY: reads one live structure.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) } == 0 {
            limit = wanted;
        }
    }
    limit.rlim_cur
}

fn current() -> libc::rlimit {
    // The smallest limit that POSIX allows, in case the call fails.
    let mut limit = libc::rlimit {
        rlim_cur: 256,
        rlim_max: 256,
    };
    // SAFETY: writes one live structure.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit
}

/// Number of open table files for an engine with `budget_bytes` under the current limit of the
/// process.
pub fn open_files_max(budget_bytes: usize) -> u32 {
    open_files_within(budget_bytes, current().rlim_cur)
}

// Half of the process's files, because the other half is for connections; at most a sixteenth of
// the memory, because more is better used by the cache. Never so few that each read opens a file.
fn open_files_within(budget_bytes: usize, limit: u64) -> u32 {
    let by_memory = (budget_bytes / 16 / TABLE_READER_BYTES) as u64;
    let files = by_memory.min(limit / 2).clamp(64, 1 << 20);
    u32::try_from(files).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_follow_the_limit_and_the_memory() {
        assert_eq!(open_files_within(64 << 20, 1 << 20), 512);
        assert_eq!(open_files_within(4 << 30, 1 << 20), 32768);
        assert_eq!(open_files_within(4 << 30, 4096), 2048);
        assert_eq!(open_files_within(4 << 30, 10), 64);
        let raised = raise_open_files_limit();
        assert_eq!((raised, current().rlim_cur), (current().rlim_max, raised));
    }
}
