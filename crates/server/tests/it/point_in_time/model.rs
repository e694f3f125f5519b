//! A model of the documents and names that a server must hold after each change of one writer. It
//! is kept outside of the server and compared with a restored one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use model::{Doc, DocBuf, Value, doc};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::client::Client;

/// Documents of the capped collection.
const CAPPED: usize = 40;
const NAMES: [&str; 5] = ["a", "b", "c", "e", "f"];

/// A time of the log.
pub(crate) type Time = (u32, u32);

/// A document without its `_id`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    n: i32,
    tags: Vec<i32>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Coll {
    docs: BTreeMap<i32, Row>,
    indexes: BTreeSet<String>,
    level: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    colls: BTreeMap<String, Coll>,
    capped: Option<VecDeque<i32>>,
    users: BTreeSet<String>,
}

/// The writer and what it has written.
pub(crate) struct Writer {
    client: Client,
    random: StdRng,
    pub(crate) state: State,
    /// The state after each change, with the time that the server reported.
    pub(crate) history: Vec<(Time, State)>,
    next: i32,
    sessions: i64,
}

pub(crate) fn call(client: &mut Client, command: &DocBuf) -> DocBuf {
    let answer = client.call(command.as_bytes());
    let reply = Doc::new(&answer.body).unwrap();
    assert!(
        answer.is_ok() && !reply.contains("writeErrors"),
        "{:?}: {reply:?}",
        command.doc()
    );
    reply.to_buf()
}

pub(crate) fn time_of(reply: &DocBuf) -> Time {
    match reply.doc().field("operationTime") {
        Value::Timestamp(at) => (at.time, at.increment),
        other => panic!("{other:?}"),
    }
}

impl Row {
    fn document(&self, id: i32) -> DocBuf {
        DocBuf::build(|w| {
            w.put("_id", id).put("n", self.n);
            let mut list = w.array("tags");
            self.tags.iter().for_each(|t| _ = list.push(*t));
        })
    }
}

fn insert_of(name: &str, docs: &[DocBuf]) -> DocBuf {
    DocBuf::build(|w| {
        w.put("insert", name);
        let mut list = w.array("documents");
        docs.iter().for_each(|d| _ = list.push(d.doc()));
    })
}

fn one(command: &str, name: &str, list: &str, what: &DocBuf) -> DocBuf {
    DocBuf::build(|w| {
        w.put(command, name);
        w.array(list).push(what.doc());
    })
}

impl Writer {
    pub(crate) fn new(client: Client, seed: u64) -> Writer {
        Writer {
            client,
            random: StdRng::seed_from_u64(seed),
            state: State::default(),
            history: Vec::new(),
            next: 0,
            sessions: 0,
        }
    }

    /// Makes one change.
    pub(crate) fn step(&mut self) {
        let name = NAMES[self.random.random_range(0..NAMES.len())].to_owned();
        let reply = match self.random.random_range(0..100) {
            0..30 => self.insert(&name),
            30..55 => self.update(&name),
            55..65 => self.replace(&name),
            65..78 => self.delete(&name),
            78..84 => self.transact(&name),
            84..88 => self.append(),
            88..97 => self.name(&name),
            97 => self.add_user(),
            98 => self.drop_database(),
            _ => self.modify(&name),
        };
        if let Some(reply) = reply {
            self.history.push((time_of(&reply), self.state.clone()));
        }
    }

    fn run(&mut self, db: &str, mut command: DocBuf) -> Option<DocBuf> {
        command.put("$db", db);
        Some(call(&mut self.client, &command))
    }

    fn fresh(&mut self, count: usize) -> BTreeMap<i32, Row> {
        let first = self.next;
        self.next += i32::try_from(count).unwrap();
        (first..self.next)
            .map(|id| {
                let n = self.random.random_range(0..50);
                let tags = vec![id];
                (id, Row { n, tags })
            })
            .collect()
    }

    fn insert(&mut self, name: &str) -> Option<DocBuf> {
        let count = self.random.random_range(1..12);
        let rows = self.fresh(count);
        let docs: Vec<DocBuf> = rows.iter().map(|(id, row)| row.document(*id)).collect();
        self.coll(name).docs.extend(rows);
        self.run("d", insert_of(name, &docs))
    }

    fn coll(&mut self, name: &str) -> &mut Coll {
        self.state.colls.entry(name.to_owned()).or_default()
    }

    fn draw_id(&mut self, name: &str) -> Option<i32> {
        let docs = &self.state.colls.get(name)?.docs;
        let nth = self.random.random_range(0..docs.len().max(1));
        docs.keys().nth(nth).copied()
    }

