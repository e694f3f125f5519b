//! A writer that changes its own documents at random and tracks their state.

use model::{DocBuf, Value, doc};
use proof::Random;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Change, Collection};

/// Size of the number range of each writer.
const OWN: usize = 10_000_000;
/// Approximate limit of a writer's documents while it steps.
const STEP_DOCS: usize = 4000;

pub(crate) struct Writer {
    c: Arc<Collection>,
    random: Random,
    first: i32,
    /// The existing documents: unique key by id.
    there: BTreeMap<i32, i32>,
    /// Unique keys that are free again.
    free: Vec<i32>,
    next: i32,
}

impl Writer {
    pub(crate) fn new(c: &Arc<Collection>, number: usize, seed: u64) -> Writer {
        let first = (number * OWN) as i32;
        Writer {
            c: Arc::clone(c),
            random: Random::new(seed * 31 + number as u64),
            first,
            there: BTreeMap::new(),
            free: Vec::new(),
            next: first,
        }
    }

    /// The ids of its documents.
    pub(crate) fn ids(&self) -> impl Iterator<Item = i32> {
        self.there.keys().copied()
    }

    /// Inserts documents.
    pub(crate) fn fill(&mut self, number: usize) {
        for _ in 0..number.div_ceil(1000) {
            let count = number.min(1000);
            let docs: Vec<DocBuf> = (0..count).map(|_| self.fresh()).collect();
            self.insert(&docs);
        }
    }

    /// Makes one random change.
    pub(crate) fn step(&mut self) {
        let chosen = match self.there.len() {
            0 => None,
            n => self
                .there
                .keys()
                .nth(self.random.below(n.min(500)))
                .copied(),
        };
        match (self.random.below(10), chosen) {
            (0..=1, _) if self.there.len() < STEP_DOCS => {
                let fresh = self.fresh();
                self.insert(&[fresh]);
            }
            (2..=3, Some(id)) => self.delete(id),
            // Deletes a document and inserts it again with the same id.
            (4, Some(id)) => {
                self.delete(id);
                let u = self.unique();
                let doc = self.document(id, u);
                self.insert(&[doc]);
            }
            // With the same unique key, or a free one.
            (n, Some(id)) => {
                let old = self.there.get(&id).copied().unwrap_or(self.first);
                let u = if n < 8 { old } else { self.unique() };
                let new = self.document(id, u);
                self.modify(id, Some(&new));
                if u != old {
                    self.free.push(old);
                }
                self.there.insert(id, u);
            }
            _ => {}
        }
    }

    fn delete(&mut self, id: i32) {
        self.modify(id, None);
        self.free.extend(self.there.remove(&id));
    }

    fn insert(&mut self, docs: &[DocBuf]) {
        let views: Vec<_> = docs.iter().map(DocBuf::doc).collect();
        let done = self
            .c
            .writer(crate::test_operation())
            .insert(&views, true)
            .expect("inserted");
        assert_eq!(done.count, docs.len(), "{:?}", done.errors);
        for doc in docs {
            let field = |name: &str| doc.doc().field(name).as_f64().unwrap_or(0.0) as i32;
            self.there.insert(field("_id"), field("u"));
        }
    }

    fn modify(&self, id: i32, new: Option<&DocBuf>) {
        let mut key = Vec::new();
        self.c.record_key(&Value::Int32(id), &mut key);
        let change = &mut |_: model::Doc<'_>| {
            Ok(match new {
                Some(new) => Change::Replace(new.as_bytes().to_vec()),
                None => Change::Delete,
            })
        };
        self.c
            .writer(crate::test_operation())
            .modify(&key, change)
            .expect("changed");
    }

    /// A unique key that no document has.
    fn unique(&mut self) -> i32 {
        match self.free.len() {
            n if n > 0 && self.random.chance(70) => {
                let at = self.random.below(n);
                self.free.swap_remove(at)
            }
            _ => {
                self.next += 1;
                self.next
            }
        }
    }

    fn fresh(&mut self) -> DocBuf {
        let u = self.unique();
        self.next += 1;
        self.document(self.next, u)
    }

    fn document(&mut self, id: i32, u: i32) -> DocBuf {
        let n = |random: &mut Random, n| random.below(n) as i32;
        let random = &mut self.random;
        let (a, b) = (n(random, 40), n(random, 1 << 30));
        let name = format!("name {b}");
        let mut doc = doc! { "_id": id, "u": u, "b": b, "s": name.as_str() };
        match a {
            0..5 => {}
            5..10 => _ = doc.put("a", f64::from(a) + 0.5),
            _ => _ = doc.put("a", a),
        }
        if random.chance(50) {
            doc.put("us", u);
        }
        if random.chance(10) {
            let tags: Vec<i32> = (0..random.below(4)).map(|_| n(random, 5)).collect();
            doc.append(|w| {
                let mut list = w.array("tags");
                tags.iter().for_each(|t| _ = list.push(*t));
            });
        }
        if random.chance(30) {
            let place = [
                f64::from(n(random, 360) - 180),
                f64::from(n(random, 180) - 90),
            ];
            let place = doc! { "type": "Point", "coordinates": [place[0], place[1]] };
            doc.put("at", &place);
        }
        doc
    }
}
