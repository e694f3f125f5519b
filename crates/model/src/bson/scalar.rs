//! The types of BSON, and the values without nested values. Must not know: documents.

/// BSON element type byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct Tag(pub u8);

#[allow(missing_docs)]
impl Tag {
    pub const DOUBLE: Tag = Tag(0x01);
    pub const STRING: Tag = Tag(0x02);
    pub const DOCUMENT: Tag = Tag(0x03);
    pub const ARRAY: Tag = Tag(0x04);
    pub const BINARY: Tag = Tag(0x05);
    pub const UNDEFINED: Tag = Tag(0x06);
    pub const OBJECT_ID: Tag = Tag(0x07);
    pub const BOOL: Tag = Tag(0x08);
    pub const DATE: Tag = Tag(0x09);
    pub const NULL: Tag = Tag(0x0A);
    pub const REGEX: Tag = Tag(0x0B);
    pub const DB_POINTER: Tag = Tag(0x0C);
    pub const CODE: Tag = Tag(0x0D);
    pub const SYMBOL: Tag = Tag(0x0E);
    pub const CODE_WITH_SCOPE: Tag = Tag(0x0F);
    pub const INT32: Tag = Tag(0x10);
    pub const TIMESTAMP: Tag = Tag(0x11);
    pub const INT64: Tag = Tag(0x12);
    pub const DECIMAL128: Tag = Tag(0x13);
    pub const MIN_KEY: Tag = Tag(0xFF);
    pub const MAX_KEY: Tag = Tag(0x7F);
    /// Not a BSON type: the absence of a value.
    pub const MISSING: Tag = Tag(0x00);
}

/// 12-byte object identifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub [u8; 12]);

impl ObjectId {
    /// Lower-case hexadecimal, 24 characters.
    pub fn to_hex(self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.0
            .iter()
            .flat_map(|b| {
                [
                    DIGITS[(b >> 4) as usize] as char,
                    DIGITS[(b & 15) as usize] as char,
                ]
            })
            .collect()
    }

    /// Parses 24 hexadecimal characters.
    pub fn parse(text: &str) -> Option<ObjectId> {
        let b = text.as_bytes();
        if b.len() != 24 {
            return None;
        }
        let mut out = [0u8; 12];
        for (slot, pair) in out.iter_mut().zip(b.chunks(2)) {
            let hi = (pair[0] as char).to_digit(16)?;
            let lo = (pair[1] as char).to_digit(16)?;
            *slot = (hi * 16 + lo) as u8;
        }
        Some(ObjectId(out))
    }

    /// Milliseconds since the epoch of the embedded creation time.
    pub fn timestamp_ms(self) -> i64 {
        i64::from(u32::from_be_bytes([
            self.0[0], self.0[1], self.0[2], self.0[3],
        ])) * 1000
    }
}

/// Replication timestamp: seconds and an ordinal within the second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Timestamp {
    /// Seconds since the epoch.
    pub time: u32,
    /// Ordinal within the second.
    pub increment: u32,
}

impl Timestamp {
    /// The 64-bit number that BSON stores.
    pub fn as_u64(self) -> u64 {
        (u64::from(self.time) << 32) | u64::from(self.increment)
    }
    /// From the 64-bit number BSON stores.
    pub fn from_u64(v: u64) -> Timestamp {
        Timestamp {
            time: (v >> 32) as u32,
            increment: v as u32,
        }
    }
}

/// Binary data with its subtype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Binary<'a> {
    /// 0 generic, 2 old binary, 3/4 UUID, 5 MD5, 6 encrypted, 7 column, 8 sensitive, 9 vector, 128+
    /// user.
    pub subtype: u8,
    /// Payload. For subtype 2 this includes the inner length, as stored.
    pub bytes: &'a [u8],
}

/// Regular expression as BSON stores it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Regex<'a> {
    /// Pattern, PCRE syntax.
    pub pattern: &'a str,
    /// Option letters.
    pub options: &'a str,
}

impl Tag {
    /// MongoDB's name of the type.
    pub fn name(self) -> &'static str {
        match self.0 {
            0x00 => "missing",
            0x01 => "double",
            0x02 => "string",
            0x03 => "object",
            0x04 => "array",
            0x05 => "binData",
            0x06 => "undefined",
            0x07 => "objectId",
            0x08 => "bool",
            0x09 => "date",
            0x0A => "null",
            0x0B => "regex",
            0x0C => "dbPointer",
            0x0D => "javascript",
            0x0E => "symbol",
            0x0F => "javascriptWithScope",
            0x10 => "int",
            0x11 => "timestamp",
            0x12 => "long",
            0x13 => "decimal",
            0x7F => "maxKey",
            0xFF => "minKey",
            _ => "invalid",
        }
    }

    /// The type with this `$type` alias; the pseudo-alias "number" is not accepted.
    pub fn from_name(name: &str) -> Option<Tag> {
        [
            0x01u8, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x0E,
            0x0F, 0x10, 0x11, 0x12, 0x13, 0x7F, 0xFF,
        ]
        .into_iter()
        .map(Tag)
        .find(|t| t.name() == name)
    }
}
