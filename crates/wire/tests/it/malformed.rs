//! One case per rule of `OP_MSG` and `OP_COMPRESSED`: the code, and whether the connection
//! survives.

use wire::{Compressor, MAX_DOCUMENT_LEN, MessageBuilder, flags, frame_len};

use crate::support::{binary_document, document, error_of, message, verdict, with_decoded};

fn msg(sections: &[u8]) -> Vec<u8> {
    let mut payload = vec![0; 4];
    payload.extend_from_slice(sections);
    message(2013, &payload)
}

fn compress_message(op_code: i32, size: i32, id: u8, data: &[u8]) -> Vec<u8> {
    let mut payload = op_code.to_le_bytes().to_vec();
    payload.extend_from_slice(&size.to_le_bytes());
    payload.push(id);
    payload.extend_from_slice(data);
    message(2012, &payload)
}

#[test]
fn frame_lengths() {
    assert_eq!(frame_len(&[1, 2, 3]).unwrap(), None);
    assert_eq!(frame_len(&16i32.to_le_bytes()).unwrap(), Some(16));
    assert_eq!(
        frame_len(&48_000_000i32.to_le_bytes()).unwrap(),
        Some(48_000_000)
    );
    for bad in [0, 15, -1, i32::MIN, i32::MAX, 48_000_001] {
        let error = frame_len(&bad.to_le_bytes()).unwrap_err();
        assert_eq!(
            (error.code, error.recovery),
            (17, wire::Recovery::Close),
            "{bad}"
        );
    }
}

#[test]
fn sections() {
    let ping = document("ping", 1);
    let two_bodies = MessageBuilder::new(1).body(&ping).body(&ping).build();
    assert_eq!(verdict(&two_bodies), (40430, false));
    assert_eq!(verdict(&msg(&[])), (40587, false));
    assert_eq!(
        verdict(&MessageBuilder::new(1).sequence("d", [&ping[..]]).build()),
        (40587, false)
    );
    let twice = MessageBuilder::new(1)
        .body(&ping)
        .sequence("d", [])
        .sequence("d", [])
        .build();
    assert_eq!(verdict(&twice), (40431, false));
    let three = MessageBuilder::new(1)
        .body(&ping)
        .sequence("a", [])
        .sequence("b", [])
        .sequence("c", [])
        .build();
    assert_eq!(verdict(&three), (257, true));
    for kind in [2, 3, 255] {
        assert_eq!(
            verdict(&msg(&[&[kind], &ping[..]].concat())),
            (40432, false)
        );
    }
    assert_eq!(verdict(&message(2013, &[0; 3])), (17, true));
}

#[test]
fn documents() {
    let mut no_end = document("ping", 1);
    *no_end.last_mut().unwrap() = 1;
    assert_eq!(
        verdict(&MessageBuilder::new(1).body(&no_end).build()),
        (22, false)
    );
    for declared in [-1, 0, 4, 100, i32::MIN] {
        let body = [&[0u8][..], &i32::to_le_bytes(declared), &[0; 3]].concat();
        assert_eq!(verdict(&msg(&body)), (22, false), "{declared}");
    }
    let at_limit = binary_document("insert", &vec![0; MAX_DOCUMENT_LEN - 18]);
    assert_eq!(at_limit.len(), MAX_DOCUMENT_LEN);
    with_decoded(&MessageBuilder::new(1).body(&at_limit).build(), |r| {
        assert!(r.is_ok())
    });
    let above = binary_document("insert", &vec![0; MAX_DOCUMENT_LEN - 17]);
    assert_eq!(
        verdict(&MessageBuilder::new(1).body(&above).build()),
        (10334, false)
    );
}

#[test]
fn sequences() {
    let ping = document("ping", 1);
    for declared in [-1, 0, 3, 1000, i32::MAX] {
        let section = [&[1u8][..], &i32::to_le_bytes(declared), b"d\0"].concat();
        assert_eq!(verdict(&msg(&section)), (15, false), "{declared}");
    }
    let unterminated = [&[1u8][..], &6i32.to_le_bytes(), b"dd"].concat();
    assert_eq!(verdict(&msg(&unterminated)), (15, false));
    let not_utf8 = [&[1u8][..], &6i32.to_le_bytes(), b"\xFF\0"].concat();
    assert_eq!(verdict(&msg(&not_utf8)), (22, false));
    let half = &ping[..ping.len() - 2];
    assert_eq!(
        verdict(
            &MessageBuilder::new(1)
                .sequence("d", [half])
                .body(&ping)
                .build()
        ),
        (22, false)
    );
}

