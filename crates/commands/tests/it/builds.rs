//! Concurrent createIndexes and collMod: no command reports an index that does not exist.

use crate::behaviour::{send, serve};
use crate::interrupts::{code, fill, json};
use commands::{Config, Dispatcher, SystemClock};
use model::DocBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use storage::observe::{Call, ObservedEngine, Observer};
use storage::{Caps, MemoryEngine, Table};

fn run(s: &Dispatcher, command: &str) -> DocBuf {
    let mut c = s.connect("127.0.0.1:1");
    send(s, &mut c, "db", json(command).doc())
}

type Job = Box<dyn FnOnce() + Send>;

/// Runs a job when a build begins to read documents.
#[derive(Default)]
struct BuildObserver {
    job: Mutex<Option<Job>>,
}

impl Observer for BuildObserver {
    fn before_call(&self, call: &Call<'_>, _: &Caps) -> storage::Result<()> {
        if let Call::Cursor {
            table: Table::Doc,
            opts,
            ..
        } = call
            && !opts.fill_cache
            && let Some(job) = self.job.lock().expect("no panic under it").take()
        {
            job();
        }
        Ok(())
    }
}

/// Regression: a second createIndexes of the same index succeeded before the first had failed.
#[test]
fn a_second_build_of_the_same_index_ends_as_the_first() {
    let engine = Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        BuildObserver::default(),
    ));
    let language = Arc::new(commands::StoreHooks::new(Arc::new(SystemClock::default())));
    let s = serve(
        Config::default(),
        Arc::new(store::Store::open(engine.clone(), language).expect("an empty store")),
    );
    // The last document has the same `b` as the first: the build of a unique index fails at its
    // end.
    fill(&s, 500);
    assert_eq!(
        code(&run(
            &s,
            r#"{"insert": "c", "documents": [{"_id": 500, "b": 0}]}"#
        )),
        0
    );
    let command =
        r#"{"createIndexes": "c", "indexes": [{"key": {"b": 1}, "name": "b", "unique": true}]}"#;
    let (said, heard) = std::sync::mpsc::channel();
    let other = s.clone();
    *engine.observer().job.lock().expect("no panic under it") = Some(Box::new(move || {
        std::thread::spawn(move || said.send(run(&other, command)).expect("the test listens"));
        std::thread::sleep(Duration::from_millis(100));
    }));
    assert_eq!(code(&run(&s, command)), 11000);
    let second = heard
        .recv_timeout(Duration::from_secs(20))
        .expect("it ends");
    assert_eq!(code(&second), 11000, "{second:?}");
    assert_eq!(code(&run(&s, r#"{"validate": "c"}"#)), 0);
}

/// currentOp shows the progress of a running build.
#[test]
fn operations_show_how_far_a_build_has_come() {
    let engine = Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        BuildObserver::default(),
    ));
    let language = Arc::new(commands::StoreHooks::new(Arc::new(SystemClock::default())));
    let s = serve(
        Config::default(),
        Arc::new(store::Store::open(engine.clone(), language).expect("an empty store")),
    );
    fill(&s, 500);
    let (said, heard) = std::sync::mpsc::channel();
    let other = s.clone();
    *engine.observer().job.lock().expect("no panic under it") = Some(Box::new(move || {
        let look = move || {
            let mut c = other.connect("127.0.0.1:2");
            let command = json(r#"{"currentOp": 1, "command.createIndexes": "c"}"#);
            said.send(send(&other, &mut c, "admin", command.doc()))
        };
        let sent = std::thread::spawn(look).join().expect("no panic");
        sent.expect("the test listens");
    }));
    let command = r#"{"createIndexes": "c", "indexes": [{"key": {"b": 1}, "name": "b"}]}"#;
    assert_eq!(code(&run(&s, command)), 0);
    let seen = heard
        .recv_timeout(Duration::from_secs(20))
        .expect("it was looked at");
    let text = seen.to_string();
    let wanted = "Index Build: scanning collection Index Build: scanning collection: 0/500 0%";
    assert!(text.contains(wanted), "{text}");
}

/// Regression: collMod to unique dropped the old index before the new one was built.
#[test]
fn an_index_that_cannot_become_unique_stays() {
    let s = crate::protocol::service();
    fill(&s, 20);
    for command in [
        r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]}"#,
        r#"{"collMod": "c", "index": {"name": "a", "prepareUnique": true}}"#,
    ] {
        assert_eq!(code(&run(&s, command)), 0);
    }
    let unique = r#"{"collMod": "c", "index": {"name": "a", "unique": true}}"#;
    assert_eq!(code(&run(&s, unique)), 359, "CannotConvertIndexToUnique");
    let listed = format!("{:?}", run(&s, r#"{"listIndexes": "c"}"#));
    assert!(listed.contains(r#"name: "a""#), "{listed}");
    let found = format!(
        "{:?}",
        run(&s, r#"{"count": "c", "query": {"a": 3}, "hint": "a"}"#)
    );
    assert!(found.contains("n: 3"), "{found}");
}
