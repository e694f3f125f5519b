//! The data of the fake server, its searches, and its false answers.

use std::net::Shutdown;
use std::time::{Duration, Instant};

use mongodb::bson::{Bson, Document, doc};

use super::{EventFault, Faults, FindFault, State};

pub(super) fn documents(command: &Document, key: &str) -> Vec<Document> {
    command
        .get_array(key)
        .unwrap()
        .iter()
        .map(|item| item.as_document().unwrap().clone())
        .collect()
}

/// The documents of a filter on `_id`, in the order of the ids in the filter.
fn find_documents(command: &Document, stored: &[Document]) -> Vec<Document> {
    let filter = command.get_document("filter").cloned().unwrap_or_default();
    let number = |document: &Document| document.get_i64("_id").unwrap_or(0);
    let fits = |id: i64| match filter.get("_id") {
        None => true,
        Some(Bson::Document(range)) => {
            range.get_i64("$gte").is_ok_and(|from| id >= from)
                || range.get_i64("$lte").is_ok_and(|to| id <= to)
                || range
                    .get_array("$in")
                    .is_ok_and(|ids| ids.contains(&Bson::Int64(id)))
        }
        Some(other) => *other == Bson::Int64(id),
    };
    let mut out: Vec<Document> = stored
        .iter()
        .filter(|document| fits(number(document)))
        .cloned()
        .collect();
    if let Ok(sort) = command.get_document("sort") {
        out.sort_by_key(number);
        if sort.get_i32("_id").is_ok_and(|direction| direction < 0) {
            out.reverse();
        }
    }
    if let Ok(limit) = command.get_i64("limit") {
        out.truncate(limit as usize);
    }
    out
}

pub(super) fn find(
    command: &Document,
    collection: &str,
    state: &mut State,
    faults: Faults,
) -> Document {
    let stored = state
        .collections
        .get(collection)
        .map_or(&[][..], Vec::as_slice);
    let mut out = find_documents(command, stored);
    state.finds += 1;
    if let Some((fault, _)) = faults
        .finds
        .filter(|(_, every)| state.finds.is_multiple_of(*every))
    {
        tell_wrong(fault, &mut out, stored);
    }
    batch(command, out, "firstBatch", state)
}

pub(crate) fn tell_wrong(fault: FindFault, out: &mut Vec<Document>, stored: &[Document]) {
    match fault {
        FindFault::Empty => out.clear(),
        FindFault::Fewer => _ = out.pop(),
        FindFault::OnlyId => {
            for document in out {
                *document = doc! { "_id": document.get("_id").cloned() };
            }
        }
        FindFault::Cut => {
            for (_, value) in out.iter_mut().flat_map(|document| document.iter_mut()) {
                if let Bson::String(text) = value {
                    text.pop();
                }
            }
        }
        FindFault::Mixed => {
            for document in out {
                let id = document.get("_id").cloned();
                let other = stored.iter().find(|other| other.get("_id") != id.as_ref());
                document.extend(other.cloned().unwrap_or_default());
                document.insert("_id", id);
            }
        }
        FindFault::Doubled => out.extend(out.last().cloned()),
        FindFault::Reordered => out.reverse(),
    }
}

/// A batch of the remaining documents, and a cursor for the rest.
pub(super) fn batch(
    command: &Document,
    mut left: Vec<Document>,
    name: &str,
    state: &mut State,
) -> Document {
    let own = command.get_i64("getMore").ok();
    let size = command
        .get_i32("batchSize")
        .map_or(left.len(), |size| size as usize)
        .min(left.len());
    let rest = left.split_off(size);
    let mut id = 0;
    if !rest.is_empty() {
        state.last_cursor += 1;
        id = own.unwrap_or(state.last_cursor);
        let session = command.get_document("lsid").ok().cloned();
        state.cursors.insert(id, (rest, session));
    }
    doc! { "cursor": { "id": id, "ns": "d.c", name: left }, "ok": 1.0 }
}