#[test]
fn flag_bits() {
    let ping = document("ping", 1);
    for bit in 2..16 {
        let frame = MessageBuilder::new(1).flags(1 << bit).body(&ping).build();
        assert_eq!(verdict(&frame), (223, true), "bit {bit}");
    }
    for bit in 16..32 {
        let frame = MessageBuilder::new(1).flags(1 << bit).body(&ping).build();
        with_decoded(&frame, |r| {
            assert_eq!(r.unwrap().exhaust_allowed, bit == 16)
        });
    }
}

#[test]
fn checksum() {
    let frame = MessageBuilder::new(1)
        .flags(flags::CHECKSUM_PRESENT)
        .body(&document("ping", 1))
        .build();
    with_decoded(&frame, |r| assert!(r.unwrap().reply.checksum));
    for at in 20..frame.len() {
        let mut broken = frame.clone();
        broken[at] ^= 1;
        assert_eq!(verdict(&broken), (282, true), "byte {at}");
    }
    assert_eq!(verdict(&message(2013, &[1, 0, 0, 0, 0, 0])), (51251, false));
}

#[test]
fn compression() {
    let plain = MessageBuilder::new(1).body(&document("ping", 1)).build();
    let inner = &plain[16..];
    let size = inner.len() as i32;
    assert_eq!(
        verdict(&compress_message(2013, size, 0, inner)),
        (2, true),
        "noop is not enabled by default"
    );
    assert_eq!(verdict(&compress_message(2013, size, 9, inner)), (2, true));
    assert_eq!(verdict(&message(2012, &[0; 8])), (2, true));
    for declared in [-1, i32::MIN, i32::MAX, 48_000_000 - 15] {
        for id in 1..=3 {
            assert_eq!(
                verdict(&compress_message(2013, declared, id, inner)),
                (2, true)
            );
        }
    }
    for compressor in [Compressor::Snappy, Compressor::Zlib, Compressor::Zstd] {
        let body = binary_document("find", &[7; 3000]);
        let frame = wire::compress_message(&MessageBuilder::new(1).body(&body).build(), compressor);
        with_decoded(&frame, |r| assert_eq!(r.unwrap().body, &body[..]));
        let declared = i32::from_le_bytes(frame[20..24].try_into().unwrap());
        for wrong in [declared - 1, declared + 1, 0, 40_000_000] {
            let mut lie = frame.clone();
            lie[20..24].copy_from_slice(&wrong.to_le_bytes());
            assert_eq!(verdict(&lie), (2, true), "{compressor:?} {wrong}");
        }
        let mut nested = frame.clone();
        nested[16..20].copy_from_slice(&2012i32.to_le_bytes());
        assert_eq!(
            error_of(&nested).message,
            "OP_COMPRESSED inside OP_COMPRESSED is not allowed"
        );
    }
}

#[test]
fn contents_of_documents() {
    let ping = document("ping", 1);
    let mut unknown_type = ping.clone();
    unknown_type[4] = 0x55;
    assert_eq!(
        verdict(&MessageBuilder::new(1).body(&unknown_type).build()),
        (22, false)
    );
    let in_sequence = MessageBuilder::new(1)
        .body(&ping)
        .sequence("d", [&ping[..], &unknown_type])
        .build();
    assert_eq!(verdict(&in_sequence), (22, false));
    let mut deep = document("x", 1);
    for _ in 0..5000 {
        let mut outer = vec![0; 4];
        outer.extend_from_slice(b"\x03x\0");
        outer.extend_from_slice(&deep);
        outer.push(0);
        let len = outer.len() as i32;
        outer[..4].copy_from_slice(&len.to_le_bytes());
        deep = outer;
    }
    assert_eq!(
        verdict(&MessageBuilder::new(1).body(&deep).build()),
        (15, false)
    );
}
