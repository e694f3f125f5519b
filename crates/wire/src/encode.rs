//! Client-side encoding, for tests, tools and replaying traffic. Promises: [`crate::decode`] can
//! read what it builds.

use crate::compress;
use crate::context::Compressor;
use crate::header::{Header, OpCode};
use crate::limits::{HEADER_LEN, flags};

/// Builds one `OP_MSG` request, section by section, in the order of the calls.
#[derive(Debug, Clone)]
pub struct MessageBuilder {
    request_id: i32,
    flags: u32,
    sections: Vec<u8>,
}

impl MessageBuilder {
    /// An empty message.
    pub fn new(request_id: i32) -> Self {
        Self {
            request_id,
            flags: 0,
            sections: Vec::new(),
        }
    }

    /// Sets flag bits; see [`crate::flags`].
    #[must_use]
    pub fn flags(mut self, bits: u32) -> Self {
        self.flags |= bits;
        self
    }

    /// Appends a body section.
    #[must_use]
    pub fn body(mut self, document: &[u8]) -> Self {
        self.sections.push(0);
        self.sections.extend_from_slice(document);
        self
    }

    /// Appends a document sequence.
    #[must_use]
    pub fn sequence<'a>(
        mut self,
        name: &str,
        documents: impl IntoIterator<Item = &'a [u8]>,
    ) -> Self {
        self.sections.push(1);
        let start = self.sections.len();
        self.sections.extend_from_slice(&[0; 4]);
        self.sections.extend_from_slice(name.as_bytes());
        self.sections.push(0);
        for document in documents {
            self.sections.extend_from_slice(document);
        }
        let len = i32::try_from(self.sections.len() - start).unwrap_or(i32::MAX);
        if let Some(slot) = self.sections.get_mut(start..start + 4) {
            slot.copy_from_slice(&len.to_le_bytes());
        }
        self
    }

    /// The finished message, with a checksum when the flag asks for one.
    pub fn build(&self) -> Vec<u8> {
        let checksum = self.flags & flags::CHECKSUM_PRESENT != 0;
        let len = HEADER_LEN + 4 + self.sections.len() + if checksum { 4 } else { 0 };
        let header = Header {
            message_len: i32::try_from(len).unwrap_or(i32::MAX),
            request_id: self.request_id,
            response_to: 0,
            op_code: OpCode::Msg as i32,
        };
        let mut out = Vec::with_capacity(len);
        out.extend_from_slice(&header.to_bytes());
        out.extend_from_slice(&self.flags.to_le_bytes());
        out.extend_from_slice(&self.sections);
        if checksum {
            let sum = crc32c::crc32c(&out);
            out.extend_from_slice(&sum.to_le_bytes());
        }
        out
    }
}

/// Wraps a whole message in `OP_COMPRESSED`; returned unchanged when that would not make it
/// shorter.
pub fn compress_message(message: &[u8], compressor: Compressor) -> Vec<u8> {
    let mut out = message.to_vec();
    if let Some((header, _)) = Header::split(message) {
        compress::compress_in_place(&mut out, 0, header, compressor, &mut Vec::new());
    }
    out
}
