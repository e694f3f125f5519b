//! Counts index entries: a few in steps, many in ranges on several threads. Must not know: filters,
//! plans.

use super::parts::permits;
use super::reader::{Reader, STEP_DOCS};
use crate::exec::Permit;
use model::{MongoError, Result};
use operators::Env;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use store::EntryRanges;

/// Steps that the caller counts alone: only a longer count is worth a second thread.
const STEPS_ALONE: u64 = 16;
/// Number of ranges of a count, so that no thread waits long for the last one.
const RANGES: usize = 64;

/// Counts the entries of a read by an index, up to `most`.
///
/// # Errors
/// Those of the store; the operation's interrupt.
pub(super) fn count_entries(reader: &mut Reader, env: &Env, most: u64) -> Result<u64> {
    let (mut met, mut steps) = (0, 0u64);
    while met < most
        && reader.step_entries(env, STEP_DOCS, || {
            met += 1;
            met < most
        })?
    {
        steps += 1;
        if steps == STEPS_ALONE
            && most == u64::MAX
            && let Some(rest) = count_rest(reader, env)?
        {
            return Ok(met + rest);
        }
    }
    Ok(met)
}

/// Counts the entries that are left; `None` if no helper is free or they cannot be divided.
fn count_rest(reader: &mut Reader, env: &Env) -> Result<Option<u64>> {
    let permits = permits();
    if permits.is_empty() {
        return Ok(None);
    }
    let Some(ranges) = reader.split_entries(RANGES)? else {
        return Ok(None);
    };
    let entries = count_ranges(&ranges, permits, env)?;
    reader.end_counted(env, entries);
    Ok(Some(entries))
}

/// Counts all ranges; each thread takes the next one that is left.
fn count_ranges(ranges: &EntryRanges, permits: Vec<Permit>, env: &Env) -> Result<u64> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut entries = 0;
        while let Some(range) = ranges.list.get(next.fetch_add(1, Relaxed)) {
            let counted = ranges.count(range, &|| env.check_interrupt());
            // Nobody begins another range.
            entries += counted.inspect_err(|_| next.store(ranges.list.len(), Relaxed))?;
        }
        Ok(entries)
    };
    std::thread::scope(|scope| {
        let help = |permit: Permit| {
            scope.spawn(move || {
                let _permit = permit;
                let _account = env.operation.as_ref().map(|operation| operation.join());
                work()
            })
        };
        let helpers: Vec<_> = permits.into_iter().map(help).collect();
        let ended = || MongoError::internal("a part of a count ended unexpectedly");
        let mut entries = work();
        for helper in helpers {
            let more: Result<u64> = helper.join().unwrap_or_else(|_| Err(ended()));
            entries = entries.and_then(|n| more.map(|more| n + more));
        }
        entries
    })
}
