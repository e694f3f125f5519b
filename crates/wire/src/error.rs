//! Typed codec errors. Promises: each says whether the client can still be answered. Must not know:
//! commands.

use crate::context::{Protocol, ReplyContext};
use crate::document::DocumentWriter;

/// What the owner of the connection does after a [`WireError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// The byte stream or the protocol state cannot be trusted: close without a reply.
    Close,
    /// Framing is intact: send the error and keep the connection.
    Reply(ReplyContext),
}

/// A message that cannot be handed to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireError {
    /// MongoDB error code.
    pub code: i32,
    /// The received and the allowed value.
    pub message: String,
    /// Whether the peer can be answered.
    pub recovery: Recovery,
}

impl WireError {
    pub(crate) fn close(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            recovery: Recovery::Close,
        }
    }

    pub(crate) fn reply(code: i32, message: impl Into<String>, to: ReplyContext) -> Self {
        Self {
            code,
            message: message.into(),
            recovery: Recovery::Reply(to),
        }
    }

    /// The symbolic name MongoDB sends beside the code; unnamed assertions are `Location<code>`.
    pub fn code_name(&self) -> String {
        model::code::name(self.code)
    }

    /// Appends the error document the peer expects.
    ///
    /// # Input
    /// `protocol` decides the shape: command replies carry `errmsg`, failed legacy queries carry
    /// `$err`.
    pub fn append_document(&self, protocol: Protocol, out: &mut Vec<u8>) {
        let mut doc = DocumentWriter::begin(out);
        if protocol == Protocol::LegacyFailure {
            doc.string("$err", &self.message);
            doc.int32("code", self.code);
            doc.double("ok", 0.0);
        } else {
            doc.double("ok", 0.0);
            doc.string("errmsg", &self.message);
            doc.int32("code", self.code);
            doc.string("codeName", &self.code_name());
        }
        doc.finish();
    }
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}): {}", self.code_name(), self.code, self.message)
    }
}

impl std::error::Error for WireError {}
