//! Commands with mutated arguments, sent by clients that may not see or change the data: an
//! unauthenticated client, a user without roles, and users with all rights except those on one
//! collection. Each reply is 13 or an error of the arguments; data that the client may not touch is
//! neither changed nor shown. The seed is fixed, so that a failure can be reproduced.

use crate::access::{ELSEWHERE, log_in, run, user, with_root};
use crate::rights_touch::{CHANGES, LOOKS};
use commands::{Connection, Dispatcher, Outcome, Request, Sequence, registry};
use model::{Decimal128, Doc, DocBuf, Namespace, ObjectId, OwnedValue, Value, doc, extjson};
use request::spec::{Privilege, Spec, flag};
use std::sync::Arc;
use store::ReadView;

/// The text in every document that must not be shown.
const MARK: &str = "unseen-by-others";
/// The collection on which one of the users has no rights, and the one on which it has all.
const CLOSED: &str = "n";
const OPEN: &str = "o";

/// A request for every way to name a collection; `n` is the closed one.
pub(crate) const TEMPLATES: &[(&str, &str)] = &[
    ("d", "{'find': 'n', 'filter': {'a': 1}, 'limit': 1}"),
    ("d", "{'count': 'n', 'query': {}, 'limit': 0, 'skip': 0}"),
    ("d", "{'distinct': 'n', 'key': 'mark', 'query': {}}"),
    (
        "d",
        "{'aggregate': 'n', 'pipeline': [{'$match': {}}], 'cursor': {}}",
    ),
    (
        "d",
        "{'aggregate': 'o', 'pipeline': [{'$lookup': {'from': 'n', 'as': 'x', 'pipeline': []}}], \
            'cursor': {}}",
    ),
    (
        "d",
        "{'aggregate': 'o', 'pipeline': [{'$lookup': {'from': 'n', 'localField': 'a', \
            'foreignField': 'a', 'as': 'x'}}], 'cursor': {}}",
    ),
    (
        "d",
        "{'aggregate': 'o', 'pipeline': [{'$graphLookup': {'from': 'n', 'startWith': '$a', \
            'connectFromField': 'a', 'connectToField': 'a', 'as': 'x'}}], 'cursor': {}}",
    ),
    (
        "d",
        "{'aggregate': 'o', 'pipeline': [{'$unionWith': {'coll': 'n', 'pipeline': []}}], \
            'cursor': {}}",
    ),
    (
        "d",
        "{'aggregate': 'o', 'pipeline': [{'$facet': {'f': [{'$unionWith': 'n'}], 'g': \
            [{'$lookup': {'from': 'o', 'as': 'x', 'pipeline': [{'$unionWith': 'n'}]}}]}}], \
            'cursor': {}}",
    ),
    (
        "d",
        "{'aggregate': 'o', 'pipeline': [{'$out': 'n'}], 'cursor': {}}",
    ),
    (
        "d",
        "{'aggregate': 'o', 'pipeline': [{'$out': {'db': 'd', 'coll': 'n'}}], 'cursor': {}}",
    ),
    (
        "d",
        "{'aggregate': 'o', 'pipeline': [{'$merge': {'into': {'db': 'd', 'coll': 'n'}, 'on': \
            '_id', 'whenMatched': 'replace', 'whenNotMatched': 'insert'}}], 'cursor': {}}",
    ),
    (
        "d",
        "{'aggregate': 'n', 'pipeline': [{'$collStats': {'count': {}}}], 'cursor': {}}",
    ),
    (
        "d",
        "{'aggregate': 'n', 'pipeline': [{'$indexStats': {}}], 'cursor': {}}",
    ),
    (
        "admin",
        "{'aggregate': 1, 'pipeline': [{'$currentOp': {'allUsers': true}}], 'cursor': {}}",
    ),
    (
        "d",
        "{'aggregate': 1, 'pipeline': [{'$listLocalSessions': {'allUsers': true}}], 'cursor': {}}",
    ),
    (
        "d",
        "{'insert': 'n', 'documents': [{'_id': 5, 'a': 1}], 'ordered': true}",
    ),
    (
        "d",
        "{'update': 'n', 'updates': [{'q': {}, 'u': {'$set': {'a': 2}}, 'upsert': true}]}",
    ),
    ("d", "{'delete': 'n', 'deletes': [{'q': {}, 'limit': 0}]}"),
    (
        "d",
        "{'findAndModify': 'n', 'query': {}, 'update': {'$set': {'a': 2}}, 'upsert': true}",
    ),
    ("d", "{'findAndModify': 'n', 'query': {}, 'remove': true}"),
    (
        "admin",
        "{'bulkWrite': 1, 'ops': [{'insert': 1, 'document': {'_id': 6}}, {'update': 1, 'filter': \
            {}, 'updateMods': {'$set': {'a': 3}}, 'upsert': true}, {'delete': 1, 'filter': {}}], \
            'nsInfo': [{'ns': 'd.o'}, {'ns': 'd.n'}]}",
    ),
    (
        "d",
        "{'mapReduce': 'o', 'map': 'function() { emit(1, 1) }', 'reduce': 'function(k, v) { \
            return 1 }', 'out': {'merge': 'n', 'db': 'd'}}",
    ),
    (
        "d",
        "{'mapReduce': 'n', 'map': 'function() { emit(1, this.mark) }', 'reduce': 'function(k, \
            v) { return v[0] }', 'out': {'inline': 1}}",
    ),
    (
        "d",
        "{'create': 'w', 'viewOn': 'n', 'pipeline': [{'$match': {}}]}",
    ),
    (
        "d",
        "{'collMod': 'v', 'viewOn': 'n', 'pipeline': [{'$unionWith': 'n'}]}",
    ),
    (
        "d",
        "{'collMod': 'n', 'validator': {'a': 1}, 'validationLevel': 'off'}",
    ),
    ("d", "{'create': 'n', 'capped': true, 'size': 4096}"),
    (
        "d",
        "{'createIndexes': 'n', 'indexes': [{'key': {'a': 1}, 'name': 'a_1'}]}",
    ),
    ("d", "{'dropIndexes': 'n', 'index': '*'}"),
    ("d", "{'listIndexes': 'n', 'cursor': {}}"),
    ("d", "{'drop': 'n'}"),
    (
        "admin",
        "{'renameCollection': 'd.o', 'to': 'd.n', 'dropTarget': true}",
    ),
    ("admin", "{'renameCollection': 'd.n', 'to': 'd.m'}"),
    ("d", "{'convertToCapped': 'n', 'size': 4096}"),
    (
        "d",
        "{'cloneCollectionAsCapped': 'n', 'toCollection': 'k', 'size': 4096}",
    ),
    ("d", "{'dataSize': 'd.n', 'estimate': false}"),
    ("d", "{'filemd5': 1, 'root': 'n'}"),
    ("d", "{'collStats': 'n', 'scale': 1}"),
    ("d", "{'validate': 'n', 'full': true}"),
    ("d", "{'compact': 'n', 'force': true}"),
    (
        "d",
        "{'planCacheSetFilter': 'n', 'query': {'a': 1}, 'indexes': [{'a': 1}]}",
    ),
    (
        "d",
        "{'explain': {'find': 'n', 'filter': {}}, 'verbosity': 'executionStats'}",
    ),
    (
        "d",
        "{'explain': {'aggregate': 'o', 'pipeline': [{'$lookup': {'from': 'n', 'as': 'x', \
            'pipeline': []}}], 'cursor': {}}, 'verbosity': 'executionStats'}",
    ),
    (
        "d",
        "{'explain': {'update': 'n', 'updates': [{'q': {}, 'u': {'$set': {'a': 2}}}]}}",
    ),
    (
        "admin",
        "{'applyOps': [{'op': 'i', 'ns': 'd.n', 'o': {'_id': 8}}, {'op': 'u', 'ns': 'd.n', 'o2': \
            {'_id': 1}, 'o': {'_id': 1, 'a': 9}}, {'op': 'd', 'ns': 'd.n', 'o': {'_id': 1}}]}",
    ),
    (
        "admin",
        "{'applyOps': [{'op': 'c', 'ns': 'd.$cmd', 'o': {'applyOps': [{'op': 'c', 'ns': \
            'd.$cmd', 'o': {'drop': 'n'}}]}}]}",
    ),
    (
        "admin",
        "{'applyOps': [{'op': 'c', 'ns': 'd.$cmd', 'o': {'renameCollection': 'd.o', 'to': 'd.n', \
            'dropTarget': true}}]}",
    ),
    (
        "admin",
        "{'applyOps': [{'op': 'c', 'ns': 'd.$cmd', 'o': {'create': 'w', 'viewOn': 'n', \
            'pipeline': []}}]}",
    ),
    (
        "admin",
        "{'_mergeAuthzCollections': 1, 'tempUsersCollection': 'd.n', 'tempRolesCollection': '', \
            'db': '', 'drop': false}",
    ),
    ("admin", "{'usersInfo': 'root', 'showCredentials': true}"),
    (
        "admin",
        "{'createUser': 'evil', 'pwd': 'pw', 'roles': [{'role': 'root', 'db': 'admin'}]}",
    ),
    (
        "admin",
        "{'updateUser': 'less', 'roles': [{'role': 'root', 'db': 'admin'}]}",
    ),
    (
        "admin",
        "{'grantRolesToUser': 'less', 'roles': [{'role': 'root', 'db': 'admin'}]}",
    ),
    (
        "admin",
        "{'createRole': 'evil', 'roles': ['root'], 'privileges': [{'resource': {'db': 'd', \
            'collection': 'n'}, 'actions': ['find']}]}",
    ),
    (
        "admin",
        "{'grantPrivilegesToRole': 'closed', 'privileges': [{'resource': {'db': 'd', \
            'collection': 'n'}, 'actions': ['find']}]}",
    ),
    (
        "d",
        "{'profile': -1, 'slowms': 5, 'sampleRate': 1.0, 'filter': {}}",
    ),
    (
        "d",
        "{'listCollections': 1, 'nameOnly': true, 'authorizedCollections': true}",
    ),
    ("admin", "{'currentOp': 1, '$ownOps': false}"),
    (
        "admin",
        "{'validateDBMetadata': 1, 'db': 'd', 'apiParameters': {'version': '1'}}",
    ),
];

