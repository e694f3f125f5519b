//! `OP_MSG`. Promises: exactly one body, at most two sequences, any order. Must not know: replies.

use smallvec::SmallVec;

use crate::bytes::split_i32;
use crate::code;
use crate::context::ReplyContext;
use crate::document::split_document;
use crate::error::WireError;
use crate::header::Header;
use crate::limits::flags;
use crate::message::{Request, Sequence};

/// The protocol's own bound; it also keeps the duplicate search short.
const MAX_SEQUENCES: usize = 2;
const CHECKSUM_LEN: usize = 4;

pub(crate) fn decode<'a>(
    header: Header,
    frame: &'a [u8],
    payload: &'a [u8],
    mut context: ReplyContext,
) -> Result<Request<'a>, WireError> {
    let Some((flag_bits, sections)) = split_i32(payload) else {
        return Err(WireError::close(
            code::PROTOCOL_ERROR,
            "OP_MSG ends before its flag bits",
        ));
    };
    let flag_bits = flag_bits.cast_unsigned();
    let known = flags::CHECKSUM_PRESENT | flags::MORE_TO_COME;
    if flag_bits & flags::REQUIRED & !known != 0 {
        return Err(WireError::close(
            code::ILLEGAL_OP_MSG_FLAG,
            format!(
                "OP_MSG has illegal flags 0b{flag_bits:032b}, of the bits 0 to 15 only 0 and 1 are \
                    allowed"
            ),
        ));
    }
    context.suppressed = flag_bits & flags::MORE_TO_COME != 0;
    let sections = if flag_bits & flags::CHECKSUM_PRESENT != 0 {
        context.checksum = true;
        verify_checksum(frame, sections, context)?
    } else {
        sections
    };
    let (body, sequences) = read_sections(sections, context)?;
    Ok(Request {
        header,
        body,
        sequences,
        legacy_namespace: None,
        exhaust_allowed: flag_bits & flags::EXHAUST_ALLOWED != 0,
        reply: context,
    })
}

/// Returns the sections without the checksum.
fn verify_checksum<'a>(
    frame: &'a [u8],
    sections: &'a [u8],
    context: ReplyContext,
) -> Result<&'a [u8], WireError> {
    let (Some((sections, _)), Some((covered, sent))) = (
        sections.split_last_chunk::<CHECKSUM_LEN>(),
        frame.split_last_chunk::<CHECKSUM_LEN>(),
    ) else {
        return Err(WireError::reply(
            code::TOO_SHORT_FOR_CHECKSUM,
            "OP_MSG with the checksum flag is too short to hold a checksum",
            context,
        ));
    };
    if crc32c::crc32c(covered) == u32::from_le_bytes(*sent) {
        Ok(sections)
    } else {
        Err(WireError::close(
            code::CHECKSUM_MISMATCH,
            "OP_MSG checksum does not match contents",
        ))
    }
}

type Sections<'a> = (&'a [u8], SmallVec<[Sequence<'a>; 1]>);

fn read_sections(mut rest: &[u8], context: ReplyContext) -> Result<Sections<'_>, WireError> {
    let fail = |(code, message): (i32, String)| WireError::reply(code, message, context);
    let mut body = None;
    let mut sequences: SmallVec<[Sequence<'_>; 1]> = SmallVec::new();
    while let Some((&kind, after)) = rest.split_first() {
        match kind {
            0 => {
                if body.is_some() {
                    return Err(fail((
                        code::MULTIPLE_BODIES,
                        "Multiple body sections in message".into(),
                    )));
                }
                let (document, after) = split_document(after).map_err(fail)?;
                body = Some(document);
                rest = after;
            }
            1 => {
                if sequences.len() == MAX_SEQUENCES {
                    return Err(WireError::close(
                        code::TOO_MANY_DOCUMENT_SEQUENCES,
                        format!(
                            "Too many document sequences in OP_MSG, allowed are {MAX_SEQUENCES}"
                        ),
                    ));
                }
                let (sequence, after) = read_sequence(after).map_err(fail)?;
                if sequences.iter().any(|s| s.name == sequence.name) {
                    let message = format!("Duplicate document sequence: {}", sequence.name);
                    return Err(fail((code::DUPLICATE_SEQUENCE, message)));
                }
                sequences.push(sequence);
                rest = after;
            }
            other => {
                let message = format!(
                    "Unknown section kind {other}, allowed are 0 (body) and 1 (document sequence)"
                );
                return Err(fail((code::UNKNOWN_SECTION, message)));
            }
        }
    }
    match body {
        Some(body) => Ok((body, sequences)),
        None => Err(fail((
            code::NO_BODY,
            "OP_MSG messages must have a body".into(),
        ))),
    }
}

fn read_sequence(bytes: &[u8]) -> Result<(Sequence<'_>, &[u8]), (i32, String)> {
    let short = |what: &str| {
        (
            code::OVERFLOW,
            format!("document sequence ends inside its {what}"),
        )
    };
    let (declared, _) = split_i32(bytes).ok_or_else(|| short("length"))?;
    let (section, rest) = usize::try_from(declared)
        .ok()
        .and_then(|len| bytes.split_at_checked(len))
        .ok_or_else(|| {
            let left = bytes.len();
            (
                code::OVERFLOW,
                format!(
                    "document sequence declares {declared} bytes, {left} are left in the message"
                ),
            )
        })?;
    let section = section.get(4..).ok_or_else(|| short("length"))?;
    let end = section
        .iter()
        .position(|&b| b == 0)
        .ok_or_else(|| short("name"))?;
    let (name, documents) = section.split_at(end);
    let documents = documents.get(1..).unwrap_or_default();
    let name = std::str::from_utf8(name).map_err(|_| {
        (
            code::INVALID_BSON,
            "name of a document sequence is not valid UTF-8".to_owned(),
        )
    })?;
    let mut count = 0;
    let mut left = documents;
    while !left.is_empty() {
        (_, left) = split_document(left)?;
        count += 1;
    }
    Ok((
        Sequence {
            name,
            documents,
            count,
        },
        rest,
    ))
}
