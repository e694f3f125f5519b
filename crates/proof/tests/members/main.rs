//! Stores on three members of a TiKV database: documents, indexes and collections that all of them
//! write. `QUARRY_TIKV_PD` names an existing cluster; otherwise one is started, if there is one for
//! tests.

mod counts;
mod logged;
mod spread;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine_tikv::{Config, TikvMember};
use model::{Doc, DocBuf, Namespace, Result, Value, doc};
use operation::{Operation, SystemClock};
use store::{Change, Collection, Hooks, IndexBuild, NoHooks, ReadView, Store};

/// A cluster, whose processes end when their standard input is closed.
struct Cluster {
    pd: Vec<String>,
    _holder: Option<Child>,
}

impl Cluster {
    /// The existing cluster, or a new one; `None`, with the reason printed, where there is neither.
    fn open() -> Option<Cluster> {
        if let Ok(pd) = std::env::var("QUARRY_TIKV_PD") {
            let pd = pd.split(',').map(str::to_owned).collect();
            return Some(Cluster { pd, _holder: None });
        }
        let mut holder = Command::new("../../scripts/cluster.sh")
            .arg("hold")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("scripts/cluster.sh runs");
        let mut line = String::new();
        let output = holder.stdout.take().expect("its output is a pipe");
        let read = BufReader::new(output).read_line(&mut line);
        read.expect("its output is text");
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["ready", pd, ..] => Some(Cluster {
                pd: vec![pd.to_owned()],
                _holder: Some(holder),
            }),
            _ => {
                eprintln!("skipped: {}", line.trim());
                let _ = holder.wait();
                None
            }
        }
    }

    /// A database with a name that no other test has.
    fn new_database(&self) -> Config {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let now = std::time::SystemTime::now();
        let now = now.duration_since(std::time::UNIX_EPOCH).expect("a clock");
        let name = format!("s{}-{}-{number}", now.as_micros(), std::process::id());
        Config::at(self.pd.clone(), name)
    }
}

/// Held by a test while it uses a cluster: requests are counted for the whole process.
fn take_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Server {
    store: Store,
    operation: Operation,
}

fn ns() -> Namespace {
    Namespace::new("db", "c").expect("a name")
}

impl Server {
    fn view(&self) -> ReadView {
        let view = self.store.begin_moment();
        view.expect("a moment")
            .expect("the store has joined others")
    }

    fn find(&self) -> Option<Arc<Collection>> {
        let view = self.view();
        self.store
            .collection_in(&view, &ns())
            .expect("a read of the catalog")
    }

    /// Runs `f` until it does not fail because another server has changed the catalog.
    fn run<T>(&self, mut f: impl FnMut(&Arc<Collection>) -> Result<T>) -> T {
        loop {
            if let Some(c) = self.find() {
                match f(&c) {
                    Err(e) if e.is_collection_gone() => {}
                    done => return done.expect("a write"),
                }
            }
        }
    }

    /// Inserts the document; false when its `_id` or a unique value is taken.
    fn insert(&self, doc: &DocBuf) -> bool {
        let inserted = self.run(|c| c.writer(&self.operation).insert(&[doc.doc()], true));
        let refused = inserted.errors.first().map(|(_, e)| e.code());
        assert!(refused.is_none_or(|code| code == 11000), "{refused:?}");
        inserted.count == 1
    }

    /// Creates the collection; false when it exists.
    fn create(&self) -> bool {
        loop {
            self.view();
            let writer = self.store.writer(&self.operation);
            match writer.create_collection(&ns(), DocBuf::new(), [7; 16]) {
                Ok(_) => return true,
                Err(e) if e.is_collection_gone() => {}
                Err(e) => {
                    assert_eq!(e.code(), 48, "{e:?}");
                    return false;
                }
            }
        }
    }

    fn drop_collection(&self) {
        loop {
            self.view();
            let writer = self.store.writer(&self.operation);
            match writer.drop_collection(&ns()) {
                Err(e) if e.is_collection_gone() => {}
                dropped => return dropped.map(|_| ()).expect("a drop"),
            }
        }
    }

    fn create_index(&self, spec: &DocBuf) {
        let name = spec.doc().field("name").as_str().map(str::to_owned);
        let same = |old: Doc<'_>| Ok(old.field("name").as_str().map(str::to_owned) == name);
        let mut build: Option<IndexBuild> = None;
        self.run(|c| {
            let writer = c.writer(&self.operation);
            let spec = spec.clone();
            writer.create_index_with_progress(spec, &same, &mut build, &|| {}, &|| Ok(()))
        });
    }