/// Commands that stop or block the server, or disable access control.
const LEFT_OUT: &[&str] = &["fsync", "shutdown", "configureFailPoint"];

/// Commands that answer every authenticated user about itself, or reveal no data.
const ANSWER_ALL: &[&str] = &[
    "aggregate",
    "currentOp",
    "explain",
    "killAllSessions",
    "killAllSessionsByPattern",
    "killSessions",
    "rolesInfo",
    "usersInfo",
];

/// Errors that reveal whether something exists, so they must not come before 13.
const TELLING: &[i64] = &[
    11, 26, 27, 31, 48, 67, 85, 86, 166, 361, 11_000, 17_419, 51_002, 51_003, 40_573,
];

/// Random numbers from a seed: splitmix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn of(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n.max(1) as u64).expect("it is below n")
    }
}

/// Values that two parsers may read differently.
pub(crate) fn values() -> Vec<OwnedValue> {
    let decimal = |text: &str| Decimal128::parse(text).expect("a decimal");
    let d = doc! {
        "": Value::Null, "": Value::Undefined, "": true, "": false, "": 0i32, "": 1i32, "": -1i32,
        "": Value::Int64(1), "": 0.5, "": 1.5, "": -0.5, "": f64::NAN, "": f64::INFINITY,
        "": 1e300, "": decimal("0.6"), "": decimal("1.2"), "": decimal("NaN"), "": decimal("-0.5"),
        "": CLOSED, "": OPEN, "": "d.n", "": "N", "": "", "": "d", "": "D", "": "admin",
        "": Value::Symbol(CLOSED), "": Value::Code(CLOSED), "": {}, "": [], "": [Value::Null],
        "": { "db": "d", "coll": CLOSED }, "": { "coll": CLOSED }, "": { "db": Value::Null,
        "coll": CLOSED }, "": [CLOSED], "": ["d.n"],
        "": Value::Regex(model::Regex { pattern: CLOSED, options: "" }),
        "": Value::DbPointer("d.n", ObjectId([0; 12])),
        "": Value::Binary(model::Binary { subtype: 4, bytes: &[1; 16] }),
        "": [{ "$unionWith": CLOSED }], "": [{ "$out": CLOSED }], "": [{ "$merge": CLOSED }],
        "": { "$unionWith": CLOSED }, "": [[{ "$unionWith": CLOSED }]],
        "": [{ "$lookup": { "from": CLOSED, "as": "x", "pipeline": [] } }],
        "": { "find": CLOSED }, "": { "merge": CLOSED, "replace": Value::Null },
        "": { "ns": "d.n" }, "": [{ "ns": "d.n" }], "": { "forAllDBs": true },
        "": { "role": "root", "db": "admin" }, "": ["root"], "": "root", "": "less",
        "": "bulkWrite", "": "fail", "": "discard", "": "merge", "": "c", "": "i"
    };
    d.doc().iter().map(|(_, v)| v.to_owned_value()).collect()
}

