//! The changes of a source from its log, for sources without change streams. Promises: the same
//! events as a stream would tell, as far as they say what to look at. Must not know: what is done
//! with them.
//!
//! Reading an entry again does no harm, so the place to go on at is the time of the last one.

use crate::error::{FollowError, Result};
use crate::events::{Change, Event, StreamItem};
use crate::names::Ns;
use crate::server::Server;
use mongodb::bson::{Bson, RawDocument, RawDocumentBuf, Timestamp, doc, rawdoc};
use mongodb::options::{CursorType, ReadConcern};
use tokio::sync::mpsc;

/// Sends steps until the receiver is closed.
///
/// # Errors
/// One line.
pub(crate) async fn read(
    source: Server,
    from: Timestamp,
    out: mpsc::Sender<StreamItem>,
) -> Result<()> {
    let within = |e: FollowError| e.in_step("the source's log");
    check_reach(&source, from).await.map_err(within)?;
    let log = source.client.database("local");
    let log = log.collection::<RawDocumentBuf>("oplog.rs");
    let find = log
        .find(doc! { "ts": { "$gte": from } })
        .cursor_type(CursorType::TailableAwait)
        .no_cursor_timeout(true)
        .read_concern(ReadConcern::majority());
    let mut cursor = find.await.map_err(|e| within(e.into()))?;
    while cursor.advance().await.map_err(|e| within(e.into()))? {
        let entry = cursor.current();
        let time = entry.get_timestamp("ts").map_err(|_| report_bad_entry())?;
        let mut events = Vec::new();
        add(entry, time, &mut events)?;
        let last = StreamItem {
            event: None,
            token: Some(rawdoc! { "ts": time }),
        };
        let steps = events.into_iter().map(|event| StreamItem {
            event: Some(event),
            token: None,
        });
        for step in steps.chain([last]) {
            if out.send(step).await.is_err() {
                return Ok(());
            }
        }
    }
    Err(FollowError::of_network("the source's log ended"))
}

fn report_bad_entry() -> FollowError {
    FollowError::of_data("an entry of the source's log is not as expected")
}

/// Checks that the log reaches back to a time.
async fn check_reach(source: &Server, from: Timestamp) -> Result<()> {
    let first = doc! { "find": "oplog.rs", "sort": { "$natural": 1 }, "limit": 1,
    "projection": { "ts": 1 } };
    let first = source.list("local", first).await?;
    let oldest = first.first().and_then(|d| d.get_timestamp("ts").ok());
    match oldest {
        Some(oldest) if oldest <= from => Ok(()),
        Some(_) => Err(FollowError::of_data(
            "it no longer reaches back to the position of this migration: enlarge it, and start \
             again with --restart",
        )),
        None => Err(FollowError::of_options("there is none")),
    }
}

/// The events of an entry, or of an operation of a transaction.
fn add(entry: &RawDocument, time: Timestamp, events: &mut Vec<Event>) -> Result<()> {
    let kind = entry.get_str("op").map_err(|_| report_bad_entry())?;
    let o = entry.get_document("o").map_err(|_| report_bad_entry())?;
    let id = |field: &str| {
        let d = entry.get_document(field).map_err(|_| report_bad_entry())?;
        crate::write::id_of(d)
    };
    let change = match kind {
        // Large documents are read later, as with a change stream.
        "i" if o.as_bytes().len() <= crate::events::DOCUMENT_MAX as usize => {
            Change::Put(o.to_owned())
        }
        "i" => Change::Look(id("o")?),
        "u" => Change::Look(id("o2")?),
        "d" => Change::Delete(id("o")?),
        "c" => match o.iter().next() {
            Some(Ok((name, value))) => match name.as_str() {
                "applyOps" => {
                    let all = value.as_array().ok_or_else(report_bad_entry)?;
                    for one in all {
                        let one = one.map_err(|_| report_bad_entry())?;
                        add(
                            one.as_document().ok_or_else(report_bad_entry)?,
                            time,
                            events,
                        )?;
                    }
                    return Ok(());
                }
                name => command(name),
            },
            _ => return Err(report_bad_entry()),
        },
        _ => return Ok(()),
    };
    let ns = entry.get_str("ns").unwrap_or_default();
    let (db, coll) = ns.split_once('.').unwrap_or((ns, ""));
    let mut event = Event {
        key: entry
            .get("ui")
            .ok()
            .flatten()
            .map(Bson::try_from)
            .transpose()?,
        ns: Ns::new(db, coll),
        to: None,
        time,
        wall_ms: { entry.get_datetime("wall") }
            .ok()
            .map(|at| at.timestamp_millis()),
        in_transaction: false,
        change,
    };
    if matches!(
        event.change,
        Change::Names | Change::Options | Change::Indexes
    ) {
        // Commands are not interpreted: the source is listed again.
        event.ns.coll = String::new();
    }
    events.push(event);
    Ok(())
}

fn command(name: &str) -> Change {
    match name {
        "create" | "drop" | "renameCollection" | "dropDatabase" => Change::Names,
        "collMod" => Change::Options,
        "createIndexes" | "commitIndexBuild" | "dropIndexes" | "deleteIndexes" => Change::Indexes,
        _ => Change::Nothing,
    }
}
