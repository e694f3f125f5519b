//! The share of one of several workers: of a client among clients, or of a generator among
//! generators.

/// The number of a worker and the number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The number of the worker, from 0.
    pub number: u32,
    /// The number of workers.
    pub of: u32,
}

impl Share {
    /// The share of a single worker.
    pub const ALL: Self = Self { number: 0, of: 1 };

    /// The share of worker `number` of `of`.
    pub const fn new(number: u32, of: u32) -> Self {
        Self { number, of }
    }

    /// The numbers of this worker's clients among `all`: every `of`-th from `number` on.
    pub fn clients(self, all: u32) -> impl Iterator<Item = u32> {
        (self.number..all).step_by(self.of.max(1) as usize)
    }

    /// The number of this worker's clients.
    pub fn count(self, all: u32) -> u32 {
        all.saturating_sub(self.number).div_ceil(self.of.max(1))
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_and_make_the_whole() {
        for (all, of) in [(1, 1), (1, 3), (7, 2), (8, 3), (64, 5)] {
            let shares = (0..of).map(|number| Share { number, of });
            let counts: Vec<u32> = shares.clone().map(|share| share.count(all)).collect();
            let most = counts.iter().max().unwrap();
            assert!(most - counts.iter().min().unwrap() <= 1, "{counts:?}");
            let mut seen: Vec<u32> = shares.flat_map(|share| share.clients(all)).collect();
            assert_eq!(seen.len() as u32, counts.iter().sum::<u32>());
            seen.sort_unstable();
            assert_eq!(seen, (0..all).collect::<Vec<_>>(), "{all} by {of}");
        }
    }
}
