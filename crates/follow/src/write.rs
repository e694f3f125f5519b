//! Writes documents to the target unchanged: validators do not reject them, empty timestamps stay
//! empty. Promises: repeating a write has the same result. Must not know: where documents come
//! from.

use crate::error::{FollowError, Result, code};
use crate::names::Ns;
use crate::server::Server;
use crate::state::{first_write_error, integer};
use mongodb::bson::{
    Bson, Document, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, cstr, doc, rawdoc,
};

/// Most documents in one command.
pub(crate) const DOCUMENTS_MAX: usize = 1000;
/// Most bytes of documents in one command.
pub(crate) const BYTES_MAX: usize = 8 << 20;

/// Most other documents that may be removed to make room for one.
const OCCUPANTS: usize = 10;

/// The `_id` of a document.
pub(crate) fn id_of(document: &RawDocument) -> Result<RawBson> {
    let id = document.get("_id").ok().flatten();
    let id = id.ok_or_else(|| FollowError::of_data("a document has no _id"))?;
    Ok(id.into())
}

/// `_id` as bytes, which are equal for the same value of the same type.
pub(crate) fn bytes_of(id: &RawBson) -> Vec<u8> {
    rawdoc! { "": id.clone() }.into_bytes()
}

/// A filter for one document, whatever the form of its `_id`.
fn is(id: &RawBson) -> RawDocumentBuf {
    match id {
        RawBson::Document(_) => rawdoc! { "_id": { "$eq": id.clone() } },
        _ => rawdoc! { "_id": id.clone() },
    }
}

fn finish(mut command: RawDocumentBuf) -> RawDocumentBuf {
    command.append(cstr!("ordered"), false);
    command.append(cstr!("writeConcern"), rawdoc! { "w": 1 });
    command
}

fn unchecked(mut command: RawDocumentBuf) -> RawDocumentBuf {
    command.append(cstr!("bypassDocumentValidation"), true);
    command.append(cstr!("bypassEmptyTsReplacement"), true);
    finish(command)
}

/// The index and code of each write error in a reply.
fn list_errors(reply: &Document) -> Vec<[i64; 2]> {
    let errors = reply.get_array("writeErrors").map(Vec::as_slice);
    let errors = errors.unwrap_or_default().iter();
    { errors.filter_map(Bson::as_document) }
        .map(|e| [integer(e, "index"), integer(e, "code")])
        .collect()
}

fn refusal_error(ns: &Ns, reply: &Document) -> FollowError {
    let e = first_write_error(reply);
    let e = e.unwrap_or_else(|| FollowError::of_data("no reason given"));
    e.in_step(&format!("{ns} of the target accepts no document"))
}

/// The number of leading documents that fit into one command.
fn first_part(documents: &[RawDocumentBuf]) -> usize {
    let mut bytes = 0;
    let mut count = 0;
    for document in documents.iter().take(DOCUMENTS_MAX) {
        if count > 0 && bytes + document.as_bytes().len() > BYTES_MAX {
            break;
        }
        bytes += document.as_bytes().len();
        count += 1;
    }
    count
}

/// Inserts documents; an existing one is replaced.
pub(crate) async fn insert(target: &Server, ns: &Ns, documents: &[RawDocumentBuf]) -> Result<()> {
    let mut left = documents;
    while !left.is_empty() {
        let (part, rest) = left.split_at(first_part(left));
        let mut list = RawArrayBuf::new();
        part.iter().for_each(|d| list.push(d.as_ref()));
        let command = rawdoc! { "insert": ns.coll.as_str(), "documents": list };
        let reply = target.run_raw(&ns.db, unchecked(command)).await?;
        let mut there = Vec::new();
        for [index, number] in list_errors(&reply) {
            let document = usize::try_from(index).ok().and_then(|at| part.get(at));
            match document {
                Some(d) if number == i64::from(code::DUPLICATE_KEY) => there.push(d.clone()),
                _ => return Err(refusal_error(ns, &reply)),
            }
        }
        replace(target, ns, &there).await?;
        left = rest;
    }
    Ok(())
}

