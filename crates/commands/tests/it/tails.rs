//! Tailable cursors: what they return, how they wait, how they end.

use crate::behaviour::send;
use crate::interrupts::{code, json};
use crate::protocol::service;
use commands::{Connection, Dispatcher, Link, Outcome, Request};
use model::{DocBuf, Value, doc};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A connection that waits as in the network layer: until it is woken or until the deadline.
#[derive(Default)]
pub(crate) struct ConnectionWaker {
    rung: Mutex<bool>,
    changed: Condvar,
    gone: AtomicBool,
}

impl ConnectionWaker {
    /// True when it was rung since the last call.
    pub(crate) fn take(&self) -> bool {
        std::mem::take(&mut *self.rung.lock().unwrap())
    }
}

impl Link for ConnectionWaker {
    fn wake(&self) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_all();
    }
    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}

pub(crate) struct Client {
    service: Arc<Dispatcher>,
    conn: Connection,
    bell: Arc<ConnectionWaker>,
    /// How often the server made it wait.
    pub(crate) waits: usize,
}

impl Client {
    pub(crate) fn new(service: &Arc<Dispatcher>) -> Client {
        let bell = Arc::new(ConnectionWaker::default());
        Client {
            service: service.clone(),
            conn: service.connect_linked("127.0.0.1:9", Some(bell.clone())),
            bell,
            waits: 0,
        }
    }

    pub(crate) fn send(&mut self, command: &DocBuf) -> DocBuf {
        let mut body = command.clone();
        if !command.doc().contains("$db") {
            body.put("$db", "db");
        }
        let mut request = Request::new(body.doc());
        let mut reply = Vec::new();
        while let Outcome::Wait { until_us, .. } =
            self.service.handle(&mut self.conn, &request, &mut reply)
        {
            assert!(reply.is_empty());
            self.waits += 1;
            request.waited = true;
            let left = until_us.saturating_sub(self.service.service().clock.monotonic_us());
            let rung = self.bell.rung.lock().unwrap();
            let (mut rung, _) = self
                .bell
                .changed
                .wait_timeout_while(rung, Duration::from_micros(left), |r| !*r)
                .unwrap();
            *rung = false;
        }
        DocBuf::from_bytes(reply).unwrap()
    }
    pub(crate) fn run(&mut self, command: &str) -> DocBuf {
        self.send(&json(command))
    }
    /// Handles a request once; the caller decides what happens during a wait.
    pub(crate) fn handle(&mut self, request: &Request<'_>, reply: &mut Vec<u8>) -> Outcome {
        self.service.handle(&mut self.conn, request, reply)
    }
    /// True when it was woken since the last call.
    pub(crate) fn take_wake(&self) -> bool {
        self.bell.take()
    }
    pub(crate) fn get_more(&mut self, id: i64, max_time_ms: i32) -> DocBuf {
        self.send(&doc! { "getMore": id, "collection": "c", "maxTimeMS": max_time_ms })
    }
}

fn cursor(d: &DocBuf) -> (i64, Vec<i64>) {
    let c = d
        .doc()
        .field("cursor")
        .as_doc()
        .unwrap_or_else(|| panic!("{d:?}"));
    let batch = c
        .field("firstBatch")
        .as_array()
        .or(c.field("nextBatch").as_array())
        .unwrap();
    let ids = batch.iter().map(|d| {
        d.as_doc()
            .and_then(|d| d.field("_id").as_i64_exact())
            .unwrap()
    });
    (c.field("id").as_i64_exact().unwrap(), ids.collect())
}

fn insert(c: &mut Client, ids: &[i64]) {
    let all = DocBuf::build(|w| {
        w.put("insert", "c");
        let mut a = w.array("documents");
        for id in ids {
            a.doc().put("_id", *id).put("n", *id);
        }
    });
    let reply = c.send(&all);
    assert_eq!(
        reply.doc().field("n").as_i64_exact(),
        Some(ids.len() as i64),
        "{reply:?}"
    );
}

