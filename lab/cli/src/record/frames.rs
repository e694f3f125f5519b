//! Splits a stream of bytes into wire messages while it is forwarded, without holding back more
//! than a small message.
//!
//! Promises: every byte is forwarded, in order and unchanged, except that the list of compressors
//! is removed from a handshake. No bytes cause a panic, and a stream that does not consist of
//! messages is forwarded without being parsed. Must not know: sockets, files.

use std::borrow::Cow;
use std::time::Instant;

use mongodb::bson::{RawDocument, RawDocumentBuf};

/// The largest message of the protocol, with room for its header.
pub(crate) const MESSAGE_MAX: usize = 48_000_000 + 16_384;
/// A message up to this size is parsed before it is forwarded; a handshake is never larger.
const HOLD_MAX: usize = 16_384;
const HEADER: usize = 16;
/// The code of the message that all commands use today.
pub(crate) const OP_MSG: i32 = 2_013;
/// The code of the message of old handshakes.
pub(crate) const OP_QUERY: i32 = 2_004;
/// Flag of a message with a checksum at its end.
pub(crate) const CHECKSUM: u32 = 1;

/// The sender of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// From the client.
    Client,
    /// From the server.
    Server,
}

/// A part of a stream as the recorder sees it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StreamPart {
    /// A whole message, with the time of its first bytes.
    Message(Instant, Vec<u8>),
    /// The bytes are not messages; the rest of the stream is not parsed.
    Lost,
}

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct FrameTap {
    side: Side,
    /// The start of a message; its first `sent` bytes have been forwarded.
    held: Vec<u8>,
    sent: usize,
    begun: Option<Instant>,
    is_blind: bool,
    /// Handshakes from which the list of compressors was removed.
    pub(crate) stripped: u64,
}

enum FrameHead {
    Whole(usize),
    Operation(Option<usize>),
    Bad,
}

impl FrameTap {
    /// A tap at the start of a connection.
    pub(crate) fn new(side: Side) -> Self {
        Self {
            side,
            held: Vec::new(),
            sent: 0,
            begun: None,
            is_blind: false,
            stripped: 0,
        }
    }

    /// Stops parsing and returns the bytes that were held back, which must still be forwarded.
    pub(crate) fn give_up(&mut self) -> Vec<u8> {
        self.is_blind = true;
        let mut held = std::mem::take(&mut self.held);
        held.drain(..self.sent.min(held.len()));
        self.sent = 0;
        held
    }

    /// Whether the stream is still parsed.
    pub(crate) fn is_looking(&self) -> bool {
        !self.is_blind
    }

    /// Bytes of incomplete messages.
    pub(crate) fn incomplete_bytes(&self) -> usize {
        self.held.len()
    }

    /// Takes the next bytes, returns the bytes to forward now, and calls `see` for each completed
    /// message.
    pub(crate) fn pass<'a>(
        &mut self,
        chunk: &'a [u8],
        now: Instant,
        see: &mut dyn FnMut(StreamPart),
    ) -> Cow<'a, [u8]> {
        if self.is_blind {
            return Cow::Borrowed(chunk);
        }
        self.held.extend_from_slice(chunk);
        let mut out = Vec::new();
        let (mut at, mut is_bad) = (0, false);
        while let Some(rest) = self.held.get(at..).filter(|rest| !rest.is_empty()) {
            let begun = *self.begun.get_or_insert(now);
            match front(rest) {
                FrameHead::Whole(length) => {
                    let message = rest.get(..length).unwrap_or(rest);
                    let may_change = self.side == Side::Client && self.sent == 0;
                    match remove_compressors(message).filter(|_| may_change) {
                        Some(changed) => {
                            self.stripped += 1;
                            out.extend(changed);
                        }
                        None => out.extend_from_slice(message.get(self.sent..).unwrap_or_default()),
                    }
                    see(StreamPart::Message(begun, message.to_vec()));
                    at += length;
                    (self.sent, self.begun) = (0, None);
                }
                FrameHead::Operation(length) => {
                    if self.side == Side::Server || length.is_some_and(|length| length > HOLD_MAX) {
                        out.extend_from_slice(rest.get(self.sent..).unwrap_or_default());
                        self.sent = rest.len();
                    }
                    break;
                }
                FrameHead::Bad => {
                    out.extend_from_slice(rest.get(self.sent..).unwrap_or_default());
                    is_bad = true;
                    break;
                }
            }
        }
        if is_bad {
            self.held = Vec::new();
            self.is_blind = true;
            see(StreamPart::Lost);
        } else {
            self.held.drain(..at.min(self.held.len()));
        }
        Cow::Owned(out)
    }
}

