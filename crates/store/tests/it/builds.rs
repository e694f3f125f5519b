//! Unique builds while documents that share a key are changed; hashed entries of missing fields.

use crate::{collection, index};
use model::{DocBuf, Value, doc};
use std::sync::{Arc, Mutex};
use storage::observe::{Call, Observed, Observer};
use storage::{Caps, MemoryEngine, Table};
use store::{Change, NoHooks, Store};

type Job = Box<dyn FnOnce() + Send>;
/// Runs a job when the walk of a build opens its second step.
#[derive(Default)]
struct OnSecondKeyScan {
    count: Mutex<u32>,
    armed: Mutex<bool>,
    job: Mutex<Option<Job>>,
}
impl Observer for OnSecondKeyScan {
    fn before(&self, call: &Call<'_>, _: &Caps) -> storage::Result<()> {
        if let Call::Cursor {
            table: Table::Doc,
            opts,
            ..
        } = call
            && opts.keys_only
            && *self.armed.lock().unwrap()
        {
            let mut c = self.count.lock().unwrap();
            *c += 1;
            if *c == 2 {
                drop(c);
                if let Some(j) = self.job.lock().unwrap().take() {
                    j()
                }
            }
        }
        Ok(())
    }
}

/// The build has indexed 0 and not yet 99, which shares its key, when 99 is changed or deleted.
fn change_of_a_later_duplicate(change: fn() -> Change) {
    let engine = Arc::new(Observed::new(
        Arc::new(MemoryEngine::new()),
        OnSecondKeyScan::default(),
    ));
    let store = Store::open(engine.clone(), Arc::new(NoHooks)).unwrap();
    let c = collection(&store, "x");
    let docs: Vec<DocBuf> = (0..100i32)
        .map(|n| doc! { "_id": n, "k": if n == 99 { 0i32 } else { n } })
        .collect();
    let views: Vec<_> = docs.iter().map(|d| d.doc()).collect();
    assert_eq!(c.insert(&views, true).unwrap().count, 100);
    let other = c.clone();
    *engine.observer().job.lock().unwrap() = Some(Box::new(move || {
        let mut key = vec![];
        other.record_key(&Value::Int32(99), &mut key);
        other.modify(&key, &mut |_| Ok(change())).unwrap();
    }));
    *engine.observer().armed.lock().unwrap() = true;
    c.create_index(index("k", "k", true)).unwrap();
    assert!(
        engine.observer().job.lock().unwrap().is_none(),
        "the change did not happen during the build"
    );
    assert_eq!(c.validate().unwrap().errors, Vec::<String>::new());
    assert_eq!(
        c.insert(&[doc! { "_id": 500i32, "k": 0i32 }.doc()], true)
            .unwrap()
            .count,
        0
    );
}

#[test]
fn updating_a_later_duplicate_keeps_the_entry_of_the_first() {
    change_of_a_later_duplicate(|| {
        Change::Replace(doc! { "_id": 99i32, "k": 1000i32 }.into_bytes())
    });
}

#[test]
fn deleting_a_later_duplicate_keeps_the_entry_of_the_first() {
    change_of_a_later_duplicate(|| Change::Delete);
}

#[test]
fn hashed_entries_of_missing_fields_are_found_as_null() {
    let spec = doc! { "key": { "a": "hashed" }, "name": "a" };
    let i = store::Index::open(1, spec, true, 0, &NoHooks).unwrap();
    let (mut set, mut null) = (store::index::KeySet::default(), vec![]);
    i.keys_of(doc! { "b": 1i32 }.doc(), &mut set).unwrap();
    i.encode_bound(0, &Value::Null, &mut null);
    assert!(set.contains(&null));
}
