//! Any bytes as one frame: the codec does not panic, bounds its memory, and every accepted frame
//! has the promised properties. `cargo +nightly fuzz run frame`
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Compressor, CompressorSet, DecodeOptions, Recovery, decode, frame_len};

fuzz_target!(|bytes: &[u8]| {
    let options = DecodeOptions {
        compressors: CompressorSet::default().with(Compressor::Noop),
    };
    let mut scratch = Vec::new();
    let mut frame = bytes.to_vec();
    // The length is corrected; otherwise nearly every input would fail at the first check.
    if frame.len() >= 16 {
        let len = i32::try_from(frame.len()).unwrap_or(i32::MAX);
        frame[..4].copy_from_slice(&len.to_le_bytes());
    }
    let _ = frame_len(bytes);
    match decode(&frame, &options, &mut scratch) {
        Ok(request) => {
            let _ = request.command_name();
            assert!(
                request
                    .sequences
                    .iter()
                    .all(|s| s.iter().count() == s.count)
            );
        }
        Err(error) => {
            let mut document = Vec::new();
            if let Recovery::Reply(context) = error.recovery {
                error.append_document(context.protocol, &mut document);
                assert!(wire::split_document(&document).is_ok());
            }
        }
    }
});
