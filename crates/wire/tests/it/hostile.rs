//! Many thousands of random and mutated frames: each gives a clean result, with memory bounded by
//! the bytes that really arrive.

use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use wire::{
    Compressor, CompressorSet, DecodeOptions, MAX_MESSAGE_LEN, MessageBuilder, decode, flags,
    frame_len,
};

use crate::support::{binary_document, document, message, op_query};

const ROUNDS: usize = 60_000;

fn corpus() -> Vec<Vec<u8>> {
    let ping = document("ping", 1);
    let find = binary_document("find", &[b'q'; 600]);
    let plain = MessageBuilder::new(3)
        .body(&find)
        .sequence("documents", [&ping[..], &ping[..]])
        .build();
    let mut out = vec![
        MessageBuilder::new(1).body(&ping).build(),
        MessageBuilder::new(2)
            .flags(flags::CHECKSUM_PRESENT)
            .body(&ping)
            .build(),
        op_query("admin.$cmd", -1, &ping),
        op_query("test.things", 1, &ping),
        message(2005, &[0; 30]),
    ];
    out.extend(Compressor::ALL.map(|c| wire::compress_message(&plain, c)));
    out.push(plain);
    out
}

fn mutate(frame: &mut Vec<u8>, rng: &mut StdRng) {
    for _ in 0..rng.random_range(1..6) {
        if frame.is_empty() {
            return;
        }
        let at = rng.random_range(0..frame.len());
        match rng.random_range(0..6) {
            0 => frame[at] ^= 1 << rng.random_range(0..8),
            1 => frame[at] = rng.random(),
            2 => frame.truncate(at),
            3 => frame.insert(at, rng.random()),
            4 if at + 4 <= frame.len() => {
                let odd =
                    [0, 1, 4, 5, 16, -1, i32::MAX, i32::MIN, 48_000_000][rng.random_range(0..9)];
                frame[at..at + 4].copy_from_slice(&odd.to_le_bytes());
            }
            _ => {
                let end = rng.random_range(at..frame.len());
                frame.extend_from_within(at..end);
            }
        }
    }
    // Usually the outer length is right, because otherwise the mutation would never reach the inner
    // parser.
    if frame.len() >= 4 && rng.random_bool(0.9) {
        let len = frame.len() as i32;
        frame[..4].copy_from_slice(&len.to_le_bytes());
    }
}

#[test]
fn random_and_mutated_frames_never_panic_and_never_outgrow_the_limit() {
    let corpus = corpus();
    let mut rng = StdRng::seed_from_u64(0x51AB);
    let options = DecodeOptions {
        compressors: CompressorSet::default().with(Compressor::Noop),
    };
    let (mut accepted, mut refused) = (0, 0);
    let mut scratch = Vec::new();
    for round in 0..ROUNDS {
        let mut frame = corpus[round % corpus.len()].clone();
        if round % 10 == 0 {
            frame.resize(rng.random_range(0..300), 0);
            rng.fill_bytes(&mut frame);
        }
        mutate(&mut frame, &mut rng);
        let _ = frame_len(&frame);
        match decode(&frame, &options, &mut scratch) {
            Ok(request) => {
                accepted += 1;
                assert!(request.body.len() <= frame.len().max(MAX_MESSAGE_LEN));
                let _ = request.command_name();
                for sequence in &request.sequences {
                    assert_eq!(sequence.iter().count(), sequence.count);
                }
            }
            Err(error) => {
                refused += 1;
                let mut document = Vec::new();
                error.append_document(wire::Protocol::Msg, &mut document);
                assert!(wire::split_document(&document).is_ok());
            }
        }
        assert!(scratch.capacity() <= 2 * MAX_MESSAGE_LEN);
    }
    // Mutations must lead to accepted and to refused frames, or this test proves nothing.
    assert!(
        accepted > ROUNDS / 50 && refused > ROUNDS / 5,
        "accepted {accepted}, refused {refused}"
    );
}

/// A frame of a few bytes that declares 47 MB must not make the server allocate 47 MB.
#[test]
fn declared_size_alone_allocates_nothing_large() {
    for id in 1..=3u8 {
        for data in [&b""[..], &[0; 40][..], &[0xF0, 0xFF, 0xFF, 0x16, 0, 0][..]] {
            let mut payload = 2013i32.to_le_bytes().to_vec();
            payload.extend_from_slice(&47_000_000i32.to_le_bytes());
            payload.push(id);
            payload.extend_from_slice(data);
            let mut scratch = Vec::new();
            assert!(
                decode(
                    &message(2012, &payload),
                    &DecodeOptions::default(),
                    &mut scratch
                )
                .is_err()
            );
            assert!(
                scratch.capacity() < 1_000_000,
                "compressor {id}: {} bytes",
                scratch.capacity()
            );
        }
    }
}

/// A real bomb stops one byte after the declared size.
#[test]
fn bomb_stops_at_the_declared_size() {
    let zeros = vec![0u8; 40_000_000];
    for (id, data) in [
        (3u8, zstd::bulk::compress(&zeros, 1).unwrap()),
        (2, {
            use std::io::Write;
            let mut encoder =
                flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&zeros).unwrap();
            encoder.finish().unwrap()
        }),
    ] {
        let mut payload = 2013i32.to_le_bytes().to_vec();
        payload.extend_from_slice(&1000i32.to_le_bytes());
        payload.push(id);
        payload.extend_from_slice(&data);
        let mut scratch = Vec::new();
        let error = decode(
            &message(2012, &payload),
            &DecodeOptions::default(),
            &mut scratch,
        )
        .unwrap_err();
        assert_eq!(
            error.message,
            "compressed message declares 1000 bytes but holds 1001"
        );
        assert!(scratch.capacity() < 1_000_000);
    }
}
