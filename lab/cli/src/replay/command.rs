//! Prepares a recorded command to be sent again, and extracts the facts of a reply.
//!
//! Promises: the fields of the recorded session (its id, transaction numbers, cluster times) are
//! removed, and everything else is as recorded.

use mongodb::bson::raw::RawBsonRef;
use mongodb::bson::{Bson, Document, RawArrayBuf, RawDocument, RawDocumentBuf};

use crate::mongo::integer;
use crate::record::file::ReplyFacts;

/// Servers refuse larger documents, so a command that came with document sequences may not fit into
/// one.
const COMMAND_MAX: usize = 16 * 1_024 * 1_024;
/// The statements of such a command are sent in pieces of this size.
const PIECE: usize = 12 * 1_024 * 1_024;
/// Fields that may come as document sequences.
const STATEMENTS: [&str; 3] = ["documents", "updates", "deletes"];
/// Fields of a command that belong to its session or its cluster.
const OF_SESSION: [&str; 6] = [
    "lsid",
    "txnNumber",
    "autocommit",
    "startTransaction",
    "stmtId",
    "stmtIds",
];

/// Why a command is not sent again.
const TOO_LARGE: &str = "larger than a server takes in one document (16 MiB)";

/// The kind of operation in reports; `None` for commands that are not part of a load.
pub(crate) fn kind(name: &str) -> Option<&'static str> {
    Some(match name.to_ascii_lowercase().as_str() {
        "insert" => "insert",
        "update" => "update",
        "delete" => "remove",
        "find" => "query",
        "getmore" => "getMore",
        "aggregate" => "aggregate",
        "killcursors" => "killCursors",
        "count" => "command.count",
        "distinct" => "command.distinct",
        "findandmodify" => "command.findAndModify",
        "bulkwrite" => "command.bulkWrite",
        "create" => "command.create",
        "createindexes" => "command.createIndexes",
        "drop" => "command.drop",
        "dropdatabase" => "command.dropDatabase",
        "dropindexes" => "command.dropIndexes",
        "collmod" => "command.collMod",
        "renamecollection" => "command.renameCollection",
        "listcollections" => "command.listCollections",
        "listindexes" => "command.listIndexes",
        "listdatabases" => "command.listDatabases",
        _ => return None,
    })
}

/// All kinds, for a message.
pub(crate) const KINDS: &str = "insert, update, remove, query, getMore, aggregate, killCursors, \
    count, distinct, findAndModify, bulkWrite, \
                                create, createIndexes, drop, dropDatabase, dropIndexes, collMod, \
                                renameCollection, listCollections, listIndexes, listDatabases";

/// Whether `given`, from the command line, names this kind.
pub(crate) fn is_kind(kind: &str, given: &str) -> bool {
    kind.eq_ignore_ascii_case(given)
        || kind
            .strip_prefix("command.")
            .is_some_and(|kind| kind.eq_ignore_ascii_case(given))
}

/// The command to send, in pieces if it is too large for one document; `cursor` takes the place of
/// recorded cursor ids.
///
/// # Errors
/// The recorded bytes are not a command, or one of its documents is too large.
pub(crate) fn prepare(
    recorded: &RawDocument,
    cursor: Option<i64>,
) -> Result<Vec<RawDocumentBuf>, String> {
    if recorded.as_bytes().len() <= COMMAND_MAX {
        return Ok(vec![build_command(recorded, cursor, None)?]);
    }
    let found = STATEMENTS
        .iter()
        .find_map(|name| Some((*name, recorded.get(name).ok()??.as_array()?)));
    let Some((name, statements)) = found else {
        return Err(TOO_LARGE.to_owned());
    };
    let (mut out, mut piece, mut size) = (Vec::new(), RawArrayBuf::new(), 0);
    for statement in statements {
        let statement = statement.map_err(|error| read_error(&error))?;
        let length = statement
            .as_document()
            .map_or(0, |document| document.as_bytes().len());
        if size > 0 && size + length > PIECE {
            out.push(build_command(
                recorded,
                cursor,
                Some((name, &std::mem::take(&mut piece))),
            )?);
            size = 0;
        }
        piece.push(statement);
        size += length;
    }
    out.push(build_command(recorded, cursor, Some((name, &piece)))?);
    Ok(out)
}

