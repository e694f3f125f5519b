//! What the clients of a run do, drawn from its seed: appends to lists alone, by retry, to many, in
//! transactions; reads by key, by scans, by an index, at one state, after a time; documents that
//! are unique by a field; changes of the catalog beside all that.
//! Promises: each notes what it was told, as the history is checked. Must not know: the scheduler.

use crate::history::{Action, Key, Step, Value};
use crate::server::{Client, Reply};
use proof::Random;
use serde_json::{Value as Json, json};
use std::sync::{Arc, Mutex};

/// Lists that are written to.
pub(crate) const KEYS: Key = 3;

/// Values of the unique field.
const UNIQUE: usize = 2;

/// What one client has seen.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) actions: Vec<Action>,
    pub(crate) uniques: Vec<Unique>,
    /// Writes, and the time that their replies told.
    pub(crate) times: Vec<(Key, Value, Json)>,
    /// A retryable write that was done.
    pub(crate) retryable: Option<Json>,
}

/// A document that held a value of the unique field, or was refused because another one did.
pub(crate) struct Unique {
    pub(crate) value: usize,
    pub(crate) id: i64,
    pub(crate) taken: bool,
    pub(crate) inserted: [u64; 2],
    pub(crate) deleted: Option<[u64; 2]>,
}

/// What clients tell each other.
pub(crate) type Shared = Arc<Mutex<Option<Json>>>;

pub(crate) struct Lists {
    client: Client,
    random: Random,
    notes: Notes,
    values: Value,
    /// The latest times that replies told, of reads and of writes. What a read saw was there at its
    /// time, perhaps more: it may be before that of a write.
    seen: [Option<Json>; 2],
    /// The time that the last write of any client was told.
    shared: Shared,
    /// The time that the next read is to be after.
    asked: Option<Json>,
}

fn list_of(document: &Json) -> Vec<Value> {
    let list = document["v"].as_array().expect("the list");
    list.iter().map(|v| v.as_i64().expect("a value")).collect()
}

fn key_of(document: &Json) -> Key {
    document["_id"].as_i64().expect("the key")
}

fn read_of(document: &Json) -> Step {
    Step::Read(key_of(document), list_of(document))
}

fn change(value: Value) -> Json {
    json!({ "$push": { "v": value }, "$inc": { "n": 1 } })
}

fn update(filter: &Json, value: Value, multi: bool) -> Json {
    json!({ "update": "lists", "updates": [{ "q": filter, "u": change(value), "multi": multi }] })
}

/// Seconds and increment of a time.
pub(crate) fn time_of(time: &Json) -> (u64, u64) {
    let time = &time["$timestamp"];
    let number = |name: &str| time[name].as_u64().unwrap_or(0);
    (number("t"), number("i"))
}

impl Lists {
    pub(crate) fn new(client: Client, seed: u64, shared: &Shared) -> Lists {
        let number = client.number as u64;
        Lists {
            values: client.number as Value * 1000,
            random: Random::new(seed ^ (number << 32)),
            client,
            notes: Notes::default(),
            seen: [None, None],
            shared: Arc::clone(shared),
            asked: None,
        }
    }

    pub(crate) fn run(mut self, steps: usize) -> Notes {
        for _ in 0..steps {
            self.asked = None;
            match self.random.below(12) {
                0 | 1 => self.append(),
                2 => self.append_to_many(),
                3 => self.modify(),
                4 => self.read_one(),
                5 => self.read_all(),
                6 => self.read_state(),
                _ => self.transaction(),
            }
        }
        self.notes.retryable = self.client.retryable.take();
        self.notes
    }

    fn key(&mut self) -> Key {
        self.random.below(KEYS as usize) as Key
    }

    fn value(&mut self) -> Value {
        self.values += 1;
        self.values
    }

    /// Times never go back in what one client is told by its reads, and by its writes.
    fn succeeds(&mut self, reply: &Reply, wrote: bool) {
        assert_eq!(reply.code(), 0, "{}", reply.body);
        let told = reply.body["operationTime"].clone();
        let seen = &mut self.seen[usize::from(wrote)];
        if let Some(seen) = seen {
            assert!(time_of(&told) >= time_of(seen), "{told} after {seen}");
        }
        *seen = Some(told);
        if wrote {
            self.shared
                .lock()
                .expect("nobody panics with it")
                .clone_from(seen);
        }
    }

