//! Messages, compressed messages, BSON, Extended JSON.

use crate::peak;
use model::{Doc, DocBuf, Value, extjson};
use proof::fuzz::{Fuzz, Limit, Outcome, change_bytes, number_of};
use std::fmt::Write;
use wire::{Compressor, CompressorSet, DecodeOptions, MessageBuilder, compress_message, decode};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}

/// Every command of the corpus as BSON.
fn documents() -> Vec<Vec<u8>> {
    let all = [
        include_str!("../../corpus/commands.json"),
        include_str!("../../corpus/filters.json"),
    ];
    all.iter()
        .flat_map(|text| crate::tree::corpus(text))
        .filter_map(|json| crate::tree::document(&json))
        .map(|d| d.doc().as_bytes().to_vec())
        .collect()
}

fn frames() -> Vec<Vec<u8>> {
    let all = documents();
    let mut frames = Vec::new();
    for (i, body) in all.iter().enumerate() {
        let message = MessageBuilder::new(1).body(body);
        let message = match i % 3 {
            0 => message.flags(wire::flags::CHECKSUM_PRESENT),
            1 => message.sequence("documents", [&body[..], &all[0][..]]),
            _ => message,
        };
        frames.push(message.build());
    }
    let compressed: Vec<Vec<u8>> = frames
        .iter()
        .zip(Compressor::ALL.iter().cycle())
        .map(|(frame, how)| compress_message(frame, *how))
        .collect();
    frames.extend(compressed);
    frames
}

#[test]
fn messages() {
    let options = DecodeOptions {
        compressors: CompressorSet::default().with(Compressor::Noop),
    };
    let corpus = frames();
    let fuzz = Fuzz {
        name: "messages",
        limit: Limit::of(40_000),
        corpus: &corpus,
        change: |random, i, other| change_bytes(random, i, other),
        show: |i| hex(i),
    };
    let mut scratch = Vec::new();
    let tried = fuzz.run(|bytes| {
        let mut frame = bytes.clone();
        // The length is usually corrected; otherwise nearly every input would fail at the first
        // check.
        if frame.len() >= 16 && frame[0] % 8 != 0 {
            let len = i32::try_from(frame.len()).unwrap_or(i32::MAX);
            frame[..4].copy_from_slice(&len.to_le_bytes());
        }
        scratch.clear();
        scratch.shrink_to(1 << 16);
        let (outcome, held) = peak::measure_peak(|| {
            let decoded = decode(&frame, &options, &mut scratch);
            if let Ok(request) = &decoded {
                let whole = |s: &wire::Sequence<'_>| s.iter().count() == s.count;
                assert!(request.sequences.iter().all(whole));
            }
            Outcome::of(&decoded, |r| {
                number_of((r.sequences.len(), r.command_name().is_empty()))
            })
        });
        // A declared length is trusted up to a limit before the data is decompressed.
        let most = wire::BELIEVED_LEN * 4 + frame.len() * 1100 + (1 << 20);
        assert!(held <= most, "{held} bytes for a frame of {}", frame.len());
        outcome
    });
    assert!(tried.accepted > 100, "{tried:?}");
}

/// Reads every value of a document.
fn walk(d: Doc<'_>) -> u64 {
    let mut sum = 0u64;
    for (name, value) in d.iter() {
        sum = sum
            .wrapping_mul(31)
            .wrapping_add(value.type_name().len() as u64 + name.len() as u64);
        match value {
            Value::Document(inner) => sum = sum.wrapping_add(walk(inner)),
            Value::Array(inner) => sum = sum.wrapping_add(walk(inner.as_doc())),
            _ => {}
        }
    }
    sum
}

#[test]
fn bson() {
    let corpus = documents();
    let fuzz = Fuzz {
        name: "bson",
        limit: Limit::of(40_000),
        corpus: &corpus,
        change: |random, i, other| change_bytes(random, i, other),
        show: |i| hex(i),
    };
    let tried = fuzz.run(|bytes| {
        let mut bytes = bytes.clone();
        if bytes.len() >= 5 && bytes[0] % 8 != 0 {
            let len = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
            bytes[..4].copy_from_slice(&len.to_le_bytes());
        }
        let (outcome, held) = peak::measure_peak(|| {
            let read = model::validate(&bytes);
            if let Ok(d) = read {
                let copy = DocBuf::build(|w| {
                    d.iter().for_each(|(name, value)| {
                        w.put(name, value);
                    });
                });
                assert_eq!(
                    copy.doc().as_bytes(),
                    d.as_bytes(),
                    "what was read is written"
                );
                let _ = Value::Document(d).to_string();
                let order = model::compare(&Value::Document(d), &Value::Document(copy.doc()));
                assert!(order.is_eq(), "a document equals itself");
            }
            Outcome::of(&read, |d| walk(*d) % 64)
        });
        assert!(
            held <= bytes.len() * 200 + (1 << 20),
            "{held} bytes for {}",
            bytes.len()
        );
        outcome
    });
    assert!(tried.accepted > 100, "{tried:?}");
}

#[test]
fn extended_json() {
    let texts: Vec<Vec<u8>> = [
        include_str!("../../corpus/commands.json"),
        include_str!("../../corpus/filters.json"),
        include_str!("../../corpus/updates.json"),
    ]
    .iter()
    .flat_map(|text| crate::tree::corpus(text))
    .map(|json| json.to_string().into_bytes())
    .collect();
    let fuzz = Fuzz {
        name: "extended JSON",
        limit: Limit::of(20_000),
        corpus: &texts,
        change: |random, i, other| change_bytes(random, i, other),
        show: |b| String::from_utf8_lossy(b).into_owned(),
    };
    let tried = fuzz.run(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        let (outcome, held) = peak::measure_peak(|| {
            let read = extjson::parse_document(&text);
            if let Ok(d) = &read {
                assert!(
                    model::validate(d.doc().as_bytes()).is_ok(),
                    "well-formed BSON"
                );
                let shown = extjson::from_document(d.doc(), extjson::Mode::Canonical);
                let again = extjson::document(&shown);
                assert_eq!(
                    again.as_ref().map(|a| a.doc().as_bytes()),
                    Ok(d.doc().as_bytes())
                );
            }
            Outcome::of(&read, |d| walk(d.doc()) % 64)
        });
        assert!(
            held <= text.len() * 400 + (1 << 20),
            "{held} bytes for {}",
            text.len()
        );
        outcome
    });
    assert!(tried.accepted > 100, "{tried:?}");
}
