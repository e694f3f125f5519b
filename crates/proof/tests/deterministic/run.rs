//! One run: a server, its clients and its workers under the scheduler, and the checks. Promises:
//! the seed determines the log of a run.

use crate::clients::{COUNTERS, KEYS, Lists, Notes, Shared};
use crate::history::{self, Action, Key, Value};
use crate::others::{self, Holder};
use crate::schedule::{self, Summary};
use crate::server::{Client, Server};
use crate::stream;
use commands::workers::{self, Class};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of clients of lists, and of unique documents.
const LISTS: usize = 4;
const UNIQUES: usize = 2;

/// The log and the counters of a run.
pub(crate) struct Run {
    pub(crate) log: String,
    pub(crate) summary: Summary,
    pub(crate) verdict: Result<(), String>,
    /// Numbers of committed and aborted transactions, and of appends.
    pub(crate) committed: usize,
    pub(crate) given_up: usize,
    pub(crate) events: usize,
}

/// Runs a seed. The threads are new, so they have no state of earlier runs.
pub(crate) fn run(seed: u64, steps: usize) -> Run {
    let whole = move || {
        schedule::begin(seed);
        let server = Server::open();
        let log = server.log.clone();
        let verdict = play(server, seed, steps);
        let log = log.take();
        let summary = schedule::end();
        let (verdict, counts) = match verdict {
            Ok(counts) => (Ok(()), counts),
            Err(what) => (Err(what), [0; 3]),
        };
        let [committed, given_up, events] = counts;
        Run {
            log: format!("{log}{summary:?}\n"),
            summary,
            verdict,
            committed,
            given_up,
            events,
        }
    };
    let thread = std::thread::Builder::new().stack_size(8 << 20);
    let run = thread.spawn(whole).expect("a thread").join();
    run.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn prepare(client: &mut Client, seed: u64) -> Json {
    let documents: Vec<Json> = (0..KEYS)
        .map(|k| json!({ "_id": k, "g": k % 2, "n": 0, "v": [] }))
        .collect();
    let index = |coll: &str, field: &str, option: Json| {
        let mut index = json!({ "key": { field: 1 }, "name": field });
        for (name, value) in option.as_object().into_iter().flatten() {
            index[name] = value.clone();
        }
        json!({ "createIndexes": coll, "indexes": [index] })
    };
    let mut last = Json::Null;
    for command in [
        json!({ "insert": "lists", "documents": documents }),
        index("unique", "u", json!({ "unique": true })),
        index("counters", "name", json!({ "unique": true })),
        index("expiring", "at", json!({ "expireAfterSeconds": 1 })),
    ] {
        let reply = client.send_in_session(command);
        assert_eq!(reply.code(), 0, "{}", reply.body);
        last = reply.body;
    }
    if seed.is_multiple_of(2) {
        // A worker aborts old transactions while their clients continue.
        let soon = json!({ "setParameter": 1, "transactionLifetimeLimitSeconds": 1 });
        assert_eq!(client.send("admin", &soon).code(), 0);
    }
    // After everything done so far.
    let mut time = last["operationTime"].clone();
    let increment = time["$timestamp"]["i"].as_u64().unwrap_or(0);
    time["$timestamp"]["i"] = (increment + 1).into();
    time
}

fn play(server: Server, seed: u64, steps: usize) -> Result<[usize; 3], String> {
    let mut own = server.client(0);
    let from = prepare(&mut own, seed);
    let mut uniques = Vec::new();
    let (done, stopped) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let (mut writers, mut holders, shared) = (Vec::new(), Vec::new(), Shared::default());
    for n in 1..=LISTS {
        let client = server.client(n);
        let lists = Lists::new(client, seed, &shared);
        writers.push(schedule::spawn(move || lists.run(steps)));
    }
    for n in LISTS + 1..=LISTS + UNIQUES {
        let client = server.client(n);
        let holder = Holder::new(client, seed);
        holders.push(schedule::spawn(move || holder.run(steps)));
    }
    let client = server.client(LISTS + UNIQUES + 1);
    let killed = if seed.is_multiple_of(3) { LISTS } else { 0 };
    let changer = schedule::spawn(move || others::change_catalog(client, seed, steps / 2, killed));
    let last_writer = writers.len() + holders.len() + 1;
    let (client, until) = (server.client(last_writer + 1), Arc::clone(&done));
    let follower = schedule::spawn(move || stream::follow(client, seed, &from, &until));
    let workers = [Class::Shared, Class::Own].map(|class| work(&server, class, &stopped));
    schedule::await_ended(last_writer);
    done.store(true, Ordering::SeqCst);
    schedule::await_ended(last_writer + 1);
    stopped.store(true, Ordering::SeqCst);
    workers.iter().for_each(|w| w.thread().unpark());
    schedule::await_ended(last_writer + 3);
    let mut notes: Vec<Notes> = writers
        .into_iter()
        .map(join_thread)
        .collect::<Result<_, _>>()?;
    for holder in holders {
        uniques.extend(join_thread(holder)?);
    }
    join_thread(changer)?;
    others::check(&uniques)?;
    let events = join_thread(follower)?;
    workers.into_iter().try_for_each(join_thread)?;
    drop(own);
    judge(&mut server.reopen().client(0), &mut notes, &events)
}

/// Runs the background workers of a class in turn on one thread of the run.
fn work(
    server: &Server,
    class: Class,
    stopped: &Arc<AtomicBool>,
) -> std::thread::JoinHandle<std::thread::Result<()>> {
    let service = server.dispatcher.service().arc().expect("it is shared");
    let stopped = Arc::clone(stopped);
    schedule::spawn(move || {
        let of_class = workers::ALL.iter().copied().filter(|w| w.class == class);
        workers::run(&service, of_class, &|| !stopped.load(Ordering::SeqCst));
    })
}

fn join_thread<T>(thread: std::thread::JoinHandle<std::thread::Result<T>>) -> Result<T, String> {
    let result = thread.join().and_then(|result| result);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied());
        text.unwrap_or("a thread panicked").to_owned()
    })
}

