//! The row of a turn: a member changes what all of them keep in memory, and the others wait.
//! Promises: a row is read as it was written. Must not know: who waits.
//!
//! 24 bytes: the holder, the time from which the next turn may begin, the time until which others
//! wait. Both times are in milliseconds of the oracle.

use std::time::Duration;

use crate::lease_row::millis_of;

/// Longest time after a turn in which no other one begins, so that units can begin. It is this long
/// after the turn of a member that has died.
pub(crate) const REST_MAX: Duration = Duration::from_millis(200);

/// A turn that was taken last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnRow {
    pub(crate) holder: u64,
    /// The next turn begins at this time or later.
    pub(crate) next_ms: u64,
    /// Other units begin at this time or later.
    pub(crate) until_ms: u64,
}

impl TurnRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let all = [self.holder, self.next_ms, self.until_ms];
        all.iter().flat_map(|n| n.to_be_bytes()).collect()
    }

    /// `None` when it is no such row.
    pub(crate) fn decode(row: &[u8]) -> Option<TurnRow> {
        let (numbers, []) = row.as_chunks::<8>() else {
            return None;
        };
        let numbers: Vec<u64> = numbers.iter().map(|n| u64::from_be_bytes(*n)).collect();
        match numbers[..] {
            [holder, next_ms, until_ms] => Some(TurnRow {
                holder,
                next_ms,
                until_ms,
            }),
            _ => None,
        }
    }

    /// How long a unit has to wait that begins at this time, in milliseconds; `in_turn`: it is for
    /// a turn of this holder.
    pub(crate) fn wait_ms(&self, holder: u64, in_turn: bool, now_ms: u64) -> u64 {
        let begin_ms = match in_turn {
            false => self.until_ms,
            true if self.holder == holder => self.next_ms,
            true if self.until_ms == 0 => self.next_ms,
            true => self.next_ms.max(self.until_ms + millis_of(REST_MAX)),
        };
        begin_ms.saturating_sub(now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_wait_for_the_holder_and_turns_for_the_rest() {
        let held = TurnRow {
            holder: 7,
            next_ms: 0,
            until_ms: 700,
        };
        assert_eq!(TurnRow::decode(&held.encode()), Some(held));
        assert_eq!(
            [held.wait_ms(7, false, 699), held.wait_ms(8, false, 700)],
            [1, 0]
        );
        // Nobody has ended it: units begin before the next turn does.
        assert_eq!(
            [held.wait_ms(8, false, 701), held.wait_ms(8, true, 701)],
            [0, 199]
        );
        assert_eq!(
            [held.wait_ms(8, true, 900), held.wait_ms(7, true, 699)],
            [0, 0]
        );
        let ended = TurnRow {
            next_ms: 900,
            until_ms: 0,
            ..held
        };
        assert_eq!(ended.wait_ms(8, false, 899), 0);
        assert_eq!(
            [ended.wait_ms(7, true, 899), ended.wait_ms(8, true, 899)],
            [1, 1]
        );
        assert_eq!(ended.wait_ms(8, true, 900), 0);
        for wrong in [&b""[..], &[0; 16], &[0; 25]] {
            assert_eq!(TurnRow::decode(wrong), None);
        }
    }
}
