//! The log by reference has the entries of a log by copies: the same random changes to two stores
//! on each engine, of which one copies the documents into its log (ADR 0051).

use crate::servers::{folder, lmdb, rocksdb};
use commands::StoreHooks;
use model::{Doc, DocBuf, Namespace, Timestamp, Value, doc};
use operation::{Clock, Operation, SystemClock};
use proof::Random;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use storage::{CursorOpts, Engine, KeyRange, MemoryEngine, Table};
use store::{Change, Collection, ReadView, SessionRecord, Store, VisitResult};

const NAMES: [&str; 3] = ["a", "b", "c"];
const LOG_BYTES: u64 = 60_000;
const STEPS: usize = 400;

/// Opens an engine, or opens it again.
type OpenFn = Box<dyn Fn() -> Arc<dyn Engine>>;

/// A clock that stands still, so that both logs have the same times.
struct StoppedClock;

impl Clock for StoppedClock {
    fn now_ms(&self) -> i64 {
        100_000
    }
    fn monotonic_us(&self) -> u64 {
        0
    }
}

/// The operation for all writes: nothing interrupts it.
fn test_operation() -> &'static Operation {
    static OPERATION: LazyLock<Operation> =
        LazyLock::new(|| Operation::new_detached(Arc::new(SystemClock::default())));
    &OPERATION
}

/// A store, which is opened again and again.
struct Side {
    open: OpenFn,
    /// Not there only while it is opened again.
    store: Option<Store>,
    copies: bool,
    sessions: u8,
}

fn ns(name: &str) -> Namespace {
    Namespace::new("db", name).unwrap()
}

