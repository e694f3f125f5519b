//! The log by reference has the entries of a log by copies: the same random changes to two stores,
//! of which one copies the documents into its log (ADR 0051).

use crate::log::open;
use crate::own;
use model::{Doc, DocBuf, Namespace, Timestamp, Value, doc};
use std::sync::Arc;
use storage::{CursorOpts, Durability, Engine, KeyRange, MemoryEngine, Reader, Table, WriteBatch};
use store::{Change, Collection, ReadView, SessionRecord, Store, VisitResult};

const NAMES: [&str; 3] = ["a", "b", "c"];
const LOG_BYTES: u64 = 60_000;

/// A store, which is opened again and again.
struct Side {
    engine: Arc<MemoryEngine>,
    store: Store,
    copies: bool,
    sessions: u8,
}

fn ns(name: &str) -> Namespace {
    Namespace::new("db", name).unwrap()
}

impl Side {
    fn new(copies: bool) -> Side {
        let engine = Arc::new(MemoryEngine::new());
        let store = open_side(&engine, copies);
        Side {
            engine,
            store,
            copies,
            sessions: 0,
        }
    }

    fn reopen(&mut self) {
        self.store = open_side(&self.engine, self.copies);
    }

    fn collection(&self, name: &str) -> Arc<Collection> {
        let found = self.store.collection(&ns(name)).unwrap();
        found.unwrap_or_else(|| {
            let writer = self.store.writer(own());
            writer
                .create_collection(&ns(name), DocBuf::new(), [9; 16])
                .unwrap()
        })
    }

