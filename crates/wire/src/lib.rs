//! Message framing of the MongoDB wire protocol as a pure codec: bytes in, messages out.
//!
//! Promises: a decoded [`Request`] borrows the receive buffer, no input causes a panic, and a
//! declared length is never trusted before it is compared with the bytes present. Must not know:
//! sockets, threads, commands.
//!
//! The path of a request: [`frame_len`] tells how many bytes to collect, [`decode`] makes a
//! [`Request`] of the frame, [`begin_reply`] reserves the header in the output buffer, the command
//! appends its document, and [`finish_reply`] fills in the header.

mod bytes;
mod code;
mod compress;
mod context;
mod document;
mod encode;
mod error;
mod header;
mod legacy;
mod limits;
mod message;
mod msg;
mod reply;
mod request;

pub use compress::{BELIEVED_LEN, CompressorSet};
pub use context::{Compressor, Protocol, ReplyContext};
pub use document::{DocumentIter, SplitResult, first_key, split_document};
pub use encode::{MessageBuilder, compress_message};
pub use error::{Recovery, WireError};
pub use header::{Header, OpCode, frame_len};
pub use limits::{HEADER_LEN, MAX_DOCUMENT_LEN, MAX_MESSAGE_LEN, MAX_USER_DOCUMENT_LEN, flags};
pub use message::{Request, Sequence};
pub use reply::{ReservedHeader, begin_reply, finish_reply};
pub use request::{DecodeOptions, decode, reply_to_start, uncompressed_len};
