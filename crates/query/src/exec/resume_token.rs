//! Resume tokens: positions in a change stream, which sort in the order of the events. Must not
//! know: how events are made.
//!
//! `_data` is hexadecimal: `82`, time (8 bytes), `00` for a place before all events of that time or
//! `80` for an event, number of the operation within a transaction (4), 1 for an invalidation,
//! number of the fragment of a large event (4).

use model::{Doc, MongoError, Result, Timestamp, Value, bail, code};
use std::fmt::Write;

const BYTES: usize = 19;

/// A position in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResumeToken {
    /// Time of the log entry.
    pub time: u64,
    /// The position of an event; otherwise the position before all events of that time.
    pub event: bool,
    /// Number of the operation within a transaction.
    pub operation: u32,
    /// The invalidation that follows an event.
    pub invalidates: bool,
    /// Number of the fragment; 0 for a whole event.
    pub fragment: u32,
}

impl ResumeToken {
    /// The position before all events of a time.
    pub fn before_time(time: Timestamp) -> ResumeToken {
        ResumeToken {
            time: time.as_u64(),
            event: false,
            operation: 0,
            invalidates: false,
            fragment: 0,
        }
    }

    /// The same position without its fragment.
    pub(crate) fn without_fragment(self) -> ResumeToken {
        ResumeToken {
            fragment: 0,
            ..self
        }
    }

    /// The token's `_data`.
    pub fn to_data(self) -> String {
        let mut bytes = [0; BYTES];
        bytes[0] = 0x82;
        bytes[1..9].copy_from_slice(&self.time.to_be_bytes());
        bytes[9] = if self.event { 0x80 } else { 0 };
        bytes[10..14].copy_from_slice(&self.operation.to_be_bytes());
        bytes[14] = u8::from(self.invalidates);
        bytes[15..].copy_from_slice(&self.fragment.to_be_bytes());
        bytes.iter().fold(String::new(), |mut text, b| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{b:02X}");
            text
        })
    }

    /// Parses `_data`.
    pub(crate) fn from_data(text: &str) -> Result<ResumeToken> {
        let malformed = || {
            MongoError::new(
                code::FAILED_TO_PARSE,
                "resume token string was not a valid hex string of a token of this server",
            )
        };
        let mut bytes = [0; BYTES];
        if text.len() != 2 * BYTES || !text.is_ascii() {
            return Err(malformed());
        }
        for (n, b) in bytes.iter_mut().enumerate() {
            let pair = text.get(2 * n..2 * n + 2).unwrap_or_default();
            *b = u8::from_str_radix(pair, 16).map_err(|_| malformed())?;
        }
        let number = |at: usize| {
            let four = bytes.get(at..at + 4).and_then(|b| b.first_chunk::<4>());
            four.map_or(0, |b| u32::from_be_bytes(*b))
        };
        if bytes[0] != 0x82 || bytes[9] & 0x7F != 0 || bytes[14] > 1 {
            return Err(malformed());
        }
        Ok(ResumeToken {
            time: u64::from(number(1)) << 32 | u64::from(number(5)),
            event: bytes[9] != 0,
            operation: number(10),
            invalidates: bytes[14] == 1,
            fragment: number(15),
        })
    }

    /// Parses a document `{_data: ...}`.
    ///
    /// # Errors
    /// 40647 without `_data` of a string, 40648 for `_typeBits` that are not binary, 40649 for an
    /// empty text, 9 FailedToParse for one that is no token.
    pub(crate) fn parse(doc: Doc<'_>) -> Result<ResumeToken> {
        match (doc.field("_data"), doc.field("_typeBits")) {
            (Value::String(_), v) if !matches!(v, Value::Missing | Value::Binary(_)) => bail!(
                40648,
                "Bad resume token: _typeBits of wrong type: {}",
                v.type_name()
            ),
            (Value::String(""), _) => bail!(40649, "Bad resume token: _data is empty"),
            (Value::String(text), _) => ResumeToken::from_data(text),
            (v, _) => bail!(
                40647,
                "Bad resume token: _data of missing or of wrong type: {}",
                v.type_name()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn tokens_order_as_their_text() {
        let mut tokens = Vec::new();
        for time in [1, 0x1_0000_0000, u64::MAX] {
            tokens.push(ResumeToken::before_time(Timestamp::from_u64(time)));
            for (operation, invalidates, fragment) in
                [(0, false, 0), (0, false, 2), (0, true, 0), (3, false, 0)]
            {
                tokens.push(ResumeToken {
                    time,
                    event: true,
                    operation,
                    invalidates,
                    fragment,
                });
            }
        }
        assert!(tokens.is_sorted());
        let texts: Vec<String> = tokens.iter().map(|t| t.to_data()).collect();
        assert!(texts.is_sorted());
        for (token, text) in tokens.iter().zip(&texts) {
            let again = ResumeToken::parse(doc! { "_data": text.as_str() }.doc()).unwrap();
            assert_eq!(again, *token);
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let code = |d: model::DocBuf| ResumeToken::parse(d.doc()).unwrap_err().code();
        assert_eq!(code(doc! {}), 40647);
        assert_eq!(code(doc! { "_data": 1i32 }), 40647);
        assert_eq!(code(doc! { "_data": "zz" }), code::FAILED_TO_PARSE);
        let long = "8é".repeat(19);
        assert_eq!(code(doc! { "_data": long.as_str() }), code::FAILED_TO_PARSE);
    }
}
