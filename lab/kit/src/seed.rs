//! One base seed per run; every phase, role and thread draws from its own stream.
//!
//! Old benchmarks gave every thread the same seed, or the same seed after each restart, and
//! therefore read rows that were already cached. ChaCha is used because its output never changes: a
//! stored seed must draw the same data in later versions of the lab.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// The stream of random numbers that the lab draws from.
pub type Stream = ChaCha8Rng;

/// How the streams of clients differ: correctly, or as in old benchmarks, to show the effect on
/// their numbers.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum SeedMode {
    /// Each step and client has its own stream, and every run has different ones.
    #[default]
    Fresh,
    /// Each step and client has its own stream, the same in every run.
    Fixed,
    /// All clients of a step have the same stream.
    SharedAcrossThreads,
    /// Each client has the same stream in every step and every run.
    LegacyConstant,
}

impl SeedMode {
    /// The base seed if the user gives none.
    pub fn base(self, from_clock: u64) -> u64 {
        if self == Self::Fresh { from_clock } else { 1 }
    }

    /// The seed of a client's stream.
    pub fn of(self, base: u64, step: &str, role: &str, thread: u32) -> u64 {
        match self {
            Self::Fresh | Self::Fixed => of(base, step, role, thread),
            Self::SharedAcrossThreads => of(base, step, role, 0),
            Self::LegacyConstant => of(0, "", "", thread),
        }
    }
}

/// The stream of a seed of [`of`].
pub fn from(seed: u64) -> Stream {
    ChaCha8Rng::seed_from_u64(seed)
}

/// The stream of one thread in one role in one step.
pub fn stream(base: u64, step: &str, role: &str, thread: u32) -> Stream {
    from(of(base, step, role, thread))
}

/// The seed of the stream of one thread, as results record it.
pub fn of(base: u64, step: &str, role: &str, thread: u32) -> u64 {
    let mut state = base;
    for byte in step
        .bytes()
        .chain([0])
        .chain(role.bytes())
        .chain([0])
        .chain(thread.to_le_bytes())
    {
        state = mix(state ^ u64::from(byte));
    }
    state
}

/// The finisher of SplitMix64: every input bit changes about half the output bits.
pub fn mix(value: u64) -> u64 {
    let mut out = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    out = (out ^ (out >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    out = (out ^ (out >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    out ^ (out >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::RngCore;

    use super::*;

    #[test]
    fn no_two_streams_are_alike_and_each_can_be_repeated() {
        let mut firsts = HashSet::new();
        for step in ["l.i0", "l.i1"] {
            for role in ["insert", "query"] {
                for thread in 0..64 {
                    let first = stream(7, step, role, thread).next_u64();
                    assert_eq!(first, stream(7, step, role, thread).next_u64());
                    assert!(firsts.insert(first), "{step} {role} {thread}");
                }
            }
        }
        assert!(firsts.insert(stream(8, "l.i0", "insert", 0).next_u64()));
    }

    #[test]
    fn modes_repeat_what_they_say() {
        use SeedMode::{Fixed, Fresh, LegacyConstant, SharedAcrossThreads};
        for (mode, between_threads, between_steps, between_bases) in [
            (Fresh, false, false, false),
            (Fixed, false, false, false),
            (SharedAcrossThreads, true, false, false),
            (LegacyConstant, false, true, true),
        ] {
            let one = mode.of(7, "a", "client", 1);
            assert_eq!(
                one == mode.of(7, "a", "client", 2),
                between_threads,
                "{mode:?}"
            );
            assert_eq!(
                one == mode.of(7, "b", "client", 1),
                between_steps,
                "{mode:?}"
            );
            assert_eq!(
                one == mode.of(8, "a", "client", 1),
                between_bases,
                "{mode:?}"
            );
        }
        assert_eq!((Fresh.base(5), Fixed.base(5)), (5, 1));
    }

    #[test]
    fn a_stored_seed_draws_the_same_data_for_ever() {
        assert_eq!(
            stream(1, "l.i0", "insert", 0).next_u64(),
            1_086_182_193_513_496_132
        );
    }
}