fn front(bytes: &[u8]) -> FrameHead {
    let Some(length) = number(bytes, 0) else {
        return FrameHead::Operation(None);
    };
    match usize::try_from(length) {
        Ok(length) if (HEADER..=MESSAGE_MAX).contains(&length) => {
            if bytes.len() >= length {
                FrameHead::Whole(length)
            } else {
                FrameHead::Operation(Some(length))
            }
        }
        _ => FrameHead::Bad,
    }
}

/// Reads a little-endian number.
pub(crate) fn number(bytes: &[u8], at: usize) -> Option<i32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(i32::from_le_bytes(four.try_into().ok()?))
}

/// The document that begins at `at`; its length is in its first bytes.
pub(crate) fn document(bytes: &[u8], at: usize) -> Option<&RawDocument> {
    let length = usize::try_from(number(bytes, at)?).ok()?;
    RawDocument::from_bytes(bytes.get(at..at.checked_add(length)?)?).ok()
}

/// The zero-terminated text that begins at `at`, and the position after its zero.
pub(crate) fn text(bytes: &[u8], at: usize) -> Option<(&str, usize)> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    Some((std::str::from_utf8(rest.get(..end)?).ok()?, at + end + 1))
}

/// The command name of a document.
pub(crate) fn command_name(document: &RawDocument) -> Option<&str> {
    Some(document.iter_elements().next()?.ok()?.key().as_str())
}

/// Whether a command is a driver's handshake.
pub(crate) fn is_handshake(name: &str) -> bool {
    name.eq_ignore_ascii_case("hello") || name.eq_ignore_ascii_case("ismaster")
}

