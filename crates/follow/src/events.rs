//! The changes of a source as they happen. Promises: events come in order, each with the token to
//! resume after it; large documents are not in events but must be read. Must not know: what is done
//! with events.

use crate::error::{FollowError, Result, code};
use crate::names::Ns;
use crate::server::Server;
use mongodb::Client;
use mongodb::bson::{
    Bson, Document, RawBson, RawDocument, RawDocumentBuf, Timestamp, deserialize_from_document,
    doc, serialize_to_raw_document_buf,
};
use mongodb::change_stream::event::ResumeToken;
use std::time::Duration;
use tokio::sync::mpsc;

/// Most events waiting to be applied.
pub(crate) const WAITING: usize = 1000;
/// Larger documents are not in events.
pub(crate) const DOCUMENT_MAX: i32 = 128 << 10;
/// The bytes after the time in a Quarry token that belongs to no event. MongoDB's tokens have
/// another byte there; theirs have the time of the last log entry read.
const BETWEEN_EVENTS: &str = "00";
/// How long the source waits for an event before it reports that there is none.
const AWAIT: Duration = Duration::from_millis(500);

/// What changed.
#[derive(Debug)]
pub(crate) enum Change {
    /// The document as it was after the change.
    Put(RawDocumentBuf),
    /// A document has changed and must be read.
    Look(RawBson),
    Delete(RawBson),
    /// Collections were created, dropped or renamed: the source must be listed again.
    Names,
    /// Options of a collection or of one of its indexes.
    Options,
    /// Indexes of a collection.
    Indexes,
    /// Nothing that is followed.
    Nothing,
}

/// A change.
#[derive(Debug)]
pub(crate) struct Event {
    /// The collection's identity, if the source tells it.
    pub(crate) key: Option<Bson>,
    pub(crate) ns: Ns,
    /// The new name, if it is a rename.
    pub(crate) to: Option<Ns>,
    pub(crate) time: Timestamp,
    /// The source's clock at the change; milliseconds since the epoch.
    pub(crate) wall_ms: Option<i64>,
    /// More events of the same time may follow.
    pub(crate) in_transaction: bool,
    pub(crate) change: Change,
}

impl Event {
    /// An event as if this document had changed.
    pub(crate) fn of_document(key: Bson, ns: Ns, id: RawBson) -> Event {
        Event {
            key: Some(key),
            ns,
            to: None,
            time: Timestamp {
                time: 0,
                increment: 0,
            },
            wall_ms: None,
            in_transaction: false,
            change: Change::Look(id),
        }
    }
}

/// One step of the stream: an event, or only a token without one.
#[derive(Debug)]
pub(crate) struct StreamItem {
    pub(crate) event: Option<Event>,
    /// The token to resume after this step.
    pub(crate) token: Option<RawDocumentBuf>,
}

/// All events up to the returned time come before the token's position. A token begins with a time:
/// the event's own, or for a position between events the time of events to come. A position in the
/// log is a time itself.
pub(crate) fn time_of(token: &RawDocument) -> Option<Timestamp> {
    if let Ok(time) = token.get_timestamp("ts") {
        return Some(time);
    }
    let hex = token.get_str("_data").ok()?.strip_prefix("82")?;
    let number = |at: usize| u32::from_str_radix(hex.get(at..at + 8)?, 16).ok();
    let time = Timestamp {
        time: number(0)?,
        increment: number(8)?,
    };
    Some(match hex.get(16..18) {
        Some(BETWEEN_EVENTS) => time_before(time),
        _ => time,
    })
}

/// The greatest time less than `time`.
pub(crate) fn time_before(time: Timestamp) -> Timestamp {
    match time.increment.checked_sub(1) {
        Some(increment) => Timestamp { increment, ..time },
        None => Timestamp {
            time: time.time.saturating_sub(1),
            increment: u32::MAX,
        },
    }
}

fn pipeline(source: &Server) -> Vec<Document> {
    let mut stages = vec![doc! { "$unset": ["updateDescription", "lsid"] }];
    if source.is_at_least(4, 4) {
        let empty = doc! { "$literal": {} };
        let size = doc! { "$bsonSize": { "$ifNull": ["$fullDocument", empty] } };
        let small = doc! { "$lt": [size, DOCUMENT_MAX] };
        let kept = doc! { "$cond": [small, "$fullDocument", "$$REMOVE"] };
        stages.push(doc! { "$set": { "fullDocument": kept } });
    }
    stages
}

/// Where a stream begins.
#[derive(Clone, Debug)]
pub(crate) enum StreamStart {
    At(Timestamp),
    Behind(RawDocumentBuf),
}