    fn insert(&self, name: &str, docs: &[DocBuf]) {
        let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::doc).collect();
        let c = self.collection(name);
        c.writer(own()).insert(&docs, false).unwrap();
    }

    fn modify(&self, name: &str, ids: &[i32], new: Option<&str>) {
        let c = self.collection(name);
        let keys: Vec<Vec<u8>> = ids.iter().map(|id| key(&c, *id)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        c.writer(own())
            .modify_many(&keys, &mut |_, old| Ok(changed(old, new)), &mut |_, _| {})
            .unwrap();
    }

    fn transaction(&mut self, name: &str, id: i32, doc: &DocBuf, commits: bool) {
        let c = self.collection(name);
        let t = self.store.begin_transaction(None).unwrap();
        let writer = c.writer(own());
        writer.insert_in(&[doc.doc()], false, &t).unwrap();
        for pad in [Some("in a transaction"), None] {
            writer
                .modify_in(
                    &[&key(&c, id)],
                    &mut |_, old| Ok(changed(old, pad)),
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
        self.store.begin_retryable(&mut record, 1).unwrap();
        let writer = self.store.writer(own());
        writer.commit_transaction(&t, &mut record).unwrap();
    }

    fn entries(&self, from: u64) -> Vec<DocBuf> {
        let mut reader = self.store.read_log(Timestamp::from_u64(from)).unwrap();
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
        let log = self.store.collection(&ns).unwrap().unwrap();
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

    /// Numbers of rows of references, and of saved documents.
    fn rows(&self) -> (usize, usize) {
        let mut cursor = self
            .engine
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

fn open_side(engine: &Arc<MemoryEngine>, copies: bool) -> Store {
    let store = open(engine, LOG_BYTES).0;
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

fn changed(old: Doc<'_>, pad: Option<&str>) -> Change {
    match pad {
        Some(pad) => {
            let new = doc! { "_id": old.field("_id"), "pad": pad };
            Change::Replace(new.into_bytes())
        }
        None => Change::Delete,
    }
}

/// A generator of numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

fn new_document(numbers: &mut Numbers, id: i32) -> DocBuf {
    let bytes = [10, 150, 250, 1200][numbers.below(4) as usize];
    doc! { "_id": id, "pad": "x".repeat(bytes).as_str(), "n": numbers.below(1000) as i64 }
}

/// One random change to both sides.
fn change(numbers: &mut Numbers, sides: &mut [Side; 2]) {
    let name = NAMES[numbers.below(3) as usize];
    let id = numbers.below(60) as i32;
    match numbers.below(20) {
        0..=7 => {
            let many = numbers.below(6) as i32 + 1;
            let docs: Vec<DocBuf> = (id..id + many)
                .map(|id| new_document(numbers, id))
                .collect();
            sides.iter().for_each(|s| s.insert(name, &docs));
        }
        8..=11 => {
            let pad = "y".repeat(numbers.below(600) as usize);
            let ids = [id, id + 1, id + 5];
            sides.iter().for_each(|s| s.modify(name, &ids, Some(&pad)));
        }
        12..=14 => sides
            .iter()
            .for_each(|s| s.modify(name, &[id, id + 2], None)),
        15 | 16 => {
            let (doc, commits) = (new_document(numbers, id), numbers.below(3) > 0);
            let other = numbers.below(60) as i32;
            for side in sides {
                side.transaction(name, other, &doc, commits);
            }
        }
        17 => sides.iter().for_each(|s| {
            s.store.writer(own()).drop_collection(&ns(name)).unwrap();
        }),
        18 => {
            let to = NAMES[numbers.below(3) as usize];
            for side in sides.iter().filter(|_| to != name) {
                side.collection(name);
                let writer = side.store.writer(own());
                writer.rename_collection(&ns(name), &ns(to), true).unwrap();
            }
        }
        _ => match numbers.below(2) {
            0 => sides.iter_mut().for_each(Side::reopen),
            _ => sides
                .iter()
                .for_each(|s| _ = s.store.truncate_log().unwrap()),
        },
    }
}

fn compare(sides: &[Side; 2]) {
    let oldest = sides.each_ref().map(|s| s.store.log().unwrap().oldest());
    let from = oldest[0].max(oldest[1]).as_u64();
    let [referring, copying] = sides.each_ref().map(|s| s.entries(from));
    assert_eq!(referring, copying);
    let ns = Namespace::new("local", "oplog.rs").unwrap();
    let log = sides[0].store.collection(&ns).unwrap().unwrap();
    let validation = log.validate().unwrap();
    assert_eq!(validation.errors, Vec::<String>::new());
    let [referring, copying] = sides.each_ref().map(Side::backwards);
    let number = referring.len().min(copying.len());
    assert_eq!(referring[..number], copying[..number]);
    assert_eq!(oldest[0], oldest[1], "the logs are cut alike");
}

#[test]
fn a_log_by_reference_has_the_entries_of_one_by_copies() {
    let (mut references, mut images) = (0, 0);
    for seed in 1..=12u64 {
        let mut numbers = Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut sides = [Side::new(false), Side::new(true)];
        for step in 0..400 {
            change(&mut numbers, &mut sides);
            if step % 7 == 0 {
                compare(&sides);
                let (made, saved) = sides[0].rows();
                (references, images) = (references + made, images + saved);
            }
        }
        compare(&sides);
        assert_eq!(sides[1].rows(), (0, 0));
    }
    assert!(references > 0 && images > 0, "{references} {images}");
}

#[test]
fn a_document_that_is_not_changed_is_written_once() {
    let side = Side::new(false);
    let pad = "z".repeat(1000);
    let docs = [doc! { "_id": 1i32, "pad": pad.as_str() }];
    side.insert("a", &docs);
    assert_eq!(side.rows(), (1, 0));
    side.modify("a", &[1], Some("first"));
    assert_eq!(side.rows(), (1, 1), "its first change saves it");
    side.modify("a", &[1], Some("second"));
    side.modify("a", &[1], None);
    assert_eq!(side.rows(), (1, 1), "later ones do not");
    let all = side.entries(0);
    let inserted = all
        .iter()
        .find(|e| e.doc().field("op").as_str() == Some("i"));
    let o = inserted.and_then(|e| e.doc().field("o").as_doc().map(|o| o.to_buf()));
    assert_eq!(o.as_ref(), Some(&docs[0]));
}

#[test]
fn a_drop_while_documents_are_referred_to_keeps_their_entries() {
    let mut side = Side::new(false);
    let pad = "w".repeat(500);
    let docs: Vec<DocBuf> = (0..2000i32)
        .map(|n| doc! { "_id": n, "pad": pad.as_str() })
        .collect();
    side.insert("a", &docs[..1000]);
    side.reopen();
    side.insert("a", &docs[1000..]);
    let before = side.entries(0);
    let dropped = side.store.writer(own()).drop_collection(&ns("a")).unwrap();
    assert_eq!(dropped, Some(1));
    side.reopen();
    let after = side.entries(0);
    assert_eq!(after.get(..before.len()), Some(before.as_slice()));
    assert!(side.store.truncate_log().unwrap());
    let (references, images) = side.rows();
    // The log is cut between rows, which have up to 128 entries.
    assert!(references < 20 && images < 128 * 3, "{references} {images}");
}

#[test]
fn validate_follows_references() {
    let side = Side::new(false);
    let pad = "v".repeat(500);
    side.insert("a", &[doc! { "_id": 1i32, "pad": pad.as_str() }]);
    let ns = Namespace::new("local", "oplog.rs").unwrap();
    let log = side.store.collection(&ns).unwrap().unwrap();
    assert_eq!(log.validate().unwrap().errors, Vec::<String>::new());
    let mut lost = WriteBatch::new();
    lost.delete(Table::Doc, &key(&side.collection("a"), 1));
    side.engine.apply(&lost, Durability::Buffered).unwrap();
    assert_eq!(log.validate().unwrap().errors.len(), 1);
}
