//! Builders shared by the codec tests.

use wire::{DecodeOptions, Recovery, Request, WireError, decode};

/// A document of one int32 field, `{name: value}`.
pub(crate) fn document(name: &str, value: i32) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.push(16);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    out.extend_from_slice(&value.to_le_bytes());
    out.push(0);
    let len = out.len() as i32;
    out[..4].copy_from_slice(&len.to_le_bytes());
    out
}

/// A document of one binary field with `payload` as contents.
pub(crate) fn binary_document(name: &str, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.push(5);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    out.extend_from_slice(&(payload.len() as i32).to_le_bytes());
    out.push(0);
    out.extend_from_slice(payload);
    out.push(0);
    let len = out.len() as i32;
    out[..4].copy_from_slice(&len.to_le_bytes());
    out
}

/// A legacy query.
pub(crate) fn op_query(namespace: &str, number_to_return: i32, document: &[u8]) -> Vec<u8> {
    let mut payload = 0i32.to_le_bytes().to_vec();
    payload.extend_from_slice(namespace.as_bytes());
    payload.push(0);
    payload.extend_from_slice(&0i32.to_le_bytes());
    payload.extend_from_slice(&number_to_return.to_le_bytes());
    payload.extend_from_slice(document);
    message(2004, &payload)
}

/// Any message: header and payload.
pub(crate) fn message(op_code: i32, payload: &[u8]) -> Vec<u8> {
    let header = wire::Header {
        message_len: payload.len() as i32 + 16,
        request_id: 7,
        response_to: 0,
        op_code,
    };
    let mut out = header.to_bytes().to_vec();
    out.extend_from_slice(payload);
    out
}

/// Decodes with default options and passes the result to a check.
pub(crate) fn with_decoded<T>(
    frame: &[u8],
    check: impl FnOnce(Result<Request<'_>, WireError>) -> T,
) -> T {
    let mut scratch = Vec::new();
    check(decode(frame, &DecodeOptions::default(), &mut scratch))
}

/// The error of a frame that must fail.
pub(crate) fn error_of(frame: &[u8]) -> WireError {
    with_decoded(frame, |result| result.expect_err("frame must be refused"))
}

/// Code and whether the connection must close.
pub(crate) fn verdict(frame: &[u8]) -> (i32, bool) {
    let error = error_of(frame);
    (error.code, error.recovery == Recovery::Close)
}
