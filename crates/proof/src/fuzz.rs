//! Fuzzing by seed: inputs of a stored corpus are changed at random and passed to a function that
//! must neither panic nor allocate much. An input with a new outcome is added to the corpus of the
//! run.
//!
//! Promises: the same seed gives the same inputs, if the function gives the same outcomes. Must not
//! know: what the inputs mean.

use crate::random::Random;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::time::{Duration, Instant};

/// The length of a run.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Number of inputs.
    pub inputs: usize,
    /// Or, if set, the duration.
    pub time: Option<Duration>,
    /// The first seed.
    pub seed: u64,
}

impl Limit {
    /// A number of inputs; `QUARRY_FUZZ_SECONDS` sets a duration instead, `QUARRY_SEED` the seed.
    pub fn of(inputs: usize) -> Limit {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        Limit {
            inputs,
            time: number("QUARRY_FUZZ_SECONDS").map(Duration::from_secs),
            seed: number("QUARRY_SEED").unwrap_or(1),
        }
    }
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FuzzResult {
    /// Number of inputs tried.
    pub inputs: usize,
    /// Number of distinct outcomes.
    pub outcomes: usize,
    /// Number of inputs that were accepted.
    pub accepted: usize,
}

/// The outcome of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was accepted, with a number for the kind of result.
    Accepted(u64),
    /// It was refused, with a number for the reason.
    Refused(u64),
}

impl Outcome {
    /// From a result: errors are distinguished by their text up to the first digit or quote, so
    /// that quoted input does not count.
    pub fn of<T, E: ToString>(result: &Result<T, E>, kind: impl FnOnce(&T) -> u64) -> Outcome {
        match result {
            Ok(made) => Outcome::Accepted(kind(made)),
            Err(error) => {
                let text = error.to_string();
                let told = text
                    .split(|c: char| c.is_ascii_digit() || "\"'{[:".contains(c))
                    .next()
                    .unwrap_or_default();
                Outcome::Refused(number_of(told))
            }
        }
    }
}

/// A hash of any value.
pub fn number_of(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// A corpus, and how its inputs are changed.
#[derive(Clone, Copy, Debug)]
pub struct Fuzz<'a, I> {
    /// The name of the target, for people.
    pub name: &'a str,
    /// The length of the run.
    pub limit: Limit,
    /// The first inputs; they are tried unchanged first.
    pub corpus: &'a [I],
    /// Changes an input, possibly with a piece of another one.
    pub change: fn(&mut Random, &mut I, &I),
    /// The text of an input that panicked.
    pub show: fn(&I) -> String,
}

impl<I: Clone> Fuzz<'_, I> {
    /// Passes inputs to `check`. When it panics, the input is shown and the panic continues.
    pub fn run(&self, mut check: impl FnMut(&I) -> Outcome) -> FuzzResult {
        let limit = self.limit;
        let mut random = Random::new(limit.seed);
        let (mut kept, mut seen) = (self.corpus.to_vec(), BTreeSet::new());
        let (begun, mut tried) = (Instant::now(), FuzzResult::default());
        let goes_on = |tried: &FuzzResult| match limit.time {
            Some(time) => begun.elapsed() < time,
            None => tried.inputs < limit.inputs,
        };
        while goes_on(&tried) {
            let input = self.next(&mut random, &kept, tried.inputs);
            let guarded = std::panic::AssertUnwindSafe(|| check(&input));
            let outcome = std::panic::catch_unwind(guarded).unwrap_or_else(|panic| {
                let (name, seed, at) = (self.name, limit.seed, tried.inputs);
                let shown = (self.show)(&input);
                let line = format!("{name}, QUARRY_SEED={seed}, input {at}: {shown}");
                // Standard error may be closed.
                let _ = writeln!(std::io::stderr(), "{line}");
                std::panic::resume_unwind(panic)
            });
            let (is_right, number) = match outcome {
                Outcome::Accepted(n) => (true, n.wrapping_mul(2)),
                Outcome::Refused(n) => (false, n.wrapping_mul(2) | 1),
            };
            let is_own = tried.inputs < self.corpus.len();
            if seen.insert(number) && !is_own && kept.len() < KEPT_MAX {
                kept.push(input);
            }
            tried.inputs += 1;
            tried.accepted += usize::from(is_right);
        }
        tried.outcomes = seen.len();
        let _ = writeln!(
            std::io::stdout(),
            "fuzz {}, seed {}: {} inputs, {} accepted, {} outcomes, {:.1} s",
            self.name,
            limit.seed,
            tried.inputs,
            tried.accepted,
            tried.outcomes,
            begun.elapsed().as_secs_f64()
        );
        tried
    }

    fn next(&self, random: &mut Random, kept: &[I], at: usize) -> I {
        if let Some(own) = self.corpus.get(at) {
            return own.clone();
        }
        let from = if random.chance(50) { self.corpus } else { kept };
        let mut input = from[random.below(from.len())].clone();
        for _ in 0..1 + random.below(4) {
            let other = &kept[random.below(kept.len())];
            (self.change)(random, &mut input, other);
        }
        input
    }
}

