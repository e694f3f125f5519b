//! The times of a commit where several processes write (ADR 0114). Promises: times of a later
//! commit are later, and no two commits share one. Must not know: entries, engines.
//!
//! A position is the oracle's milliseconds, shifted left by 18 bits, plus a number. Seconds are the
//! seconds of the timestamp, the rest is in its increment.

use storage::CommitPos;

/// Bits of a position below the milliseconds.
const NUMBER_BITS: u32 = 18;
/// Entries that one commit can have.
pub(crate) const TIMES_OF_COMMIT: u32 = 16;
const MS: u64 = 1000;

/// The first of the times of a commit.
pub(crate) fn first_time(pos: CommitPos) -> u64 {
    let ms = pos.0 >> NUMBER_BITS;
    let number = pos.0 & ((1 << NUMBER_BITS) - 1);
    let place = (ms % MS) << NUMBER_BITS | number;
    (ms / MS) << 32 | (place * u64::from(TIMES_OF_COMMIT) + 1)
}

/// The last of the times of a commit: those of later commits are later.
pub(crate) fn end_time(pos: CommitPos) -> u64 {
    first_time(pos) + u64::from(TIMES_OF_COMMIT) - 1
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
            before = end_time(pos);
            assert_eq!(before >> 32, (pos.0 >> 18) / 1000);
            assert_eq!(first_time(pos) >> 32, before >> 32);
        }
        let last = CommitPos((ms << 18) | ((1 << 18) - 1));
        assert_eq!(end_time(last) as u32, 4_194_304_000);
        assert_eq!(first_time_of_ms(5_000), 5 << 32 | 1);
        assert_eq!(wall_ms(last), ms as i64);
    }
}