fn create_capped(options: &str) -> (Arc<Dispatcher>, Client) {
    let s = service();
    let mut c = Client::new(&s);
    assert_eq!(
        code(&c.run(&format!(r#"{{"create": "c", "capped": true, {options}}}"#))),
        0
    );
    (s, c)
}

const TAIL: &str = r#"{"find": "c", "tailable": true, "awaitData": true}"#;

#[test]
fn arrival_order_counts_not_ids() {
    let (_s, mut c) = create_capped(r#""size": 100000, "max": 5"#);
    insert(&mut c, &[50, 10]);
    let (id, first) = cursor(&c.run(TAIL));
    assert_eq!(first, [50, 10]);
    insert(&mut c, &[30]);
    insert(&mut c, &[5, 40]);
    assert_eq!(cursor(&c.get_more(id, 0)), (id, vec![30, 5, 40]));
    // Two more inserts push out the two oldest documents, in both directions of the natural order.
    insert(&mut c, &[1, 99]);
    assert_eq!(cursor(&c.run(r#"{"find": "c"}"#)).1, [30, 5, 40, 1, 99]);
    assert_eq!(
        cursor(&c.run(r#"{"find": "c", "sort": {"$natural": -1}}"#)).1,
        [99, 1, 40, 5, 30]
    );
    assert_eq!(cursor(&c.get_more(id, 0)).1, [1, 99]);
    assert_eq!(
        c.run(r#"{"count": "c"}"#).doc().field("n").as_i64_exact(),
        Some(5)
    );
}

/// A getMore that is executed step by step, so that the test does not depend on the machine's
/// speed.
struct PendingGetMore<'c> {
    client: &'c mut Client,
    body: DocBuf,
    /// The end of its wait, monotonic microseconds; the reply when it has ended.
    until_us: Result<u64, DocBuf>,
}

impl<'c> PendingGetMore<'c> {
    fn begin(client: &'c mut Client, more: &DocBuf) -> PendingGetMore<'c> {
        let mut body = more.clone();
        body.put("$db", "db");
        let until_us = step(client, &body, false);
        assert!(until_us.is_ok(), "{until_us:?}");
        PendingGetMore {
            client,
            body,
            until_us,
        }
    }

    /// Runs the next step, as after a wake-up or at the end of the wait.
    fn go_on(&mut self) {
        self.until_us = step(self.client, &self.body, true);
    }

    fn goes_on_waiting(&mut self) -> u64 {
        self.go_on();
        self.until_us.clone().unwrap()
    }

    fn ends(&mut self) -> DocBuf {
        self.go_on();
        self.until_us.clone().unwrap_err()
    }
}

/// Handles a request once; returns the end of its wait, or its reply.
fn step(client: &mut Client, body: &DocBuf, waited: bool) -> Result<u64, DocBuf> {
    let (mut request, mut reply) = (Request::new(body.doc()), Vec::new());
    request.waited = waited;
    match client.handle(&request, &mut reply) {
        Outcome::Wait { until_us, .. } => Ok(until_us),
        _ => Err(DocBuf::from_bytes(reply).unwrap()),
    }
}

fn get_more(id: i64, max_time_ms: i32) -> DocBuf {
    doc! { "getMore": id, "collection": "c", "maxTimeMS": max_time_ms }
}

#[test]
fn waits_until_data_comes_or_time_is_up() {
    let (s, mut c) = create_capped(r#""size": 100000"#);
    insert(&mut c, &[1]);
    let (id, _) = cursor(&c.run(TAIL));
    let clock = &s.service().clock;
    let by_default = doc! { "getMore": id, "collection": "c" };
    for (command, wait_us) in [(get_more(id, 150), 150_000), (by_default, 1_000_000)] {
        let before = clock.monotonic_us();
        let mut waiting = PendingGetMore::begin(&mut c, &command);
        let until_us = waiting.until_us.clone().unwrap();
        let earliest = before + wait_us;
        assert!((earliest..=clock.monotonic_us() + wait_us).contains(&until_us));
        if clock.monotonic_us() < until_us {
            assert_eq!(
                waiting.goes_on_waiting(),
                until_us,
                "it was woken for nothing"
            );
        }
        let left = until_us.saturating_sub(clock.monotonic_us());
        std::thread::sleep(Duration::from_micros(left));
        assert_eq!(cursor(&waiting.ends()), (id, vec![]));
        assert!(!c.take_wake());
    }
    // The same with the time that the network layer waits.
    let begin = Instant::now();
    assert_eq!(cursor(&c.get_more(id, 150)), (id, vec![]));
    assert!(begin.elapsed() >= Duration::from_millis(150));

    let mut other = Client::new(&s);
    let mut waiting = PendingGetMore::begin(&mut c, &get_more(id, 3_600_000));
    assert!(!waiting.client.take_wake());
    insert(&mut other, &[2]);
    assert!(waiting.client.take_wake());
    assert_eq!(cursor(&waiting.ends()), (id, vec![2]));
    // Dropping the collection ends the wait.
    let mut waiting = PendingGetMore::begin(&mut c, &get_more(id, 3_600_000));
    assert_eq!(code(&other.run(r#"{"drop": "c"}"#)), 0);
    assert!(waiting.client.take_wake());
    assert_eq!(code(&waiting.ends()), 175);
    assert_eq!(s.service().cursors.counts().open, 0);
}

#[test]
fn inserts_that_do_not_match_do_not_end_the_wait() {
    let (s, mut c) = create_capped(r#""size": 100000"#);
    insert(&mut c, &[1]);
    let (id, _) = cursor(&c.run(
        r#"{"find": "c", "filter": {"n": {"$gte": 7}}, "tailable": true, "awaitData": true}"#,
    ));
    let mut other = Client::new(&s);
    let mut waiting = PendingGetMore::begin(&mut c, &get_more(id, 3_600_000));
    let until_us = waiting.until_us.clone().unwrap();
    for n in [2, 3, 4] {
        insert(&mut other, &[n]);
        assert!(waiting.client.take_wake());
        assert_eq!(waiting.goes_on_waiting(), until_us);
    }
    insert(&mut other, &[8]);
    assert!(waiting.client.take_wake());
    assert_eq!(cursor(&waiting.ends()), (id, vec![8]));
}

#[test]
fn a_wait_is_an_operation() {
    let (s, mut c) = create_capped(r#""size": 100000"#);
    insert(&mut c, &[1]);
    let ids: Vec<i64> = (0..3).map(|_| cursor(&c.run(TAIL)).0).collect();
    let mut other = Client::new(&s);
    let mut results = Vec::new();
    for (id, how) in ids.iter().copied().zip(["killOp", "killCursors", "gone"]) {
        let mut w = Client::new(&s);
        let mut waiting = PendingGetMore::begin(&mut w, &get_more(id, 3_600_000));
        let seen = send(
            &s,
            &mut other.conn,
            "admin",
            doc! { "currentOp": 1i32, "op": "getmore", "cursor.cursorId": id }.doc(),
        );
        let all = seen.doc().field("inprog").as_array().unwrap();
        let op = all.get(0).and_then(|v| v.as_doc().map(|d| d.to_buf()));
        let op = op.unwrap_or_else(|| panic!("{seen:?}"));
        assert_eq!(op.doc().field("ns").as_str(), Some("db.c"));
        assert_eq!(
            code(&other.get_more(id, 0)),
            12_051,
            "in use while it waits"
        );
        assert!(!waiting.client.take_wake());
        match how {
            "killOp" => drop(send(
                &s,
                &mut other.conn,
                "admin",
                doc! { "killOp": 1i32, "op": op.doc().field("opid") }.doc(),
            )),
            "killCursors" => drop(other.send(&doc! { "killCursors": "c", "cursors": [id] })),
            _ => {
                waiting.client.bell.gone.store(true, Ordering::Release);
                waiting.client.bell.wake();
            }
        }
        assert!(waiting.client.take_wake(), "{how}");
        results.push(code(&waiting.ends()));
        assert_eq!(code(&other.get_more(id, 0)), 43, "{how} ends the cursor");
    }
    assert_eq!(results, [11_601, 237, 279]);
    // The waiting connection breaks, which ends the cursor.
    let (id, _) = cursor(&c.run(TAIL));
    let mut w = Client::new(&s);
    PendingGetMore::begin(&mut w, &get_more(id, 20_000));
    assert_eq!(s.service().cursors.counts().in_use, 1);
    drop(w);
    assert_eq!(code(&c.get_more(id, 0)), 43);
    assert_eq!(s.service().counters.active.load(Ordering::Relaxed), 0);
}

#[test]
fn overtaken_by_the_deletion() {
    let (_s, mut c) = create_capped(r#""size": 100000, "max": 3"#);
    insert(&mut c, &[1, 2, 3]);
    let (tail, _) = cursor(&c.run(r#"{"find": "c", "tailable": true}"#));
    let (plain, _) = cursor(&c.run(r#"{"find": "c", "batchSize": 1}"#));
    insert(&mut c, &[4, 5]);
    let more = |id: i64| doc! { "getMore": id, "collection": "c" };
    assert_eq!(
        cursor(&c.send(&more(tail))),
        (tail, vec![4, 5]),
        "the place, document 3, is still there"
    );
    let lost = c.send(&more(plain));
    assert_eq!(
        (code(&lost), lost.doc().field("codeName").as_str()),
        (136, Some("CappedPositionLost")),
        "{lost:?}"
    );
    insert(&mut c, &[6, 7, 8]);
    assert_eq!(code(&c.send(&more(tail))), 136);
    assert_eq!(code(&c.send(&more(tail))), 43, "and the cursor is dead");
}

#[test]
fn what_cannot_be_tailed() {
    let (_s, mut c) = create_capped(r#""size": 100000"#);
    c.run(r#"{"insert": "plain", "documents": [{"_id": 1}]}"#);
    c.run(r#"{"create": "view", "viewOn": "c", "pipeline": []}"#);
    c.run(r#"{"create": "series", "timeseries": {"timeField": "t"}}"#);
    insert(&mut c, &[1]);
    for (find, expected) in [
        (r#"{"find": "plain", "tailable": true}"#, 2),
        (r#"{"find": "view", "tailable": true}"#, 168),
        (r#"{"find": "series", "tailable": true}"#, 168),
        (r#"{"find": "view", "noCursorTimeout": true}"#, 168),
        (r#"{"find": "view", "showRecordId": true}"#, 168),
        (r#"{"find": "view", "returnKey": true}"#, 168),
        (r#"{"find": "c", "tailable": true, "sort": {"n": 1}}"#, 2),
        (
            r#"{"find": "c", "tailable": true, "sort": {"$natural": -1}}"#,
            2,
        ),
        (r#"{"find": "c", "tailable": true, "singleBatch": true}"#, 2),
        (r#"{"find": "c", "awaitData": true}"#, 9),
        (r#"{"find": "c", "tailable": 1}"#, 14),
    ] {
        assert_eq!(code(&c.run(find)), expected, "{find}");
    }
    let (id, _) = cursor(&c.run(r#"{"find": "c", "tailable": true}"#));
    assert_eq!(code(&c.get_more(id, 5)), 2, "maxTimeMS needs awaitData");
    // A hint other than the natural order is ignored, and a limit ends the documents, but not the
    // cursor.
    let (id, first) =
        cursor(&c.run(r#"{"find": "c", "tailable": true, "hint": {"_id": 1}, "limit": 2}"#));
    assert_eq!(first, [1]);
    insert(&mut c, &[3, 2]);
    let more = doc! { "getMore": id, "collection": "c" };
    assert_eq!(
        (cursor(&c.send(&more)), cursor(&c.send(&more))),
        ((id, vec![3]), (id, vec![]))
    );
}

/// Many concurrent writers with unordered ids: a tailing cursor returns every document once, and in
/// the same order as a second one.
#[test]
fn none_is_missed_under_concurrent_inserts() {
    const WRITERS: i64 = 4;
    const EACH: i64 = 400;
    const LAST: i64 = -2;
    let (s, mut c) = create_capped(r#""size": 10000000"#);
    insert(&mut c, &[-1]);
    let tail = |s: &Arc<Dispatcher>| {
        let mut t = Client::new(s);
        std::thread::spawn(move || {
            let (id, mut seen) = cursor(&t.run(TAIL));
            // The time until data arrives depends on the machine; `tail_races` tests that data ends
            // the wait.
            while seen.last() != Some(&LAST) {
                seen.extend(cursor(&t.get_more(id, 1000)).1);
            }
            seen
        })
    };
    let tails = [tail(&s), tail(&s)];
    let writers: Vec<_> = (0..WRITERS)
        .map(|w| {
            let mut c = Client::new(&s);
            std::thread::spawn(move || {
                // Large batches get their numbers long before they are visible; a bug would let
                // small batches overtake them.
                let ids: Vec<i64> = (0..EACH).map(|n| (EACH - n) * WRITERS + w).collect();
                ids.chunks(if w == 0 { 100 } else { 1 })
                    .for_each(|ids| insert(&mut c, ids));
            })
        })
        .collect();
    writers.into_iter().for_each(|w| w.join().unwrap());
    insert(&mut c, &[LAST]);
    let seen: Vec<Vec<i64>> = tails.into_iter().map(|t| t.join().unwrap()).collect();
    assert_eq!(seen[0], seen[1]);
    let mut sorted = seen[0].clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len() as i64, WRITERS * EACH + 2);
    assert_eq!(
        cursor(&c.run(r#"{"find": "c", "batchSize": 100000}"#)).1,
        seen[0]
    );
    assert!(matches!(
        c.run(r#"{"ping": 1}"#).doc().field("ok"),
        Value::Double(_)
    ));
}