impl Side {
    fn new(open: OpenFn, copies: bool) -> Side {
        let store = Some(open_side(open(), copies));
        Side {
            open,
            store,
            copies,
            sessions: 0,
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn reopen(&mut self) {
        // The engine in memory would refuse to be opened again after a close.
        drop(self.store.take());
        self.store = Some(open_side((self.open)(), self.copies));
    }

    fn collection(&self, name: &str) -> Arc<Collection> {
        let found = self.store().collection(&ns(name)).unwrap();
        found.unwrap_or_else(|| {
            let writer = self.store().writer(test_operation());
            writer
                .create_collection(&ns(name), DocBuf::new(), [9; 16])
                .unwrap()
        })
    }

    fn insert(&self, name: &str, docs: &[DocBuf]) {
        let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::doc).collect();
        let c = self.collection(name);
        c.writer(test_operation()).insert(&docs, false).unwrap();
    }

    fn modify(&self, name: &str, ids: &[i32], new: Option<&str>) {
        let c = self.collection(name);
        let keys: Vec<Vec<u8>> = ids.iter().map(|id| key(&c, *id)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        c.writer(test_operation())
            .modify_many(
                &keys,
                &mut |_, old| Ok(change_pad(old, new)),
                &mut |_, _| {},
            )
            .unwrap();
    }

    fn transaction(&mut self, name: &str, id: i32, doc: &DocBuf, commits: bool) {
        let c = self.collection(name);
        let t = self.store().begin_transaction(None).unwrap();
        let writer = c.writer(test_operation());
        writer.insert_in(&[doc.doc()], false, &t).unwrap();
        for pad in [Some("in a transaction"), None] {
            writer
                .modify_in(
                    &[&key(&c, id)],
                    &mut |_, old| Ok(change_pad(old, pad)),
                    &mut |_, _| {},
                    &t,
                )
                .unwrap();
        }
        if !commits {
            return;
        }
        self.sessions = self.sessions.wrapping_add(1);
        let mut record = SessionRecord::new([self.sessions; 16]);
        self.store().begin_retryable(&mut record, 1).unwrap();
        let writer = self.store().writer(test_operation());
        writer.commit_transaction(&t, &mut record).unwrap();
    }

    fn entries(&self, from: u64) -> Vec<DocBuf> {
        let mut reader = self.store().read_log(Timestamp::from_u64(from)).unwrap();
        let mut all = Vec::new();
        loop {
            let read = reader.visit(3, &mut |_, doc| {
                all.push(doc.to_buf());
                true
            });
            match read.unwrap() {
                VisitResult::More => {}
                VisitResult::End => return all,
                VisitResult::Lost => panic!("the log was cut meanwhile"),
            }
        }
    }

    /// The entries as the scan of the collection shows them, from the last one on.
    fn backwards(&self) -> Vec<DocBuf> {
        let ns = Namespace::new("local", "oplog.rs").unwrap();
        let log = self.store().collection(&ns).unwrap().unwrap();
        let mut scan = log.scan(&ReadView::LATEST, true);
        let mut all = Vec::new();
        while scan
            .visit(5, &mut |row| {
                all.push(row.doc.to_buf());
                true
            })
            .unwrap()
        {}
        all
    }

    /// Entries and bytes of the log, which decide when it is cut.
    fn size(&self) -> (u64, u64) {
        let ns = Namespace::new("local", "oplog.rs").unwrap();
        let log = self.store().collection(&ns).unwrap().unwrap();
        (log.count(), log.size_bytes())
    }

    /// Numbers of rows of references, and of saved documents.
    fn rows(&self) -> (usize, usize) {
        let mut cursor = self
            .store()
            .engine()
            .cursor(Table::Log, KeyRange::ALL, CursorOpts::default())
            .unwrap();
        let (mut references, mut images) = (0, 0);
        let each = &mut |key: &[u8], value: &[u8]| {
            match key.starts_with(&[0; 4]) {
                true => images += 1,
                false => references += usize::from(value.starts_with(&[1, 2])),
            }
            true
        };
        while cursor.visit(100, each).unwrap() {}
        (references, images)
    }
}

fn open_side(engine: Arc<dyn Engine>, copies: bool) -> Store {
    let hooks = StoreHooks::new(Arc::new(StoppedClock)).with_log(LOG_BYTES);
    let store = Store::open(engine, Arc::new(hooks)).unwrap();
    if copies {
        store.log().unwrap().copy_documents();
    }
    store
}

fn key(c: &Arc<Collection>, id: i32) -> Vec<u8> {
    let mut key = Vec::new();
    c.record_key(&Value::Int32(id), &mut key);
    key
}

fn change_pad(old: Doc<'_>, pad: Option<&str>) -> Change {
    match pad {
        Some(pad) => {
            let new = doc! { "_id": old.field("_id"), "pad": pad };
            Change::Replace(new.into_bytes())
        }
        None => Change::Delete,
    }
}

fn new_document(random: &mut Random, id: i32) -> DocBuf {
    let bytes = [10, 150, 250, 1200][random.below(4)];
    doc! { "_id": id, "pad": "x".repeat(bytes).as_str(), "n": random.below(1000) as i64 }
}

/// One random change to both sides.
fn change(random: &mut Random, sides: &mut [Side; 2]) {
    let name = NAMES[random.below(3)];
    let id = random.below(60) as i32;
    match random.below(20) {
        0..=7 => {
            let many = random.below(6) as i32 + 1;
            let docs: Vec<DocBuf> = (id..id + many).map(|id| new_document(random, id)).collect();
            sides.iter().for_each(|s| s.insert(name, &docs));
        }
        8..=11 => {
            let pad = "y".repeat(random.below(600));
            let ids = [id, id + 1, id + 5];
            sides.iter().for_each(|s| s.modify(name, &ids, Some(&pad)));
        }
        12..=14 => sides
            .iter()
            .for_each(|s| s.modify(name, &[id, id + 2], None)),
        15 | 16 => {
            let (doc, commits) = (new_document(random, id), random.below(3) > 0);
            let other = random.below(60) as i32;
            for side in sides {
                side.transaction(name, other, &doc, commits);
            }
        }
        17 => sides.iter().for_each(|s| {
            s.store()
                .writer(test_operation())
                .drop_collection(&ns(name))
                .unwrap();
        }),
        18 => {
            let to = NAMES[random.below(3)];
            for side in sides.iter().filter(|_| to != name) {
                side.collection(name);
                let writer = side.store().writer(test_operation());
                writer.rename_collection(&ns(name), &ns(to), true).unwrap();
            }
        }
        _ => match random.below(3) {
            0 => sides.iter_mut().for_each(Side::reopen),
            1 => sides
                .iter()
                .for_each(|s| _ = s.store().truncate_log().unwrap()),
            _ => sides
                .iter()
                .for_each(|s| _ = s.store().save_references(&|| Ok(())).unwrap()),
        },
    }
}

fn compare(sides: &[Side; 2]) {
    let oldest = sides.each_ref().map(|s| s.store().log().unwrap().oldest());
    let from = oldest[0].max(oldest[1]).as_u64();
    let [referring, copying] = sides.each_ref().map(|s| s.entries(from));
    assert_eq!(referring, copying);
    let ns = Namespace::new("local", "oplog.rs").unwrap();
    let log = sides[0].store().collection(&ns).unwrap().unwrap();
    let validation = log.validate().unwrap();
    assert_eq!(validation.errors, Vec::<String>::new());
    let [referring, copying] = sides.each_ref().map(Side::backwards);
    let number = referring.len().min(copying.len());
    assert_eq!(referring[..number], copying[..number]);
    assert_eq!(oldest[0], oldest[1], "the logs are cut alike");
}

/// Two stores with the same random changes; how many rows with references, and how many saved
/// documents, were seen.
fn compare_logs(seed: u64, opens: [OpenFn; 2]) -> (usize, usize) {
    let mut random = Random::new(seed);
    let [refers, copies] = opens;
    let mut sides = [Side::new(refers, false), Side::new(copies, true)];
    let (mut references, mut images) = (0, 0);
    for step in 0..STEPS {
        change(&mut random, &mut sides);
        let [referring, copying] = sides.each_ref().map(Side::size);
        assert_eq!(referring, copying, "entries and bytes after step {step}");
        if step % 7 == 0 {
            compare(&sides);
            let (made, saved) = sides[0].rows();
            (references, images) = (references + made, images + saved);
        }
    }
    compare(&sides);
    assert_eq!(sides[1].rows(), (0, 0));
    (references, images)
}

#[test]
fn a_log_by_reference_has_the_entries_of_one_by_copies() {
    let first = crate::number("QUARRY_SEED").unwrap_or(1);
    let rounds = crate::number("QUARRY_ROUNDS").map_or(4, |n| n.div_ceil(5));
    for name in ["memory", "rocksdb", "lmdb"] {
        let (folder, mut references, mut images) = (folder(), 0, 0);
        for seed in first..first + rounds {
            println!("{name}, QUARRY_SEED={seed}");
            let at = |side: &str| folder.path().join(format!("{seed}-{side}"));
            let opens = [opener(name, at("refers")), opener(name, at("copies"))];
            let (made, saved) = compare_logs(seed, opens);
            (references, images) = (references + made, images + saved);
        }
        assert!(
            references > 0 && images > 0,
            "{name}: {references} {images}"
        );
    }
}

fn opener(engine: &str, path: PathBuf) -> OpenFn {
    match engine {
        "rocksdb" => Box::new(move || rocksdb(&path)),
        "lmdb" => Box::new(move || lmdb(&path)),
        _ => {
            let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
            Box::new(move || Arc::clone(&engine))
        }
    }
}
