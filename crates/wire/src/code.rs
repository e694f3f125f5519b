//! MongoDB's error codes for messages that cannot be decoded.

pub(crate) const BAD_VALUE: i32 = 2;
pub(crate) const OVERFLOW: i32 = 15;
pub(crate) const PROTOCOL_ERROR: i32 = 17;
pub(crate) const INVALID_BSON: i32 = 22;
pub(crate) const ILLEGAL_OP_MSG_FLAG: i32 = 223;
pub(crate) const TOO_MANY_DOCUMENT_SEQUENCES: i32 = 257;
pub(crate) const CHECKSUM_MISMATCH: i32 = 282;
pub(crate) const UNSUPPORTED_OP_QUERY_COMMAND: i32 = 352;
pub(crate) const BSON_OBJECT_TOO_LARGE: i32 = 10334;
pub(crate) const MULTIPLE_BODIES: i32 = 40430;
pub(crate) const DUPLICATE_SEQUENCE: i32 = 40431;
pub(crate) const UNKNOWN_SECTION: i32 = 40432;
pub(crate) const NO_BODY: i32 = 40587;
pub(crate) const TOO_SHORT_FOR_CHECKSUM: i32 = 51251;
pub(crate) const BAD_NUMBER_TO_RETURN: i32 = 16979;
pub(crate) const LEGACY_OPCODE: i32 = 5739101;
