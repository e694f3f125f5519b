//! A command never opens more data than its user has rights to. Random commands of every kind,
//! nested at random, are sent by users who lack all rights, the right to write or the right to read
//! on one collection; an observer below the store records which collections' rows were really read,
//! scanned and written. It uses the store's keys, so it sees every way of reading.
//! `QUARRY_RIGHTS=n` sends that many commands, `QUARRY_SEED=n` begins with another seed.

use crate::access::{code, run, start_with_root_on, user};
use crate::rights_commands::{Shape, command};
use crate::rights_walk::{Mutator, Random, values};
use commands::{Connection, Dispatcher, Outcome, Request, StoreHooks, SystemClock};
use model::{DocBuf, Namespace, Value, doc, extjson};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use storage::observe::{Call, Observer};
use storage::{BatchOp, Caps, IDENT_BYTES, MemoryEngine, ObservedEngine, Table};
use store::{Collection, ReadView};

const COMMANDS: usize = 5000;
/// Commands that stop the server or log the user out: all later commands would be refused.
const LEFT_OUT: &[&str] = &["fsync", "shutdown", "configureFailPoint", "logout"];
/// Commands that sum over all collections; they need a right on the database, which all users have.
const SUMS: &[&str] = &["dbStats", "dbstats"];

/// Collections of database `d`, and one of `e`; the last of `d` does not exist until a command
/// creates it.
pub(crate) const NAMES: &[&str] = &["d.c0", "d.c1", "d.c2", "d.cap", "d.ts", "e.x"];
const VIEWS: &[(&str, &[&str])] = &[("d.v0", &["d.c0"]), ("d.v1", &["d.c1", "d.c2", "d.c0"])];
const MADE: &str = "d.w";
/// Actions that read a collection.
pub(crate) const LOOKS: &[&str] = &[
    "find",
    "collStats",
    "indexStats",
    "listIndexes",
    "listSearchIndexes",
    "planCacheRead",
    "changeStream",
];
/// Actions that may change a collection.
pub(crate) const CHANGES: &[&str] = &[
    "insert",
    "update",
    "remove",
    "createCollection",
    "createIndex",
    "dropCollection",
    "dropIndex",
    "collMod",
    "convertToCapped",
    "planCacheWrite",
    "planCacheIndexFilter",
    "compact",
    "validate",
    "bypassDocumentValidation",
];

/// For each table, the identifiers whose rows were read, scanned and written.
#[derive(Debug, Default)]
struct TouchedIdents {
    read: BTreeSet<(Table, u32)>,
    scanned: BTreeSet<(Table, u32)>,
    written: BTreeSet<(Table, u32)>,
}

#[derive(Default)]
struct Recorder(Mutex<TouchedIdents>);

thread_local! {
    /// The identifiers that this thread scans while the test asks for those of a collection.
    /// Another thread may sweep dropped data at the same time.
    static ASKED: RefCell<Option<BTreeSet<(Table, u32)>>> = const { RefCell::new(None) };
}

fn ident(key: &[u8]) -> Option<u32> {
    let first = key.get(..IDENT_BYTES)?;
    first.try_into().ok().map(u32::from_be_bytes)
}

impl Observer for Recorder {
    fn before_call(&self, call: &Call<'_>, _: &Caps) -> storage::Result<()> {
        let mut opened = self.0.lock();
        match call {
            Call::Get { table, key } => {
                opened.read.extend(ident(key).map(|i| (*table, i)));
            }
            Call::MultiGet { table, keys } => {
                let idents = keys.iter().filter_map(|k| ident(k));
                opened.read.extend(idents.map(|i| (*table, i)));
            }
            Call::Cursor { table, range, .. } => {
                let found = ident(range.lower).map(|i| (*table, i));
                ASKED.with_borrow_mut(|asked| match asked {
                    Some(asked) => asked.extend(found),
                    None => opened.scanned.extend(found),
                });
            }
            Call::DropRange { table, range } => {
                opened
                    .written
                    .extend(ident(range.lower).map(|i| (*table, i)));
            }
            Call::Apply { batch, .. } => {
                let of = |op: BatchOp<'_>| match op {
                    BatchOp::Put { table, key, .. }
                    | BatchOp::Delete { table, key }
                    | BatchOp::Add { table, key, .. } => ident(key).map(|i| (table, i)),
                    BatchOp::DeleteRange { table, lower, .. } => ident(lower).map(|i| (table, i)),
                };
                opened.written.extend(batch.iter().filter_map(of));
            }
            _ => {}
        }
        Ok(())
    }
}

/// The rights that a user lacks on one collection; it has all rights on the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissingRight {
    All,
    Changes,
    Looks,
}

struct Requester {
    lacks: MissingRight,
    on: &'static str,
    conn: Connection,
}

