//! A standalone server with an empty database in memory and one client that sends commands as JSON;
//! most tests use it.

use crate::behaviour::{send, serve, store};
use commands::workers::{self, Schedule};
use commands::{Config, Connection, Dispatcher};
use model::{DocBuf, extjson};
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// The server and its client.
pub(crate) struct Standalone {
    service: Arc<Dispatcher>,
    conn: Connection,
}

impl Standalone {
    pub(crate) fn new() -> Standalone {
        Standalone::of(Config {
            replica_set: None,
            ..Config::default()
        })
    }

    /// A server with another configuration.
    pub(crate) fn of(config: Config) -> Standalone {
        let service = serve(config, store());
        let conn = service.connect("127.0.0.1:50000");
        Standalone { service, conn }
    }

    /// The reply to a command on database `db`.
    pub(crate) fn run(&mut self, db: &str, command: &DocBuf) -> DocBuf {
        send(&self.service, &mut self.conn, db, command.doc())
    }

    /// The index entries and documents that the last command examined.
    pub(crate) fn read_totals(&self) -> operation::ReadTotals {
        self.conn.read_totals()
    }

    /// Runs one round of the background worker with this name.
    pub(crate) fn work(&self, worker: &str) {
        let worker = workers::find(worker).expect("a worker of that name");
        let service = self.service.service().arc().expect("a shared service");
        Schedule::new(&service, [worker]).run_due(&service, &|| true);
    }

    /// The reply as JSON that preserves every type.
    pub(crate) fn send(&mut self, command: &Json) -> Json {
        self.send_to("db", command)
    }

    /// The same on another database.
    pub(crate) fn send_to(&mut self, db: &str, command: &Json) -> Json {
        let command = extjson::document(command).expect("a document");
        let reply = self.run(db, &command);
        extjson::from_document(reply.doc(), extjson::Mode::Canonical)
    }

    /// The reply with plain numbers; it may be an error.
    pub(crate) fn answer(&mut self, command: &Json) -> Json {
        let command = extjson::document(command).expect("a document");
        let reply = self.run("db", &command);
        extjson::from_document(reply.doc(), extjson::Mode::Relaxed)
    }

    /// The same; the command must succeed.
    pub(crate) fn ok(&mut self, command: &Json) -> Json {
        let reply = self.answer(command);
        assert_eq!(reply["ok"], json!(1.0), "{command}: {reply}");
        assert!(reply.get("writeErrors").is_none(), "{command}: {reply}");
        reply
    }
}
