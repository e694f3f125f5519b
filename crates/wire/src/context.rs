//! The properties of a request that its reply needs.

/// A compression method by its number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Compressor {
    /// Wrapped but not compressed; for tests of the protocol.
    Noop = 0,
    /// Fast, block format without frame.
    Snappy = 1,
    /// zlib stream.
    Zlib = 2,
    /// Zstandard frame.
    Zstd = 3,
}

impl Compressor {
    /// Every method, in MongoDB's default order of preference after `Noop`.
    pub const ALL: [Self; 4] = [Self::Noop, Self::Snappy, Self::Zstd, Self::Zlib];

    /// By wire number.
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|c| *c as u8 == id)
    }

    /// By the name used in `hello` and in `--networkMessageCompressors`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }

    /// The name used in `hello`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }
}

/// The form of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `OP_MSG` answered by `OP_MSG`.
    Msg,
    /// A command in `OP_QUERY`, answered by `OP_REPLY`.
    LegacyCommand,
    /// A refused legacy query: `OP_REPLY` with the failure bit and `$err`.
    LegacyFailure,
}

/// The properties of a request that its reply needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyContext {
    /// Shape of the answer.
    pub protocol: Protocol,
    /// `request_id` of the request, or of the previous reply in an exhaust stream.
    pub response_to: i32,
    /// The client set `moreToCome`: no reply is sent.
    pub suppressed: bool,
    /// The request carried a checksum, so the reply does too.
    pub checksum: bool,
    /// The request was compressed, so the reply is too.
    pub compressor: Option<Compressor>,
}