/// Adds the facts of a further piece's reply to those of the whole command.
pub(crate) fn add(total: &mut ReplyFacts, piece: &ReplyFacts) {
    let sum = |left: Option<i64>, right: Option<i64>| {
        left.zip(right)
            .map(|(left, right)| left.saturating_add(right))
            .or(left)
            .or(right)
    };
    total.n = sum(total.n, piece.n);
    total.modified = sum(total.modified, piece.modified);
    total.write_errors = sum(total.write_errors, piece.write_errors);
    total.code = total.code.or(piece.code);
}

/// Whether a failed statement prevents the ones after it.
pub(crate) fn is_ordered(recorded: &RawDocument) -> bool {
    recorded.get_bool("ordered").unwrap_or(true)
}

fn read_error(error: &dyn std::fmt::Display) -> String {
    format!("cannot be read: {error}")
}

/// Builds a command with all or some of its statements.
fn build_command(
    recorded: &RawDocument,
    cursor: Option<i64>,
    only: Option<(&str, &RawArrayBuf)>,
) -> Result<RawDocumentBuf, String> {
    let mut out = RawDocumentBuf::new();
    for element in recorded.iter_elements() {
        let element = element.map_err(|error| read_error(&error))?;
        let (key, name) = (element.key(), element.key().as_str());
        if OF_SESSION.contains(&name) || name.starts_with('$') {
            continue;
        }
        let value = element.value().map_err(|error| read_error(&error))?;
        match (name, value, cursor) {
            (_, RawBsonRef::Array(_), _) if only.is_some_and(|(only, _)| only == name) => {
                out.append(
                    key,
                    only.map_or_else(RawArrayBuf::new, |(_, statements)| statements.clone()),
                );
            }
            ("getMore", _, Some(id)) => out.append(key, id),
            ("cursors", _, Some(id)) => {
                let mut ids = RawArrayBuf::new();
                ids.push(id);
                out.append(key, ids);
            }
            ("readConcern", RawBsonRef::Document(concern), _) => {
                let without = remove_fields(concern, &["afterClusterTime", "atClusterTime"])
                    .map_err(|error| read_error(&error))?;
                if !without.is_empty() {
                    out.append(key, without);
                }
            }
            // The replay needs every answer.
            ("writeConcern", RawBsonRef::Document(concern), _) if is_unacknowledged(concern) => {}
            _ => out.append(key, value),
        }
    }
    Ok(out)
}

fn remove_fields(
    document: &RawDocument,
    without: &[&str],
) -> Result<RawDocumentBuf, mongodb::bson::error::Error> {
    let mut out = RawDocumentBuf::new();
    for element in document.iter_elements() {
        let element = element?;
        if !without.contains(&element.key().as_str()) {
            out.append(element.key(), element.value()?);
        }
    }
    Ok(out)
}

fn is_unacknowledged(concern: &RawDocument) -> bool {
    concern
        .get("w")
        .ok()
        .flatten()
        .and_then(crate::record::message::integer)
        == Some(0)
}

/// Recorded cursor ids that a command names.
pub(crate) fn cursors(command: &RawDocument) -> Vec<i64> {
    let number = |value: RawBsonRef<'_>| crate::record::message::integer(value);
    if let Ok(Some(id)) = command.get("getMore") {
        return number(id).into_iter().collect();
    }
    let Ok(Some(ids)) = command.get("cursors") else {
        return Vec::new();
    };
    ids.as_array()
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(number)
        .collect()
}