fn cursor(first: Vec<Document>) -> Document {
    doc! { "cursor": { "id": 0_i64, "ns": "quarry_lab.c", "firstBatch": first }, "ok": 1.0 }
}

pub(super) fn is_change_stream(command: &Document) -> bool {
    documents(command, "pipeline")
        .first()
        .is_some_and(|stage| stage.contains_key("$changeStream"))
}

/// Whether a reply is of a change stream without new events.
pub(super) fn is_empty_batch(reply: &Document) -> bool {
    let cursor = reply.get_document("cursor");
    cursor.is_ok_and(|cursor| {
        cursor
            .get_array("nextBatch")
            .is_ok_and(|batch| batch.is_empty())
    })
}

/// The event of an insert in a change stream.
fn record_event(collection: &str, document: &Document, state: &mut State, faults: Faults) {
    if state.streams.is_empty() {
        return;
    }
    let token = format!("{:08}", state.inserted);
    let id = document.get("_id").unwrap().clone();
    let event = doc! {
        "_id": { "_data": token }, "operationType": "insert",
        "ns": { "db": "quarry_lab", "coll": collection }, "documentKey": { "_id": id },
        "fullDocument": document.clone(),
    };
    let number = state.events.len();
    match faults.events.filter(|_| state.inserted.is_multiple_of(10)) {
        None => state.events.push(event),
        Some(EventFault::Lost) => {}
        Some(EventFault::Doubled) => state.events.extend([event.clone(), event]),
        Some(EventFault::Swapped) => state.events.insert(number.saturating_sub(1), event),
    }
}

pub(super) fn expire(collection: &str, state: &mut State, faults: Faults) {
    let Some((age, stored)) = faults
        .expire_after
        .zip(state.collections.get_mut(collection))
    else {
        return;
    };
    let now = mongodb::bson::DateTime::now().timestamp_millis();
    stored.retain(|document| {
        document.get_datetime("expires_from").map_or(true, |from| {
            now - from.timestamp_millis() < age.as_millis() as i64
        })
    });
}

/// The answer of a search: the exact neighbours in `v`, or a count of all documents.
fn search(stages: &[Document], stored: &[Document], faults: Faults) -> Option<Document> {
    let first = stages.first()?;
    if first.contains_key("$listSearchIndexes") {
        return Some(cursor(vec![doc! { "name": "v", "status": "READY" }]));
    }
    if first.contains_key("$search") {
        let count = stored.len() as i64 - i64::from(faults.searches_badly);
        return Some(cursor(vec![doc! { "_id": 1, "n": count }]));
    }
    let sought = first.get_document("$vectorSearch").ok()?;
    let vector = |values: &Document, name: &str| -> Vec<f64> {
        let values = values.get_array(name).unwrap().iter();
        values.map(|one| one.as_f64().unwrap()).collect()
    };
    let centre = vector(sought, "queryVector");
    let distance = |document: &Document| -> f64 {
        let pairs = vector(document, "v").into_iter().zip(&centre);
        pairs.map(|(one, other)| (one - other).powi(2)).sum()
    };
    let mut found = stored.to_vec();
    if !faults.searches_badly {
        found.sort_by(|one, other| distance(one).total_cmp(&distance(other)));
    }
    found.truncate(sought.get_i32("limit").unwrap() as usize);
    Some(cursor(found))
}

pub(super) fn aggregate(
    command: &Document,
    collection: &str,
    state: &State,
    faults: Faults,
) -> Document {
    let stored = state
        .collections
        .get(collection)
        .cloned()
        .unwrap_or_default();
    let stages = documents(command, "pipeline");
    if let Some(found) = search(&stages, &stored, faults) {
        return found;
    }
    let total: i64 = stored
        .iter()
        .map(|document| i64::from(document.get_i32("k").unwrap_or(0)))
        .sum();
    let group = stages
        .iter()
        .find_map(|stage| stage.get_document("$group").ok().cloned())
        .unwrap();
    let counts = group.get_document("n").is_ok();
    cursor(vec![if counts {
        doc! { "_id": 1, "n": stored.len() as i64 }
    } else {
        doc! { "_id": null, "total": total }
    }])
}

