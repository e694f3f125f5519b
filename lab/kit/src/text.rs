//! Random text of a given compressibility.

use rand::Rng;

use crate::seed::Stream;

/// Text of `length` bytes, so many percent of which are random characters and the rest one letter.
pub(crate) fn random_text(random: &mut Stream, length: u32, random_percent: u32) -> String {
    let noise = (u64::from(length) * u64::from(random_percent)).div_ceil(100) as usize;
    let length = length as usize;
    let mut out = String::with_capacity(length);
    push_noise(&mut out, random, noise);
    out.extend(std::iter::repeat_n('a', length.saturating_sub(noise)));
    out
}

/// Six bits of a draw make a letter; ten letters a draw.
pub(crate) fn push_noise(out: &mut String, random: &mut Stream, count: usize) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut left = count;
    while left > 0 {
        let mut bits = random.random::<u64>();
        for _ in 0..left.min(10) {
            let letter = LETTERS.get((bits & 63) as usize).copied().unwrap_or(b'a');
            out.push(char::from(letter));
            bits >>= 6;
        }
        left -= left.min(10);
    }
}
