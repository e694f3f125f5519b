//! XXH64 without a seed, after its public specification. Must not know: values.

const PRIMES: [u64; 5] = [
    0x9E37_79B1_85EB_CA87,
    0xC2B2_AE3D_27D4_EB4F,
    0x1656_67B1_9E37_79F9,
    0x85EB_CA77_C2B2_AE63,
    0x27D4_EB2F_1656_67C5,
];

fn round(lane: u64, input: u64) -> u64 {
    lane.wrapping_add(input.wrapping_mul(PRIMES[1]))
        .rotate_left(31)
        .wrapping_mul(PRIMES[0])
}

fn merge(hash: u64, lane: u64) -> u64 {
    (hash ^ round(0, lane))
        .wrapping_mul(PRIMES[0])
        .wrapping_add(PRIMES[3])
}

/// Eight bytes at a time; the remaining bytes are ignored.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word))
}

/// The hash of some bytes.
pub(super) fn xxh64(bytes: &[u8]) -> u64 {
    let (stripes, mut rest) = bytes.as_chunks::<32>();
    let mut hash = if stripes.is_empty() {
        PRIMES[4]
    } else {
        let mut lanes = [
            PRIMES[0].wrapping_add(PRIMES[1]),
            PRIMES[1],
            0,
            0u64.wrapping_sub(PRIMES[0]),
        ];
        for stripe in stripes {
            for (lane, word) in lanes.iter_mut().zip(words(stripe)) {
                *lane = round(*lane, word);
            }
        }
        let turned = lanes.iter().zip([1, 7, 12, 18]);
        let sum = turned.fold(0u64, |sum, (lane, by)| {
            sum.wrapping_add(lane.rotate_left(by))
        });
        lanes.iter().fold(sum, |hash, lane| merge(hash, *lane))
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    for word in words(rest) {
        hash = (hash ^ round(0, word))
            .rotate_left(27)
            .wrapping_mul(PRIMES[0])
            .wrapping_add(PRIMES[3]);
    }
    rest = rest.as_chunks::<8>().1;
    if let Some((half, tail)) = rest.split_first_chunk::<4>() {
        let word = u64::from(u32::from_le_bytes(*half));
        hash = (hash ^ word.wrapping_mul(PRIMES[0]))
            .rotate_left(23)
            .wrapping_mul(PRIMES[1])
            .wrapping_add(PRIMES[2]);
        rest = tail;
    }
    for byte in rest {
        hash = (hash ^ u64::from(*byte).wrapping_mul(PRIMES[4]))
            .rotate_left(11)
            .wrapping_mul(PRIMES[0]);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(PRIMES[1]);
    hash = (hash ^ (hash >> 29)).wrapping_mul(PRIMES[2]);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    #[test]
    fn known_hashes() {
        for (text, hash) in [
            ("", 0xEF46_DB37_51D8_E999),
            ("a", 0xD24E_C4F1_A98C_6E5B),
            ("abc", 0x44BC_2CF5_AD77_0999),
            (
                "Nobody inspects the spammish repetition",
                0xFBCE_A83C_8A37_8BF1,
            ),
        ] {
            assert_eq!(super::xxh64(text.as_bytes()), hash, "{text}");
        }
    }
}
