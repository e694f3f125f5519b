//! Transactions of one server while another one changes the catalog, the settings and the users: a
//! statement does not ask first what was announced, and is checked again when it has missed
//! something.

use crate::access::{code, log_in};
use crate::behaviour::{config_of_set, send};
use crate::several_servers::Servers;
use commands::{Config, Connection, Dispatcher, Profile};
use model::{Binary, DocBuf, doc};
use std::sync::Arc;

const HERE: &str = "127.0.0.1:50001";

/// A transaction of a connection.
struct Open {
    server: Arc<Dispatcher>,
    conn: Connection,
    number: i64,
    begun: bool,
}

impl Open {
    fn on(server: &Arc<Dispatcher>, conn: Connection, number: i64) -> Open {
        let server = Arc::clone(server);
        let begun = false;
        Open {
            server,
            conn,
            number,
            begun,
        }
    }

    fn send(&mut self, db: &str, command: &DocBuf) -> DocBuf {
        let id = Binary {
            subtype: 4,
            bytes: &[7; 16],
        };
        let begins = !std::mem::replace(&mut self.begun, true);
        let command = DocBuf::build(|w| {
            w.put_all(command.doc());
            w.put("lsid", doc! { "id": id }.doc())
                .put("txnNumber", self.number)
                .put("autocommit", false);
            if begins {
                w.put("startTransaction", true);
            }
        });
        send(&self.server, &mut self.conn, db, command.doc())
    }

    /// Increases a field of a document; the code of the failure, or 0.
    fn increase(&mut self, id: i32) -> i64 {
        let change = doc! { "update": "c",
        "updates": [{ "q": { "_id": id }, "u": { "$inc": { "n": 1i32 } } }] };
        let reply = self.send("d", &change);
        if code(&reply) == 0 {
            let changed = reply.doc().field("nModified").as_i64_exact();
            assert_eq!(changed, Some(1), "{reply:?}");
        }
        code(&reply)
    }

    fn commit(&mut self) -> i64 {
        code(&self.send("admin", &doc! { "commitTransaction": 1i32 }))
    }
}

struct Both {
    servers: Servers,
    here: Arc<Dispatcher>,
}

impl Both {
    fn start(config: &Config) -> Both {
        let servers = Servers::start_logging(config);
        let here = Arc::clone(&servers.all[0].dispatcher);
        Both { servers, here }
    }

    /// Runs a command on the other server.
    fn meanwhile(&mut self, db: &str, command: DocBuf) -> DocBuf {
        let reply = self.servers.all[1].send(db, command.doc());
        assert_eq!(code(&reply), 0, "{command:?}: {reply:?}");
        reply
    }

    fn insert_documents(&mut self) {
        let docs = doc! { "insert": "c", "documents": [{ "_id": 1i32 }, { "_id": 2i32 },
        { "_id": 3i32 }] };
        self.meanwhile("d", docs);
    }

    fn begin(&self, number: i64) -> Open {
        Open::on(&self.here, self.here.connect(HERE), number)
    }
}

#[test]
fn a_change_of_another_collection_between_statements_disturbs_nothing() {
    let mut both = Both::start(&config_of_set(Profile::V8_2));
    both.insert_documents();
    let mut open = both.begin(1);
    assert_eq!(open.increase(1), 0);
    both.meanwhile("d", doc! { "create": "e" });
    assert_eq!(open.increase(2), 0);
    let index = doc! { "createIndexes": "e",
    "indexes": [{ "key": { "a": 1i32 }, "name": "a_1" }] };
    both.meanwhile("d", index);
    let found = open.send("d", &doc! { "find": "c", "filter": { "n": 1i32 } });
    let batch = found.doc().field("cursor").as_doc().unwrap();
    let batch = batch.field("firstBatch").as_array().unwrap();
    assert_eq!(batch.iter().count(), 2);
    assert_eq!(open.increase(3), 0);
    assert_eq!(open.commit(), 0);
    let all = doc! { "count": "c", "query": { "n": 1i32 } };
    let counted = both.meanwhile("d", all);
    assert_eq!(counted.doc().field("n").as_i64_exact(), Some(3));
}

#[test]
fn a_change_of_its_collection_ends_the_transaction_at_the_next_statement() {
    let mut both = Both::start(&config_of_set(Profile::V8_2));
    both.insert_documents();
    let mut open = both.begin(1);
    assert_eq!(open.increase(1), 0);
    let change = doc! { "collMod": "c", "validator": { "n": { "$lt": 9i32 } } };
    both.meanwhile("d", change);
    assert_eq!(open.increase(2), 112);
    assert_eq!(open.commit(), 251, "it was aborted");
    let mut next = both.begin(2);
    assert_eq!((next.increase(2), next.commit()), (0, 0));
}

#[test]
fn a_write_of_another_server_conflicts_at_the_statement() {
    let mut both = Both::start(&config_of_set(Profile::V8_2));
    both.insert_documents();
    let mut open = both.begin(1);
    assert_eq!(open.increase(1), 0);
    let change = doc! { "update": "c",
    "updates": [{ "q": { "_id": 2i32 }, "u": { "$inc": { "n": 5i32 } } }] };
    both.meanwhile("d", change);
    assert_eq!(open.increase(2), 112);
}

#[test]
fn a_block_of_writes_holds_for_the_next_statement() {
    let mut both = Both::start(&config_of_set(Profile::V8_2));
    both.insert_documents();
    let mut open = both.begin(1);
    assert_eq!(open.increase(1), 0);
    both.meanwhile(
        "admin",
        doc! { "setUserWriteBlockMode": 1i32, "global": true },
    );
    assert_eq!(open.increase(2), 371);
    assert_eq!(open.commit(), 251, "it was aborted");
}

#[test]
fn a_right_that_was_taken_is_missing_at_the_next_statement() {
    let config = Config {
        auth: true,
        ..config_of_set(Profile::V8_2)
    };
    let mut both = Both::start(&config);
    let root = doc! { "createUser": "root", "pwd": "pw", "roles": ["root"] };
    both.meanwhile("admin", root);
    let there = &mut both.servers.all[1];
    let root = ("root", "admin");
    assert_eq!(log_in(&there.dispatcher, &mut there.conn, root, "pw"), 0);
    both.insert_documents();
    let user = doc! { "createUser": "u", "pwd": "pw",
    "roles": [{ "role": "readWrite", "db": "d" }] };
    both.meanwhile("admin", user);
    let mut open = both.begin(1);
    assert_eq!(log_in(&both.here, &mut open.conn, ("u", "admin"), "pw"), 0);
    assert_eq!(open.increase(1), 0);
    // Another right that it does not need is given and taken.
    let more = doc! { "grantRolesToUser": "u", "roles": [{ "role": "read", "db": "e" }] };
    both.meanwhile("admin", more);
    assert_eq!(open.increase(2), 0);
    let less = doc! { "revokeRolesFromUser": "u", "roles": [{ "role": "readWrite", "db": "d" }] };
    both.meanwhile("admin", less);
    assert_eq!(open.increase(3), 13);
    let given = doc! { "grantRolesToUser": "u", "roles": [{ "role": "readWrite", "db": "d" }] };
    both.meanwhile("admin", given);
    assert_eq!(open.commit(), 251, "it was aborted");
}