    fn note(&mut self, steps: Vec<Step>, first: &Reply, last: &Reply, committed: bool) {
        if committed {
            let time = &last.body["operationTime"];
            for step in &steps {
                if let Step::Append(key, value) = step {
                    self.notes.times.push((*key, *value, time.clone()));
                }
            }
        }
        self.notes.actions.push(Action {
            steps,
            committed,
            after: self.asked.as_ref().map(time_of),
            began: first.sent,
            ended: last.answered,
        });
    }

    fn append(&mut self) {
        let (key, value) = (self.key(), self.value());
        let command = update(&json!({ "_id": key }), value, false);
        let times = 1 + usize::from(self.random.chance(30));
        let replies = self.client.retryable(command, times);
        for reply in &replies {
            self.succeeds(reply, true);
            assert_eq!(reply.body["n"], 1, "{}", reply.body);
        }
        // By the first reply it is done; a retry does nothing.
        let reply = &replies[0];
        self.note(vec![Step::Append(key, value)], reply, reply, true);
    }

    /// Each document of a group, one by one.
    fn append_to_many(&mut self) {
        let value = self.value();
        let reply = self
            .client
            .in_session(update(&json!({ "g": 0 }), value, true));
        self.succeeds(&reply, true);
        let keys = (0..KEYS).step_by(2);
        assert_eq!(
            reply.body["nModified"],
            keys.clone().count(),
            "{}",
            reply.body
        );
        for key in keys {
            self.note(vec![Step::Append(key, value)], &reply, &reply, true);
        }
    }

    fn modify(&mut self) {
        let (key, value) = (self.key(), self.value());
        let command = find_and_modify(key, value);
        let reply = self.client.retryable(command, 1).remove(0);
        self.succeeds(&reply, true);
        let steps = vec![Step::Append(key, value), read_of(&reply.body["value"])];
        self.note(steps, &reply, &reply, true);
    }

    /// Where the client wants to see at least what it was told before.
    fn after(&mut self, mut command: Json) -> Json {
        let seen = match self.random.below(3) {
            2 => self.shared.lock().expect("nobody panics with it").clone(),
            own => self.seen[own].clone(),
        };
        if let Some(seen) = seen.filter(|_| self.random.chance(70)) {
            let level = ["local", "majority"][self.random.below(2)];
            command["readConcern"] = json!({ "level": level, "afterClusterTime": seen });
            self.asked = Some(seen);
        }
        command
    }

    fn read_one(&mut self) {
        let find = json!({ "find": "lists", "filter": { "_id": self.key() } });
        let command = self.after(find);
        let reply = self.client.in_session(command);
        self.succeeds(&reply, false);
        assert_eq!(reply.batch().len(), 1, "{}", reply.body);
        self.note(vec![read_of(&reply.batch()[0])], &reply, &reply, true);
    }

    /// Each document as it was at some time of the read; the scan is of no one state.
    fn read_all(&mut self) {
        let command = match self.random.below(3) {
            0 => json!({ "find": "lists" }),
            1 => json!({ "find": "lists", "filter": { "g": { "$gte": 0 } } }),
            _ => json!({ "aggregate": "lists", "cursor": {}, "pipeline": [
                { "$match": { "n": { "$gte": 0 } } }, { "$sort": { "_id": 1 } }] }),
        };
        let command = self.after(command);
        let reply = self.client.in_session(command);
        self.succeeds(&reply, false);
        assert_eq!(reply.batch().len(), KEYS as usize, "{}", reply.body);
        for document in reply.batch() {
            self.note(vec![read_of(document)], &reply, &reply, true);
        }
    }

    fn read_state(&mut self) {
        let reply = self.client.in_session(json!({
            "find": "lists", "batchSize": 100, "readConcern": { "level": "snapshot" } }));
        self.succeeds(&reply, false);
        assert_eq!(reply.batch().len(), KEYS as usize, "{}", reply.body);
        let steps = reply.batch().iter().map(read_of).collect();
        self.note(steps, &reply, &reply, true);
    }

