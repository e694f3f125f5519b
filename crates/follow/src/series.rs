//! Data that no change stream reports: time-series collections and stored functions (`system.js`).
//! They are copied as a whole at the cut-over, when the source gets no writes. Promises: a repeated
//! copy begins again; only what a migration made is dropped. Must not know: changes.

use crate::align::Aligner;
use crate::error::{FollowError, Result};
use crate::indexes;
use crate::names::{Names, Ns};
use crate::server::Server;
use crate::state::integer;
use crate::survey::{SourceCollection, Survey};
use crate::write;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

/// State field with the collections that were made.
const MADE: &str = "series";
const FUNCTIONS: &str = "system.js";

/// Copies time-series collections in batches; returns a report of each.
pub(crate) async fn copy_series(aligner: &Aligner, found: &Survey) -> Result<Vec<Document>> {
    let mut all = Vec::new();
    for one in &found.series {
        claim(aligner, one).await?;
        aligner.drop_target(&one.target).await?;
        make(&aligner.target, one).await?;
        copy(aligner, one).await?;
        let specs = indexes::list_indexes(&aligner.source, &one.source).await?;
        make_indexes(&aligner.target, &one.target, specs).await?;
        let there = count(&aligner.source, &one.source).await?;
        let here = count(&aligner.target, &one.target).await?;
        if there != here {
            return Err(FollowError::of_data(format!(
                "{} has {there} measurements in the source and {here} in the target",
                one.source
            )));
        }
        let (source, target) = (one.source.to_string(), one.target.to_string());
        all.push(doc! { "source": source, "target": target, "documents": here });
    }
    Ok(all)
}

/// Refuses a collection that exists in the target, unless an earlier try made it.
async fn claim(aligner: &Aligner, one: &SourceCollection) -> Result<()> {
    let migration = aligner.state.migration().await?.map(|m| m.document);
    let migration = migration.unwrap_or_default();
    let made = migration.get_array(MADE).map(Vec::as_slice);
    let made = made.unwrap_or_default();
    let name = Bson::String(one.target.to_string());
    if made.contains(&name) {
        return Ok(());
    }
    aligner.refuse_present(one).await?;
    let made: Vec<Bson> = made.iter().cloned().chain([name]).collect();
    aligner.state.set(doc! { MADE: made }).await
}

async fn make(target: &Server, one: &SourceCollection) -> Result<()> {
    let mut create = doc! { "create": &one.target.coll };
    for name in ["timeseries", "expireAfterSeconds", "collation"] {
        if let Some(value) = one.options.get(name) {
            create.insert(name, value.clone());
        }
    }
    // The source gives the span of a bucket in two ways; one of them is enough.
    if let Ok(options) = create.get_document_mut("timeseries")
        && options.contains_key("granularity")
    {
        options.remove("bucketMaxSpanSeconds");
    }
    let made = target.run(&one.target.db, create).await;
    made.map(|_| ())
        .map_err(|e| e.in_step(&format!("{} cannot be made in the target", one.target)))
}

async fn copy(aligner: &Aligner, one: &SourceCollection) -> Result<()> {
    let find = doc! { "find": &one.source.coll, "noCursorTimeout": true };
    let find = RawDocumentBuf::try_from(&find)?;
    let mut cursor = aligner.source.read(&one.source.db, find).await?;
    let mut batch = Vec::new();
    let mut size = 0;
    while cursor.advance().await? {
        let document = cursor.current().to_owned();
        size += document.as_bytes().len();
        batch.push(document);
        if batch.len() >= write::DOCUMENTS_MAX || size >= write::BYTES_MAX {
            write::append(&aligner.target, &one.target, &batch).await?;
            batch.clear();
            size = 0;
        }
    }
    write::append(&aligner.target, &one.target, &batch).await
}

/// Creates indexes, except the one that every time-series collection has.
async fn make_indexes(target: &Server, ns: &Ns, mut specs: Vec<Document>) -> Result<()> {
    let there = indexes::list_indexes(target, ns).await?;
    specs.retain(|spec| !there.iter().any(|t| t.get("name") == spec.get("name")));
    if specs.is_empty() {
        return Ok(());
    }
    let command = doc! { "createIndexes": &ns.coll, "indexes": specs };
    let made = target.run(&ns.db, command).await;
    made.map(|_| ())
        .map_err(|e| e.in_step(&format!("indexes of {ns} cannot be made in the target")))
}

async fn count(server: &Server, ns: &Ns) -> Result<i64> {
    let sum = doc! { "$count": "n" };
    let command = doc! { "aggregate": &ns.coll, "pipeline": [sum], "cursor": {} };
    let counted = server.list(&ns.db, command).await?;
    Ok(counted.first().map_or(0, |d| integer(d, "n")))
}

/// Makes the stored functions of each database equal to those of the source; returns their number.
pub(crate) async fn bring_functions(
    source: &Server,
    target: &Server,
    names: &Names,
) -> Result<i64> {
    let command = doc! { "listDatabases": 1, "nameOnly": true };
    let reply = source.run("admin", command).await?;
    let databases = reply.get_array("databases").map(Vec::as_slice);
    let databases = { databases.unwrap_or_default().iter() }.filter_map(Bson::as_document);
    let mut all = 0;
    for db in databases.filter_map(|d| d.get_str("name").ok()) {
        let from = Ns::new(db, FUNCTIONS);
        if !names.has_functions(&from) {
            continue;
        }
        let kept = source.list(db, doc! { "find": FUNCTIONS }).await?;
        if kept.is_empty() {
            continue;
        }
        let documents: Vec<RawDocumentBuf> = { kept.iter() }
            .map(|d| Ok(RawDocumentBuf::try_from(d)?))
            .collect::<Result<_>>()?;
        let to = Ns::new(&names.target(&from).db, FUNCTIONS);
        write::replace(target, &to, &documents).await?;
        all += documents.len() as i64;
    }
    Ok(all)
}