/// Fields that determine the target of some command.
const FIELDS: &[&str] = &[
    "from",
    "coll",
    "db",
    "into",
    "pipeline",
    "viewOn",
    "to",
    "toCollection",
    "root",
    "out",
    "merge",
    "replace",
    "reduce",
    "inline",
    "ns",
    "op",
    "o",
    "updates",
    "deletes",
    "documents",
    "ops",
    "nsInfo",
    "upsert",
    "remove",
    "update",
    "dropTarget",
    "whenMatched",
    "whenNotMatched",
    "allUsers",
    "users",
    "roles",
    "privileges",
    "$db",
    "rawData",
    "collection",
    "lsid",
    "explain",
    "bypassDocumentValidation",
    "$ownOps",
    "comment",
    "collectionUUID",
    "validator",
];

/// Mutates one value of a document at any depth.
pub(crate) struct Mutator<'r> {
    random: &'r mut Random,
    values: &'r [OwnedValue],
}

impl<'r> Mutator<'r> {
    pub(crate) fn of(random: &'r mut Random, values: &'r [OwnedValue]) -> Mutator<'r> {
        Mutator { random, values }
    }

    fn value(&mut self) -> OwnedValue {
        let at = self.random.below(self.values.len());
        self.values[at].clone()
    }

    /// Changes a value in a document; `top` for the document of the command.
    pub(crate) fn change(&mut self, d: Doc<'_>, top: bool) -> DocBuf {
        let fields = d.iter().count();
        let at = self.random.below(fields);
        let inner = match d.iter().nth(at) {
            Some((_, Value::Document(inner))) => Some((inner, false)),
            Some((_, Value::Array(inner))) => Some((inner.as_doc(), true)),
            _ => None,
        };
        if let Some((inner, is_array)) = inner.filter(|_| self.random.below(4) > 0) {
            let changed = self.change(inner, false);
            let changed = match is_array {
                true => Value::Array(changed.doc().as_array()),
                false => Value::Document(changed.doc()),
            };
            return replace_value(d, at, Some(changed));
        }
        let v = self.value();
        match self.random.below(if top { 9 } else { 8 }) {
            0..=2 => replace_value(d, at, Some(v.get())),
            3 => replace_value(d, at, None),
            4 => duplicate_field(d, at, v.get(), true),
            5 => duplicate_field(d, at, v.get(), false),
            6 => {
                let name = FIELDS[self.random.below(FIELDS.len())];
                with_field(d, name, v.get(), at.max(usize::from(top)))
            }
            7 => with_field(d, self.name_of(d, at), v.get(), fields),
            _ => rename_command(d, self.random),
        }
    }

    /// The name of the field if it is a known one, otherwise a random known name.
    fn name_of(&mut self, d: Doc<'_>, at: usize) -> &'static str {
        let (name, _) = d.iter().nth(at).unwrap_or_default();
        let known = FIELDS.iter().copied().find(|f| *f == name);
        known.unwrap_or_else(|| FIELDS[self.random.below(FIELDS.len())])
    }
}

