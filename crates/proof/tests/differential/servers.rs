//! One server over each engine of this build, and a reference server over memory without indexes,
//! which runs pipelines as written.

use commands::workers::{self, Schedule};
use commands::{
    Config, Connection, Dispatcher, Outcome, Request, Service, StoreHooks, SystemClock,
};
use engine_lmdb::LmdbEngine;
use engine_rocksdb::{CacheKind, RocksEngine};
use engine_wiredtiger::{LIBRARY_NAME, Library, WiredTigerEngine};
use model::{DocBuf, extjson};
use query::segments::Sizes;
use serde_json::Value as Json;
use std::path::Path;
use std::sync::Arc;
use storage::{Engine, MemoryEngine};
use store::Store;

pub(crate) struct Server {
    pub(crate) name: &'static str,
    server: Arc<Dispatcher>,
    conn: Connection,
}

pub(crate) struct Servers {
    /// The reference server: no indexes, pipelines as written.
    pub(crate) plain: Server,
    pub(crate) others: Vec<Server>,
    _folder: tempfile::TempDir,
    databases: usize,
}

pub(crate) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    made.expect("a folder")
}

pub(crate) fn rocksdb(path: &Path) -> Arc<dyn Engine> {
    let config = engine_rocksdb::Config {
        statistics: false,
        cache_kind: CacheKind::Lru,
        free_bytes_min: 0,
        free_percent_min: 0,
        ..engine_rocksdb::Config::with_budget(path, 64 << 20)
    };
    Arc::new(RocksEngine::open(config).expect("an empty directory"))
}

pub(crate) fn lmdb(path: &Path) -> Arc<dyn Engine> {
    let config = engine_lmdb::Config {
        map_bytes: 1 << 30,
        ..engine_lmdb::Config::at(path)
    };
    Arc::new(LmdbEngine::open(&config).expect("an empty directory"))
}

/// WiredTiger, when this machine has its library.
fn wiredtiger(path: &Path) -> Option<Arc<dyn Engine>> {
    let library = match Library::load(LIBRARY_NAME, None) {
        Ok(library) => library,
        Err(line) => {
            println!("without WiredTiger: {line}");
            return None;
        }
    };
    let config = engine_wiredtiger::Config::at(path, 64 << 20);
    let engine = WiredTigerEngine::open(&config, &library).expect("an empty directory");
    Some(Arc::new(engine))
}

impl Server {
    fn start_on(name: &'static str, engine: Arc<dyn Engine>, optimize_pipelines: bool) -> Server {
        let clock = || Arc::new(SystemClock::default());
        let store = Store::open(engine, Arc::new(StoreHooks::new(clock()))).expect("a store");
        let config = Config {
            replica_set: None,
            optimize_pipelines,
            // A few documents make a segment of columns.
            column_segments: Sizes {
                docs_max: 8,
                docs_min: 2,
            },
            ..Config::default()
        };
        let service = Service::new(config, clock(), Arc::new(store));
        let server = Arc::new(commands::registry::dispatcher(service.into_shared()));
        let conn = server.connect("127.0.0.1:1");
        Server { name, server, conn }
    }

    /// Writes segments of columns where documents are waiting for it, and frees dropped records.
    pub(crate) fn work(&self) {
        let named = |name| workers::find(name).expect("the worker");
        let service = self.server.service().arc().expect("a shared service");
        let workers = ["columnSegments", "references"].map(named);
        Schedule::new(&service, workers).run_due(&service, &|| true);
    }

    pub(crate) fn send(&mut self, db: &str, command: &Json) -> Json {
        let mut body = extjson::document(command).unwrap_or_else(|e| panic!("{e}: {command}"));
        body.put("$db", db);
        let mut reply = Vec::new();
        let outcome = self
            .server
            .handle(&mut self.conn, &Request::new(body.doc()), &mut reply);
        assert!(
            matches!(outcome, Outcome::Reply | Outcome::Durable(_)),
            "{outcome:?}: {command}"
        );
        let reply = DocBuf::from_bytes(reply).expect("one document");
        extjson::from_document(reply.doc(), extjson::Mode::Canonical)
    }
}

impl Servers {
    pub(crate) fn new() -> Servers {
        let folder = folder();
        let at = |name: &str| folder.path().join(name);
        let memory = || Arc::new(MemoryEngine::new());
        let mut others = vec![
            Server::start_on("memory", memory(), true),
            Server::start_on("rocksdb", rocksdb(&at("rocksdb")), true),
            Server::start_on("lmdb", lmdb(&at("lmdb")), true),
        ];
        if let Some(engine) = wiredtiger(&at("wiredtiger")) {
            others.push(Server::start_on("wiredtiger", engine, true));
        }
        Servers {
            plain: Server::start_on("as written", memory(), false),
            others,
            _folder: folder,
            databases: 0,
        }
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.others.iter().map(|s| s.name).collect()
    }

    /// The name of a new database.
    pub(crate) fn database(&mut self) -> String {
        self.databases += 1;
        format!("d{}", self.databases)
    }

    pub(crate) fn drop_database(&mut self, db: &str) {
        let drop = serde_json::json!({ "dropDatabase": 1 });
        for server in self.others.iter_mut().chain([&mut self.plain]) {
            server.send(db, &drop);
        }
    }
}