/// Sends steps until the receiver is closed.
///
/// # Errors
/// One line.
pub(crate) async fn read(
    source: Server,
    start: StreamStart,
    out: mpsc::Sender<StreamItem>,
) -> Result<()> {
    let client: &Client = &source.client;
    let mut watch = client
        .watch()
        .pipeline(pipeline(&source))
        .max_await_time(AWAIT);
    if source.is_at_least(6, 0) {
        watch = watch.show_expanded_events(true);
    }
    watch = match start {
        StreamStart::At(time) => watch.start_at_operation_time(time),
        StreamStart::Behind(token) => {
            let token = Document::try_from(token)?;
            let token: ResumeToken = deserialize_from_document(token)?;
            watch.start_after(token)
        }
    };
    let opened = watch.await.map_err(|e| explain_loss(e.into()))?;
    let mut stream = opened.with_type::<RawDocumentBuf>();
    loop {
        let next = stream
            .next_if_any()
            .await
            .map_err(|e| explain_loss(e.into()))?;
        let token = stream.resume_token();
        let step = StreamItem {
            event: next.as_deref().map(parse).transpose()?,
            token: token
                .map(|t| serialize_to_raw_document_buf(&t))
                .transpose()?,
        };
        if out.send(step).await.is_err() {
            return Ok(());
        }
    }
}

fn explain_loss(e: FollowError) -> FollowError {
    match e.is(code::HISTORY_LOST) {
        true => FollowError::of_data(
            "the source's log no longer reaches back to the position of this migration: enlarge \
             the log, and start again with --restart",
        ),
        false => e.in_step("the changes of the source"),
    }
}

fn parse(event: &RawDocument) -> Result<Event> {
    let strange = || FollowError::of_data("an event of the source is not as expected");
    let name = event.get_str("operationType").map_err(|_| strange())?;
    let ns = |field: &str| {
        let ns = event.get_document(field).ok()?;
        let coll = ns.get_str("coll").unwrap_or_default();
        Some(Ns::new(ns.get_str("db").ok()?, coll))
    };
    let id = || {
        let key = event.get_document("documentKey").map_err(|_| strange())?;
        crate::write::id_of(key)
    };
    let change = match name {
        "insert" | "replace" => match event.get_document("fullDocument") {
            Ok(whole) => Change::Put(whole.to_owned()),
            Err(_) => Change::Look(id()?),
        },
        "update" => Change::Look(id()?),
        "delete" => Change::Delete(id()?),
        "create" | "drop" | "rename" | "dropDatabase" => Change::Names,
        "modify" => Change::Options,
        "createIndexes" | "dropIndexes" => Change::Indexes,
        // Sharding of the source, and other events that concern neither documents nor collections.
        _ => Change::Nothing,
    };
    let key = event.get("collectionUUID").ok().flatten();
    Ok(Event {
        key: key.map(Bson::try_from).transpose()?,
        ns: ns("ns").unwrap_or_else(|| Ns::new("", "")),
        to: ns("to"),
        time: event.get_timestamp("clusterTime").map_err(|_| strange())?,
        wall_ms: { event.get_datetime("wallTime") }
            .ok()
            .map(|at| at.timestamp_millis()),
        in_transaction: matches!(event.get("txnNumber"), Ok(Some(_))),
        change,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::rawdoc;

    #[test]
    fn an_event_of_the_time_of_a_place_is_still_to_come() {
        let place = rawdoc! { "_data": "8265F1A2B30000000700000000000000000000" };
        let before = Timestamp {
            time: 0x65F1_A2B3,
            increment: 6,
        };
        assert_eq!(time_of(&place), Some(before));
        let first = rawdoc! { "_data": "8265F1A2B30000000000000000000000000000" };
        let before = Timestamp {
            time: 0x65F1_A2B2,
            increment: u32::MAX,
        };
        assert_eq!(time_of(&first), Some(before));
        let event = rawdoc! { "_data": "8265F1A2B30000000780000000000000000000" };
        let time = Timestamp {
            time: 0x65F1_A2B3,
            increment: 7,
        };
        assert_eq!(time_of(&event), Some(time));
    }

    #[test]
    fn a_token_tells_its_time() {
        let token = rawdoc! { "_data": "8265F1A2B3000000072B0229296E04" };
        let time = Timestamp {
            time: 0x65F1_A2B3,
            increment: 7,
        };
        assert_eq!(time_of(&token), Some(time));
        for other in ["", "82", "8365F1A2B300000007", "82zz"] {
            assert_eq!(time_of(&rawdoc! { "_data": other }), None);
        }
    }
}
