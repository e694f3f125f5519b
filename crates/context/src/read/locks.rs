//! Locks in MongoDB's format: the modes in which operations lock the server, a database and a
//! collection, and the waits for documents that others have locked.
//!
//! Readers take no locks here: they are shown as `r`, which excludes no other operation. Writers of
//! a collection are shown as `w`, and changes of its definition as `W`.
//! Must not know: which commands exist.

use crate::read::stats::to_signed;
use model::DocWriter;
use request::spec::{CommandCounters, CommandTable, OpClass, flag};
use state::counters::Counters;
use std::sync::atomic::Ordering::Relaxed;

/// The lock modes of an operation: on the server and the database, and on the collection. `None`
/// when it locks none of them.
fn modes(row: &CommandCounters) -> Option<(&'static str, &'static str)> {
    let writes = row.command.is(flag::WRITE);
    let documents = !matches!(
        row.command.class,
        OpClass::Query | OpClass::GetMore | OpClass::Command
    );
    match (row.names_collection(), writes) {
        _ if documents => Some(("w", "w")),
        (true, true) if row.command.is(flag::RETRYABLE) => Some(("w", "w")),
        (true, true) => Some(("w", "W")),
        (true, false) => Some(("r", "r")),
        (false, _) => None,
    }
}

/// Writes the locks of one operation of this command, which waited this long for locked documents.
pub fn write_of_one(row: &CommandCounters, waited_us: u64, w: &mut DocWriter<'_>) {
    if let Some((outer, inner)) = modes(row) {
        for (resource, mode) in [
            ("Global", outer),
            ("Database", outer),
            ("Collection", inner),
        ] {
            w.doc(resource).doc("acquireCount").put(mode, 1i64);
        }
    }
    if waited_us > 0 {
        w.doc("Document")
            .doc("timeAcquiringMicros")
            .put("w", to_signed(waited_us));
    }
}

/// Writes the locks of all operations since the start.
pub fn write_of_all(commands: &CommandTable, counters: &Counters, w: &mut DocWriter<'_>) {
    let mut outer = [("r", 0i64), ("w", 0)];
    let mut inner = [("r", 0i64), ("w", 0), ("W", 0)];
    for row in commands.all() {
        let Some((server, collection)) = modes(row) else {
            continue;
        };
        let total = row.total();
        let add = |(mode, n): &mut (&str, i64), of: &str| {
            if *mode == of {
                *n += total;
            }
        };
        outer.iter_mut().for_each(|one| add(one, server));
        inner.iter_mut().for_each(|one| add(one, collection));
    }
    let resources: [(&str, &[(&str, i64)]); 3] = [
        ("Global", &outer),
        ("Database", &outer),
        ("Collection", &inner),
    ];
    for (resource, counts) in resources {
        let mut one = w.doc(resource);
        let mut acquired = one.doc("acquireCount");
        for (mode, n) in counts {
            acquired.put(mode, *n);
        }
    }
    let mut document = w.doc("Document");
    let waits = counters.lock_waits.load(Relaxed);
    document.doc("acquireWaitCount").put("w", waits);
    let waited_us = counters.lock_waited_us.load(Relaxed);
    document.doc("timeAcquiringMicros").put("w", waited_us);
}
