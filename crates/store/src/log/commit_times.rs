//! The times of a commit where several processes write (ADR 0114). Promises: times of a later
//! commit are later, and no two commits share one. Must not know: entries, engines.
//!
//! A position is the oracle's milliseconds, shifted left by 18 bits, plus a number. Seconds are the
//! seconds of the timestamp, the rest is in its increment.

use storage::CommitPos;

/// Bits of a position below the milliseconds.
const NUMBER_BITS: u32 = 18;
/// Times of a position. A commit with more entries takes more positions.
const TIMES_OF_POSITION: u32 = 16;
/// Entries that one commit can have.
pub(crate) const COMMIT_ENTRIES_MAX: u32 = 4096;
const MS: u64 = 1000;

/// The number of positions that a commit with so many entries takes.
pub(crate) fn positions_of(entries: u32) -> u32 {
    entries.div_ceil(TIMES_OF_POSITION).max(1)
}

/// The time of the first entry of a commit with so many.
pub(crate) fn first_entry_time(pos: CommitPos, entries: u32) -> u64 {
    let others = u64::from(positions_of(entries)) - 1;
    first_time(CommitPos(pos.0.saturating_sub(others)))
}

/// The first of the times of a position.
pub(crate) fn first_time(pos: CommitPos) -> u64 {
    let ms = pos.0 >> NUMBER_BITS;
    let number = pos.0 & ((1 << NUMBER_BITS) - 1);
    let place = (ms % MS) << NUMBER_BITS | number;
    (ms / MS) << 32 | (place * u64::from(TIMES_OF_POSITION) + 1)
}

/// The last of the times of a position: those of later ones are later.
pub(crate) fn end_time(pos: CommitPos) -> u64 {
    first_time(pos) + u64::from(TIMES_OF_POSITION) - 1
}

/// The position to which a time belongs.
pub(crate) fn position_of(time: u64) -> CommitPos {
    let place = u64::from((time as u32).saturating_sub(1) / TIMES_OF_POSITION);
    let ms = (time >> 32) * MS + (place >> NUMBER_BITS);
    CommitPos(ms << NUMBER_BITS | place & ((1 << NUMBER_BITS) - 1))
}

/// Milliseconds since the epoch of a commit.
pub(crate) fn wall_ms(pos: CommitPos) -> i64 {
    (pos.0 >> NUMBER_BITS) as i64
}

/// The first time of a millisecond since the epoch.
pub(crate) fn first_time_of_ms(ms: u64) -> u64 {
    first_time(CommitPos(ms << NUMBER_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_have_times_of_their_own_in_their_order() {
        let ms = 1_790_000_000_999;
        let numbers = [0, 1, 7, (1 << NUMBER_BITS) - 1];
        let positions = (ms..ms + 3).flat_map(|ms| numbers.map(|n| CommitPos(ms << 18 | n)));
        let mut before = 0;
        for pos in positions {
            assert!(first_time(pos) > before, "{pos:?}");
            assert_eq!(position_of(first_time(pos)), pos);
            assert_eq!(position_of(end_time(pos)), pos);
            before = end_time(pos);
            assert_eq!(before >> 32, (pos.0 >> 18) / 1000);
            assert_eq!(first_time(pos) >> 32, before >> 32);
        }
        let last = CommitPos((ms << 18) | ((1 << 18) - 1));
        assert_eq!(end_time(last) as u32, 4_194_304_000);
        assert_eq!(first_time_of_ms(5_000), 5 << 32 | 1);
        assert_eq!(wall_ms(last), ms as i64);
    }

    #[test]
    fn a_commit_with_many_entries_takes_several_positions() {
        let pos = CommitPos(1_790_000_000_123 << 18 | 1000);
        for (entries, positions) in [(0, 1), (1, 1), (16, 1), (17, 2), (4096, 256)] {
            assert_eq!(positions_of(entries), positions);
            let before = end_time(CommitPos(pos.0 - u64::from(positions)));
            assert_eq!(first_entry_time(pos, entries), before + 1);
            assert!(before + u64::from(entries) <= end_time(pos));
        }
    }
}