impl Requester {
    /// The quoted names that must not be in the definition of a view that the user creates.
    fn hidden_names(&self) -> Vec<String> {
        let views = VIEWS.iter().filter(|(_, below)| below.contains(&self.on));
        let all = views.map(|(v, _)| *v).chain([self.on]);
        all.filter_map(|ns| Some(format!("\"{}\"", ns.split_once('.')?.1)))
            .collect()
    }
}

fn namespace(text: &str) -> Namespace {
    Namespace::parse(text).expect("a namespace")
}

/// A privilege for these actions on one collection.
fn privilege(on: &str, actions: &[&[&str]]) -> DocBuf {
    let (db, coll) = on.split_once('.').unwrap_or((on, ""));
    DocBuf::build(|w| {
        w.doc("resource").put("db", db).put("collection", coll);
        let mut all = w.array("actions");
        for action in actions.concat() {
            all.push(action);
        }
    })
}

impl MissingRight {
    /// Whether a view over these collections would show data that the user may not read.
    fn hides(self, on: &str, below: &[&str]) -> bool {
        self != MissingRight::Changes && below.contains(&on)
    }

    fn role(self, name: &str, on: &str) -> DocBuf {
        DocBuf::build(|w| {
            w.put("createRole", name);
            w.array("roles");
            let mut all = w.array("privileges");
            for other in NAMES.iter().chain(&[MADE]).filter(|n| **n != on) {
                all.push(&privilege(other, &[LOOKS, CHANGES]));
            }
            match self {
                MissingRight::All => {}
                MissingRight::Changes => {
                    all.push(&privilege(on, &[LOOKS]));
                }
                MissingRight::Looks => {
                    all.push(&privilege(on, &[&["insert"]]));
                }
            }
            for (view, below) in VIEWS.iter().filter(|(_, b)| !self.hides(on, b)) {
                debug_assert!(!below.is_empty());
                all.push(&privilege(view, &[LOOKS, CHANGES]));
            }
            for db in ["d", "e"] {
                all.push(&privilege(db, &[&["listCollections", "dbStats"]]));
            }
            all.push(&doc! { "resource": { "cluster": true },
            "actions": ["applyOps", "inprog", "listSessions", "serverStatus", "top"] });
        })
    }
}

/// Checks the kind of a collection. One of the test's names may now be a view, which shows what its
/// creator may read, or a capped collection, which inserts read.
fn is_of_its_kind(found: &Collection, name: &str) -> bool {
    let is_series = found.options().doc().contains("timeseries");
    !found.is_view() && found.is_capped() == (name == "cap") && is_series == (name == "ts")
}

struct Search {
    server: Arc<Dispatcher>,
    engine: Arc<ObservedEngine<Recorder>>,
    root: Connection,
    random: Random,
    /// Counts of commands by their outcome.
    outcomes: BTreeMap<&'static str, usize>,
}

impl Search {
    fn new(seed: u64) -> Search {
        let engine = Arc::new(ObservedEngine::new(
            Arc::new(MemoryEngine::new()),
            Recorder::default(),
        ));
        let hooks = StoreHooks::new(Arc::new(SystemClock::default())).with_log(1 << 30);
        let store = store::Store::open(engine.clone(), Arc::new(hooks)).expect("an empty store");
        let (server, root) = start_with_root_on(Arc::new(store));
        Search {
            server,
            engine,
            root,
            random: Random::of(seed),
            outcomes: BTreeMap::new(),
        }
    }

    fn as_root(&mut self, db: &str, text: &str) -> i64 {
        let command = extjson::parse_document(&text.replace('\'', "\"")).expect("a command");
        run(&self.server, &mut self.root, db, command)
    }

    fn users(&mut self) -> Vec<Requester> {
        let mut all = Vec::new();
        for (i, on) in NAMES.iter().enumerate() {
            for lacks in [
                MissingRight::All,
                MissingRight::Changes,
                MissingRight::Looks,
            ] {
                // Inserts read a capped collection and buckets.
                if lacks == MissingRight::Looks && matches!(*on, "d.cap" | "d.ts") {
                    continue;
                }
                let name = format!("u{i}{lacks:?}");
                let role = lacks.role(&name, on);
                assert_eq!(
                    run(&self.server, &mut self.root, "admin", role),
                    0,
                    "{name}"
                );
                let roles = DocBuf::build(|w| {
                    w.array("r").push(name.as_str());
                });
                let conn = user(&self.server, &mut self.root, &name, roles);
                all.push(Requester { lacks, on, conn });
            }
        }
        all
    }

