//! Random text of a given compressibility.

use rand::Rng;

use crate::seed::Stream;

/// Text of `length` bytes: `random_percent` of it are random characters, and the rest is one
/// repeated letter.
pub(crate) fn random_text(random: &mut Stream, length: u32, random_percent: u32) -> String {
    let noise = (u64::from(length) * u64::from(random_percent)).div_ceil(100) as usize;
    let length = length as usize;
    let mut out = String::with_capacity(length);
    push_noise(&mut out, random, noise);
    out.extend(std::iter::repeat_n('a', length.saturating_sub(noise)));
    out
}

/// Six bits make a letter, so that one random number gives ten letters.
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

/// Words of the vocabulary.
pub(crate) const WORDS: u32 = 10_000;

/// The word of a number in the vocabulary: two syllables; all words differ.
pub(crate) fn word_numbered(number: i64) -> String {
    const CONSONANTS: &[u8; 20] = b"bcdfghjklmnpqrstvwxz";
    const VOWELS: &[u8; 5] = b"aeiou";
    let number = usize::try_from(number).unwrap_or(0);
    let syllables = [number % 100, number / 100 % 100];
    let letters = syllables.iter().flat_map(|one| {
        let consonant = CONSONANTS.get(one / 5).copied().unwrap_or(b'b');
        [consonant, VOWELS.get(one % 5).copied().unwrap_or(b'a')]
    });
    letters.map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_vocabulary_are_all_different() {
        let all: std::collections::BTreeSet<String> =
            (0..i64::from(WORDS)).map(word_numbered).collect();
        assert_eq!(all.len(), WORDS as usize);
        assert_eq!(word_numbered(0), "baba");
    }
}
