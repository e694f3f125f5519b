//! Wake-ups of tailing cursors, without depending on the clock: another operation runs completely
//! at each moment of a getMore in turn, before and after every call to the engine. The getMore must
//! then return the new data, or its connection must be woken; otherwise it would wait until its
//! time limit.

use crate::behaviour::serve;
use crate::interrupts::code;
use crate::tails::Client;
use commands::{Config, Dispatcher, Outcome, Request, StoreHooks, SystemClock, WaitFor};
use model::{Array, DocBuf, doc};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use storage::observe::{Call, ObservedEngine, Observer};
use storage::{Caps, CommitPos, MemoryEngine, StorageError};

type Job = Box<dyn FnOnce() + Send>;

/// Runs a job at the moment of this number; each call has two moments, before and after it.
#[derive(Default)]
struct JobInjector {
    /// Moments until the job runs; 0 without a job.
    left: AtomicUsize,
    job: Mutex<Option<Job>>,
}

impl JobInjector {
    fn set(&self, moment: usize, job: Job) {
        *self.job.lock().unwrap() = Some(job);
        self.left.store(moment + 1, Ordering::SeqCst);
    }

    /// Takes the job if it has not run; it will not run here any more.
    fn take(&self) -> Option<Job> {
        self.left.store(0, Ordering::SeqCst);
        self.job.lock().unwrap().take()
    }

    fn count_moment(&self) {
        let step = |n: usize| n.checked_sub(1);
        let before = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, step);
        if before == Ok(1)
            && let Some(job) = self.job.lock().unwrap().take()
        {
            // Not on this thread, which is executing a command.
            std::thread::spawn(job).join().unwrap();
        }
    }
}

impl Observer for JobInjector {
    fn before_call(&self, _: &Call<'_>, _: &Caps) -> storage::Result<()> {
        self.count_moment();
        Ok(())
    }

    fn after_call(&self, _: &Call<'_>, _: Result<CommitPos, &StorageError>) -> storage::Result<()> {
        self.count_moment();
        Ok(())
    }
}

/// A server with a capped collection `c` that contains one document.
struct Server {
    engine: Arc<ObservedEngine<JobInjector>>,
    service: Arc<Dispatcher>,
}

impl Server {
    fn new() -> Server {
        let engine = Arc::new(ObservedEngine::new(
            Arc::new(MemoryEngine::new()),
            JobInjector::default(),
        ));
        let hooks = StoreHooks::new(Arc::new(SystemClock::default())).with_log(1 << 30);
        let store = store::Store::open(engine.clone(), Arc::new(hooks)).unwrap();
        let service = serve(Config::default(), Arc::new(store));
        let mut c = Client::new(&service);
        for command in [
            doc! { "create": "c", "capped": true, "size": 100_000i32 },
            doc! { "insert": "c", "documents": [{ "_id": 1i32 }] },
        ] {
            assert_eq!(code(&c.send(&command)), 0);
        }
        Server { engine, service }
    }
}

fn cursor_id(reply: &DocBuf) -> i64 {
    let cursor = reply.doc().field("cursor").as_doc();
    let id = cursor.and_then(|c| c.field("id").as_i64_exact());
    id.filter(|id| *id != 0)
        .unwrap_or_else(|| panic!("{reply:?}"))
}

fn count_documents(reply: &DocBuf) -> usize {
    let cursor = reply.doc().field("cursor").as_doc();
    let batch = cursor.and_then(|c| c.field("nextBatch").as_array());
    batch.unwrap_or(Array::EMPTY).len()
}

/// A tailing cursor, an operation, and the result of a getMore: a number of documents, or an error.
struct Case {
    opens: DocBuf,
    /// The database and collection of the cursor.
    of: (&'static str, &'static str),
    comes: DocBuf,
    shows: (usize, i64),
}

fn cases() -> Vec<Case> {
    let find = doc! { "find": "c", "tailable": true, "awaitData": true };
    let mut fits = find.clone();
    fits.put("filter", &doc! { "n": 7i32 });
    let watch = doc! { "aggregate": "c", "pipeline": [{ "$changeStream": {} }], "cursor": {} };
    let watch_all = doc! { "aggregate": 1i32, "pipeline": [{ "$changeStream": {} }], "cursor": {} };
    let mut log = doc! { "find": "oplog.rs", "tailable": true, "awaitData": true };
    log.put("filter", &doc! { "op": "i", "ns": "db.c" });
    log.put("$db", "local");
    let insert = doc! { "insert": "c", "documents": [{ "_id": 2i32, "n": 7i32 }] };
    let drop = doc! { "drop": "c" };
    let c = ("db", "c");
    let of = |opens: &DocBuf, of, comes: &DocBuf, shows| Case {
        opens: opens.clone(),
        of,
        comes: comes.clone(),
        shows,
    };
    vec![
        of(&find, c, &insert, (1, 0)),
        of(&fits, c, &insert, (1, 0)),
        of(&find, c, &drop, (0, 175)),
        of(&watch, c, &insert, (1, 0)),
        of(&watch_all, ("db", "$cmd.aggregate"), &insert, (1, 0)),
        // Includes the event that ends the stream.
        of(&watch, c, &drop, (2, 0)),
        of(&log, ("local", "oplog.rs"), &insert, (1, 0)),
    ]
}

/// A getMore during which the operation runs at a moment. After the last moment, the operation runs
/// while the getMore waits, and the result is false.
fn check_moment(case: &Case, moment: usize) -> bool {
    let server = Server::new();
    let mut tail = Client::new(&server.service);
    let id = cursor_id(&tail.send(&case.opens));
    let (db, coll) = case.of;
    let more = |ms: i32| doc! { "getMore": id, "collection": coll, "maxTimeMS": ms, "$db": db };
    // Moves the cursor past the existing documents.
    assert_eq!(code(&tail.send(&more(0))), 0);
    let body = more(3_600_000);

    let (service, comes) = (server.service.clone(), case.comes.clone());
    let comes = move || {
        let reply = Client::new(&service).send(&comes);
        assert_eq!(code(&reply), 0, "{reply:?}");
    };
    let moments = server.engine.observer();
    moments.set(moment, Box::new(comes));
    let (mut request, mut reply) = (Request::new(body.doc()), Vec::new());
    let mut came_inside = true;
    while let Outcome::Wait { on, .. } = tail.handle(&request, &mut reply) {
        assert!(matches!(on, WaitFor::Data { .. }), "{on:?}");
        if let Some(job) = moments.take() {
            came_inside = false;
            job();
        }
        assert!(tail.take_wake(), "{:?} at moment {moment}", case.comes);
        request.waited = true;
    }
    let reply = DocBuf::from_bytes(reply).unwrap();
    let seen = (count_documents(&reply), code(&reply));
    assert_eq!(seen, case.shows, "{reply:?} at moment {moment}");
    assert!(moments.take().is_none(), "{reply:?} at moment {moment}");
    came_inside
}

#[test]
fn an_event_at_any_moment_of_a_get_more_ends_its_wait() {
    for case in cases() {
        let mut moments = 0;
        while check_moment(&case, moments) {
            moments += 1;
        }
        // At least two reads, before and after the registration. A reader of the log does not read
        // from the engine before there is a new entry.
        let of_log = case.opens.doc().contains("aggregate") || case.of.0 == "local";
        assert!(moments >= 4 || of_log, "{:?}: {moments}", case.opens);
    }
}