    /// Creates the collections that are missing or of another kind.
    fn fill(&mut self) {
        let there = |s: &Search, ns: &str| s.server.service().store.collection(&namespace(ns));
        if matches!(there(self, MADE), Ok(Some(_))) {
            self.as_root("d", "{'drop': 'w'}");
        }
        for ns in NAMES {
            let (db, coll) = ns.split_once('.').unwrap_or_default();
            if let Ok(Some(found)) = there(self, ns) {
                if is_of_its_kind(&found, coll) {
                    continue;
                }
                self.as_root(db, &format!("{{'drop': '{coll}'}}"));
            }
            match coll {
                "cap" => {
                    self.as_root(db, "{'create': 'cap', 'capped': true, 'size': 4096}");
                }
                "ts" => {
                    self.as_root(db, "{'create': 'ts', 'timeseries': {'timeField': 't'}}");
                }
                _ => {
                    let key = "{'key': {'a': 1}, 'name': 'a_1'}";
                    self.as_root(
                        db,
                        &format!("{{'createIndexes': '{coll}', 'indexes': [{key}]}}"),
                    );
                }
            }
            let at = "'t': {'$date': 1700000000000}";
            self.as_root(
                db,
                &format!(
                    "{{'insert': '{coll}', 'documents': [{{'_id': 1, 'a': 1, {at}}}, \
                     {{'_id': 2, 'a': 2, 'b': [1], {at}}}]}}"
                ),
            );
        }
        for (view, text) in [
            (
                "d.v0",
                "{'create': 'v0', 'viewOn': 'c0', 'pipeline': [{'$match': {}}]}",
            ),
            (
                "d.v1",
                "{'create': 'v1', 'viewOn': 'c1', 'pipeline': [{'$lookup': {'from': 'c2', \
                 'as': 'j', 'pipeline': [{'$unionWith': 'v0'}]}}]}",
            ),
        ] {
            if !matches!(there(self, view), Ok(Some(_))) {
                self.as_root("d", text);
            }
        }
    }

    /// The current identifiers of a collection's rows.
    fn idents(&self, ns: &str) -> BTreeSet<(Table, u32)> {
        let found = self.server.service().store.collection(&namespace(ns));
        let Ok(Some(coll)) = found else {
            return BTreeSet::new();
        };
        ASKED.set(Some(BTreeSet::new()));
        // A scan in insertion order may know the keys and open no cursor, so a scan by key is made
        // as well.
        let mut scans = [
            coll.scan(&ReadView::LATEST, false),
            coll.scan_keys(&ReadView::LATEST, None, None, false),
        ];
        for scan in &mut scans {
            scan.visit(1, &mut |_| false).expect("a row");
        }
        let mut all = ASKED.take().unwrap_or_default();
        assert!(all.iter().any(|(table, _)| *table == Table::Doc), "{ns}");
        all.extend(coll.indexes().iter().map(|i| (Table::Idx, i.ident())));
        all
    }

    /// The documents of the views as text; a dropped view has none.
    fn views(&self) -> String {
        let names = VIEWS.iter().map(|(v, _)| *v).chain([MADE]);
        let shown = names.filter_map(|v| {
            let found = self.server.service().store.collection(&namespace(v));
            let view = found.ok().flatten().filter(|c| c.is_view())?;
            Some(format!("{v}: {:?}\n", view.options().doc()))
        });
        shown.collect()
    }

    /// Sends a command; returns what it opened and the code of the reply.
    fn send(&mut self, who: &mut Requester, db: &str, body: &DocBuf) -> (TouchedIdents, i64) {
        let mut whole = body.clone();
        if !whole.doc().contains("$db") {
            whole.put("$db", db);
        }
        *self.engine.observer().0.lock() = TouchedIdents::default();
        let mut reply = Vec::new();
        let outcome = self
            .server
            .handle(&mut who.conn, &Request::new(whole.doc()), &mut reply);
        let opened = std::mem::take(&mut *self.engine.observer().0.lock());
        assert!(
            matches!(
                outcome,
                Outcome::Reply | Outcome::Durable(_) | Outcome::Wait { .. }
            ),
            "{outcome:?}: {:?}",
            body.doc()
        );
        let reply = DocBuf::from_bytes(reply).unwrap_or_default();
        (opened, code(&reply))
    }

    fn note(&mut self, what: &'static str) {
        *self.outcomes.entry(what).or_default() += 1;
    }

    /// A random command, often on the collection on which the user lacks rights.
    fn next(&mut self, who: &Requester) -> (String, DocBuf) {
        let shape = Shape {
            often: who.on,
            cursor: self.cursor_of_root(who.on),
        };
        let (db, json) = command(&mut self.random, &shape);
        let mut body = extjson::document(&json).unwrap_or_else(|e| panic!("{e}: {json}"));
        if self.random.below(4) == 0 {
            let values = values();
            body = Mutator::of(&mut self.random, &values).change(body.doc(), true);
        }
        (db, body)
    }

