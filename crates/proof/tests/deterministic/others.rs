//! Clients of other collections: documents with a unique field, documents that expire, documents in
//! collections that are dropped and renamed meanwhile; and changes of the catalog. Promises: each
//! client notes its replies. Must not know: the scheduler.

use crate::server::{Client, Reply};
use proof::Random;
use serde_json::{Value as Json, json};

/// Values of the unique field.
const UNIQUE: usize = 2;

/// A document that had a value of the unique field, or was refused because another one had it.
pub(crate) struct Unique {
    pub(crate) value: usize,
    pub(crate) id: i64,
    pub(crate) taken: bool,
    pub(crate) inserted: [u64; 2],
    pub(crate) deleted: Option<[u64; 2]>,
}

/// A client that inserts, changes and deletes.
pub(crate) struct Holder {
    client: Client,
    random: Random,
    all: Vec<Unique>,
    /// Indexes of the documents that exist.
    held: Vec<usize>,
}

impl Holder {
    pub(crate) fn new(client: Client, seed: u64) -> Holder {
        Holder {
            random: Random::new(seed ^ ((client.number as u64) << 32)),
            client,
            all: Vec::new(),
            held: Vec::new(),
        }
    }

    pub(crate) fn run(mut self, steps: usize) -> Vec<Unique> {
        for n in 0..steps {
            let id = self.client.number as i64 * 1000 + n as i64;
            match self.random.below(10) {
                0 | 1 => self.expire(id),
                2 | 3 => self.succeeds(json!({ "insert": "other", "documents": [{ "_id": id }] })),
                4 | 5 => self.change(),
                6 | 7 => self.delete(),
                _ => {}
            }
            if self.held.is_empty() || self.random.chance(40) {
                self.insert(id);
            }
        }
        self.all
    }

    fn succeeds(&mut self, command: Json) {
        let reply = self.client.send_in_session(command);
        assert_eq!(reply.code(), 0, "{}", reply.body);
    }

    fn expire(&mut self, id: i64) {
        let after_ms = self.random.below(4000);
        self.succeeds(json!({ "aggregate": 1, "cursor": {}, "pipeline": [
            { "$documents": [{ "_id": id, "at": { "$add": ["$$NOW", after_ms] } }] },
            { "$merge": "expiring" }] }));
    }

    /// Notes that a document has the value, or why not; true when it has.
    fn note(&mut self, id: i64, value: usize, reply: &Reply) -> bool {
        let taken = reply.code() == 0;
        assert!(taken || reply.code() == 11000, "{}", reply.body);
        if taken {
            self.held.push(self.all.len());
        }
        self.all.push(Unique {
            value,
            id,
            taken,
            inserted: [reply.sent, reply.answered],
            deleted: None,
        });
        taken
    }

    fn insert(&mut self, id: i64) {
        let value = self.random.below(UNIQUE);
        let insert = json!({ "insert": "unique", "documents": [{ "_id": id, "u": value }] });
        let reply = self.client.send_in_session(insert);
        self.note(id, value, &reply);
    }

    fn pick_held(&mut self) -> Option<usize> {
        let n = self.held.len();
        (n > 0).then(|| self.random.below(n))
    }

    /// Gives a document another value, or its present one again.
    fn change(&mut self) {
        let Some(at) = self.pick_held() else {
            return;
        };
        let (old, value) = (self.held[at], self.random.below(UNIQUE));
        let (id, same) = (self.all[old].id, self.all[old].value == value);
        let update = json!({ "update": "unique", "updates": [
            { "q": { "_id": id }, "u": { "$set": { "u": value } } }] });
        let reply = self.client.send_in_session(update);
        if same {
            assert_eq!(reply.code(), 0, "{}", reply.body);
        } else if self.note(id, value, &reply) {
            self.held.swap_remove(at);
            self.all[old].deleted = Some([reply.sent, reply.answered]);
        }
    }

    fn delete(&mut self) {
        let Some(at) = self.pick_held() else {
            return;
        };
        let unique = &mut self.all[self.held.swap_remove(at)];
        let filter = json!({ "_id": unique.id });
        let reply = self.client.send_in_session(json!({
            "delete": "unique", "deletes": [{ "q": filter, "limit": 1 }] }));
        assert_eq!(reply.body["n"], 1, "{}", reply.body);
        unique.deleted = Some([reply.sent, reply.answered]);
    }
}

/// Creates and drops indexes of the collection of lists; drops and renames another collection;
/// kills sessions of the first `killed` clients.
pub(crate) fn change_catalog(mut client: Client, seed: u64, steps: usize, killed: usize) {
    let mut random = Random::new(seed ^ ((client.number as u64) << 32));
    for _ in 0..steps {
        let field = ["g", "n", "v"][random.below(3)];
        let (db, command) = match random.below(if killed > 0 { 10 } else { 7 }) {
            0..=2 => {
                let index = json!({ "key": { field: 1 }, "name": field });
                ("t", json!({ "createIndexes": "lists", "indexes": [index] }))
            }
            3 => ("t", json!({ "dropIndexes": "lists", "index": field })),
            7.. => {
                let session = Client::session_of(1 + random.below(killed));
                ("admin", json!({ "killSessions": [session] }))
            }
            4 => {
                let name = ["other", "renamed"][random.below(2)];
                ("t", json!({ "drop": name }))
            }
            _ => {
                let rename = json!({ "renameCollection": "t.other", "to": "t.renamed",
                    "dropTarget": true });
                ("admin", rename)
            }
        };
        let reply = client.send(db, &command);
        // 27: no such index; 26: no such collection.
        assert!([0, 26, 27].contains(&reply.code()), "{}", reply.body);
    }
}

/// Checks that no two documents had a value at the same time, and that each refusal was caused by
/// another document.
pub(crate) fn check(all: &[Unique]) -> Result<(), String> {
    let others = |of: &Unique| {
        let (value, id) = (of.value, of.id);
        let same = move |o: &&Unique| o.value == value && o.id != id && o.taken;
        all.iter().filter(same)
    };
    for of in all {
        let [sent, answered] = of.inserted;
        if !of.taken {
            let possible =
                |o: &Unique| o.inserted[0] < answered && o.deleted.is_none_or(|d| d[1] > sent);
            if !others(of).any(possible) {
                return Err(format!("{} was refused for nothing", of.id));
            }
            continue;
        }
        // It certainly exists from the reply of the insert until the delete is sent.
        let until = of.deleted.map_or(u64::MAX, |d| d[0]);
        let meets = |o: &&Unique| {
            let theirs = o.deleted.map_or(u64::MAX, |d| d[0]);
            o.inserted[1] < until && answered < theirs
        };
        if let Some(other) = others(of).find(meets) {
            return Err(format!("{} and {} held one value", of.id, other.id));
        }
    }
    Ok(())
}
