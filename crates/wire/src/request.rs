//! Decodes a whole frame into a [`Request`]. Promises: zero-copy, every section checked. Must not
//! know: commands.

use crate::code;
use crate::compress::{self, CompressorSet};
use crate::context::{Compressor, Protocol, ReplyContext};
use crate::error::WireError;
use crate::header::{Header, OpCode, frame_len};
use crate::limits::HEADER_LEN;
use crate::message::{Request, Sequence};
use crate::{legacy, msg};

/// What the server accepts.
#[derive(Debug, Clone, Copy, Default)]
pub struct DecodeOptions {
    /// Compressors a client may use; a message with any other one closes the connection.
    pub compressors: CompressorSet,
}

/// Decodes one whole frame.
///
/// # Input
/// `frame` is exactly one message as measured by [`frame_len`]. `scratch` receives the decompressed
/// message and is touched only for compressed ones; its old contents are discarded.
///
/// # Errors
/// A [`WireError`] that says whether the connection must close. Sections that cannot be read are
/// answered, anything that puts framing, flags, checksum or compression in doubt closes.
///
/// # Cost
/// No allocation unless compressed or more than one document sequence.
pub fn decode<'a>(
    frame: &'a [u8],
    options: &DecodeOptions,
    scratch: &'a mut Vec<u8>,
) -> Result<Request<'a>, WireError> {
    let (header, payload) = split_frame(frame)?;
    if header.op_code != OpCode::Compressed as i32 {
        return validate(decode_plain(header, frame, payload, None)?);
    }
    let compressor = compress::decompress(header, payload, options.compressors, scratch)?;
    let inner: &'a [u8] = scratch;
    let (header, payload) = split_frame(inner)?;
    let mut request = decode_plain(header, inner, payload, Some(compressor))?;
    if NEVER_COMPRESSED.contains(&request.command_name()) {
        request.reply.compressor = None;
    }
    validate(request)
}

/// How to reply to a message of which only the start has arrived, before any of it was checked.
/// `None` if that is not known: the start is too short, or the flags are inside the compressed
/// part.
pub fn reply_to_start(start: &[u8]) -> Option<ReplyContext> {
    let (header, payload) = Header::split(start)?;
    if header.op_code != OpCode::Msg as i32 {
        return None;
    }
    let flags = u32::from_le_bytes(*payload.first_chunk()?);
    Some(ReplyContext {
        protocol: Protocol::Msg,
        response_to: header.request_id,
        suppressed: flags & crate::flags::MORE_TO_COME != 0,
        checksum: false,
        compressor: None,
    })
}

/// The declared uncompressed size of a compressed message; `None` for an uncompressed one. Not
/// verified: a client may declare more than it sends, but not less.
pub fn uncompressed_len(frame: &[u8]) -> Option<usize> {
    let (header, payload) = Header::split(frame)?;
    if header.op_code != OpCode::Compressed as i32 {
        return None;
    }
    let declared = i32::from_le_bytes(*payload.get(4..)?.first_chunk()?);
    Some(
        usize::try_from(declared)
            .unwrap_or(0)
            .min(crate::MAX_MESSAGE_LEN),
    )
}

/// After this check the caller may trust every document of the request.
fn validate(request: Request<'_>) -> Result<Request<'_>, WireError> {
    let sequences = request.sequences.iter().flat_map(Sequence::iter);
    for document in std::iter::once(request.body).chain(sequences) {
        if let Err(error) = model::validate(document) {
            return Err(WireError::reply(
                error.code(),
                error.message(),
                request.reply,
            ));
        }
    }
    Ok(request)
}

/// Handshake and credentials stay out of compression, as the protocol's specification demands.
const NEVER_COMPRESSED: [&str; 8] = [
    "hello",
    "isMaster",
    "ismaster",
    "saslStart",
    "saslContinue",
    "authenticate",
    "createUser",
    "updateUser",
];

fn split_frame(frame: &[u8]) -> Result<(Header, &[u8]), WireError> {
    let declared = frame_len(frame)?;
    match Header::split(frame) {
        Some(split) if declared == Some(frame.len()) => Ok(split),
        _ => Err(WireError::close(
            code::PROTOCOL_ERROR,
            format!(
                "message of {} bytes does not match its declared length",
                frame.len().max(HEADER_LEN)
            ),
        )),
    }
}

fn decode_plain<'a>(
    header: Header,
    frame: &'a [u8],
    payload: &'a [u8],
    compressor: Option<Compressor>,
) -> Result<Request<'a>, WireError> {
    let context = ReplyContext {
        protocol: Protocol::Msg,
        response_to: header.request_id,
        suppressed: false,
        checksum: false,
        compressor,
    };
    match OpCode::from_i32(header.op_code) {
        Some(OpCode::Msg) => msg::decode(header, frame, payload, context),
        Some(OpCode::Query) => legacy::decode_query(header, payload, context),
        Some(OpCode::GetMore) => Err(legacy::removed_error("OP_GET_MORE", context)),
        Some(_) => Err(WireError::close(
            code::LEGACY_OPCODE,
            format!(
                "operation {} is not accepted, use OP_MSG (2013)",
                header.op_code
            ),
        )),
        None => Err(WireError::close(
            code::PROTOCOL_ERROR,
            format!(
                "unknown operation code {}, use OP_MSG (2013)",
                header.op_code
            ),
        )),
    }
}
