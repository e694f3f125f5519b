//! The 16-byte message header. Promises: lengths are checked before anyone allocates for them.

use crate::bytes::split_i32;
use crate::code;
use crate::error::WireError;
use crate::limits::{HEADER_LEN, MAX_MESSAGE_LEN};

/// Operation codes that appear on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum OpCode {
    /// Answer to a legacy operation.
    Reply = 1,
    /// Removed in MongoDB 5.1; has no answer.
    Update = 2001,
    /// Removed in MongoDB 5.1; has no answer.
    Insert = 2002,
    /// Only commands on `$cmd` remain, for the handshake.
    Query = 2004,
    /// Removed in MongoDB 5.1; answered with an error.
    GetMore = 2005,
    /// Removed in MongoDB 5.1; has no answer.
    Delete = 2006,
    /// Removed in MongoDB 5.1; has no answer.
    KillCursors = 2007,
    /// Wraps any other message.
    Compressed = 2012,
    /// Every command and reply of current drivers.
    Msg = 2013,
}

impl OpCode {
    /// The code for a number, if it is one.
    pub fn from_i32(value: i32) -> Option<Self> {
        Some(match value {
            1 => Self::Reply,
            2001 => Self::Update,
            2002 => Self::Insert,
            2004 => Self::Query,
            2005 => Self::GetMore,
            2006 => Self::Delete,
            2007 => Self::KillCursors,
            2012 => Self::Compressed,
            2013 => Self::Msg,
            _ => return None,
        })
    }
}

/// A parsed message header. The operation code stays a number because clients send unknown ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Whole message in bytes, header included.
    pub message_len: i32,
    /// Chosen by the sender, echoed by the answer.
    pub request_id: i32,
    /// `request_id` of the message this one answers.
    pub response_to: i32,
    /// See [`OpCode`].
    pub op_code: i32,
}

impl Header {
    /// Splits the header off a message; `None` when fewer than 16 bytes are there.
    pub fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (message_len, rest) = split_i32(bytes)?;
        let (request_id, rest) = split_i32(rest)?;
        let (response_to, rest) = split_i32(rest)?;
        let (op_code, rest) = split_i32(rest)?;
        Some((
            Self {
                message_len,
                request_id,
                response_to,
                op_code,
            },
            rest,
        ))
    }

    /// The 16 bytes of this header.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let fields = [
            self.message_len,
            self.request_id,
            self.response_to,
            self.op_code,
        ];
        for (slot, field) in out.chunks_exact_mut(4).zip(fields) {
            slot.copy_from_slice(&field.to_le_bytes());
        }
        out
    }
}

/// How long the message at the start of `received` is.
///
/// # Output
/// `None` while not even the length has arrived.
///
/// # Errors
/// `ProtocolError` (17), connection to be closed, when the declared length is outside
/// 16..=48,000,000.
pub fn frame_len(received: &[u8]) -> Result<Option<usize>, WireError> {
    let Some((declared, _)) = split_i32(received) else {
        return Ok(None);
    };
    match usize::try_from(declared) {
        Ok(len) if (HEADER_LEN..=MAX_MESSAGE_LEN).contains(&len) => Ok(Some(len)),
        _ => Err(WireError::close(
            code::PROTOCOL_ERROR,
            format!(
                "message length {declared} is invalid, allowed are {HEADER_LEN} to \
                    {MAX_MESSAGE_LEN}"
            ),
        )),
    }
}
