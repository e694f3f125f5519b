//! Operations that would run for many seconds end soon after they are interrupted.

use crate::behaviour::send;
use crate::protocol::service;
use commands::{Clock, Config, Dispatcher, Link, Service, StoreHooks, SystemClock};
use model::{DocBuf, Value, doc, extjson};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use storage::MemoryEngine;
use store::Store;

/// The time from the interruption to the reply. It is generous because the machine may be busy;
/// without an interruption, none of the operations ends within ten seconds.
const SOON: Duration = Duration::from_millis(2000);

pub(crate) fn code(d: &DocBuf) -> i64 {
    d.doc().field("code").as_i64_exact().unwrap_or(0)
}

pub(crate) fn json(text: &str) -> DocBuf {
    extjson::parse_document(text).expect("a command")
}

pub(crate) fn run(s: &Dispatcher, command: &str) -> DocBuf {
    let mut c = s.connect("127.0.0.1:1");
    send(s, &mut c, "db", json(command).doc())
}

/// An expression that is slow for each document.
const HEAVY: &str = r#"{"$gt": [{"$size": {"$filter": {"input": {"$range": [0, 20000]},
    "cond": {"$gt": ["$$this", "$a"]}}}}, -1]}"#;

/// Documents in `c`, some with arrays.
pub(crate) fn fill(s: &Dispatcher, count: i32) {
    let mut c = s.connect("127.0.0.1:1");
    for start in (0..count).step_by(1000) {
        let insert = DocBuf::build(|w| {
            w.put("insert", "c");
            let mut a = w.array("documents");
            for i in start..count.min(start + 1000) {
                a.doc()
                    .put("_id", i)
                    .put("a", i % 7)
                    .put("b", -i)
                    .put("t", &doc! { "l": [1i32, 2i32, i] });
            }
        });
        assert_eq!(code(&send(s, &mut c, "db", insert.doc())), 0);
    }
}

