//! `OP_QUERY` for the handshake, and MongoDB 8.2's refusals for the rest.

use wire::{Header, Protocol, Recovery, begin_reply, finish_reply};

use crate::support::{document, error_of, message, op_query, verdict, with_decoded};

#[test]
fn handshake_commands_pass() {
    for name in [
        "hello",
        "isMaster",
        "ismaster",
        "ping",
        "buildInfo",
        "buildinfo",
        "saslStart",
    ] {
        let body = document(name, 1);
        with_decoded(&op_query("admin.$cmd", -1, &body), |request| {
            let request = request.unwrap();
            assert_eq!(request.command_name(), name);
            assert_eq!(request.body, &body[..]);
            assert_eq!(request.legacy_database(), Some("admin"));
            assert_eq!(request.reply.protocol, Protocol::LegacyCommand);
        });
    }
}

#[test]
fn query_wrapper_is_taken_off() {
    let inner = document("isMaster", 1);
    let mut outer = vec![0; 4];
    outer.push(3);
    outer.extend_from_slice(b"$query\0");
    outer.extend_from_slice(&inner);
    outer.push(0);
    let len = outer.len() as i32;
    outer[..4].copy_from_slice(&len.to_le_bytes());
    with_decoded(&op_query("admin.$cmd", 1, &outer), |r| {
        assert_eq!(r.unwrap().body, &inner[..])
    });
}

#[test]
fn reply_has_the_shape_of_op_reply() {
    let context = with_decoded(&op_query("admin.$cmd", -1, &document("ping", 1)), |r| {
        r.unwrap().reply
    });
    let answer = document("ok", 1);
    let mut out = Vec::new();
    let reserved = begin_reply(&mut out, &context);
    out.extend_from_slice(&answer);
    finish_reply(&mut out, reserved, &context, 42, false, &mut Vec::new()).unwrap();
    let (header, rest) = Header::split(&out).unwrap();
    assert_eq!(
        (header.op_code, header.response_to, header.request_id),
        (1, 7, 42)
    );
    assert_eq!(header.message_len as usize, out.len());
    assert_eq!(
        rest[..20],
        [8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    );
    assert_eq!(rest[20..], answer[..]);
}

#[test]
fn removed_operations_are_refused_as_mongodb_does() {
    let error = error_of(&op_query("test.things", 1, &document("x", 1)));
    assert_eq!(error.code, 5739101);
    let Recovery::Reply(context) = error.recovery else {
        panic!("must be answered")
    };
    assert_eq!(context.protocol, Protocol::LegacyFailure);
    let mut doc = Vec::new();
    error.append_document(context.protocol, &mut doc);
    assert_eq!(wire::first_key(&doc), Some("$err"));

    let error = error_of(&op_query("test.$cmd", -1, &document("find", 1)));
    assert_eq!(
        (error.code, error.code_name().as_str()),
        (352, "UnsupportedOpQueryCommand")
    );
    assert!(
        error
            .message
            .starts_with("Unsupported OP_QUERY command: find. "),
        "{}",
        error.message
    );
    assert_eq!(
        verdict(&op_query("test.$cmd", 5, &document("ping", 1))),
        (16979, false)
    );
    assert_eq!(verdict(&message(2005, &[0; 20])), (5739101, false));
    for op_code in [1, 2001, 2002, 2006, 2007] {
        assert_eq!(
            verdict(&message(op_code, &[0; 20])),
            (5739101, true),
            "{op_code}"
        );
    }
    assert_eq!(verdict(&message(2011, &[0; 20])), (17, true));
}
