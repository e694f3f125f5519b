//! Sorts a whole input. With a limit only that many rows are kept; beyond the memory budget sorted
//! runs go to temporary files and are merged.

use super::ahead::drain_ahead;
use super::batch::DocBatch;
use super::host::{BatchStream, ExecContext};
use super::rows::{Run, SortBuffer, memory_error};
use super::sort_pattern::SortPattern;
use model::Result;

/// Smallest run that is spilled: smaller ones cost more files than they save memory.
const SPILL_BYTES_MIN: usize = 1 << 20;

/// Reads everything and sorts it.
///
/// # Errors
/// 292 past the budget without disk use, and those of the input.
pub(crate) fn sort_all(
    pattern: &SortPattern,
    limit: Option<u64>,
    input: &mut dyn BatchStream,
    exec: &ExecContext<'_>,
) -> Result<Run> {
    let budget = exec.host.memory_limit_bytes();
    let keep = limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let mut state = (SortBuffer::default(), Run::new(keep));
    // With a limit the rows are cut back whenever there are twice as many. Amortized, each row is
    // sorted log(2n) times.
    let cut_at = keep.saturating_mul(2).max(DocBatch::TARGET_DOCS);
    drain_ahead(
        input,
        exec,
        &mut state,
        |(rows, run), doc, meta| {
            rows.push(pattern, doc, meta, exec.env)?;
            if rows.len() >= cut_at {
                rows.sort();
                rows.truncate(keep);
            }
            if rows.len_bytes() > budget {
                if limit.is_some() {
                    rows.sort();
                    rows.truncate(keep);
                }
                if rows.len_bytes() > budget / 2 {
                    if !exec.allow_disk_use {
                        return Err(memory_error("$sort", budget));
                    }
                    rows.sort();
                    run.spill(rows, exec)?;
                }
            }
            Ok(())
        },
        |(rows, run)| {
            if exec.allow_disk_use
                && limit.is_none()
                && rows.len_bytes() > SPILL_BYTES_MIN
                && exec.env.is_short_of_memory()
            {
                rows.sort();
                run.spill(rows, exec)?;
            }
            Ok(())
        },
    )?;
    let (mut rows, mut run) = state;
    rows.sort();
    rows.truncate(keep);
    run.finish(rows);
    Ok(run)
}
