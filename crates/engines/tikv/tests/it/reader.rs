//! Reading a database that another process holds: every acknowledged commit is there, announcements
//! arrive, a large write is seen completely or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine_tikv::{TikvEngine, TikvReader};
use storage::{Durability, Engine, Follower, Moment, Snapshot, StorageError, Table, WriteBatch};

use crate::tools::{config, key, open, pd, put};

fn moment(reader: &TikvReader) -> Moment {
    reader.moment().expect("a moment")
}

fn has(snapshot: &Arc<dyn Snapshot>, n: u32) -> bool {
    let mut value = Vec::new();
    let found = snapshot.get(Table::Doc, &key(n), &mut value);
    found.expect("a read")
}

fn note(engine: &TikvEngine, name: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.put(Table::Meta, name, b"value");
    engine
        .apply(&batch, Durability::Buffered)
        .expect("a commit");
}

#[test]
fn a_moment_has_what_was_acknowledged_and_tells_what_was_announced() {
    let Some(pd) = pd() else { return };
    let config = config(&pd);
    let engine = open(&config);
    engine.announce(|table, key| table == Table::Meta && key.starts_with(b"c"));
    let reader = TikvReader::connect(&config).expect("a reader");
    let mut before = moment(&reader);
    for n in 0..20 {
        put(&engine, n, b"value").expect("a write");
        let after = moment(&reader);
        assert!(has(&after.snapshot, n) && !has(&before.snapshot, n), "{n}");
        assert_eq!(
            after.announced, before.announced,
            "a document was announced"
        );
        before = after;
    }
    note(&engine, b"other");
    assert_eq!(moment(&reader).announced, before.announced);
    note(&engine, b"catalog");
    let noted = moment(&reader);
    assert_ne!(noted.announced, before.announced);
    engine.announce_now().expect("a commit");
    let told = moment(&reader);
    assert_ne!(told.announced, noted.announced);
    let refused = reader.apply(&WriteBatch::new(), Durability::Buffered);
    assert!(matches!(refused, Err(StorageError::ReadOnly { .. })));
    // First no server holds it, and then another one does.
    drop(engine);
    assert_eq!(moment(&reader).announced, told.announced);
    let next = open(&config);
    assert_ne!(moment(&reader).announced, told.announced);
    put(&next, 100, b"value").expect("a write");
    assert!(has(&moment(&reader).snapshot, 100));
}

#[test]
fn a_large_write_is_seen_whole_or_not_at_all() {
    const ROWS: u32 = 300;
    let Some(pd) = pd() else { return };
    let config = config(&pd);
    let engine = open(&config);
    let write = |round: u8| {
        let mut batch = WriteBatch::new();
        for n in 0..ROWS {
            batch.put(Table::Doc, &key(n), &vec![round; 20 << 10]);
        }
        engine
            .apply(&batch, Durability::Buffered)
            .expect("a commit");
    };
    write(0);
    let reader = TikvReader::connect(&config).expect("a reader");
    let written = AtomicBool::new(false);
    let (mut whole, mut parts) = (0, 0);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            (1..4).for_each(write);
            written.store(true, Ordering::SeqCst);
        });
        while !written.load(Ordering::SeqCst) {
            let Moment { snapshot, .. } = match reader.moment() {
                Ok(moment) => moment,
                Err(StorageError::Busy(_)) => {
                    parts += 1;
                    continue;
                }
                Err(e) => panic!("{e}"),
            };
            whole += 1;
            let rounds: Vec<u8> = [0, ROWS / 2, ROWS - 1]
                .into_iter()
                .map(|n| {
                    let mut value = Vec::new();
                    let found = snapshot.get(Table::Doc, &key(n), &mut value);
                    assert!(found.expect("a read"), "{n}");
                    value[0]
                })
                .collect();
            assert!(rounds.iter().all(|r| *r == rounds[0]), "{rounds:?}");
        }
    });
    assert!(whole > 0 && parts > 0, "{whole} whole, {parts} in parts");
}