    fn update(&mut self, name: &str) -> Option<DocBuf> {
        let id = self.draw_id(name)?;
        let tag = self.random.random_range(0..9);
        let change = match self.random.random_range(0..3) {
            0 => {
                let docs = self.coll(name).docs.range_mut(..=id);
                docs.for_each(|(_, row)| row.n += 3);
                doc! { "q": { "_id": { "$lte": id } }, "u": { "$inc": { "n": 3i32 } },
                "multi": true }
            }
            1 => {
                self.coll(name).docs.get_mut(&id)?.tags.push(tag);
                doc! { "q": { "_id": id }, "u": { "$push": { "tags": tag } } }
            }
            _ => {
                self.coll(name)
                    .docs
                    .get_mut(&id)?
                    .tags
                    .retain(|t| *t != tag);
                doc! { "q": { "_id": id }, "u": { "$pull": { "tags": tag } } }
            }
        };
        self.run("d", one("update", name, "updates", &change))
    }

    fn replace(&mut self, name: &str) -> Option<DocBuf> {
        let id = self.draw_id(name)?;
        let new = Row {
            n: self.random.random_range(0..50),
            tags: Vec::new(),
        };
        let body = new.document(id);
        self.coll(name).docs.insert(id, new);
        let change = doc! { "q": { "_id": id }, "u": body.doc() };
        self.run("d", one("update", name, "updates", &change))
    }

    fn delete(&mut self, name: &str) -> Option<DocBuf> {
        let id = self.draw_id(name)?;
        let change = match self.random.random_range(0..8) {
            0 => {
                self.coll(name).docs.retain(|one, _| *one < id);
                doc! { "q": { "_id": { "$gte": id } }, "limit": 0i32 }
            }
            _ => {
                self.coll(name).docs.remove(&id);
                doc! { "q": { "_id": id }, "limit": 1i32 }
            }
        };
        self.run("d", one("delete", name, "deletes", &change))
    }

    /// Moves a document to another collection in a transaction.
    fn transact(&mut self, from: &str) -> Option<DocBuf> {
        let to = NAMES[self.random.random_range(0..NAMES.len())];
        self.state.colls.get(to)?;
        let id = self.draw_id(from).filter(|_| to != from)?;
        let moved = self.coll(from).docs.remove(&id)?;
        let body = moved.document(id);
        self.coll(to).docs.insert(id, moved);
        self.sessions += 1;
        let session = u128::MAX.to_be_bytes();
        let session = model::Binary {
            subtype: 4,
            bytes: &session,
        };
        let delete = doc! { "q": { "_id": id }, "limit": 1i32 };
        let mut first = one("delete", from, "deletes", &delete);
        first.put("startTransaction", true);
        let mut last = None;
        for (mut command, db) in [
            (first, "d"),
            (insert_of(to, &[body]), "d"),
            (doc! { "commitTransaction": 1i32 }, "admin"),
        ] {
            command.put("lsid", doc! { "id": Value::Binary(session) }.doc());
            command.put("txnNumber", self.sessions);
            command.put("autocommit", false);
            last = self.run(db, command);
        }
        last
    }

    fn append(&mut self) -> Option<DocBuf> {
        if self.state.capped.is_none() {
            let max = i64::try_from(CAPPED).unwrap();
            self.state.capped = Some(VecDeque::new());
            return self.run(
                "d",
                doc! { "create": "capped", "capped": true, "size": 1i64 << 20, "max": max },
            );
        }
        let capped = self.state.capped.as_mut()?;
        let id = self.next;
        self.next += 1;
        capped.push_back(id);
        if capped.len() > CAPPED {
            capped.pop_front();
        }
        self.run("d", insert_of("capped", &[doc! { "_id": id }]))
    }

    /// Changes names and indexes.
    fn name(&mut self, name: &str) -> Option<DocBuf> {
        let there = self.state.colls.contains_key(name);
        match self.random.random_range(0..5) {
            0 if !there => {
                self.coll(name);
                self.run("d", doc! { "create": name })
            }
            1 if there => {
                self.state.colls.remove(name);
                self.run("d", doc! { "drop": name })
            }
            2 if there => {
                let to = NAMES[self.random.random_range(0..NAMES.len())];
                if to == name {
                    return None;
                }
                let coll = self.state.colls.remove(name)?;
                self.state.colls.insert(to.to_owned(), coll);
                let (from, to) = (format!("d.{name}"), format!("d.{to}"));
                self.run(
                    "admin",
                    doc! { "renameCollection": from.as_str(), "to": to.as_str(),
                    "dropTarget": true },
                )
            }
            3 if there => {
                self.coll(name).indexes.insert("by n".to_owned());
                let index = doc! { "key": { "n": 1i32 }, "name": "by n" };
                self.run("d", one("createIndexes", name, "indexes", &index))
            }
            _ => {
                let coll = self.state.colls.get_mut(name)?;
                if !coll.indexes.remove("by n") {
                    return None;
                }
                self.run("d", doc! { "dropIndexes": name, "index": "by n" })
            }
        }
    }

