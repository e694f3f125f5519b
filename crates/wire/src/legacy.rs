//! Legacy operations. Promises: the handshake commands of `OP_QUERY` work, all else gets MongoDB
//! 8.2's refusal.

use smallvec::SmallVec;

use crate::bytes::split_i32;
use crate::code;
use crate::context::{Protocol, ReplyContext};
use crate::document::{first_embedded, first_key, split_document};
use crate::error::WireError;
use crate::header::Header;
use crate::message::Request;

/// What a driver may still send before it knows that the server speaks `OP_MSG`.
const ALLOWED_COMMANDS: [&str; 9] = [
    "hello",
    "isMaster",
    "ismaster",
    "ping",
    "buildInfo",
    "buildinfo",
    "saslStart",
    "saslContinue",
    "authenticate",
];
const UPGRADE: &str = "The client driver may require an upgrade. \
    For more details see https://dochub.mongodb.org/core/legacy-opcode-removal";

/// `OP_QUERY` flag bit 6: the client accepts a stream of replies. Kept for completeness, no driver
/// sets it today.
const EXHAUST: i32 = 1 << 6;

pub(crate) fn removed_error(operation: &str, context: ReplyContext) -> WireError {
    let context = ReplyContext {
        protocol: Protocol::LegacyFailure,
        ..context
    };
    WireError::reply(
        code::LEGACY_OPCODE,
        format!("{operation} is no longer supported. {UPGRADE}"),
        context,
    )
}

pub(crate) fn decode_query<'a>(
    header: Header,
    payload: &'a [u8],
    context: ReplyContext,
) -> Result<Request<'a>, WireError> {
    let context = ReplyContext {
        protocol: Protocol::LegacyCommand,
        ..context
    };
    let short = || {
        WireError::close(
            code::PROTOCOL_ERROR,
            "OP_QUERY ends before its query document",
        )
    };
    let (flag_bits, rest) = split_i32(payload).ok_or_else(short)?;
    let end = rest.iter().position(|&b| b == 0).ok_or_else(short)?;
    let (namespace, rest) = rest.split_at_checked(end).ok_or_else(short)?;
    let (_skip, rest) = rest.get(1..).and_then(split_i32).ok_or_else(short)?;
    let (number_to_return, rest) = split_i32(rest).ok_or_else(short)?;
    let namespace = std::str::from_utf8(namespace).map_err(|_| {
        WireError::close(
            code::PROTOCOL_ERROR,
            "OP_QUERY namespace is not valid UTF-8",
        )
    })?;
    if !namespace.ends_with(".$cmd") {
        return Err(removed_error("OP_QUERY", context));
    }
    if number_to_return != 1 && number_to_return != -1 {
        let message = format!(
            "Bad numberToReturn ({number_to_return}) for $cmd type ns - can only be 1 or -1"
        );
        return Err(WireError::reply(
            code::BAD_NUMBER_TO_RETURN,
            message,
            context,
        ));
    }
    let (document, rest) =
        split_document(rest).map_err(|(code, message)| WireError::reply(code, message, context))?;
    if !rest.is_empty() {
        // A projection may follow; commands have no use for it, but it must be one whole document.
        match split_document(rest) {
            Ok((_, [])) => {}
            _ => {
                return Err(WireError::close(
                    code::PROTOCOL_ERROR,
                    "OP_QUERY has bytes after its documents",
                ));
            }
        }
    }
    // Old drivers wrap the command to pass a read preference.
    let body = first_embedded(document, &["$query", "query"]).unwrap_or(document);
    let name = first_key(body).unwrap_or("");
    if !ALLOWED_COMMANDS.contains(&name) {
        return Err(WireError::reply(
            code::UNSUPPORTED_OP_QUERY_COMMAND,
            format!("Unsupported OP_QUERY command: {name}. {UPGRADE}"),
            context,
        ));
    }
    Ok(Request {
        header,
        body,
        sequences: SmallVec::new(),
        legacy_namespace: Some(namespace),
        exhaust_allowed: flag_bits & EXHAUST != 0,
        reply: context,
    })
}