/// The facts of a reply of the driver.
pub(crate) fn facts(reply: &Document) -> ReplyFacts {
    let length = |array: &Vec<Bson>| i64::try_from(array.len()).unwrap_or(i64::MAX);
    let mut out = ReplyFacts {
        n: integer(reply, "n"),
        modified: integer(reply, "nModified"),
        returned: reply.get_array("values").ok().map(length),
        ..ReplyFacts::default()
    };
    if let Some(value) = reply.get("value") {
        out.returned = Some(i64::from(*value != Bson::Null));
    }
    if let Ok(errors) = reply.get_array("writeErrors") {
        out.write_errors = Some(length(errors));
        out.code = errors
            .first()
            .and_then(Bson::as_document)
            .and_then(|first| integer(first, "code"));
    }
    if let Ok(cursor) = reply.get_document("cursor") {
        out.cursor = integer(cursor, "id");
        out.returned = cursor
            .get_array("firstBatch")
            .or_else(|_| cursor.get_array("nextBatch"))
            .ok()
            .map(length);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::{doc, rawdoc};

    #[test]
    fn the_session_goes_and_the_cursor_is_mapped() {
        let recorded = rawdoc! {
            "getMore": 77_i64, "collection": "c", "batchSize": 5, "lsid": { "id": 1 },
            "txnNumber": 3_i64, "$db": "d", "$clusterTime": {},
            "readConcern": { "level": "majority", "afterClusterTime": 5 },
                "writeConcern": { "w": 0 },
        };
        let sent = Document::try_from(prepare(&recorded, Some(5)).unwrap().remove(0)).unwrap();
        assert_eq!(
            sent,
            doc! { "getMore": 5_i64, "collection": "c", "batchSize": 5,
            "readConcern": { "level": "majority" } }
        );
        let kill = rawdoc! { "killCursors": "c", "cursors": [77_i64, 78_i64], "$db": "d" };
        assert_eq!(cursors(&kill), [77, 78]);
        assert_eq!(
            Document::try_from(prepare(&kill, Some(9)).unwrap().remove(0)).unwrap(),
            doc! { "killCursors": "c", "cursors": [9_i64] }
        );
        assert_eq!(
            prepare(
                &rawdoc! { "find": "c", "filter": { "x": "x".repeat(COMMAND_MAX) } },
                None
            )
            .unwrap_err(),
            TOO_LARGE
        );
    }

    #[test]
    fn what_came_in_sequences_goes_in_pieces() {
        let pad = "x".repeat(PIECE / 3);
        let large = rawdoc! { "insert": "c", "documents": [{ "n": 1, "x": &*pad }, { "n": 2,
        "x": &*pad }, { "n": 3, "x": &*pad }, { "n": 4, "x": &*pad }, { "n": 5, "x": &*pad }],
            "$db": "d" };
        let pieces: Vec<Document> = prepare(&large, None)
            .unwrap()
            .into_iter()
            .map(|piece| Document::try_from(piece).unwrap())
            .collect();
        let numbers = |piece: &Document| {
            piece
                .get_array("documents")
                .unwrap()
                .iter()
                .map(|one| one.as_document().unwrap().get_i32("n").unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            pieces.iter().map(numbers).collect::<Vec<_>>(),
            [vec![1, 2], vec![3, 4], vec![5]]
        );
        assert!(
            pieces
                .iter()
                .all(|piece| piece.get_str("insert").unwrap() == "c")
        );
        let mut total = facts(&doc! { "n": 2 });
        add(
            &mut total,
            &facts(&doc! { "n": 1, "writeErrors": [{ "code": 11000 }] }),
        );
        assert_eq!(
            (total.n, total.write_errors, total.code, is_ordered(&large)),
            (Some(3), Some(1), Some(11_000), true)
        );
    }

    #[test]
    fn replies_of_the_driver_and_of_the_wire_say_the_same() {
        for reply in [
            doc! { "n": 3, "nModified": 2, "ok": 1 },
            doc! { "cursor": { "id": 4_i64, "nextBatch": [{}, {}] }, "ok": 1.0 },
            doc! { "n": 1, "writeErrors": [{ "code": 11000 }, { "code": 2 }], "ok": 1 },
            doc! { "value": { "a": 1 }, "ok": 1 },
            doc! { "values": [1], "ok": 1 },
        ] {
            let raw = RawDocumentBuf::try_from(&reply).unwrap();
            assert_eq!(
                facts(&reply),
                crate::record::message::facts(&raw),
                "{reply}"
            );
        }
    }

    #[test]
    fn kinds_are_asked_for_by_either_name() {
        assert!(
            is_kind("command.findAndModify", "findandmodify")
                && is_kind("command.count", "command.count")
                && is_kind("remove", "remove")
        );
        assert!(!is_kind("command.count", "query"));
        assert_eq!(
            (kind("findandmodify"), kind("hello")),
            (Some("command.findAndModify"), None)
        );
        for name in KINDS.split(", ") {
            let name = if name == "remove" {
                "delete"
            } else if name == "query" {
                "find"
            } else {
                name
            };
            assert!(kind(name).is_some(), "{name}");
        }
    }
}
