//! Messages that are built can be read back: requests, replies, checksums, compression.

use proptest::prelude::*;
use wire::{
    Compressor, CompressorSet, DecodeOptions, Header, MessageBuilder, ReplyContext, begin_reply,
    decode, finish_reply, flags, frame_len,
};

use crate::support::{binary_document, document, with_decoded};

fn all_compressors() -> DecodeOptions {
    DecodeOptions {
        compressors: CompressorSet::default().with(Compressor::Noop),
    }
}

proptest! {
    #[test]
    fn request_round_trip(
        id in any::<i32>(),
        payload in prop::collection::vec(any::<u8>(), 0..2000),
        sequence in prop::option::of(("[a-z]{1,12}", prop::collection::vec(any::<i32>(), 0..20))),
        sequence_first in any::<bool>(),
        checksum in any::<bool>(),
        more_to_come in any::<bool>(),
        exhaust in any::<bool>(),
        compressor in prop::option::of(prop::sample::select(Compressor::ALL.to_vec())),
    ) {
        let body = binary_document("insert", &payload);
        let documents: Vec<Vec<u8>> = sequence.iter().flat_map(|(_, v)| v).map(|&i| document("i",
            i)).collect();
        let mut builder = MessageBuilder::new(id);
        if !sequence_first {
            builder = builder.body(&body);
        }
        if let Some((name, _)) = &sequence {
            builder = builder.sequence(name, documents.iter().map(Vec::as_slice));
        }
        if sequence_first {
            builder = builder.body(&body);
        }
        for (on, bit) in [
            (checksum, flags::CHECKSUM_PRESENT),
            (more_to_come, flags::MORE_TO_COME),
            (exhaust, flags::EXHAUST_ALLOWED),
        ] {
            if on {
                builder = builder.flags(bit);
            }
        }
        let plain = builder.build();
        let frame = compressor.map_or_else(|| plain.clone(), |c| wire::compress_message(&plain, c));
        prop_assert_eq!(frame_len(&frame).unwrap(), Some(frame.len()));
        let mut scratch = vec![0xAA; 100];
        let request = decode(&frame, &all_compressors(), &mut scratch).unwrap();
        prop_assert_eq!(request.header.request_id, id);
        prop_assert_eq!(request.body, &body[..]);
        prop_assert_eq!(request.command_name(), "insert");
        prop_assert_eq!(request.reply.checksum, checksum);
        prop_assert_eq!(request.reply.suppressed, more_to_come);
        prop_assert_eq!(request.exhaust_allowed, exhaust);
        match &sequence {
            None => prop_assert!(request.sequences.is_empty()),
            Some((name, values)) => {
                let read = request.sequence(name).unwrap();
                prop_assert_eq!(read.count, values.len());
                prop_assert!(read.iter().eq(documents.iter().map(Vec::as_slice)));
            }
        }
    }

    /// A reply is an `OP_MSG` like any other, so the decoder reads it back.
    #[test]
    fn reply_round_trip(
        id in any::<i32>(),
        response_to in any::<i32>(),
        payload in prop::collection::vec(any::<u8>(), 0..5000),
        before in prop::collection::vec(any::<u8>(), 0..50),
        checksum in any::<bool>(),
        more in any::<bool>(),
        compressor in prop::option::of(prop::sample::select(Compressor::ALL.to_vec())),
    ) {
        let context = ReplyContext {
            protocol: wire::Protocol::Msg, response_to, suppressed: false, checksum, compressor,
        };
        let body = binary_document("r", &payload);
        let mut out = before.clone();
        let reserved = begin_reply(&mut out, &context);
        prop_assert_eq!(reserved.start(), before.len());
        out.extend_from_slice(&body);
        finish_reply(&mut out, reserved, &context, id, more, &mut Vec::new()).unwrap();
        prop_assert_eq!(&out[..before.len()], &before[..]);
        let frame = &out[before.len()..];
        prop_assert_eq!(frame_len(frame).unwrap(), Some(frame.len()));
        let mut scratch = Vec::new();
        let read = decode(frame, &all_compressors(), &mut scratch).unwrap();
        prop_assert_eq!(read.body, &body[..]);
        prop_assert_eq!(read.header.request_id, id);
        prop_assert_eq!(read.header.response_to, response_to);
        prop_assert_eq!(read.reply.checksum, checksum);
        prop_assert_eq!(read.reply.suppressed, more);
    }
}

#[test]
fn request_borrows_the_receive_buffer() {
    let frame = MessageBuilder::new(1).body(&document("ping", 1)).build();
    with_decoded(&frame, |request| {
        let body = request.unwrap().body;
        assert!(frame.as_ptr_range().contains(&body.as_ptr()));
    });
}

#[test]
fn compressible_reply_is_really_compressed_and_handshake_is_not() {
    let body = binary_document("find", &[b'x'; 4000]);
    let frame = wire::compress_message(
        &MessageBuilder::new(1).body(&body).build(),
        Compressor::Zstd,
    );
    assert!(frame.len() < 200, "{}", frame.len());
    let context = with_decoded(&frame, |r| r.unwrap().reply);
    assert_eq!(context.compressor, Some(Compressor::Zstd));
    let mut out = Vec::new();
    let reserved = begin_reply(&mut out, &context);
    out.extend_from_slice(&body);
    finish_reply(&mut out, reserved, &context, 9, false, &mut Vec::new()).unwrap();
    assert_eq!(Header::split(&out).unwrap().0.op_code, 2012);

    let hello = binary_document("hello", &[b'x'; 4000]);
    let frame = wire::compress_message(
        &MessageBuilder::new(1).body(&hello).build(),
        Compressor::Zstd,
    );
    assert_eq!(with_decoded(&frame, |r| r.unwrap().reply.compressor), None);
}

#[test]
fn reply_that_is_not_one_document_is_refused_and_cut_back() {
    let context = ReplyContext {
        protocol: wire::Protocol::Msg,
        response_to: 1,
        suppressed: false,
        checksum: false,
        compressor: None,
    };
    for junk in [&b""[..], &b"\x05\0\0\0"[..], &b"\x06\0\0\0\0"[..]] {
        let mut out = b"before".to_vec();
        let reserved = begin_reply(&mut out, &context);
        out.extend_from_slice(junk);
        let error =
            finish_reply(&mut out, reserved, &context, 9, false, &mut Vec::new()).unwrap_err();
        assert_eq!(error.code, 10334);
        assert_eq!(out, b"before");
    }
}

#[test]
fn negotiation_keeps_the_clients_order_and_drops_the_unknown() {
    let chosen = CompressorSet::default().negotiate(["lz4", "zlib", "snappy", "zlib", "noop"]);
    assert_eq!(chosen, [Compressor::Zlib, Compressor::Snappy]);
}
