//! Directories that an engine creates, and those above: their names must be durable before a commit
//! is reported as durable.

use crate::check::{OpenFn, folder};
use crate::recorder;
use proof::Event;
use storage::{Durability, Table, WriteBatch};

/// Opens an engine two directories below an existing one, and commits.
pub(crate) fn check(engine: &str, open: OpenFn) {
    let folder = folder();
    recorder::begin(folder.path());
    let opened = open(&folder.path().join("new/data")).expect("a new directory");
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, b"\0\0\0\x01key", b"value");
    let committed = opened.apply(&batch, Durability::Journaled);
    let events = recorder::end();
    committed.expect("a commit");
    opened.close().expect("closed");
    let mut made = 0;
    for (at, event) in events.iter().enumerate() {
        let Event::MakeDirectory { path } = event else {
            continue;
        };
        made += 1;
        let above = path.rsplit_once('/').map_or("", |(above, _)| above);
        let is_sync = |e: &Event| matches!(e, Event::SyncNames { directory } if directory == above);
        let later = events.get(at..).unwrap_or_default();
        assert!(
            later.iter().any(is_sync),
            "{engine}: the name of {path} is not synced"
        );
    }
    assert!(made >= 2, "{engine}: {events:?}");
}