/// A document with one value replaced or removed.
fn replace_value(d: Doc<'_>, at: usize, by: Option<Value<'_>>) -> DocBuf {
    DocBuf::build(|w| {
        for (i, (name, old)) in d.iter().enumerate() {
            match (i == at, by) {
                (false, _) => w.put(name, old),
                (true, Some(v)) => w.put(name, v),
                (true, None) => continue,
            };
        }
    })
}

/// A document with a duplicate field.
fn duplicate_field(d: Doc<'_>, at: usize, v: Value<'_>, before: bool) -> DocBuf {
    DocBuf::build(|w| {
        for (i, (name, old)) in d.iter().enumerate() {
            if i == at && before {
                w.put(name, v);
            }
            w.put(name, old);
            if i == at && !before {
                w.put(name, v);
            }
        }
    })
}

/// A document with one more field.
fn with_field(d: Doc<'_>, name: &str, v: Value<'_>, at: usize) -> DocBuf {
    DocBuf::build(|w| {
        for (i, (n, old)) in d.iter().enumerate() {
            if i == at {
                w.put(name, v);
            }
            w.put(n, old);
        }
        if at >= d.iter().count() {
            w.put(name, v);
        }
    })
}

/// A command under an alias, in another case, or inside `explain`.
fn rename_command(d: Doc<'_>, random: &mut Random) -> DocBuf {
    let (name, _) = d.first().unwrap_or_default();
    let spec = registry::all().map(|c| &c.spec).find(|s| s.name == name);
    let alias = spec.and_then(|s| s.aliases.first().copied());
    let by = match (random.below(3), alias) {
        (0, Some(alias)) => alias.to_owned(),
        (0 | 1, _) => name.to_lowercase(),
        _ => return doc! { "explain": d },
    };
    DocBuf::build(|w| {
        for (i, (n, v)) in d.iter().enumerate() {
            w.put(if i == 0 { &by } else { n }, v);
        }
    })
}

