//! Indexes of the target. Promises: while changes are applied no index refuses a document of the
//! source, and none removes one: uniqueness and expiry are held back until the cut-over. Must not
//! know: documents.

use crate::error::{FollowError, Result, code};
use crate::names::Ns;
use crate::server::Server;
use crate::state::{Entry, integer, text};
use mongodb::bson::{Bson, Document, doc};

/// An expiry after so many seconds never happens.
const NEVER: i32 = i32::MAX;

/// The indexes of a collection of the source, except that of `_id`.
pub(crate) async fn list_indexes(server: &Server, ns: &Ns) -> Result<Vec<Document>> {
    let list = doc! { "listIndexes": &ns.coll };
    let mut all = match server.list(&ns.db, list).await {
        Err(e) if e.is(code::NAMESPACE_NOT_FOUND) => return Ok(Vec::new()),
        all => all?,
    };
    all.retain(|spec| name_of(spec) != "_id_" && !spec.get_bool("clustered").unwrap_or(false));
    for spec in &mut all {
        spec.remove("ns");
        spec.remove("background");
        // The source shows this field while it builds the index.
        spec.remove("buildUUID");
    }
    Ok(all)
}

fn name_of(spec: &Document) -> &str {
    text(spec, "name")
}

fn is_unique(spec: &Document) -> bool {
    spec.get_bool("unique").unwrap_or(false)
}

/// The specification while changes are applied.
fn relax_spec(spec: &Document) -> Document {
    let mut spec = spec.clone();
    spec.remove("unique");
    spec.remove("prepareUnique");
    if spec.contains_key("expireAfterSeconds") {
        spec.insert("expireAfterSeconds", NEVER);
    }
    spec
}

/// Creates indexes in the held-back form.
pub(crate) async fn make(target: &Server, ns: &Ns, specs: &[Document]) -> Result<()> {
    if specs.is_empty() {
        return Ok(());
    }
    let specs: Vec<Document> = specs.iter().map(relax_spec).collect();
    let command = doc! { "createIndexes": &ns.coll, "indexes": specs };
    let made = target.run(&ns.db, command).await;
    made.map(|_| ())
        .map_err(|e| e.in_step(&format!("indexes of {ns} cannot be made in the target")))
}

async fn drop_one(target: &Server, ns: &Ns, name: &str) -> Result<()> {
    let command = doc! { "dropIndexes": &ns.coll, "index": name };
    match target.run(&ns.db, command).await {
        Err(e) if !e.is(code::INDEX_NOT_FOUND) && !e.is(code::NAMESPACE_NOT_FOUND) => {
            Err(e.in_step(&format!("index {name} of {ns} cannot be dropped")))
        }
        _ => Ok(()),
    }
}

/// Aligns the indexes of an entry with those of the source; returns whether any changed.
pub(crate) async fn align(source: &Server, target: &Server, entry: &mut Entry) -> Result<bool> {
    let now = list_indexes(source, &entry.source).await?;
    let gone = entry.indexes.iter().filter(|old| !now.contains(old));
    let new: Vec<Document> = now
        .iter()
        .filter(|spec| !entry.indexes.contains(spec))
        .cloned()
        .collect();
    let mut changed = false;
    for old in gone {
        drop_one(target, &entry.target, name_of(old)).await?;
        changed = true;
    }
    match make(target, &entry.target, &new).await {
        // The index was made but not noted before an interruption, and has changed since.
        Err(e) if e.is(code::INDEX_OPTIONS_CONFLICT) || e.is(code::INDEX_KEY_CONFLICT) => {
            for spec in &new {
                drop_one(target, &entry.target, name_of(spec)).await?;
            }
            make(target, &entry.target, &new).await?;
        }
        made => made?,
    }
    changed |= !new.is_empty();
    entry.indexes = now;
    Ok(changed)
}

/// Gives indexes the properties that were held back. Repeating it has no further effect.
///
/// # Errors
/// One line, if documents of the target have the same key in a unique index.
pub(crate) async fn finish(target: &Server, entry: &Entry) -> Result<()> {
    let ns = &entry.target;
    let there = list_indexes(target, ns).await?;
    for spec in &entry.indexes {
        let name = name_of(spec);
        let mut changes = Vec::new();
        let now = there.iter().find(|now| name_of(now) == name);
        let is_done = now.is_some_and(is_unique);
        if is_unique(spec) && !is_done {
            changes.push(doc! { "name": name, "prepareUnique": true });
            changes.push(doc! { "name": name, "unique": true });
        } else if !is_unique(spec) && spec.get_bool("prepareUnique").unwrap_or(false) {
            changes.push(doc! { "name": name, "prepareUnique": true });
        }
        let expires = "expireAfterSeconds";
        let held = now.is_none_or(|now| integer(now, expires) != integer(spec, expires));
        if let Some(seconds) = spec.get(expires).filter(|_| held) {
            changes.push(doc! { "name": name, "expireAfterSeconds": seconds.clone() });
        }
        for change in changes {
            let command = doc! { "collMod": &ns.coll, "index": change };
            if let Err(e) = target.run(&ns.db, command).await {
                // Otherwise the index would refuse changes that are applied from here on.
                let open = doc! { "name": name, "prepareUnique": false };
                let open = doc! { "collMod": &ns.coll, "index": open };
                let _ = target.run(&ns.db, open).await;
                return Err(e.in_step(&format!("index {name} of {ns} cannot be finished")));
            }
        }
    }
    let expires = entry.options.get("expireAfterSeconds");
    if let Some(seconds) = expires.filter(|v| !matches!(v, Bson::Null)) {
        let command = doc! { "collMod": &ns.coll, "expireAfterSeconds": seconds.clone() };
        let done = target.run(&ns.db, command).await;
        done.map_err(|e: FollowError| e.in_step(&format!("{ns} cannot be finished")))?;
    }
    Ok(())
}