    fn modify(&mut self, name: &str) -> Option<DocBuf> {
        let level = ["off", "moderate", "strict"][self.random.random_range(0..3)];
        self.state.colls.get_mut(name)?.level = Some(level.to_owned());
        self.run("d", doc! { "collMod": name, "validationLevel": level })
    }

    fn add_user(&mut self) -> Option<DocBuf> {
        let name = format!("u{}", self.next);
        self.next += 1;
        self.state.users.insert(name.clone());
        let command = DocBuf::build(|w| {
            w.put("createUser", name.as_str()).put("pwd", "secret");
            w.array("roles").push("read");
            let mut mechanisms = w.array("mechanisms");
            mechanisms.push("SCRAM-SHA-256");
        });
        self.run("d", command)
    }

    fn drop_database(&mut self) -> Option<DocBuf> {
        self.state.colls.clear();
        self.state.capped = None;
        self.run("d", doc! { "dropDatabase": 1i32 })
    }
}

fn batch(client: &mut Client, command: &DocBuf) -> Vec<DocBuf> {
    let reply = call(client, command);
    let cursor = reply.doc().field("cursor").as_doc().unwrap();
    assert_eq!(cursor.field("id").as_i64_exact(), Some(0));
    let batch = cursor.field("firstBatch").as_array().unwrap();
    batch.iter().map(|d| d.as_doc().unwrap().to_buf()).collect()
}

fn int(d: Doc<'_>, name: &str) -> i32 {
    i32::try_from(d.field(name).as_i64_exact().unwrap()).unwrap()
}

/// All documents of a collection in their natural order.
pub(crate) fn documents(client: &mut Client, db: &str, name: &str) -> Vec<DocBuf> {
    batch(
        client,
        &doc! { "find": name, "batchSize": 1_000_000i32, "$db": db },
    )
}

/// Reads the content of a server and checks that it is valid.
pub(crate) fn read(client: &mut Client) -> State {
    let mut state = State::default();
    let listed = batch(
        client,
        &doc! { "listCollections": 1i32, "cursor": { "batchSize": 1_000i32 }, "$db": "d" },
    );
    for info in &listed {
        let name = info.doc().field("name").as_str().unwrap().to_owned();
        let docs = documents(client, "d", &name);
        let valid = call(client, &doc! { "validate": name.as_str(), "$db": "d" });
        assert!(valid.doc().field("valid").truthy(), "{:?}", valid.doc());
        if name == "capped" {
            let ids = docs.iter().map(|d| int(d.doc(), "_id"));
            state.capped = Some(ids.collect());
            continue;
        }
        let mut coll = Coll::default();
        let options = info.doc().field("options").as_doc().unwrap();
        coll.level = options.field("validationLevel").as_str().map(str::to_owned);
        for d in &docs {
            let tags = d.doc().field("tags").as_array().unwrap();
            let tags = tags.iter().map(|t| t.as_i64_exact().unwrap());
            let tags = tags.map(|t| i32::try_from(t).unwrap()).collect();
            let d = d.doc();
            let n = int(d, "n");
            coll.docs.insert(int(d, "_id"), Row { n, tags });
        }
        let indexes = batch(
            client,
            &doc! { "listIndexes": name.as_str(), "cursor": {}, "$db": "d" },
        );
        let names = indexes
            .iter()
            .map(|i| i.doc().field("name").as_str().unwrap().to_owned());
        coll.indexes = names.filter(|name| name != "_id_").collect();
        state.colls.insert(name, coll);
    }
    let users = call(client, &doc! { "usersInfo": 1i32, "$db": "d" });
    let users = users.doc().field("users").as_array().unwrap();
    let names = users.iter().map(|u| {
        u.as_doc()
            .unwrap()
            .field("user")
            .as_str()
            .unwrap()
            .to_owned()
    });
    state.users = names.collect();
    state
}