/// Most inputs of a run that are kept for further changes.
const KEPT_MAX: usize = 4000;

/// Edge cases of lengths and numbers.
const EDGES: [i64; 14] = [
    0,
    1,
    4,
    5,
    16,
    -1,
    127,
    128,
    255,
    65_535,
    16_777_216,
    48_000_000,
    2_147_483_647,
    -2_147_483_648,
];

/// Changes bytes: flips a bit, sets a byte or a length, removes or doubles a piece, or copies one
/// from another input.
pub fn change_bytes(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    if bytes.is_empty() {
        bytes.extend_from_slice(other);
        return;
    }
    let at = random.below(bytes.len());
    match random.below(8) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.next_u64() as u8,
        2 => bytes.truncate(at),
        3 => bytes.insert(at, random.next_u64() as u8),
        4 => {
            let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
            let room = bytes.len() - at;
            let n = [1, 2, 4, 8][random.below(4)].min(room);
            bytes[at..at + n].copy_from_slice(&edge[..n]);
        }
        5 => {
            let end = at + random.below((bytes.len() - at).min(64) + 1);
            bytes.drain(at..end);
        }
        6 => {
            let end = at + random.below((bytes.len() - at).min(256) + 1);
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
        }
        _ if other.is_empty() => {}
        _ => {
            let from = random.below(other.len());
            let to = from + random.below((other.len() - from).min(256) + 1);
            let piece = other[from..to].iter().copied();
            let end = at + random.below((bytes.len() - at).min(64) + 1);
            bytes.splice(at..end, piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fuzz(corpus: &[Vec<u8>], seed: u64, inputs: usize) -> Fuzz<'_, Vec<u8>> {
        Fuzz {
            name: "test",
            limit: Limit {
                inputs,
                time: None,
                seed,
            },
            corpus,
            change: |random, i, other| change_bytes(random, i, other),
            show: |i| format!("{i:?}"),
        }
    }

    #[test]
    fn a_seed_gives_the_same_inputs() {
        let all = |seed| {
            let mut seen = Vec::new();
            fuzz(&[b"seed".to_vec()], seed, 300).run(|i| {
                seen.push(i.clone());
                Outcome::Refused(i.len() as u64)
            });
            seen
        };
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
    }

    #[test]
    fn the_fuzzer_mutates_inputs_with_new_outcomes() {
        // Three steps that no single change can do together.
        let tried = fuzz(&[vec![0; 8]], 7, 60_000).run(|i| {
            let n = i.iter().filter(|b| **b == 0xAB).count();
            Outcome::Refused(n.min(3) as u64)
        });
        assert_eq!(tried.outcomes, 4);
    }
}
