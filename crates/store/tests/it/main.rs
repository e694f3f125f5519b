//! The store over the memory engine: a random history against a model, uniqueness under races,
//! builds during writes, drops, renames, reopening.

mod builds;
mod capped;
mod consumers;
mod covered;
mod drops;
mod following;
mod history;
mod joined;
mod joined_capped;
mod joined_catalog;
mod joined_log;
mod joined_series;
mod log;
mod mended;
mod names;
mod on_disk;
mod peers;
mod references;
mod regressions;
mod repairs;
mod schema;
mod series;
mod several_stores;
mod uncommitted;

use model::{DocBuf, Namespace, doc};
use operation::{Operation, SystemClock};
use std::sync::{Arc, LazyLock};
use storage::MemoryEngine;
use store::ReadView;
use store::{Collection, NoHooks, Store};

/// The operation for all writes: nothing interrupts it.
fn test_operation() -> &'static Operation {
    static OPERATION: LazyLock<Operation> =
        LazyLock::new(|| Operation::new_detached(Arc::new(SystemClock::default())));
    &OPERATION
}

fn open(engine: &Arc<MemoryEngine>) -> Store {
    Store::open(engine.clone(), Arc::new(NoHooks)).unwrap()
}

fn collection(store: &Store, name: &str) -> Arc<Collection> {
    let ns = Namespace::new("db", name).unwrap();
    store
        .writer(test_operation())
        .create_collection(&ns, DocBuf::new(), [7; 16])
        .unwrap()
}

fn index(name: &str, path: &str, unique: bool) -> DocBuf {
    doc! { "v": 2i32, "key": { path: 1i32 }, "name": name, "unique": unique }
}

/// All documents in natural order.
fn dump(c: &Arc<Collection>, reverse: bool) -> Vec<DocBuf> {
    let mut out = Vec::new();
    let mut scan = c.scan(&ReadView::LATEST, reverse);
    while scan
        .visit(3, &mut |row| {
            out.push(row.doc.to_buf());
            true
        })
        .unwrap()
    {
        scan.pause();
    }
    out
}
