//! The numbers of new rows: 40 bits of milliseconds since 2020, 8 of the member, 14 that count.
//! They grow with the oracle's time, and no two members give the same, nor do those that have the
//! same number one after the other. Must not know: what is numbered.

use std::sync::atomic::{AtomicU64, Ordering};

/// The oracle's milliseconds on 2020-01-01.
const EPOCH_MS: u64 = 1_577_836_800_000;
const MEMBER_BITS: u32 = 8;
const COUNT_BITS: u32 = 14;

/// The numbers that one member has given.
pub(crate) struct RowNumbers {
    member: u64,
    next: AtomicU64,
}

impl RowNumbers {
    /// # Input
    /// `from_ms`: earlier members with the number have given no number from this millisecond on.
    pub(crate) fn new(member: u8, from_ms: u64) -> RowNumbers {
        let member = u64::from(member);
        RowNumbers {
            member,
            next: AtomicU64::new(first_of(from_ms, member)),
        }
    }

    /// The first of `count` consecutive numbers, none of which was given before.
    ///
    /// # Input
    /// `now_ms`: the time of the oracle. `count`: below 2^14.
    pub(crate) fn allocate(&self, now_ms: u64, count: u64) -> u64 {
        let now = first_of(now_ms, self.member);
        let after = |next: u64| {
            let first = next.max(now);
            let counted = first & ((1 << COUNT_BITS) - 1);
            match counted + count < 1 << COUNT_BITS {
                true => first,
                // This millisecond is used up.
                false => first_of(millis_of(first) + 1, self.member),
            }
        };
        let advance = |next: u64| Some(after(next) + count);
        let updated = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance);
        after(updated.unwrap_or_else(|next| next))
    }
}

/// The first number of a member in a millisecond.
fn first_of(ms: u64, member: u64) -> u64 {
    (ms.saturating_sub(EPOCH_MS) << (MEMBER_BITS + COUNT_BITS)) | (member << COUNT_BITS)
}

/// The millisecond of a number.
pub(crate) fn millis_of(number: u64) -> u64 {
    EPOCH_MS + (number >> (MEMBER_BITS + COUNT_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_with_time_and_are_given_once() {
        let (one, other) = (RowNumbers::new(0, 0), RowNumbers::new(255, 0));
        let ms = EPOCH_MS + 5;
        let given: Vec<u64> = (0..1000).map(|n| one.allocate(ms + n / 100, 100)).collect();
        assert!(given.is_sorted_by(|a, b| a + 100 <= *b), "numbers overlap");
        assert!(given.iter().all(|n| (n >> COUNT_BITS) & 255 == 0));
        let theirs = other.allocate(ms, 128);
        assert_eq!(theirs, (5 << 22) | (255 << 14));
        // A later time is above all earlier numbers of every member.
        let later = one.allocate(ms + 10_000, 1);
        assert!(later > given.into_iter().max().unwrap() && later > theirs + 128);
        assert!(other.allocate(EPOCH_MS + (1 << 39), 1) < 1 << 62);
    }

    #[test]
    fn a_clock_that_stands_still_gives_new_numbers() {
        let numbers = RowNumbers::new(7, 0);
        let first = numbers.allocate(EPOCH_MS, 128);
        let second = numbers.allocate(EPOCH_MS, 128);
        assert!(second >= first + 128);
    }

    #[test]
    fn the_next_member_with_a_number_begins_above_the_last_one() {
        let ms = EPOCH_MS + 9;
        let last = RowNumbers::new(3, 0).allocate(ms, 10);
        assert_eq!(millis_of(last), ms);
        let next = RowNumbers::new(3, ms + 1).allocate(ms, 10);
        assert!(next > last + 10 && millis_of(next) == ms + 1);
    }
}
