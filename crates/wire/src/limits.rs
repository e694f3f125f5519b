//! Sizes and flag bits of the protocol.

/// Bytes of the standard message header.
pub const HEADER_LEN: usize = 16;
/// Largest message either side may send, header included (`maxMessageSizeBytes`).
pub const MAX_MESSAGE_LEN: usize = 48_000_000;
/// Largest document a user may store (`maxBsonObjectSize`).
pub const MAX_USER_DOCUMENT_LEN: usize = 16 * 1024 * 1024;
/// Largest document inside a message: the user limit plus room for the command around it.
pub const MAX_DOCUMENT_LEN: usize = MAX_USER_DOCUMENT_LEN + 16 * 1024;

/// Flag bits of `OP_MSG`. Bits 0-15 must be understood or refused, bits 16-31 may be ignored.
pub mod flags {
    /// A CRC32C of the whole message stands in its last four bytes.
    pub const CHECKSUM_PRESENT: u32 = 1;
    /// The sender wants no reply (request), or another message follows unasked (reply).
    pub const MORE_TO_COME: u32 = 1 << 1;
    /// The client is ready for several replies to this one request.
    pub const EXHAUST_ALLOWED: u32 = 1 << 16;
    /// The bits that a receiver may not ignore.
    pub const REQUIRED: u32 = 0xFFFF;
}