fn documents(client: &mut Client, collection: &str) -> Vec<Json> {
    let find = json!({ "find": collection, "sort": { "_id": 1 }, "batchSize": 10_000 });
    client.send_in_session(find).batch().to_vec()
}

/// Checks the run after the server was opened again, so that results come from stored data and not
/// from memory.
fn judge(client: &mut Client, notes: &mut [Notes], events: &[Json]) -> Result<[usize; 3], String> {
    // The server recognizes a retry by data stored with the write.
    for command in notes.iter().filter_map(|n| n.retryable.as_ref()) {
        let reply = client.send("t", command);
        if reply.code() != 0 {
            return Err(reply.body.to_string());
        }
    }
    let lists: HashMap<Key, Vec<Value>> = documents(client, "lists")
        .iter()
        .map(|d| {
            let list = d["v"].as_array().map_or(&[][..], Vec::as_slice);
            let list = list.iter().filter_map(Json::as_i64).collect();
            (d["_id"].as_i64().unwrap_or(-1), list)
        })
        .collect();
    for of_client in notes.iter_mut() {
        history::resolve(&mut of_client.actions, &lists)?;
    }
    let notes = &*notes;
    let actions: Vec<Action> = notes.iter().flat_map(|n| n.actions.clone()).collect();
    history::check(&actions, &lists)?;
    stream::check(events, notes, &lists)?;
    let mut told = stream::replay(events)?;
    for collection in ["unique", "expiring", "other", "renamed"] {
        let told = told.remove(collection).unwrap_or_default();
        let told: Vec<Json> = told.into_values().collect();
        let mut there = documents(client, collection);
        there.sort_by_key(|d| d["_id"].to_string());
        if told != there {
            return Err(format!(
                "{collection} is {there:?}; the stream told {told:?}"
            ));
        }
    }
    check_counters(&documents(client, "counters"), notes)?;
    for collection in ["lists", "unique", "expiring", "counters"] {
        let reply = client.send_in_session(json!({ "validate": collection, "full": true }));
        if reply.body["valid"] != true {
            return Err(reply.body.to_string());
        }
    }
    let is_transaction = |a: &&Action| a.steps.len() > 1;
    let committed = actions.iter().filter(|a| a.committed);
    Ok([
        committed.filter(is_transaction).count(),
        actions.iter().filter(|a| !a.committed).count(),
        events.len(),
    ])
}

/// Checks that each increment is in exactly one document of its name.
fn check_counters(counters: &[Json], notes: &[Notes]) -> Result<(), String> {
    for name in 0..COUNTERS {
        let sum: i64 = notes.iter().map(|n| n.counted[name]).sum();
        let own: Vec<_> = counters.iter().filter(|c| c["name"] == name).collect();
        let there = own.iter().filter_map(|c| c["n"].as_i64()).sum::<i64>();
        let most: i64 = sum + notes.iter().map(|n| n.uncertain[name]).sum::<i64>();
        if !(sum..=most).contains(&there) || own.len() > 1 {
            return Err(format!("{sum} increments made {own:?}"));
        }
    }
    Ok(())
}
