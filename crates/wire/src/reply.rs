//! Reply framing. Promises: the document is written once, directly after a reserved header that is
//! filled in later.

use crate::code;
use crate::compress;
use crate::context::{Protocol, ReplyContext};
use crate::error::WireError;
use crate::header::{Header, OpCode};
use crate::limits::{HEADER_LEN, MAX_MESSAGE_LEN, flags};

/// `OP_REPLY` flag: the query failed and the document holds `$err`.
const QUERY_FAILURE: i32 = 2;
/// `OP_REPLY` flag that every command answer carries.
const AWAIT_CAPABLE: i32 = 8;
const MSG_PREFIX_LEN: usize = HEADER_LEN + 4 + 1;
const REPLY_PREFIX_LEN: usize = HEADER_LEN + 20;

/// A reserved header. [`begin_reply`] makes it, [`finish_reply`] fills it in.
#[derive(Debug)]
#[must_use]
pub struct ReservedHeader {
    start: usize,
    document: usize,
}

impl ReservedHeader {
    /// Where the message begins in the output buffer.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Where the document begins in the output buffer.
    pub fn document(&self) -> usize {
        self.document
    }
}

/// Reserves the header of a reply at the end of `out`; the caller then appends exactly one
/// document.
pub fn begin_reply(out: &mut Vec<u8>, context: &ReplyContext) -> ReservedHeader {
    let start = out.len();
    let prefix = match context.protocol {
        Protocol::Msg => MSG_PREFIX_LEN,
        Protocol::LegacyCommand | Protocol::LegacyFailure => REPLY_PREFIX_LEN,
    };
    out.resize(start + prefix, 0);
    ReservedHeader {
        start,
        document: start + prefix,
    }
}

/// Patches the reserved header, adds the checksum and compresses when the request asked for it.
///
/// # Input
/// `request_id` is the server's own number for this reply, `more_to_come` announces a further reply
/// (exhaust). `scratch` is used for compressed replies only; its old contents are discarded.
///
/// # Errors
/// `BSONObjectTooLarge` (10334) if the appended bytes are not one document or make the message too
/// large; `out` is then truncated to the start of the message, so that an error reply can take its
/// place.
pub fn finish_reply(
    out: &mut Vec<u8>,
    reserved: ReservedHeader,
    context: &ReplyContext,
    request_id: i32,
    more_to_come: bool,
    scratch: &mut Vec<u8>,
) -> Result<(), WireError> {
    let ReservedHeader { start, document } = reserved;
    if let Err(message) = check_document(out.get(document..).unwrap_or_default()) {
        out.truncate(start);
        return Err(WireError::reply(
            code::BSON_OBJECT_TOO_LARGE,
            message,
            *context,
        ));
    }
    let checksum = context.checksum && context.protocol == Protocol::Msg;
    let message_len = out.len() - start + if checksum { 4 } else { 0 };
    let op_code = if context.protocol == Protocol::Msg {
        OpCode::Msg
    } else {
        OpCode::Reply
    };
    let header = Header {
        message_len: i32::try_from(message_len).unwrap_or(i32::MAX),
        request_id,
        response_to: context.response_to,
        op_code: op_code as i32,
    };
    let mut prefix = [0; REPLY_PREFIX_LEN];
    let prefix = prefix.get_mut(..document - start).unwrap_or_default();
    write_prefix(prefix, header, context.protocol, checksum, more_to_come);
    if let Some(slot) = out.get_mut(start..document) {
        slot.copy_from_slice(prefix);
    }
    if checksum {
        let sum = crc32c::crc32c(out.get(start..).unwrap_or_default());
        out.extend_from_slice(&sum.to_le_bytes());
    }
    if let Some(compressor) = context.compressor {
        compress::compress_in_place(out, start, header, compressor, scratch);
    }
    Ok(())
}

/// A command may append only one whole document that fits a message.
fn check_document(appended: &[u8]) -> Result<(), String> {
    let declared = appended.first_chunk::<4>().map(|b| i32::from_le_bytes(*b));
    let whole = declared.and_then(|len| usize::try_from(len).ok()) == Some(appended.len());
    if !whole || appended.len() < 5 {
        return Err(format!(
            "reply of {} bytes is not exactly one document",
            appended.len()
        ));
    }
    let limit = MAX_MESSAGE_LEN - REPLY_PREFIX_LEN;
    if appended.len() > limit {
        return Err(format!(
            "reply of {} bytes is larger than the limit of {limit} bytes",
            appended.len()
        ));
    }
    Ok(())
}

fn write_prefix(prefix: &mut [u8], header: Header, protocol: Protocol, checksum: bool, more: bool) {
    let fixed: [i32; 5] = match protocol {
        Protocol::Msg => {
            let mut bits = 0;
            if checksum {
                bits |= flags::CHECKSUM_PRESENT;
            }
            if more {
                bits |= flags::MORE_TO_COME;
            }
            [bits.cast_signed(), 0, 0, 0, 0]
        }
        Protocol::LegacyCommand => [AWAIT_CAPABLE, 0, 0, 0, 1],
        Protocol::LegacyFailure => [QUERY_FAILURE, 0, 0, 0, 1],
    };
    // OP_MSG: flag bits, then section kind 0. OP_REPLY: flags, cursor id (8 bytes), starting from,
    // number returned.
    let bytes = header
        .to_bytes()
        .into_iter()
        .chain(fixed.into_iter().flat_map(i32::to_le_bytes));
    for (slot, byte) in prefix.iter_mut().zip(bytes) {
        *slot = byte;
    }
}