    /// Sometimes opens a cursor of another user over a collection.
    fn cursor_of_root(&mut self, ns: &str) -> i64 {
        if self.random.below(20) > 0 {
            return 0;
        }
        let (db, coll) = ns.split_once('.').unwrap_or_default();
        let find = doc! { "find": coll, "batchSize": 0i32, "$db": db };
        let mut reply = Vec::new();
        let _ = self
            .server
            .handle(&mut self.root, &Request::new(find.doc()), &mut reply);
        let reply = DocBuf::from_bytes(reply).unwrap_or_default();
        let cursor = reply.doc().field("cursor");
        cursor
            .as_doc()
            .and_then(|c| c.field("id").as_i64_exact())
            .unwrap_or(0)
    }

    /// Sends one command; returns an error if it opened more than allowed.
    fn step(&mut self, who: &mut Requester) -> Option<String> {
        self.fill();
        let (db, body) = self.next(who);
        let (first, _) = body.doc().first().unwrap_or_default();
        if LEFT_OUT.contains(&first) {
            return None;
        }
        let (own, views) = (self.idents(who.on), self.views());
        let (opened, number) = self.send(who, &db, &body);
        let kept = self.idents(who.on);
        self.note(match number {
            0 => "answered",
            13 => "refused by rights",
            _ => "refused otherwise",
        });
        let is_sum = SUMS.contains(&first);
        let scanned = !is_sum && opened.scanned.iter().any(|i| own.contains(i));
        let looked = scanned || opened.read.iter().any(|i| own.contains(i));
        let changed = opened.written.iter().any(|i| own.contains(i)) || kept != own;
        let wrong = match who.lacks {
            MissingRight::All if looked => Some("reads"),
            MissingRight::All | MissingRight::Changes if changed => Some("changes"),
            MissingRight::Looks if scanned => Some("scans"),
            _ => None,
        };
        if looked || changed {
            self.note("touched what is its own only in part");
        }
        let shown = self.views();
        let shows = who.lacks != MissingRight::Changes && shown != views && {
            let old: BTreeSet<&str> = views.lines().collect();
            let mut new = shown.lines().filter(|l| !old.contains(l));
            let hidden = who.hidden_names();
            new.any(|l| hidden.iter().any(|h| l.contains(h)))
        };
        if shown != views {
            self.note("made or changed a view");
            for view in ["v0", "v1", "w"] {
                self.as_root("d", &format!("{{'drop': '{view}'}}"));
            }
        }
        let wrong = wrong.or(shows.then_some("makes a view that shows"));
        wrong.map(|what| {
            format!(
                "without {:?} on {} {what} it by code {number}, on {db}: {}\n  own {own:?}, after \
                 it {kept:?}, opened {opened:?}",
                who.lacks,
                who.on,
                Value::Document(body.doc())
            )
        })
    }
}

#[test]
fn a_command_opens_only_what_its_user_has_rights_on() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seed = number("QUARRY_SEED").unwrap_or(1);
    let commands = number("QUARRY_RIGHTS").map_or(COMMANDS, |n| usize::try_from(n).unwrap_or(0));
    let mut search = Search::new(seed);
    search.fill();
    let mut users = search.users();
    let mut wrong = Vec::new();
    for _ in 0..commands {
        let at = search.random.below(users.len());
        wrong.extend(search.step(&mut users[at]));
        if wrong.len() > 10 {
            break;
        }
    }
    println!("seed {seed}: {:?}", search.outcomes);
    assert!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n"));
    let least = |what: &str| search.outcomes.get(what).copied().unwrap_or(0) * 20 > commands;
    assert!(least("answered") && least("refused by rights"));
    assert!(
        search
            .outcomes
            .contains_key("touched what is its own only in part")
    );
}

/// Checks that the recorder sees what an operation opens; otherwise the search above would find
/// nothing.
#[test]
fn the_recorder_sees_reads_and_writes_of_every_collection() {
    let mut search = Search::new(1);
    search.fill();
    for ns in NAMES {
        let own = search.idents(ns);
        assert!(!own.is_empty(), "{ns}");
        let (db, coll) = ns.split_once('.').unwrap_or_default();
        *search.engine.observer().0.lock() = TouchedIdents::default();
        search.as_root(db, &format!("{{'find': '{coll}', 'filter': {{'b': 7}}}}"));
        let opened = std::mem::take(&mut *search.engine.observer().0.lock());
        assert!(opened.scanned.iter().any(|i| own.contains(i)), "{ns}");
        let document = "{'_id': 9, 't': {'$date': 1700000000000}}";
        search.as_root(
            db,
            &format!("{{'insert': '{coll}', 'documents': [{document}]}}"),
        );
        let opened = std::mem::take(&mut *search.engine.observer().0.lock());
        assert!(opened.written.iter().any(|i| own.contains(i)), "{ns}");
    }
}