/// Removes the list of compressors from a handshake; `None` if the message is not a handshake or
/// has no such list.
fn remove_compressors(message: &[u8]) -> Option<Vec<u8>> {
    let code = number(message, 12)?;
    let at = match code {
        OP_MSG => (*message.get(20)? == 0).then_some(21)?,
        OP_QUERY => text(message, 20)?.1 + 8,
        _ => return None,
    };
    let greeting = document(message, at)?;
    if !is_handshake(command_name(greeting)?) {
        return None;
    }
    greeting.get("compression").ok()??;
    let mut kept = RawDocumentBuf::new();
    for element in greeting.iter_elements() {
        let element = element.ok()?;
        if element.key() != "compression" {
            kept.append(element.key(), element.value().ok()?);
        }
    }
    let mut out = message.get(..at)?.to_vec();
    out.extend_from_slice(kept.as_bytes());
    if code == OP_MSG {
        // The checksum would be wrong now; it is optional, so it is removed.
        let flags = u32::from_le_bytes(message.get(16..20)?.try_into().ok()?);
        let end = if flags & CHECKSUM != 0 {
            message.len().checked_sub(4)?
        } else {
            message.len()
        };
        out.get_mut(16..20)?
            .copy_from_slice(&(flags & !CHECKSUM).to_le_bytes());
        out.extend_from_slice(message.get(at + greeting.as_bytes().len()..end)?);
    } else {
        out.extend_from_slice(message.get(at + greeting.as_bytes().len()..)?);
    }
    let length = i32::try_from(out.len()).ok()?;
    out.get_mut(..4)?.copy_from_slice(&length.to_le_bytes());
    Some(out)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use mongodb::bson::{Document, doc};

    /// A command as OP_MSG.
    pub(crate) fn message(id: i32, reply_to: i32, body: &Document) -> Vec<u8> {
        let body = body.to_vec().unwrap();
        let mut out = Vec::new();
        for number in [(21 + body.len()) as i32, id, reply_to, OP_MSG, 0] {
            out.extend(number.to_le_bytes());
        }
        out.push(0);
        out.extend(body);
        out
    }

    /// Passes bytes in pieces; returns the forwarded bytes and the parsed messages.
    fn pass(side: Side, bytes: &[u8], piece: usize) -> (Vec<u8>, Vec<StreamPart>) {
        let (mut tap, mut out, mut seen) = (FrameTap::new(side), Vec::new(), Vec::new());
        let now = Instant::now();
        for chunk in bytes.chunks(piece) {
            out.extend_from_slice(&tap.pass(chunk, now, &mut |one| seen.push(one)));
        }
        out.extend(tap.give_up());
        (out, seen)
    }

    #[test]
    fn messages_are_reassembled_from_any_pieces() {
        let large =
            doc! { "insert": "c", "documents": [{ "pad": "x".repeat(40_000) }], "$db": "d" };
        let mut bytes = message(1, 0, &doc! { "ping": 1, "$db": "d" });
        bytes.extend(message(2, 0, &large));
        bytes.extend(message(3, 0, &doc! { "find": "c", "$db": "d" }));
        for side in [Side::Client, Side::Server] {
            for piece in [1, 7, 16, 1_000, 1_000_000] {
                let (out, seen) = pass(side, &bytes, piece);
                assert_eq!(out, bytes, "{side:?} {piece}");
                let ids: Vec<Option<i32>> = seen
                    .iter()
                    .map(|one| {
                        if let StreamPart::Message(_, bytes) = one {
                            number(bytes, 4)
                        } else {
                            None
                        }
                    })
                    .collect();
                assert_eq!(ids, [Some(1), Some(2), Some(3)]);
            }
        }
    }

    #[test]
    fn a_handshake_loses_its_compressors_and_nothing_else() {
        let greeting = doc! {
            "hello": 1, "compression": ["snappy", "zstd"],
            "client": { "driver": { "name": "x" } }, "$db": "admin"
        };
        let kept = doc! { "hello": 1, "client": { "driver": { "name": "x" } }, "$db": "admin" };
        let (out, _) = pass(Side::Client, &message(7, 0, &greeting), 5);
        assert_eq!(out, message(7, 0, &kept));
        // With a checksum, the flag is removed, too.
        let mut with_sum = message(7, 0, &greeting);
        with_sum[16] = 1;
        with_sum.extend([9, 9, 9, 9]);
        let length = (with_sum.len() as i32).to_le_bytes();
        with_sum[..4].copy_from_slice(&length);
        assert_eq!(pass(Side::Client, &with_sum, 4_096).0, message(7, 0, &kept));
        // The old form of a handshake.
        let old = |body: &Document| {
            let body = body.to_vec().unwrap();
            let mut out = Vec::new();
            for number in [(16 + 4 + 11 + 8 + body.len()) as i32, 1, 0, OP_QUERY, 0] {
                out.extend(number.to_le_bytes());
            }
            out.extend(b"admin.$cmd\0");
            out.extend([0, 0, 0, 0, 255, 255, 255, 255]);
            out.extend(body);
            out
        };
        let (out, _) = pass(
            Side::Client,
            &old(&doc! { "isMaster": 1, "compression": ["zlib"], "helloOk": true }),
            11,
        );
        assert_eq!(out, old(&doc! { "isMaster": 1, "helloOk": true }));
        // A document that only has a field of that name is not changed.
        let insert = message(
            1,
            0,
            &doc! { "insert": "hello", "compression": ["x"], "$db": "d" },
        );
        assert_eq!(pass(Side::Client, &insert, 3).0, insert);
    }

    #[test]
    fn hostile_bytes_pass_and_do_no_harm() {
        let mut random = 1_u64;
        for round in 0..3_000_u64 {
            let mut bytes: Vec<u8> = (0..round % 90)
                .map(|_| {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    (random >> 33) as u8
                })
                .collect();
            // Half of the cases begin like a message, so that the parser reads further.
            if round % 2 == 0 && bytes.len() >= 21 {
                let length = (bytes.len() as i32).to_le_bytes();
                bytes[..4].copy_from_slice(&length);
                bytes[12..16]
                    .copy_from_slice(&if round % 4 == 0 { OP_MSG } else { OP_QUERY }.to_le_bytes());
                bytes[20] = 0;
            }
            for side in [Side::Client, Side::Server] {
                assert_eq!(pass(side, &bytes, 13).0, bytes);
            }
        }
        let (out, seen) = pass(Side::Client, &[0xff; 40], 40);
        assert_eq!((out.len(), seen), (40, vec![StreamPart::Lost]));
        let mut tap = FrameTap::new(Side::Client);
        tap.pass(&[5, 0, 0, 0], Instant::now(), &mut |_| {});
        assert!(!tap.is_looking() && tap.incomplete_bytes() == 0);
    }
}