pub(crate) fn template(text: &str) -> DocBuf {
    extjson::parse_document(&text.replace('\'', "\"")).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// A minimal request of a command without a template.
pub(crate) fn make_request(spec: &Spec) -> DocBuf {
    DocBuf::build(|w| {
        w.put(spec.name, CLOSED);
        for row in spec.args {
            w.put(
                row.name,
                if row.required {
                    Value::String(CLOSED)
                } else {
                    Value::Int32(1)
                },
            );
        }
    })
}

/// A client that sends requests, and what it must not touch.
struct Requester {
    name: &'static str,
    conn: Connection,
    closed: Vec<Namespace>,
    /// The client has no rights at all.
    powerless: bool,
}

struct Walk {
    server: Arc<Dispatcher>,
    root: Connection,
    wrong: Vec<String>,
    calls: usize,
}

fn namespace(text: &str) -> Namespace {
    Namespace::parse(text).expect("a namespace")
}

/// A role with all actions on data, for one collection.
fn everything_on(coll: &str) -> DocBuf {
    DocBuf::build(|w| {
        w.doc("resource").put("db", "d").put("collection", coll);
        let mut actions = w.array("actions");
        for action in LOOKS.iter().chain(CHANGES) {
            actions.push(*action);
        }
    })
}

impl Walk {
    fn new() -> Walk {
        let (server, root) = with_root();
        let mut walk = Walk {
            server,
            root,
            wrong: Vec::new(),
            calls: 0,
        };
        walk.fill();
        walk
    }

    fn as_root(&mut self, db: &str, command: DocBuf) -> i64 {
        run(&self.server, &mut self.root, db, command)
    }

    /// Creates the missing collections.
    fn fill(&mut self) {
        for coll in [CLOSED, OPEN] {
            let mark = if coll == CLOSED { MARK } else { "plain" };
            let document = doc! { "_id": 1i32, "a": 1i32, "mark": mark };
            self.as_root("d", doc! { "insert": coll, "documents": [document.doc()] });
        }
        self.as_root("d", doc! { "create": "v", "viewOn": OPEN, "pipeline": [] });
    }

    /// A user with all rights on data and on the server, but none on the closed collection and none
    /// to grant rights.
    fn create_closed_user(&mut self) -> Connection {
        let role = DocBuf::build(|w| {
            w.put("createRole", "closed");
            w.array("roles");
            let mut all = w.array("privileges");
            for coll in [OPEN, "v", "w", "k", "m", "z", "c"] {
                all.push(&everything_on(coll));
            }
            all.push(&doc! { "resource": { "db": "d", "collection": "" },
            "actions": ["listCollections", "dbStats", "enableProfiler"] });
            all.push(&doc! { "resource": { "cluster": true },
            "actions": ["applyOps", "inprog", "listSessions", "serverStatus", "top"] });
        });
        assert_eq!(self.as_root("admin", role), 0);
        let roles = doc! { "r": ["closed"] };
        user(&self.server, &mut self.root, "most", roles)
    }

    /// The state of a collection: identity, options, indexes, documents.
    fn state_of(&self, ns: &Namespace) -> String {
        let coll = self.server.service().store.collection(ns).expect("a look");
        let Some(coll) = coll else {
            return "none".to_owned();
        };
        let mut all = format!(
            "{:?} {:?} {}",
            coll.uuid(),
            coll.options(),
            coll.indexes().len()
        );
        let mut scan = coll.scan(&ReadView::LATEST, false);
        while scan
            .visit(64, &mut |row| {
                all.push_str(&format!("{:?}", row.doc));
                true
            })
            .expect("a scan")
        {}
        all
    }

    /// The states of all namespaces that are closed to some client.
    fn states(&self, all: &[Namespace]) -> Vec<String> {
        all.iter().map(|ns| self.state_of(ns)).collect()
    }

    /// Sends a request as this client.
    fn send(&mut self, who: &mut Requester, db: &str, body: &DocBuf, in_sequences: bool) {
        let mut held: Vec<(String, Vec<u8>)> = Vec::new();
        let mut whole = DocBuf::build(|w| {
            for (i, (name, v)) in body.doc().iter().enumerate() {
                let docs = v
                    .as_array()
                    .filter(|a| i > 0 && in_sequences && a.iter().all(|v| v.as_doc().is_some()));
                match docs {
                    Some(docs) if !held.iter().any(|(n, _)| n == name) => {
                        let bytes = docs.iter().filter_map(|v| v.as_doc());
                        let bytes = bytes.flat_map(|d| d.as_bytes().to_vec()).collect();
                        held.push((name.to_owned(), bytes));
                    }
                    _ => {
                        w.put(name, v);
                    }
                }
            }
        });
        if !whole.doc().contains("$db") {
            whole.put("$db", db);
        }
        let sequences: Vec<Sequence<'_>> = held
            .iter()
            .map(|(name, documents)| Sequence { name, documents })
            .collect();
        let mut request = Request::new(whole.doc());
        request.sequences = &sequences;
        let mut reply = Vec::new();
        let outcome = self.server.handle(&mut who.conn, &request, &mut reply);
        self.calls += 1;
        let shown = || {
            let text = Value::Document(body.doc()).to_string();
            format!(
                "as {} on {db}: {}",
                who.name,
                text.chars().take(400).collect::<String>()
            )
        };
        if !matches!(
            outcome,
            Outcome::Reply | Outcome::Durable(_) | Outcome::Wait { .. }
        ) {
            self.wrong.push(format!("{outcome:?} {}", shown()));
        }
        let text = String::from_utf8_lossy(&reply);
        if text.contains(MARK) {
            self.wrong.push(format!("shows what is closed {}", shown()));
        }
        let reply = DocBuf::from_bytes(reply).unwrap_or_default();
        let number = reply.doc().field("code").as_i64_exact().unwrap_or(0);
        let (name, _) = body.doc().first().unwrap_or_default();
        let spec = registry::all()
            .map(|c| &c.spec)
            .find(|s| s.name == name || s.aliases.contains(&name));
        let for_all = spec.is_none_or(|s| {
            matches!(s.privilege, Privilege::Any)
                || ANSWER_ALL.contains(&s.name) && !reads_collection(body.doc())
        });
        if who.powerless && TELLING.contains(&number) && !for_all {
            self.wrong.push(format!("tells by {number} {}", shown()));
        }
        if who.powerless && number == 0 && !reply.doc().is_empty() && !for_all {
            self.wrong.push(format!("answers {reply:?} {}", shown()));
        }
        if who.name == "nobody" && !matches!(number, 13) && spec.is_some_and(needs_login) {
            let is_parsed = number > 0 && !TELLING.contains(&number);
            if !is_parsed {
                self.wrong.push(format!("answers {number} {}", shown()));
            }
        }
    }

    fn end(self) {
        println!("{} calls", self.calls);
        let shown: Vec<&str> = self.wrong.iter().map(String::as_str).take(30).collect();
        assert!(
            shown.is_empty(),
            "{} of {} calls:\n{}",
            self.wrong.len(),
            self.calls,
            shown.join("\n")
        );
    }
}

/// Whether the command is an aggregation over a collection, or explains one.
fn reads_collection(body: Doc<'_>) -> bool {
    match body.first() {
        Some(("aggregate", own)) => own.as_str().is_some(),
        Some(("explain", Value::Document(inner))) => reads_collection(inner),
        _ => false,
    }
}

fn needs_login(spec: &Spec) -> bool {
    !spec.is(flag::NO_AUTH)
}

#[test]
fn mutated_arguments_touch_nothing_that_is_not_theirs() {
    let mut walk = Walk::new();
    let data = vec![namespace("d.n")];
    let mut kept = data.clone();
    kept.extend(["admin.system.users", "admin.system.roles"].map(namespace));
    let less = user(&walk.server, &mut walk.root, "less", doc! { "r": [] });
    let most = walk.create_closed_user();
    let nobody = walk.server.connect(ELSEWHERE);
    let who = |name, conn, powerless| Requester {
        name,
        conn,
        closed: kept.clone(),
        powerless,
    };
    let mut all = [
        who("nobody", nobody, true),
        who("less", less, true),
        who("most", most, false),
    ];
    let (values, mut random) = (values(), Random(28));
    let templates: Vec<(&str, DocBuf)> = TEMPLATES
        .iter()
        .map(|(db, text)| (*db, template(text)))
        .chain(registry::all().map(|c| &c.spec).map(|spec| {
            let db = if spec.is(flag::ADMIN) { "admin" } else { "d" };
            (db, make_request(spec))
        }))
        .collect();
    for (at, (db, good)) in templates.iter().enumerate() {
        let (name, _) = good.doc().first().unwrap_or_default();
        if LEFT_OUT.contains(&name) {
            continue;
        }
        walk.fill();
        let tries = if at < TEMPLATES.len() {
            TRIES
        } else {
            TRIES / 10
        };
        let mut before = walk.states(&kept);
        for i in 0..tries {
            let mut body = good.clone();
            let changes = if i > 0 { 1 + random.below(2) } else { 0 };
            for _ in 0..changes {
                body = Mutator::of(&mut random, &values).change(body.doc(), true);
            }
            let (first, _) = body.doc().first().unwrap_or_default();
            if LEFT_OUT.contains(&first) {
                continue;
            }
            let in_sequences = random.below(4) == 0;
            for who in &mut all {
                walk.send(who, db, &body, in_sequences);
                let after = walk.states(&who.closed);
                if after != before {
                    let text = Value::Document(body.doc()).to_string();
                    walk.wrong
                        .push(format!("{} changes what is closed: {text}", who.name));
                    walk.fill();
                    before = walk.states(&kept);
                }
            }
        }
    }
    let mut again = walk.server.connect(ELSEWHERE);
    assert_eq!(log_in(&walk.server, &mut again, ("less", "admin"), "pw"), 0);
    walk.end();
}

/// Mutations per template.
const TRIES: usize = 200;
