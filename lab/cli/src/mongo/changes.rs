//! Change streams for readers during a step, and the date of the oldest expiring document.
//!
//! Promises: every event of the driver is passed on; an event of an unknown kind still counts as an
//! event.

use std::time::Duration;

use lab_kit::target::{ChangeReader, EventFuture};
use lab_kit::watch::Event;
use mongodb::bson::raw::{RawBsonRef, RawDocument};
use mongodb::bson::{RawDocumentBuf, doc};
use mongodb::change_stream::ChangeStream;
use mongodb::error::Error;
use mongodb::options::ClientOptions;
use mongodb::{Client, Collection};

use super::reply::one_line;

/// How long the server waits for events before it answers with none.
const AWAIT: Duration = Duration::from_millis(500);
/// The longest wait for a reader's connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

struct Stream(ChangeStream<RawDocumentBuf>);

/// Opens readers, each with its own connection.
pub(super) async fn open(
    options: &ClientOptions,
    database: &str,
    collection: &str,
    count: u32,
) -> Result<Vec<Box<dyn ChangeReader>>, Error> {
    let mut options = options.clone();
    options.max_pool_size = Some(count.saturating_add(2));
    options.server_selection_timeout = Some(CONNECT_MAX);
    let client = Client::with_options(options)?;
    let table = client
        .database(database)
        .collection::<RawDocumentBuf>(collection);
    let mut out: Vec<Box<dyn ChangeReader>> = Vec::new();
    for _ in 0..count {
        let stream = table.watch().max_await_time(AWAIT).await?;
        out.push(Box::new(Stream(stream.with_type())));
    }
    Ok(out)
}

impl ChangeReader for Stream {
    fn next(&mut self) -> EventFuture<'_> {
        Box::pin(async {
            let found = self.0.next_if_any().await;
            let found = found.map_err(|error| one_line(&error))?;
            match found {
                Some(event) => Ok(Some(read(&event))),
                None if self.0.is_alive() => Ok(None),
                None => Err("the change stream has ended".to_owned()),
            }
        })
    }
}

fn read(event: &RawDocument) -> Event {
    let is_insert = event
        .get_str("operationType")
        .is_ok_and(|kind| kind == "insert");
    let number = |name: &str| {
        let document = event.get_document("fullDocument").ok()?;
        match document.get(name).ok()?? {
            RawBsonRef::Int32(number) => u64::try_from(number).ok(),
            RawBsonRef::Int64(number) => u64::try_from(number).ok(),
            _ => None,
        }
    };
    match number("client")
        .zip(number("sequence"))
        .filter(|_| is_insert)
    {
        Some((client, sequence)) => Event::Inserted { client, sequence },
        None => Event::Other,
    }
}

/// The lowest date in a field, and the number of documents.
pub(super) async fn oldest(
    table: &Collection<RawDocumentBuf>,
    field: &str,
) -> Result<(Option<i64>, u64), Error> {
    let count = table.estimated_document_count().await?;
    let found = table
        .find_one(doc! { field: { "$gt": mongodb::bson::DateTime::MIN } })
        .sort(doc! { field: 1 })
        .projection(doc! { "_id": 0, field: 1 })
        .await?;
    let date = found.and_then(|found| found.get_datetime(field).ok());
    Ok((date.map(mongodb::bson::DateTime::timestamp_millis), count))
}
