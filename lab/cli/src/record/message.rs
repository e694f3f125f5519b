//! The contents of a message: the command with its document sequences, or the facts of a reply.
//!
//! Promises: returns `None` for anything that is not a proper message and never panics. Must not
//! know: connections, files.

use mongodb::bson::raw::RawBsonRef;
use mongodb::bson::{RawDocument, RawDocumentBuf};

use super::file::ReplyFacts;
use super::frames::{CHECKSUM, OP_MSG, OP_QUERY, command_name, document, number, text};

/// The flag of a message that asks for no reply.
const MORE_TO_COME: u32 = 2;
/// The code of the old reply.
const OP_REPLY: i32 = 1;

/// A command.
#[derive(Debug)]
pub(crate) struct ParsedCommand {
    /// Number that its reply refers to.
    pub(crate) id: i32,
    /// First key of the command.
    pub(crate) name: String,
    /// Database.
    pub(crate) database: String,
    /// Collection, if the command has one.
    pub(crate) collection: Option<String>,
    /// Whether no reply will come.
    pub(crate) is_unacknowledged: bool,
    /// The command, with its document sequences as arrays at its end.
    pub(crate) command: RawDocumentBuf,
}

/// Reads a command. `None` for messages that are neither a command in today's form nor an old
/// handshake.
pub(crate) fn command(message: &[u8]) -> Option<ParsedCommand> {
    let id = number(message, 4)?;
    match number(message, 12)? {
        OP_MSG => {
            let (flags, body, sequences) = sections(message)?;
            let command = with_sequences(body, &sequences)?;
            let database = body.get("$db").ok()??.as_str()?.to_owned();
            let name = command_name(body)?.to_owned();
            let collection = collection(body, &name);
            Some(ParsedCommand {
                id,
                name,
                database,
                collection,
                is_unacknowledged: flags & MORE_TO_COME != 0,
                command,
            })
        }
        OP_QUERY => {
            let (namespace, end) = text(message, 20)?;
            let database = namespace.strip_suffix(".$cmd")?.to_owned();
            let body = document(message, end.checked_add(8)?)?;
            let name = command_name(body)?.to_owned();
            Some(ParsedCommand {
                id,
                name,
                database,
                collection: None,
                is_unacknowledged: false,
                command: body.to_owned(),
            })
        }
        _ => None,
    }
}

fn collection(body: &RawDocument, name: &str) -> Option<String> {
    let of = |key: &str| Some(body.get(key).ok()??.as_str()?.to_owned());
    if name == "getMore" {
        of("collection")
    } else {
        of(name)
    }
}

type Sequence<'a> = (&'a str, Vec<&'a RawDocument>);

/// Flags, body and document sequences.
fn sections(message: &[u8]) -> Option<(u32, &RawDocument, Vec<Sequence<'_>>)> {
    let flags = u32::from_le_bytes(message.get(16..20)?.try_into().ok()?);
    let end = if flags & CHECKSUM != 0 {
        message.len().checked_sub(4)?
    } else {
        message.len()
    };
    let message = message.get(..end)?;
    let (mut at, mut body, mut sequences) = (20, None, Vec::new());
    while at < end {
        match message.get(at)? {
            0 => {
                let found = document(message, at + 1)?;
                at += 1 + found.as_bytes().len();
                if body.replace(found).is_some() {
                    return None;
                }
            }
            1 => {
                let length = usize::try_from(number(message, at + 1)?).ok()?;
                let stop = (at + 1).checked_add(length).filter(|stop| *stop <= end)?;
                let (name, mut inside) = text(message, at + 5)?;
                let mut documents = Vec::new();
                while inside < stop {
                    let one = document(message, inside)?;
                    inside += one.as_bytes().len();
                    documents.push(one);
                }
                // A length that ends inside a document or inside the name is invalid.
                if inside != stop {
                    return None;
                }
                sequences.push((name, documents));
                at = stop;
            }
            _ => return None,
        }
    }
    Some((flags, body?, sequences))
}