    fn increase(&self, id: i32) {
        self.run(|c| {
            let mut key = Vec::new();
            c.record_key(&Value::Int32(id), &mut key);
            c.writer(&self.operation).modify(&key, &mut |old| {
                let n = old.field("n").as_i64_exact().unwrap_or(0);
                let new = doc! { "_id": id, "k": id, "n": n + 1 };
                Ok(Change::Replace(new.as_bytes().to_vec()))
            })
        });
    }

    fn documents(&self) -> Vec<DocBuf> {
        let view = self.view();
        let c = self.store.collection_in(&view, &ns());
        let c = c.expect("a read of the catalog").expect("the collection");
        let mut found = Vec::new();
        let mut scan = c.scan(&view, false);
        let each = &mut |row: store::Row<'_>| {
            found.push(row.doc.to_buf());
            true
        };
        while scan.visit(1000, each).expect("a scan") {}
        assert_eq!(view.count_of(&c).expect("a count"), found.len() as u64);
        found
    }
}

fn join(config: &Config, hooks: Arc<dyn Hooks>) -> Server {
    let engine = TikvMember::join(config).expect("a member joins");
    let store = Store::join(Arc::new(engine), hooks);
    Server {
        store: store.expect("a store"),
        operation: Operation::new_detached(Arc::new(SystemClock::default())),
    }
}

/// Three servers on a new database.
fn servers(cluster: &Cluster) -> Vec<Server> {
    let config = cluster.new_database();
    let join = |_| join(&config, Arc::new(NoHooks));
    (0..3).map(join).collect()
}

fn on_all<T: Send>(all: &[Server], f: impl Fn(usize, &Server) -> T + Sync) -> Vec<T> {
    std::thread::scope(|threads| {
        let f = &f;
        let threads: Vec<_> = all
            .iter()
            .enumerate()
            .map(|(who, server)| threads.spawn(move || f(who, server)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    })
}

#[test]
fn all_servers_write_one_collection_and_its_indexes() {
    let Some(cluster) = Cluster::open() else {
        return;
    };
    let _turn = take_turn();
    let all = servers(&cluster);
    let made = on_all(&all, |_, server| server.create());
    assert_eq!(made.iter().filter(|made| **made).count(), 1);
    let unique = doc! { "v": 2i32, "key": { "k": 1i32 }, "name": "k", "unique": true };
    // The same ids and unique values by all three, while one of them builds an index.
    let (written, built) = (AtomicUsize::new(0), AtomicBool::new(false));
    on_all(&all, |who, server| {
        for n in 0..60i32 {
            let doc = doc! { "_id": n, "k": n, "n": 0i64, "who": who as i32 };
            written.fetch_add(usize::from(server.insert(&doc)), Ordering::SeqCst);
            if who == 1 && n == 20 {
                server.create_index(&unique);
                built.store(true, Ordering::SeqCst);
            }
        }
        for _ in 0..20 {
            server.increase(1);
            server.increase(who as i32 + 10);
        }
        assert!(!server.insert(&doc! { "_id": 1000 + who as i32, "k": 5i32 }));
    });
    assert!(built.into_inner());
    assert_eq!(written.into_inner(), 60);
    for server in &all {
        let found = server.documents();
        let sum: i64 = found
            .iter()
            .filter_map(|d| d.doc().field("n").as_i64_exact())
            .sum();
        assert_eq!((found.len(), sum), (60, 120));
        let c = server.find().expect("the collection");
        assert!(c.indexes().iter().all(|index| index.is_ready()));
    }
    for server in all {
        server.store.close().expect("it closes");
    }
}

#[test]
fn a_dropped_collection_takes_no_write_of_another_server() {
    let Some(cluster) = Cluster::open() else {
        return;
    };
    let _turn = take_turn();
    let all = servers(&cluster);
    assert!(all[0].create());
    let (written, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    on_all(&all, |who, server| {
        if who == 0 {
            for round in 1..=5 {
                while written.load(Ordering::SeqCst) < round * 10 {
                    std::thread::yield_now();
                }
                server.drop_collection();
                assert!(server.create());
            }
            ended.store(true, Ordering::SeqCst);
        }
        let mut n = who as i32;
        while !ended.load(Ordering::SeqCst) {
            n += 3;
            server.insert(&doc! { "_id": n });
            written.fetch_add(1, Ordering::SeqCst);
        }
    });
    let numbers: Vec<usize> = all.iter().map(|server| server.documents().len()).collect();
    assert!(numbers.iter().all(|n| *n == numbers[0]), "{numbers:?}");
}