pub(super) fn update(
    command: &Document,
    collection: &str,
    state: &mut State,
    faults: Faults,
) -> Document {
    let id = documents(command, "updates")[0]
        .get_document("q")
        .unwrap()
        .get_i64("_id")
        .unwrap();
    state.updates += 1;
    if faults
        .stall_updates_every
        .is_some_and(|every| state.updates.is_multiple_of(every))
    {
        std::thread::sleep(Duration::from_millis(300));
    }
    if faults
        .overload_every
        .is_some_and(|every| state.updates.is_multiple_of(every))
    {
        return doc! {
            "ok": 0.0, "code": 462, "codeName": "IngressRequestRateLimitExceeded",
            "errmsg": "come back later",
            "errorLabels": ["SystemOverloadedError", "RetryableError"],
        };
    }
    // All connections share the state, which stays locked during the freeze.
    if let Some((number, time)) = faults.freeze_at_update
        && state.updates == number
    {
        let begun = Instant::now();
        std::thread::sleep(time);
        state.frozen = begun.elapsed();
    }
    let every = |every: Option<usize>, number: usize| {
        every.is_some_and(|every| number.is_multiple_of(every))
    };
    let change = documents(command, "updates")[0]
        .get_document("u")
        .unwrap()
        .clone();
    let fields = |operator: &str| change.get_document(operator).cloned().unwrap_or_default();
    let (set, add) = (fields("$set"), fields("$inc"));
    if set
        .keys()
        .chain(add.keys())
        .any(|key| faults.refuse_updates_of == Some(key))
    {
        return doc! { "n": 0, "nModified": 0, "ok": 1.0, "writeErrors": [
            { "index": 0, "code": 121, "errmsg": "Document failed validation" }
        ] };
    }
    state.sets += usize::from(!set.is_empty());
    let is_skipped = every(faults.skip_update_every, state.updates)
        || !set.is_empty() && faults.skip_sets_after.is_some_and(|n| state.sets > n);
    let times = 1 + i32::from(every(faults.add_twice_every, state.updates));
    let stored = state.collections.entry(collection.to_owned()).or_default();
    let Some(found) = stored
        .iter_mut()
        .find(|document| document.get_i64("_id").is_ok_and(|own| own == id))
    else {
        return doc! { "n": 0, "nModified": 0, "ok": 1.0 };
    };
    if !is_skipped {
        for (field, _) in add {
            let before = found.get_i32(&field).unwrap_or(0);
            found.insert(field, before + times);
        }
        found.extend(set);
    }
    doc! { "n": 1, "nModified": 1, "ok": 1.0 }
}

pub(super) fn insert(
    command: &Document,
    collection: &str,
    state: &mut State,
    faults: Faults,
) -> Option<Document> {
    state.insert_calls += 1;
    if faults
        .die_after_inserts
        .is_some_and(|calls| state.insert_calls > calls)
    {
        state.dead = true;
        for connection in &state.connections {
            let _ = connection.shutdown(Shutdown::Both);
        }
        return None;
    }
    if faults
        .refuse_after_inserts
        .is_some_and(|calls| state.insert_calls > calls)
    {
        return Some(
            doc! { "ok": 0.0, "code": 14_031, "codeName": "OutOfDiskSpace", "errmsg": "no space \
            left" },
        );
    }
    let batch = documents(command, "documents");
    let count = batch.len();
    for document in batch {
        state.inserted += 1;
        record_event(collection, &document, state, faults);
        if !faults
            .lose_every
            .is_some_and(|every| state.inserted.is_multiple_of(every))
        {
            state
                .collections
                .entry(collection.to_owned())
                .or_default()
                .push(document);
        }
    }
    Some(doc! { "n": count as i32, "ok": 1.0 })
}
