//! The clients of a run, driven by its seed: appends to lists, alone, retried, to several lists, in
//! transactions; reads by key, by scan, by index, by cursor, at one snapshot, after a cluster time;
//! increments of documents that the first increment creates. Promises: each client notes its
//! replies in the form in which the history is checked. Must not know: the scheduler.

use crate::history::{Action, Key, TransactionOp, Value};
use crate::server::{Client, Reply, long};
use proof::Random;
use serde_json::{Value as Json, json};
use std::sync::{Arc, Mutex};

/// Number of lists.
pub(crate) const KEYS: Key = 3;

/// Number of counter documents.
pub(crate) const COUNTERS: usize = 2;

/// The observations of one client.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) actions: Vec<Action>,
    /// Writes, each with the operation time of its reply.
    pub(crate) times: Vec<(Key, Value, Json)>,
    /// Increments of each counter.
    pub(crate) counted: [i64; COUNTERS],
    /// Increments with unknown outcome.
    pub(crate) uncertain: [i64; COUNTERS],
    /// A retryable write that succeeded.
    pub(crate) retryable: Option<Json>,
}

/// Data shared between clients.
pub(crate) type Shared = Arc<Mutex<Option<Json>>>;

pub(crate) struct Lists {
    client: Client,
    random: Random,
    notes: Notes,
    values: Value,
    /// The latest operation times from replies, of reads and of writes separately. The data of a
    /// read is at least as new as its time, but this time may be before that of a write.
    seen: [Option<Json>; 2],
    /// The operation time of the last write of any client.
    shared: Shared,
    /// The cluster time that the next read waits for.
    asked: Option<Json>,
}

fn list_of(document: &Json) -> Vec<Value> {
    let list = document["v"].as_array().expect("the list");
    list.iter().map(|v| v.as_i64().expect("a value")).collect()
}

fn key_of(document: &Json) -> Key {
    document["_id"].as_i64().expect("the key")
}

fn read_operation(document: &Json) -> TransactionOp {
    TransactionOp::Read(key_of(document), list_of(document))
}

fn change(value: Value) -> Json {
    json!({ "$push": { "v": value }, "$inc": { "n": 1 } })
}

fn update(filter: &Json, value: Value, multi: bool) -> Json {
    json!({ "update": "lists", "updates": [{ "q": filter, "u": change(value), "multi": multi }] })
}

