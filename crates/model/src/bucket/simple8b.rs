//! Reading Simple-8b as columns use it: words of 64 bits, each with a selector for how many numbers
//! of how many bits follow. Extensions to the published format: slots with a count of zero bits
//! appended to a number, a word that repeats the last number, and a slot of all ones for no number.

use crate::{MongoError, Result};

/// Bits per number, and numbers per word, for selectors 1 to 14.
const PLAIN: [(u32, u32); 14] = [
    (1, 60),
    (2, 30),
    (3, 20),
    (4, 15),
    (5, 12),
    (6, 10),
    (7, 8),
    (8, 7),
    (10, 6),
    (12, 5),
    (15, 4),
    (20, 3),
    (30, 2),
    (60, 1),
];
/// The same for selector 7 with an extension from 1: numbers with a 4-bit count of zeros.
const SEVEN: [(u32, u32); 9] = [
    (2, 9),
    (3, 8),
    (4, 7),
    (5, 6),
    (7, 5),
    (10, 4),
    (14, 3),
    (24, 2),
    (52, 1),
];
/// For selector 8 with an extension from 1: a 4-bit count of zeros.
const EIGHT: [(u32, u32); 7] = [(4, 7), (5, 6), (7, 5), (10, 4), (14, 3), (24, 2), (52, 1)];
/// For selector 8 with an extension from 8: a 5-bit count of zeros.
const EIGHT_WIDE: [(u32, u32); 6] = [(4, 6), (6, 5), (9, 4), (13, 3), (23, 2), (51, 1)];

/// Number of repetitions per step of the extension.
const REPEATED: u32 = 120;
/// Zero bits per step of a count.
const ZEROS: u32 = 4;

/// The numbers in a sequence of words.
#[derive(Debug)]
pub(super) struct Words<'a> {
    rest: &'a [u8],
    word: u64,
    /// Bits per number, bits of its count of zeros, and position of the next slot.
    bits: u32,
    count_bits: u32,
    at: u32,
    /// Slots of the word not yet read, or remaining repetitions of `last`.
    left: u32,
    repeats: bool,
    last: Option<u128>,
}

impl<'a> Words<'a> {
    /// Reads words; a repetition at the beginning repeats `last`.
    pub(super) fn new(words: &'a [u8], last: Option<u128>) -> Words<'a> {
        Words {
            rest: words,
            word: 0,
            bits: 0,
            count_bits: 0,
            at: 0,
            left: 0,
            repeats: false,
            last,
        }
    }

    /// The last number; the inner `None` for a slot without number.
    pub(super) fn last(&self) -> Option<u128> {
        self.last
    }

    /// The next number, `Some(None)` for a slot without one, `None` at the end.
    ///
    /// # Errors
    /// 2 BadValue for an invalid selector.
    pub(super) fn next(&mut self) -> Result<Option<Option<u128>>> {
        if self.left == 0 {
            let Some((word, rest)) = self.rest.split_first_chunk::<8>() else {
                return Ok(None);
            };
            self.rest = rest;
            self.load(u64::from_le_bytes(*word))?;
        }
        self.left -= 1;
        if !self.repeats {
            let bits = self.bits + self.count_bits;
            let mask = (1u64 << bits) - 1;
            let slot = (self.word >> self.at) & mask;
            self.at += bits;
            self.last = (slot != mask).then(|| {
                let zeros = (slot & ((1 << self.count_bits) - 1)) as u32 * ZEROS;
                u128::from(slot >> self.count_bits) << zeros
            });
        }
        Ok(Some(self.last))
    }

    fn load(&mut self, word: u64) -> Result<()> {
        let (selector, extension) = ((word & 15) as usize, ((word >> 4) & 15) as usize);
        self.word = word;
        self.repeats = selector == 15;
        if self.repeats {
            self.left = (extension as u32 + 1) * REPEATED;
            return Ok(());
        }
        let (form, count_bits, at) = match (selector, extension) {
            (7 | 8, 0) => (PLAIN.get(selector - 1), 0, 8),
            (7, n) => (SEVEN.get(n - 1), 4, 8),
            (8, n @ 1..=7) => (EIGHT.get(n - 1), 4, 8),
            (8, n) => (EIGHT_WIDE.get(n - 8), 5, 8),
            (n, _) => (PLAIN.get(n.wrapping_sub(1)), 0, 4),
        };
        let Some((bits, count)) = form else {
            return Err(MongoError::bad_value(format!(
                "a column has a word with selector {selector} and extension {extension}"
            )));
        };
        (self.bits, self.left) = (*bits, *count);
        (self.count_bits, self.at) = (count_bits, at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(words: &[u64]) -> Vec<Option<u128>> {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut read = Words::new(&bytes, Some(0));
        let mut out = Vec::new();
        while let Some(n) = read.next().unwrap() {
            out.push(n);
        }
        out
    }

    #[test]
    fn slots_of_all_selectors() {
        // Two numbers of 30 bits; the second means no number.
        let none = (1u64 << 30) - 1;
        assert_eq!(all(&[13 | 5 << 4 | none << 34]), [Some(5), None]);
        // Selector 7 without an extension: eight numbers of 7 bits after 8 bits.
        let eight: Vec<_> = (1..=8u64).collect();
        let word = eight
            .iter()
            .enumerate()
            .fold(7, |w, (i, n)| w | n << (8 + 7 * i));
        assert_eq!(
            all(&[word]),
            eight
                .iter()
                .map(|n| Some(u128::from(*n)))
                .collect::<Vec<_>>()
        );
        // Selector 7, extension 9: one number of 52 bits with 3 * 4 zeros appended.
        assert_eq!(all(&[7 | 9 << 4 | (3 | 5 << 4) << 8]), [Some(5 << 12)]);
        // Selector 8, extension 13: one number of 51 bits with 20 * 4 zeros appended.
        assert_eq!(all(&[8 | 13 << 4 | (20 | 1 << 5) << 8]), [Some(1 << 80)]);
        assert!(Words::new(&0u64.to_le_bytes(), None).next().is_err());
    }

    #[test]
    fn repetitions_repeat_the_last_number() {
        let numbers = all(&[14 | 7 << 4, 15 | 1 << 4]);
        assert_eq!(numbers.len(), 241);
        assert!(numbers.iter().all(|n| *n == Some(7)));
        assert_eq!(all(&[15]), vec![Some(0); 120]);
    }
}