fn long_commands() -> Vec<String> {
    let unwind = r#"{"$set": {"x": {"$range": [0, 2000]}}}, {"$unwind": "$x"},
        {"$set": {"y": {"$range": [0, 2000]}}}, {"$unwind": "$y"}"#;
    let mut all = vec![
        format!(r#"{{"find": "c", "filter": {{"$expr": {HEAVY}}}, "batchSize": 100000}}"#),
        format!(r#"{{"find": "c", "filter": {{"$expr": {HEAVY}}}, "sort": {{"a": 1}}}}"#),
        format!(r#"{{"find": "c", "projection": {{"z": {HEAVY}}}, "batchSize": 100000}}"#),
        format!(r#"{{"count": "c", "query": {{"$expr": {HEAVY}}}}}"#),
        format!(r#"{{"distinct": "c", "key": "a", "query": {{"$expr": {HEAVY}}}}}"#),
        format!(
            r#"{{"update": "c", "updates": [{{"q": {{"$expr": {HEAVY}}},
                "u": {{"$inc": {{"n": 1}}}}, "multi": true}}]}}"#
        ),
        format!(
            r#"{{"update": "c", "updates": [{{"q": {{}}, "u": [{{"$set": {{"n": {HEAVY}}}}}],
                "multi": true}}], "ordered": false}}"#
        ),
        format!(
            r#"{{"delete": "c", "deletes": [{{"q": {{"$expr": {HEAVY}, "b": 7}}, "limit": 0}},
                {{"q": {{"$expr": {HEAVY}}}, "limit": 0}}], "ordered": false}}"#
        ),
        format!(
            r#"{{"findAndModify": "c", "query": {{"$expr": {HEAVY}}}, "sort": {{"b": 1}},
                "remove": true}}"#
        ),
    ];
    let pipelines = [
        format!(r#"{unwind}, {{"$count": "n"}}"#),
        format!(r#"{unwind}, {{"$sort": {{"x": -1}}}}"#),
        format!(r#"{unwind}, {{"$group": {{"_id": "$x", "n": {{"$sum": 1}}}}}}"#),
        format!(r#"{unwind}, {{"$match": {{"x": -1}}}}"#),
        format!(r#"{{"$facet": {{"f": [{unwind}, {{"$count": "n"}}]}}}}"#),
        format!(
            r#"{{"$match": {{"_id": 1}}}}, {{"$unionWith": {{"coll": "c", "pipeline": [{unwind},
            {{"$match": {{"x": -1}}}}]}}}}"#
        ),
        r#"{"$lookup": {"from": "c", "let": {"a": "$a"}, "as": "m",
            "pipeline": [{"$match": {"$expr": {"$eq": ["$a", "$$a"]}}}, {"$count": "n"}]}},
            {"$match": {"m": 0}}"#
            .to_owned(),
        r#"{"$lookup": {"from": "c", "as": "m", "localField": "a", "foreignField": "a"}},
            {"$match": {"m": 0}}"#
            .to_owned(),
        r#"{"$graphLookup": {"from": "c", "startWith": "$_id", "connectFromField": "b",
            "connectToField": "a", "as": "m"}}, {"$match": {"m": 0}}"#
            .to_owned(),
        format!(r#"{unwind}, {{"$bucketAuto": {{"groupBy": "$x", "buckets": 5}}}}"#),
        format!(
            r#"{unwind}, {{"$setWindowFields": {{"sortBy": {{"x": 1}},
            "output": {{"r": {{"$rank": {{}}}}}}}}}}"#
        ),
        format!(r#"{unwind}, {{"$merge": "merged"}}"#),
        format!(
            r#"{unwind}, {{"$project": {{"_id": {{"$concat": [{{"$toString": "$_id"}}, "/",
            {{"$toString": "$x"}}, "/", {{"$toString": "$y"}}]}}}}}}, {{"$out": "out"}}"#
        ),
        r#"{"$limit": 1}, {"$set": {"d": {"$toDate": {"$toLong": "$a"}}}},
            {"$densify": {"field": "a", "range": {"step": 0.0005, "bounds": [0, 200]}}},
            {"$match": {"a": -1}}"#
            .to_owned(),
    ];
    all.extend(
        pipelines
            .iter()
            .map(|p| format!(r#"{{"aggregate": "c", "pipeline": [{p}], "cursor": {{}}}}"#)),
    );
    all
}

fn with_field(command: &str, field: &str, value: Value<'_>) -> DocBuf {
    let mut d = json(command);
    d.put(field, value);
    d
}

#[test]
fn time_limits_hold_while_it_runs() {
    let s = service();
    fill(&s, 20_000);
    let mut c = s.connect("127.0.0.1:1");
    for command in long_commands() {
        let start = Instant::now();
        let reply = send(
            &s,
            &mut c,
            "db",
            with_field(&command, "maxTimeMS", Value::Int32(60)).doc(),
        );
        let took = start.elapsed();
        assert_eq!(code(&reply), 50, "{command}: {reply:?}");
        assert!(took < SOON, "{command} took {took:?}");
        assert!(!reply.doc().contains("writeErrors"));
    }
    assert_eq!(
        run(&s, r#"{"count": "c"}"#).doc().field("n").as_i64_exact(),
        Some(20_000)
    );
    let names = run(&s, r#"{"listCollections": 1, "nameOnly": true}"#);
    assert!(!format!("{names:?}").contains("tmp.agg_out"), "{names:?}");
}

/// Starts a command on its own thread and waits until currentOp shows it.
pub(crate) fn start(
    s: &Arc<Dispatcher>,
    command: DocBuf,
    link: Option<Arc<dyn Link>>,
) -> (std::thread::JoinHandle<(DocBuf, Instant)>, i64) {
    let name = command
        .doc()
        .first()
        .map(|(n, _)| n.to_owned())
        .unwrap_or_default();
    let (service, thread) = (Arc::clone(s), Arc::clone(s));
    let running = std::thread::spawn(move || {
        let mut c = thread.connect_linked("127.0.0.1:2", link);
        let reply = send(&thread, &mut c, "db", command.doc());
        (reply, Instant::now())
    });
    let mut c = service.connect("127.0.0.1:3");
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        let filter = DocBuf::build(|w| {
            w.put("currentOp", 1i32).put("active", true);
            w.doc(&format!("command.{name}")).put("$exists", true);
        });
        let seen = send(&service, &mut c, "admin", filter.doc());
        if let Some(Value::Document(op)) =
            seen.doc().field("inprog").as_array().and_then(|a| a.get(0))
        {
            let opid = op
                .field("opid")
                .as_i64_exact()
                .expect("an operation number");
            // Let the command run for a while.
            std::thread::sleep(Duration::from_millis(30));
            return (running, opid);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!(
        "never seen running: {name}: {:?}",
        running.join().map(|r| r.0)
    );
}

pub(crate) fn check_prompt(
    running: std::thread::JoinHandle<(DocBuf, Instant)>,
    signal: Instant,
    what: &str,
) -> DocBuf {
    let (reply, at) = running.join().expect("no panic");
    assert!(
        at.saturating_duration_since(signal) < SOON,
        "{what}: {:?} after the signal: {reply:?}",
        at.saturating_duration_since(signal)
    );
    reply
}

#[test]
fn kill_op_ends_what_runs() {
    let s = service();
    fill(&s, 20_000);
    let mut c = s.connect("127.0.0.1:1");
    for command in long_commands() {
        let (running, opid) = start(&s, json(&command), None);
        let signal = Instant::now();
        let killed = send(
            &s,
            &mut c,
            "admin",
            doc! { "killOp": 1i32, "op": opid }.doc(),
        );
        assert_eq!(
            killed.doc().field("info").as_str(),
            Some("attempting to kill op")
        );
        let reply = check_prompt(running, signal, &command);
        assert_eq!(code(&reply), 11_601, "{command}: {reply:?}");
    }
    assert!(run(&s, r#"{"ping": 1}"#).doc().field("ok").truthy());
}

#[test]
fn sessions_take_their_operations_with_them() {
    let s = service();
    fill(&s, 20_000);
    let lsid = doc! { "id": model::Binary { subtype: 4, bytes: &[9; 16] } };
    let mut c = s.connect("127.0.0.1:1");
    let commands = long_commands();
    for kill in [
        doc! { "killSessions": [&lsid] },
        doc! { "killAllSessions": [] },
        doc! { "killAllSessionsByPattern": [{}] },
    ] {
        let (running, _) = start(
            &s,
            with_field(&commands[0], "lsid", Value::Document(lsid.doc())),
            None,
        );
        let signal = Instant::now();
        assert_eq!(code(&send(&s, &mut c, "admin", kill.doc())), 0);
        assert_eq!(code(&check_prompt(running, signal, "session")), 11_601);
    }
}

fn cursor_id(d: &DocBuf) -> i64 {
    d.doc()
        .field("cursor")
        .as_doc()
        .and_then(|c| c.field("id").as_i64_exact())
        .unwrap_or(0)
}

fn heavy_cursor(s: &Dispatcher, max_time_ms: i32) -> i64 {
    let mut find = json(&format!(
        r#"{{"find": "c", "filter": {{"$expr": {HEAVY}}}, "batchSize": 0}}"#
    ));
    find.put("maxTimeMS", max_time_ms);
    cursor_id(&send(s, &mut s.connect("127.0.0.1:1"), "db", find.doc()))
}

#[test]
fn cursors_are_killed_in_use_and_inherit_their_time() {
    let s = service();
    fill(&s, 20_000);
    let mut c = s.connect("127.0.0.1:1");
    let more = |id: i64| doc! { "getMore": id, "collection": "c", "batchSize": 100_000i32 };
    let id = heavy_cursor(&s, 0);
    let (running, _) = start(&s, more(id), None);
    assert_eq!(
        code(&send(&s, &mut c, "db", more(id).doc())),
        12_051,
        "used by another operation"
    );
    let signal = Instant::now();
    let killed = send(
        &s,
        &mut c,
        "db",
        doc! { "killCursors": "c", "cursors": [id] }.doc(),
    );
    assert_eq!(
        killed
            .doc()
            .field("cursorsKilled")
            .as_array()
            .and_then(|a| a.get(0))
            .and_then(|v| v.as_i64_exact()),
        Some(id),
        "{killed:?}"
    );
    assert_eq!(code(&check_prompt(running, signal, "killCursors")), 237);
    assert_eq!(code(&send(&s, &mut c, "db", more(id).doc())), 43);

    // The time limit is that of the find; time between the commands does not count.
    let id = heavy_cursor(&s, 300);
    std::thread::sleep(Duration::from_millis(400));
    let begin = Instant::now();
    assert_eq!(code(&send(&s, &mut c, "db", more(id).doc())), 50);
    assert!(
        begin.elapsed() > Duration::from_millis(200)
            && begin.elapsed() < Duration::from_millis(300) + SOON,
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(
        code(&send(&s, &mut c, "db", more(id).doc())),
        43,
        "an error ends a cursor"
    );

    let id = heavy_cursor(&s, 0);
    let (running, _) = start(&s, more(id), None);
    let signal = Instant::now();
    assert_eq!(code(&send(&s, &mut c, "db", doc! { "drop": "c" }.doc())), 0);
    assert_eq!(code(&check_prompt(running, signal, "drop")), 175);
}

struct Gone(AtomicBool);

impl Link for Gone {
    fn wake(&self) {}
    fn is_gone(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

#[test]
fn reads_end_with_their_client_and_writes_do_not() {
    let s = service();
    fill(&s, 20_000);
    for command in long_commands() {
        let link = Arc::new(Gone(AtomicBool::new(false)));
        let writes = !["\"find\"", "\"count\"", "\"distinct\"", "\"aggregate\""]
            .iter()
            .any(|n| command.starts_with(&format!("{{{n}")))
            || command.contains("$merge")
            || command.contains("$out");
        let (running, opid) = start(&s, json(&command), Some(link.clone()));
        let signal = Instant::now();
        link.0.store(true, Ordering::Release);
        if writes {
            std::thread::sleep(Duration::from_millis(100));
            assert!(!running.is_finished(), "{command} ended with its client");
            send(
                &s,
                &mut s.connect("127.0.0.1:1"),
                "admin",
                doc! { "killOp": 1i32, "op": opid }.doc(),
            );
            running.join().expect("no panic");
        } else {
            assert_eq!(
                code(&check_prompt(running, signal, &command)),
                279,
                "{command}"
            );
        }
    }
}

#[test]
fn index_builds_stop_and_leave_nothing() {
    let s = service();
    fill(&s, 60_000);
    let mut c = s.connect("127.0.0.1:1");
    let create = json(
        r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1, "t.l": 1}, "name": "one"},
            {"key": {"b": 1, "t.l": 1}, "name": "two"}]}"#,
    );
    let mut limited = create.clone();
    limited.put("maxTimeMS", 50i32);
    let begin = Instant::now();
    assert_eq!(code(&send(&s, &mut c, "db", limited.doc())), 50);
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    let (running, opid) = start(&s, create, None);
    let signal = Instant::now();
    send(
        &s,
        &mut c,
        "admin",
        doc! { "killOp": 1i32, "op": opid }.doc(),
    );
    assert_eq!(
        code(&check_prompt(running, signal, "createIndexes")),
        11_601
    );
    let left = run(&s, r#"{"listIndexes": "c"}"#);
    let names = left
        .doc()
        .field("cursor")
        .as_doc()
        .and_then(|c| c.field("firstBatch").as_array());
    assert_eq!(names.map(|a| a.len()), Some(1), "{left:?}");
}

/// Runs a job at one chosen read of the clock, to reach the middle of a command.
#[derive(Default)]
struct CountingClock {
    looks: AtomicUsize,
    at: AtomicUsize,
    then: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Clock for CountingClock {
    fn now_ms(&self) -> i64 {
        let look = 1 + self.looks.fetch_add(1, Ordering::Relaxed);
        if look == self.at.load(Ordering::Relaxed) {
            self.then.get().expect("armed")();
        }
        1_700_000_000_000
    }
    fn monotonic_us(&self) -> u64 {
        1
    }
}

/// `getMore` checks for interruptions for the last time when the batch is complete and the cursor
/// is about to be parked: a kill at that moment must not make the batch look like the last one.
#[test]
fn a_cursor_killed_behind_its_last_check_is_an_error() {
    let clock = Arc::new(CountingClock::default());
    let hooks = Arc::new(StoreHooks::new(Arc::new(SystemClock::default())));
    let store = Arc::new(Store::open(Arc::new(MemoryEngine::default()), hooks).unwrap());
    let service = Service::new(Config::default(), clock.clone(), store).into_shared();
    let s = Arc::new(commands::registry::dispatcher(service));
    fill(&s, 100);
    let open = || {
        let found = run(&s, r#"{"find": "c", "batchSize": 1}"#);
        let cursor = found.doc().field("cursor");
        let id = cursor.as_doc().unwrap().field("id").as_i64_exact().unwrap();
        assert_ne!(id, 0);
        id
    };
    let more = |id: i64| {
        format!(r#"{{"getMore": {{"$numberLong": "{id}"}}, "collection": "c", "batchSize": 1}}"#)
    };

    let id = open();
    let before = clock.looks.load(Ordering::Relaxed);
    assert_eq!(code(&run(&s, &more(id))), 0);
    let looks = clock.looks.load(Ordering::Relaxed) - before;
    assert!(looks > 0);

    let id = open();
    let kill = s.clone();
    let armed = clock.then.set(Box::new(move || {
        let kill_cursors = doc! { "killCursors": "c", "cursors": [id] };
        let mut other = kill.connect("127.0.0.1:2");
        let reply = send(&kill, &mut other, "db", kill_cursors.doc());
        let killed = reply.doc().field("cursorsKilled");
        assert_eq!(
            killed.as_array().map(|a| a.iter().count()),
            Some(1),
            "{reply:?}"
        );
    }));
    assert!(armed.is_ok());
    clock.at.store(
        clock.looks.load(Ordering::Relaxed) + looks,
        Ordering::Relaxed,
    );
    let reply = run(&s, &more(id));
    assert_eq!(code(&reply), 237, "{reply:?}");
}