/// Seconds and increment of a timestamp.
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
            match self.random.below(15) {
                0 | 1 => self.append(),
                2 => self.append_to_many(),
                3 => self.modify(),
                4 => self.read_one(),
                5 => self.read_all(),
                10 => self.append_and_read(),
                6 => self.read_state(),
                7 => self.read_by_cursor(),
                8 | 9 => self.count(),
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

    /// Checks that operation times never decrease, for the reads and for the writes of one client.
    /// False when the operation was killed.
    fn succeeds(&mut self, reply: &Reply, wrote: bool) -> bool {
        if reply.is_killed() {
            return false;
        }
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
        true
    }

    fn note(&mut self, steps: Vec<TransactionOp>, first: &Reply, last: &Reply, committed: bool) {
        if committed {
            let time = &last.body["operationTime"];
            for step in &steps {
                if let TransactionOp::Append(key, value) = step {
                    self.notes.times.push((*key, *value, time.clone()));
                }
            }
        }
        self.notes.actions.push(Action {
            steps,
            committed,
            unknown: false,
            after: self.asked.as_ref().map(time_of),
            began: first.sent,
            ended: last.answered,
        });
    }

    /// Notes an action with unknown outcome. A retry could execute it later.
    fn note_unknown(&mut self, steps: Vec<TransactionOp>, first: &Reply) {
        self.client.retryable = None;
        self.notes.actions.push(Action {
            steps,
            committed: false,
            unknown: true,
            after: None,
            began: first.sent,
            ended: u64::MAX,
        });
    }

    fn append(&mut self) {
        let (key, value) = (self.key(), self.value());
        let command = update(&json!({ "_id": key }), value, false);
        let times = 1 + usize::from(self.random.chance(30));
        let replies = self.client.retryable(command, times);
        // If the first reply was a success, a retry does nothing.
        let mut done = None;
        for reply in &replies {
            if self.succeeds(reply, true) {
                assert_eq!(reply.body["n"], 1, "{}", reply.body);
                done = done.or(Some(reply));
            }
        }
        let steps = vec![TransactionOp::Append(key, value)];
        match done {
            Some(reply) => self.note(steps, &replies[0], reply, true),
            None => self.note_unknown(steps, &replies[0]),
        }
    }

    /// Reads include earlier writes of others, although their replies may not have arrived yet.
    fn append_and_read(&mut self) {
        self.append();
        self.read_all();
    }

    /// Appends to each document of a group, one after the other.
    fn append_to_many(&mut self) {
        let value = self.value();
        let reply = self
            .client
            .send_in_session(update(&json!({ "g": 0 }), value, true));
        let keys = (0..KEYS).step_by(2);
        if !self.succeeds(&reply, true) {
            return keys
                .for_each(|k| self.note_unknown(vec![TransactionOp::Append(k, value)], &reply));
        }
        assert_eq!(
            reply.body["nModified"],
            keys.clone().count(),
            "{}",
            reply.body
        );
        for key in keys {
            self.note(
                vec![TransactionOp::Append(key, value)],
                &reply,
                &reply,
                true,
            );
        }
    }

    fn modify(&mut self) {
        let (key, value) = (self.key(), self.value());
        let command = find_and_modify(key, value);
        let reply = self.client.retryable(command, 1).remove(0);
        if !self.succeeds(&reply, true) {
            return self.note_unknown(vec![TransactionOp::Append(key, value)], &reply);
        }
        let steps = vec![
            TransactionOp::Append(key, value),
            read_operation(&reply.body["value"]),
        ];
        self.note(steps, &reply, &reply, true);
    }

    /// Sometimes adds a read concern after a time that the client has seen.
    fn add_read_concern(&mut self, mut command: Json) -> Json {
        let seen = match self.random.below(4) {
            3 => self.shared.lock().expect("nobody panics with it").clone(),
            0 => self.seen[0].clone(),
            _ => self.seen[1].clone(),
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
        let command = self.add_read_concern(find);
        let reply = self.client.send_in_session(command);
        if !self.succeeds(&reply, false) {
            return;
        }
        assert_eq!(reply.batch().len(), 1, "{}", reply.body);
        self.note(
            vec![read_operation(&reply.batch()[0])],
            &reply,
            &reply,
            true,
        );
    }

    /// Each document has its state at some time during the scan; together they are no single
    /// snapshot.
    fn read_all(&mut self) {
        let command = match self.random.below(3) {
            0 => json!({ "find": "lists" }),
            1 => json!({ "find": "lists", "filter": { "g": { "$gte": 0 } } }),
            _ => json!({ "aggregate": "lists", "cursor": {}, "pipeline": [
                { "$match": { "n": { "$gte": 0 } } }, { "$sort": { "_id": 1 } }] }),
        };
        let command = self.add_read_concern(command);
        let reply = self.client.send_in_session(command);
        if !self.succeeds(&reply, false) {
            return;
        }
        assert_eq!(reply.batch().len(), KEYS as usize, "{}", reply.body);
        for document in reply.batch() {
            self.note(vec![read_operation(document)], &reply, &reply, true);
        }
    }

    fn read_state(&mut self) {
        let reply = self.client.send_in_session(json!({
            "find": "lists", "batchSize": 100, "readConcern": { "level": "snapshot" } }));
        if !self.succeeds(&reply, false) {
            return;
        }
        assert_eq!(reply.batch().len(), KEYS as usize, "{}", reply.body);
        let steps = reply.batch().iter().map(read_operation).collect();
        self.note(steps, &reply, &reply, true);
    }

    /// In batches of one document, of one snapshot, or with each document's state when it is
    /// returned.
    fn read_by_cursor(&mut self) {
        let of_one_state = self.random.chance(50);
        let mut find = json!({ "find": "lists", "sort": { "_id": 1 }, "batchSize": 1 });
        if of_one_state {
            find["readConcern"] = json!({ "level": "snapshot" });
        }
        let first = self.client.send_in_session(find);
        let (mut last, mut documents) = (first.clone(), Vec::new());
        loop {
            if !self.succeeds(&last, false) {
                return;
            }
            documents.extend(last.batch().iter().map(read_operation));
            let id = last.body["cursor"]["id"].as_i64().expect("a cursor");
            if id == 0 {
                break;
            }
            last = self.client.send_in_session(json!({ "getMore": long(id),
                "collection": "lists", "batchSize": 1 }));
        }
        assert_eq!(documents.len(), KEYS as usize, "{documents:?}");
        match of_one_state {
            true => self.note(documents, &first, &first, true),
            false => documents
                .into_iter()
                .for_each(|read| self.note(vec![read], &first, &last, true)),
        }
    }

    /// Increments a document found by a unique field; creates it if it does not exist.
    fn count(&mut self) {
        let at = self.random.below(COUNTERS);
        // Identifiers made by the server would differ from run to run.
        let made = json!({ "_id": self.value() });
        let change = json!({ "$inc": { "n": 1 }, "$setOnInsert": made });
        let update = json!({ "q": { "name": at }, "u": change, "upsert": true });
        let command = json!({ "update": "counters", "updates": [update] });
        let reply = self.client.retryable(command, 1).remove(0);
        if !self.succeeds(&reply, true) {
            self.client.retryable = None;
            self.notes.uncertain[at] += 1;
            return;
        }
        assert_eq!(reply.body["n"], 1, "{}", reply.body);
        self.notes.counted[at] += 1;
    }

    fn transaction(&mut self) {
        let (mut steps, mut first) = (Vec::new(), None);
        let n = 1 + self.random.below(4);
        for _ in 0..n {
            let (command, append) = self.statement();
            let reply = self.client.statement(first.is_none(), command);
            let first = first.get_or_insert_with(|| reply.clone());
            if reply.code() != 0 {
                let known = reply.is_transient() || reply.is_killed();
                assert!(known, "{}", reply.body);
                steps.extend(append);
                let end = self
                    .client
                    .statement(false, json!({ "abortTransaction": 1 }));
                self.note(steps, &first.clone(), &end, false);
                return;
            }
            steps.extend(append);
            let value = Some(&reply.body["value"]).filter(|v| v.is_object());
            steps.extend(reply.batch().iter().chain(value).map(read_operation));
        }
        let name = match self.random.chance(80) {
            true => "commitTransaction",
            false => "abortTransaction",
        };
        let end = self.client.statement(false, json!({ name: 1 }));
        let first = first.expect("a statement");
        let commits = name == "commitTransaction";
        if commits && end.is_killed() && !end.is_transient() {
            return self.note_unknown(steps, &first);
        }
        let known = end.code() == 0 || end.is_transient() || end.is_killed();
        assert!(known, "{}", end.body);
        let committed = commits && end.code() == 0;
        if committed {
            self.succeeds(&end, true);
        }
        self.note(steps, &first, &end, committed);
    }

    fn statement(&mut self) -> (Json, Option<TransactionOp>) {
        let key = self.key();
        match self.random.below(5) {
            0 => (json!({ "find": "lists", "filter": { "_id": key } }), None),
            1 => (json!({ "find": "lists", "sort": { "_id": -1 } }), None),
            2 | 3 => {
                let value = self.value();
                let command = update(&json!({ "_id": key }), value, false);
                (command, Some(TransactionOp::Append(key, value)))
            }
            _ => {
                let value = self.value();
                (
                    find_and_modify(key, value),
                    Some(TransactionOp::Append(key, value)),
                )
            }
        }
    }
}

fn find_and_modify(key: Key, value: Value) -> Json {
    json!({ "findAndModify": "lists", "query": { "_id": key }, "update": change(value),
        "new": true })
}
