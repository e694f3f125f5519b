//! A client of a change stream on the database, and the check of its events. Promises: after its
//! cursor was closed it resumes after the last event, as drivers do. Must not know: the scheduler.

use crate::clients::{KEYS, Notes, time_of};
use crate::history::{Action, Key, Value};
use crate::server::Client;
use proof::Random;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Follows the database from a time until `done`, and then to the last event.
pub(crate) fn follow(
    mut client: Client,
    seed: u64,
    from: &Json,
    done: &Arc<AtomicBool>,
) -> Vec<Json> {
    let mut random = Random::new(seed ^ 0x5712);
    let mut from = json!({ "startAtOperationTime": from });
    let mut events: Vec<Json> = Vec::new();
    'open: loop {
        let stage = json!({ "$changeStream": from });
        let mut reply = client.send_in_session(json!({
            "aggregate": 1, "pipeline": [stage], "cursor": { "batchSize": 0 } }));
        loop {
            assert_eq!(reply.code(), 0, "{}", reply.body);
            events.extend_from_slice(reply.batch());
            let token = &reply.body["cursor"]["postBatchResumeToken"];
            from = json!({ "resumeAfter": token });
            let id = reply.body["cursor"]["id"].clone();
            if random.chance(10) {
                client.send_in_session(json!({ "killCursors": "$cmd.aggregate", "cursors": [id] }));
                if random.chance(50)
                    && let Some(last) = events.last()
                {
                    from = json!({ "resumeAfter": last["_id"] });
                }
                continue 'open;
            }
            let was_done = done.load(Ordering::SeqCst);
            reply = client.send_in_session(json!({ "getMore": { "$numberLong": id.to_string() },
                "collection": "$cmd.aggregate", "maxTimeMS": 500,
                "batchSize": 1 + random.below(5) }));
            if was_done && reply.code() == 0 && reply.batch().is_empty() {
                return events;
            }
        }
    }
}

/// The value that an event appended, and its index in the list.
fn appended_value(event: &Json) -> Option<(usize, Value)> {
    let fields = event["updateDescription"]["updatedFields"].as_object()?;
    let n = usize::try_from(fields.get("n")?.as_u64()?).ok()?;
    fields
        .iter()
        .find_map(|(name, value)| match name.strip_prefix("v") {
            Some("") => Some((n, value.as_array()?.get(n - 1)?.as_i64()?)),
            Some(place) if place.starts_with('.') => Some((n, value.as_i64()?)),
            _ => None,
        })
}

/// Checks that each append comes once, in the order of its list; that those of a transaction are
/// adjacent; that no append comes before one that had ended when it began; and that none is later
/// than the time of its reply.
pub(crate) fn check(
    events: &[Json],
    notes: &[Notes],
    lists: &HashMap<Key, Vec<Value>>,
) -> Result<(), String> {
    let mut last = (0, 0);
    let mut told: HashMap<(Key, Value), usize> = HashMap::new();
    let mut lengths: HashMap<Key, usize> = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        let time = time_of(&event["clusterTime"]);
        if time < last {
            return Err(format!("an event of an earlier time follows: {event}"));
        }
        last = time;
        if event["ns"]["coll"] != "lists" {
            continue;
        }
        let key = event["documentKey"]["_id"].as_i64().unwrap_or(-1);
        let (n, value) = appended_value(event).ok_or_else(|| format!("not an append: {event}"))?;
        let length = lengths.entry(key).or_default();
        *length += 1;
        let expected = lists[&key].get(*length - 1).copied();
        if n != *length || expected != Some(value) {
            return Err(format!("{length} of {key} should be {expected:?}: {event}"));
        }
        told.insert((key, value), at);
    }
    for key in 0..KEYS {
        let (seen, all) = (lengths.get(&key).copied().unwrap_or(0), lists[&key].len());
        if seen != all {
            return Err(format!("{seen} of {all} changes of {key} were told"));
        }
    }
    check_order(notes, &told)?;
    let time_told =
        |(written, at): (&(Key, Value), &usize)| (*written, time_of(&events[*at]["clusterTime"]));
    check_after(notes, &told.iter().map(time_told).collect())?;
    for (key, value, time) in notes.iter().flat_map(|n| &n.times) {
        let event = &events[told[&(*key, *value)]];
        if time_of(&event["clusterTime"]) > time_of(time) {
            return Err(format!("the reply told {time}, the stream {event}"));
        }
    }
    Ok(())
}

/// Checks that a read after a cluster time has seen all changes up to it.
fn check_after(notes: &[Notes], times: &HashMap<(Key, Value), (u64, u64)>) -> Result<(), String> {
    for action in notes.iter().flat_map(|n| &n.actions) {
        let Some(after) = action.after else {
            continue;
        };
        for (key, list) in action.reads() {
            let due = |((k, v), time): &(&(Key, Value), &(u64, u64))| {
                *k == key && **time <= after && !list.contains(v)
            };
            if let Some((missing, time)) = times.iter().find(due) {
                return Err(format!("{missing:?} of {time:?} is missing: {action:?}"));
            }
        }
    }
    Ok(())
}

fn check_order(notes: &[Notes], told: &HashMap<(Key, Value), usize>) -> Result<(), String> {
    let actions = notes.iter().flat_map(|n| &n.actions);
    let mut places: Vec<(&Action, Vec<usize>)> = Vec::new();
    for action in actions.filter(|a| a.committed) {
        let mut at: Vec<usize> = action.appends().map(|written| told[&written]).collect();
        at.sort_unstable();
        if at.windows(2).any(|w| w[1] != w[0] + 1) {
            return Err(format!(
                "others lie between the events {at:?} of {action:?}"
            ));
        }
        if !at.is_empty() {
            places.push((action, at));
        }
    }
    for (a, of_a) in &places {
        for (b, of_b) in &places {
            if a.ended < b.began && of_a.last() > of_b.first() {
                return Err(format!("told the wrong way round: {a:?} and {b:?}"));
            }
        }
    }
    Ok(())
}

/// Documents of a collection.
pub(crate) type Documents = BTreeMap<String, Json>;

/// The collections as the events describe them, for collections whose documents are only inserted,
/// updated by value and deleted.
pub(crate) fn replay(events: &[Json]) -> Result<HashMap<String, Documents>, String> {
    let mut all: HashMap<String, Documents> = HashMap::new();
    let others = |e: &&Json| e["ns"]["coll"] != "lists" && e["ns"]["coll"] != "counters";
    for event in events.iter().filter(others) {
        let id = event["documentKey"]["_id"].to_string();
        let collection = event["ns"]["coll"].as_str().unwrap_or_default();
        let documents = all.entry(collection.to_owned()).or_default();
        let known = match event["operationType"].as_str() {
            Some("insert") => documents
                .insert(id, event["fullDocument"].clone())
                .is_none(),
            Some("delete") => documents.remove(&id).is_some(),
            Some("update") => documents.get_mut(&id).is_some_and(|document| {
                document["u"] = event["updateDescription"]["updatedFields"]["u"].clone();
                true
            }),
            Some("drop") => all.remove(collection).is_some(),
            Some("rename") => {
                let moved = std::mem::take(documents);
                let to = event["to"]["coll"].as_str().unwrap_or_default();
                all.insert(to.to_owned(), moved);
                true
            }
            _ => false,
        };
        if !known {
            return Err(format!("it does not follow from those before: {event}"));
        }
    }
    Ok(all)
}
