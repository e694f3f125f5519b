//! Compact sequences of whole numbers: the numbers themselves, their differences, or the
//! differences of the differences, whichever is shortest. Each is stored relative to the least one
//! of the sequence, all with the same number of bits.
//!
//! `order(1) width(1) heads(varint each, zigzag: as many as the order) least(varint, zigzag) bits`.
//! The reader must know how many numbers there are.

use crate::format::record::{read_varint, varint};

/// Differences are taken at most this many times.
const ORDER_MAX: usize = 2;

fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

fn unzigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

/// A sequence after taking differences: the first number of each order, and the others relative to
/// the least.
struct DeltaSequence {
    heads: Vec<i64>,
    rest: Vec<i64>,
    least: i64,
    width: u32,
}

impl DeltaSequence {
    fn of(heads: Vec<i64>, rest: Vec<i64>) -> DeltaSequence {
        let least = rest.iter().copied().min().unwrap_or(0);
        let most = rest.iter().copied().max().unwrap_or(0);
        let width = 64 - (most.wrapping_sub(least) as u64).leading_zeros();
        DeltaSequence {
            heads,
            rest,
            least,
            width,
        }
    }

    fn next(&self) -> Option<DeltaSequence> {
        let (first, _) = self.rest.split_first()?;
        let mut heads = self.heads.clone();
        heads.push(*first);
        let pairs = self.rest.windows(2);
        Some(DeltaSequence::of(
            heads,
            pairs.map(|w| w[1].wrapping_sub(w[0])).collect(),
        ))
    }

    fn bits(&self) -> usize {
        // A head is about five bytes.
        self.rest.len() * self.width as usize + self.heads.len() * 40
    }
}

/// Appends a sequence.
pub(super) fn write(out: &mut Vec<u8>, numbers: &[i64]) {
    let mut best = DeltaSequence::of(Vec::new(), numbers.to_vec());
    let mut last = best.next();
    while let Some(form) = last {
        last = form.next().filter(|f| f.heads.len() <= ORDER_MAX);
        if form.bits() < best.bits() {
            best = form;
        }
    }
    out.extend_from_slice(&[best.heads.len() as u8, best.width as u8]);
    best.heads.iter().for_each(|h| varint(out, zigzag(*h)));
    varint(out, zigzag(best.least));
    let (mut word, mut used) = (0u128, 0);
    for n in &best.rest {
        word |= u128::from(n.wrapping_sub(best.least) as u64) << used;
        used += best.width;
        while used >= 8 {
            out.push(word as u8);
            word >>= 8;
            used -= 8;
        }
    }
    if used > 0 {
        out.push(word as u8);
    }
}

/// Reads a sequence of `count` numbers, and returns the bytes after it. `None` when damaged.
pub(super) fn read(bytes: &[u8], count: usize) -> Option<(Vec<i64>, &[u8])> {
    let (&[order, width], mut rest) = bytes.split_first_chunk::<2>()?;
    let (order, width) = (usize::from(order), u32::from(width));
    if order > ORDER_MAX || width > 64 {
        return None;
    }
    let mut heads = Vec::with_capacity(order);
    for _ in 0..order {
        let (head, behind) = read_varint(rest)?;
        heads.push(unzigzag(head));
        rest = behind;
    }
    let (least, bits) = read_varint(rest)?;
    let least = unzigzag(least);
    let stored = count.checked_sub(order)?;
    let len = stored.checked_mul(width as usize)?.div_ceil(8);
    let (bits, rest) = bits.split_at_checked(len)?;
    let mut numbers = Vec::with_capacity(count);
    let (mut word, mut held, mut bits) = (0u128, 0, bits.iter());
    let mask = (1u128 << width) - 1;
    for _ in 0..stored {
        while held < width {
            word |= u128::from(*bits.next()?) << held;
            held += 8;
        }
        numbers.push(least.wrapping_add((word & mask) as u64 as i64));
        word >>= width;
        held -= width;
    }
    // Sums the differences to restore the numbers.
    for head in heads.into_iter().rev() {
        let mut at = head;
        for n in &mut numbers {
            at = at.wrapping_add(std::mem::replace(n, at));
        }
        numbers.push(at);
    }
    Some((numbers, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn length(numbers: &[i64]) -> usize {
        let mut out = Vec::new();
        write(&mut out, numbers);
        out.push(7);
        assert_eq!(
            read(&out, numbers.len()),
            Some((numbers.to_vec(), &[7][..]))
        );
        for cut in 0..out.len() - 1 {
            assert!(read(&out[..cut], numbers.len()).is_none());
        }
        out.len() - 1
    }

    #[test]
    fn regular_sequences_take_no_bits() {
        assert!(length(&[]) <= 4);
        assert!(length(&vec![1_700_000_000_000; 1000]) <= 12);
        let steps: Vec<i64> = (0..1000).map(|n| 1_700_000_000_000 + n * 60_000).collect();
        assert!(length(&steps) <= 16);
        length(&[i64::MIN, i64::MAX, 0, -1]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(numbers in proptest::collection::vec(any::<i64>(), 0..40)) {
            length(&numbers);
        }

        #[test]
        fn small_numbers(numbers in proptest::collection::vec(-300i64..300, 0..200)) {
            prop_assert!(length(&numbers) <= 20 + numbers.len() * 10 / 8);
        }
    }
}