/// Inserts documents where several may have one `_id`.
pub(crate) async fn append(target: &Server, ns: &Ns, documents: &[RawDocumentBuf]) -> Result<()> {
    let mut left = documents;
    while !left.is_empty() {
        let (part, rest) = left.split_at(first_part(left));
        let mut list = RawArrayBuf::new();
        part.iter().for_each(|d| list.push(d.as_ref()));
        let command = rawdoc! { "insert": ns.coll.as_str(), "documents": list };
        let reply = target.run_raw(&ns.db, finish(command)).await?;
        if !list_errors(&reply).is_empty() {
            return Err(refusal_error(ns, &reply));
        }
        left = rest;
    }
    Ok(())
}

/// Writes documents, whether they exist or not.
pub(crate) async fn replace(target: &Server, ns: &Ns, documents: &[RawDocumentBuf]) -> Result<()> {
    let mut left = documents;
    while !left.is_empty() {
        let (part, rest) = left.split_at(first_part(left));
        let mut list = RawArrayBuf::new();
        for d in part {
            let q = is(&id_of(d)?);
            list.push(rawdoc! { "q": q, "u": d.clone(), "upsert": true });
        }
        let command = rawdoc! { "update": ns.coll.as_str(), "updates": list };
        let reply = target.run_raw(&ns.db, unchecked(command)).await?;
        for [index, _] in list_errors(&reply) {
            let document = usize::try_from(index).ok().and_then(|at| part.get(at));
            let d = document.ok_or_else(|| refusal_error(ns, &reply))?;
            exchange(target, ns, d).await?;
        }
        left = rest;
    }
    Ok(())
}

/// Deletes and inserts a document that no update can write: one with fields that look like
/// operators, or whose `_id` equals an existing one of another type.
async fn exchange(target: &Server, ns: &Ns, document: &RawDocumentBuf) -> Result<()> {
    delete(target, ns, &[id_of(document)?]).await?;
    for _ in 0..OCCUPANTS {
        let mut list = RawArrayBuf::new();
        list.push(document.as_ref());
        let command = rawdoc! { "insert": ns.coll.as_str(), "documents": list };
        let reply = target.run_raw(&ns.db, unchecked(command)).await?;
        if list_errors(&reply).is_empty() {
            return Ok(());
        }
        if !make_room(target, ns, &reply).await? {
            return Err(refusal_error(ns, &reply));
        }
    }
    Err(FollowError::of_data(format!(
        "{ns} of the target accepts no document: too many other documents have its unique keys"
    )))
}

/// Removes documents of the target that block a unique key. Such a document was changed or removed
/// in the source, because the source has another one with its key now; its own change is still to
/// come.
async fn make_room(target: &Server, ns: &Ns, reply: &Document) -> Result<bool> {
    let errors = reply.get_array("writeErrors").ok();
    let error = errors.and_then(|all| all.first()?.as_document());
    let key = error
        .filter(|e| integer(e, "code") == i64::from(code::DUPLICATE_KEY))
        .and_then(|e| e.get_document("keyValue").ok());
    let Some(key) = key else {
        return Ok(false);
    };
    let fields = key
        .iter()
        .map(|(path, v)| (path.clone(), doc! { "$eq": v.clone() }));
    let q: Document = fields.map(|(path, v)| (path, Bson::Document(v))).collect();
    let gone = doc! { "delete": &ns.coll, "deletes": [{ "q": q, "limit": 1 }] };
    let reply = target.run(&ns.db, gone).await?;
    Ok(integer(&reply, "n") > 0)
}

/// Removes documents.
pub(crate) async fn delete(target: &Server, ns: &Ns, ids: &[RawBson]) -> Result<()> {
    for part in ids.chunks(DOCUMENTS_MAX) {
        let mut list = RawArrayBuf::new();
        for id in part {
            list.push(rawdoc! { "q": is(id), "limit": 1 });
        }
        let command = rawdoc! { "delete": ns.coll.as_str(), "deletes": list };
        let reply = target.run_raw(&ns.db, finish(command)).await?;
        if !list_errors(&reply).is_empty() {
            return Err(refusal_error(ns, &reply));
        }
    }
    Ok(())
}