    fn transaction(&mut self) {
        let (mut steps, mut first) = (Vec::new(), None);
        let n = 1 + self.random.below(4);
        for _ in 0..n {
            let (command, append) = self.statement();
            let reply = self.client.statement(first.is_none(), command);
            let first = first.get_or_insert_with(|| reply.clone());
            if reply.code() != 0 {
                assert!(reply.is_transient(), "{}", reply.body);
                steps.extend(append);
                let end = self
                    .client
                    .statement(false, json!({ "abortTransaction": 1 }));
                self.note(steps, &first.clone(), &end, false);
                return;
            }
            steps.extend(append);
            let value = Some(&reply.body["value"]).filter(|v| v.is_object());
            steps.extend(reply.batch().iter().chain(value).map(read_of));
        }
        let name = match self.random.chance(80) {
            true => "commitTransaction",
            false => "abortTransaction",
        };
        let end = self.client.statement(false, json!({ name: 1 }));
        assert!(end.code() == 0 || end.is_transient(), "{}", end.body);
        let committed = end.code() == 0 && name == "commitTransaction";
        if committed {
            self.succeeds(&end, true);
        }
        let first = first.expect("a statement");
        self.note(steps, &first, &end, committed);
    }

    fn statement(&mut self) -> (Json, Option<Step>) {
        let key = self.key();
        match self.random.below(5) {
            0 => (json!({ "find": "lists", "filter": { "_id": key } }), None),
            1 => (json!({ "find": "lists", "sort": { "_id": -1 } }), None),
            2 | 3 => {
                let value = self.value();
                let command = update(&json!({ "_id": key }), value, false);
                (command, Some(Step::Append(key, value)))
            }
            _ => {
                let value = self.value();
                (find_and_modify(key, value), Some(Step::Append(key, value)))
            }
        }
    }
}

fn find_and_modify(key: Key, value: Value) -> Json {
    json!({ "findAndModify": "lists", "query": { "_id": key }, "update": change(value),
        "new": true })
}

/// Inserts and deletes documents that are unique by a field, and such that expire.
pub(crate) fn hold_uniques(mut client: Client, seed: u64, steps: usize) -> Notes {
    let mut random = Random::new(seed ^ ((client.number as u64) << 32));
    let (mut notes, mut held) = (Notes::default(), Vec::new());
    for n in 0..steps {
        let id = client.number as i64 * 1000 + n as i64;
        if random.chance(20) {
            let after_ms = random.below(4000);
            let expires = json!({ "aggregate": 1, "cursor": {}, "pipeline": [
                { "$documents": [{ "_id": id, "at": { "$add": ["$$NOW", after_ms] } }] },
                { "$merge": "expiring" }] });
            let reply = client.in_session(expires);
            assert_eq!(reply.code(), 0, "{}", reply.body);
        }
        if held.is_empty() || random.chance(50) {
            let value = random.below(UNIQUE);
            let insert = json!({ "insert": "unique", "documents": [{ "_id": id, "u": value }] });
            let reply = client.in_session(insert);
            let taken = reply.code() == 0;
            assert!(taken || reply.code() == 11000, "{}", reply.body);
            if taken {
                held.push(notes.uniques.len());
            }
            notes.uniques.push(Unique {
                value,
                id,
                taken,
                inserted: [reply.sent, reply.answered],
                deleted: None,
            });
        } else {
            let at = held.swap_remove(random.below(held.len()));
            let unique = &mut notes.uniques[at];
            let filter = json!({ "_id": unique.id });
            let reply = client.in_session(json!({
                "delete": "unique", "deletes": [{ "q": filter, "limit": 1 }] }));
            assert_eq!(reply.body["n"], 1, "{}", reply.body);
            unique.deleted = Some([reply.sent, reply.answered]);
        }
    }
    notes
}

/// Makes and drops indexes of the collections that are written to, and another collection.
pub(crate) fn change_catalog(mut client: Client, seed: u64, steps: usize) -> Notes {
    let mut random = Random::new(seed ^ ((client.number as u64) << 32));
    for _ in 0..steps {
        let field = ["g", "n", "v"][random.below(3)];
        let command = match random.below(6) {
            0..=2 => json!({ "createIndexes": "lists", "indexes": [
                { "key": { field: 1 }, "name": field }] }),
            3 => json!({ "dropIndexes": "lists", "index": field }),
            4 => json!({ "insert": "other", "documents": [{ "a": 1 }] }),
            _ => json!({ "drop": "other" }),
        };
        let reply = client.in_session(command);
        // 27: there is no such index; 26: no such collection.
        assert!([0, 26, 27].contains(&reply.code()), "{}", reply.body);
    }
    Notes::default()
}