fn with_sequences(body: &RawDocument, sequences: &[Sequence<'_>]) -> Option<RawDocumentBuf> {
    if sequences.is_empty() {
        return Some(body.to_owned());
    }
    let mut out = body.as_bytes().to_vec();
    out.pop();
    for (name, documents) in sequences {
        out.push(4);
        out.extend_from_slice(name.as_bytes());
        out.push(0);
        let begin = out.len();
        out.extend_from_slice(&[0; 4]);
        for (at, document) in documents.iter().enumerate() {
            out.push(3);
            out.extend_from_slice(at.to_string().as_bytes());
            out.push(0);
            out.extend_from_slice(document.as_bytes());
        }
        out.push(0);
        let length = i32::try_from(out.len() - begin).ok()?;
        out.get_mut(begin..begin + 4)?
            .copy_from_slice(&length.to_le_bytes());
    }
    out.push(0);
    let length = i32::try_from(out.len()).ok()?;
    out.get_mut(..4)?.copy_from_slice(&length.to_le_bytes());
    RawDocumentBuf::from_bytes(out).ok()
}

/// The message that a reply answers.
pub(crate) fn answers(message: &[u8]) -> Option<i32> {
    number(message, 8)
}

/// Reads a reply.
pub(crate) fn reply(message: &[u8]) -> Option<ReplyFacts> {
    let body = match number(message, 12)? {
        OP_MSG => sections(message)?.1,
        OP_REPLY => document(message, 36)?,
        _ => return None,
    };
    Some(facts(body))
}

/// The facts of a reply that a comparison needs.
pub(crate) fn facts(body: &RawDocument) -> ReplyFacts {
    let mut out = ReplyFacts::default();
    let mut is_ok = false;
    for element in body.iter().flatten() {
        let (key, value) = element;
        match key.as_str() {
            "ok" => is_ok = integer(value) == Some(1),
            "code" => out.code = integer(value),
            "n" => out.n = integer(value),
            "nModified" => out.modified = integer(value),
            "values" => out.returned = value.as_array().map(count),
            "value" => out.returned = Some(i64::from(!matches!(value, RawBsonRef::Null))),
            "writeErrors" => {
                let Some(errors) = value.as_array() else {
                    continue;
                };
                out.write_errors = Some(count(errors));
                let first = errors.get_document(0).ok();
                out.code = out
                    .code
                    .or(first.and_then(|first| integer(first.get("code").ok()??)));
            }
            "cursor" => {
                let Some(cursor) = value.as_document() else {
                    continue;
                };
                out.cursor = cursor.get("id").ok().flatten().and_then(integer);
                let batch = |name: &str| cursor.get(name).ok()??.as_array();
                out.returned = batch("firstBatch")
                    .or_else(|| batch("nextBatch"))
                    .map(count);
            }
            _ => {}
        }
    }
    if !is_ok {
        out.code = out.code.or(Some(0));
    }
    out
}

fn count(array: &mongodb::bson::RawArray) -> i64 {
    i64::try_from(array.into_iter().count()).unwrap_or(i64::MAX)
}

/// A number of any numeric type.
pub(crate) fn integer(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(value) => Some(i64::from(value)),
        RawBsonRef::Int64(value) => Some(value),
        RawBsonRef::Double(value) if value.is_finite() => Some(value as i64),
        RawBsonRef::Boolean(value) => Some(i64::from(value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::tests::message;
    use super::*;
    use mongodb::bson::{Document, doc};

    /// An insert whose documents are a sequence, before or after the body.
    pub(super) fn sequence(body_first: bool) -> Vec<u8> {
        let body = [
            vec![0],
            doc! { "insert": "c", "ordered": true, "$db": "d" }
                .to_vec()
                .unwrap(),
        ]
        .concat();
        let documents = [
            doc! { "_id": 1 }.to_vec().unwrap(),
            doc! { "_id": 2 }.to_vec().unwrap(),
        ]
        .concat();
        let mut inside = b"documents\0".to_vec();
        inside.extend(documents);
        let mut sequence = vec![1];
        sequence.extend((inside.len() as i32 + 4).to_le_bytes());
        sequence.extend(inside);
        let mut out = Vec::new();
        let length = 20 + body.len() + sequence.len();
        for number in [length as i32, 9, 0, OP_MSG, MORE_TO_COME as i32] {
            out.extend(number.to_le_bytes());
        }
        out.extend(
            if body_first {
                [body, sequence]
            } else {
                [sequence, body]
            }
            .concat(),
        );
        out
    }

    #[test]
    fn sequences_become_arrays() {
        for body_first in [true, false] {
            let command_record = command(&sequence(body_first)).unwrap();
            assert_eq!(
                (
                    command_record.id,
                    command_record.name.as_str(),
                    command_record.database.as_str(),
                    command_record.collection.as_deref()
                ),
                (9, "insert", "d", Some("c"))
            );
            assert!(command_record.is_unacknowledged);
            let command = Document::try_from(command_record.command).unwrap();
            assert_eq!(
                command,
                doc! { "insert": "c", "ordered": true, "$db": "d", "documents": [{ "_id": 1 },
                { "_id": 2 }] }
            );
        }
    }

    #[test]
    fn every_cut_and_every_flipped_byte_is_survived() {
        let whole = sequence(true);
        for end in 0..whole.len() {
            let _ = command(&whole[..end]);
        }
        let reply_of = message(
            1,
            9,
            &doc! { "cursor": { "id": 5_i64, "firstBatch": [{ "a": 1 }] },
            "writeErrors": [{ "code": 11000 }], "ok": 1 },
        );
        for bytes in [&whole, &reply_of] {
            for at in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    if let Some(command_record) = command(&changed) {
                        let _ = Document::try_from(command_record.command);
                    }
                    let _ = reply(&changed);
                }
            }
        }
    }

    #[test]
    fn replies_say_what_was_done() {
        let of = |body: Document| reply(&message(1, 9, &body)).unwrap();
        let read = of(doc! {
            "cursor": { "id": 77_i64, "ns": "d.c", "firstBatch": [{ "a": 1 }, {}] }, "ok": 1.0
        });
        assert_eq!(
            (read.cursor, read.returned, read.code),
            (Some(77), Some(2), None)
        );
        let written = of(doc! { "n": 3, "nModified": 2_i64, "ok": 1.0 });
        assert_eq!(
            (written.n, written.modified, written.code),
            (Some(3), Some(2), None)
        );
        let failed = of(doc! { "ok": 0.0, "code": 59, "errmsg": "no" });
        assert_eq!(failed.code, Some(59));
        let operation = of(doc! { "n": 1, "ok": 1.0, "writeErrors": [{ "index": 1,
        "code": 11000 }] });
        assert_eq!(
            (operation.code, operation.write_errors),
            (Some(11_000), Some(1))
        );
        assert_eq!(of(doc! { "value": null, "ok": 1 }).returned, Some(0));
        assert_eq!(of(doc! { "values": [1, 2, 3], "ok": 1 }).returned, Some(3));
        assert_eq!(answers(&message(1, 9, &doc! {})), Some(9));
    }
}
