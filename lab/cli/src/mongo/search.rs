//! Search indexes: whether they are ready, and the recall of searches for the neighbours of a
//! vector.
//!
//! Promises: the exact neighbours are computed here from the documents that a plain find returns,
//! and not by the measured server.

use std::time::{Duration, Instant};

use lab_kit::nearest::{Comparison, NearestSearch, Recall, Similarity};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use super::reply::one_line;

/// Polling interval for an index that is being built.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The results of a pipeline, a text for each document.
pub(super) async fn answers(
    table: &Collection<RawDocumentBuf>,
    stages: &[Document],
) -> Result<Vec<String>, String> {
    let found = documents(table, stages).await?;
    Ok(found.iter().map(Document::to_string).collect())
}

async fn documents(
    table: &Collection<RawDocumentBuf>,
    stages: &[Document],
) -> Result<Vec<Document>, String> {
    let asked = table.aggregate(stages.to_vec()).await;
    let mut cursor = asked.map_err(|error| one_line(&error))?;
    let mut out = Vec::new();
    while cursor.advance().await.map_err(|error| one_line(&error))? {
        let found = cursor.deserialize_current();
        out.push(found.map_err(|error| one_line(&error))?);
    }
    Ok(out)
}

/// Waits until all search indexes of a collection are ready.
pub(super) async fn ready(
    table: &Collection<RawDocumentBuf>,
    timeout: Duration,
) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let all = documents(table, &[doc! { "$listSearchIndexes": {} }]).await?;
        if all.is_empty() {
            return Err("there are none".to_owned());
        }
        let status = |index: &Document| index.get_str("status").unwrap_or_default().to_owned();
        let waiting = all.iter().find(|index| status(index) != "READY");
        let Some(waiting) = waiting else {
            return Ok(());
        };
        let name = waiting.get_str("name").unwrap_or_default();
        if status(waiting) == "FAILED" || begun.elapsed() > timeout {
            return Err(format!(
                "index {name} is {} after {:.1} s",
                status(waiting),
                begun.elapsed().as_secs_f64()
            ));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The recall of searches. Each search begins with `$vectorSearch`, and all use the same field.
pub(super) async fn recall(
    table: &Collection<RawDocumentBuf>,
    similarity: Similarity,
    searches: Vec<Vec<Document>>,
) -> Result<Recall, String> {
    let mut sought = Vec::new();
    let (mut field, mut is_exact) = (String::new(), false);
    for mut stages in searches {
        let first = stages
            .first()
            .and_then(|one| one.get_document("$vectorSearch").ok());
        let Some(search) = first else {
            return Err("the statement does not begin with $vectorSearch".to_owned());
        };
        if search.contains_key("filter") {
            return Err("a filter is not compared".to_owned());
        }
        field = search.get_str("path").unwrap_or_default().to_owned();
        is_exact = search.get_bool("exact").unwrap_or(false);
        let vector = numbers(search.get("queryVector"));
        let wanted = search.get("limit").and_then(Bson::as_i32).unwrap_or(0);
        stages.truncate(1);
        stages.push(doc! { "$project": { "_id": 1 } });
        let found = documents(table, &stages).await?;
        sought.push(NearestSearch {
            vector,
            wanted: usize::try_from(wanted).unwrap_or(0),
            found: found.iter().map(id).collect(),
        });
    }
    let mut comparison = Comparison::new(similarity, sought);
    let table = table.clone_with_type::<Document>();
    let asked = table.find(doc! {}).projection(doc! { &field: 1 }).await;
    let mut cursor = asked.map_err(|error| one_line(&error))?;
    let mut vectors = 0;
    while cursor.advance().await.map_err(|error| one_line(&error))? {
        let document: Document = cursor
            .deserialize_current()
            .map_err(|error| one_line(&error))?;
        let vector = numbers(at(&document, &field));
        if !vector.is_empty() {
            vectors += 1;
            comparison.take(&id(&document), &vector);
        }
    }
    let mut out = comparison.recall(vectors);
    out.is_exact = is_exact;
    Ok(out)
}

fn id(document: &Document) -> String {
    document.get("_id").map(Bson::to_string).unwrap_or_default()
}

/// The value at a dotted path.
fn at<'a>(document: &'a Document, path: &str) -> Option<&'a Bson> {
    match path.split_once('.') {
        Some((first, rest)) => at(document.get_document(first).ok()?, rest),
        None => document.get(path),
    }
}

fn numbers(value: Option<&Bson>) -> Vec<f64> {
    let items = value.and_then(Bson::as_array);
    let items = items.map(Vec::as_slice).unwrap_or_default();
    let number = |one: &Bson| match one {
        Bson::Double(number) => Some(*number),
        Bson::Int32(number) => Some(f64::from(*number)),
        Bson::Int64(number) => Some(*number as f64),
        _ => None,
    };
    items.iter().filter_map(number).collect()
}
