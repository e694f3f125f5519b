//! Runs the conformance suite on the memory engine, which is the model of the contract.

use std::sync::Arc;

use storage::conformance::{self, Factory};
use storage::{
    CommitPos, CursorOpts, Durability, Engine, KeyRange, MemoryEngine, Reader, StorageError, Table,
    Unit, WriteBatch,
};

struct Memory;

impl Factory for Memory {
    fn fresh(&self) -> Arc<dyn Engine> {
        Arc::new(MemoryEngine::new())
    }

    fn reopen(&self) -> Option<Arc<dyn Engine>> {
        None
    }

    fn rewrite(&self, _engine: &dyn Engine) {}
}

#[test]
fn memory_engine_keeps_the_contract() {
    conformance::run(&Memory, 1);
}

/// The same factory with engines whose units detect conflicts.
struct CheckedFactory;

impl Factory for CheckedFactory {
    fn fresh(&self) -> Arc<dyn Engine> {
        Arc::new(MemoryEngine::new_checked())
    }

    fn reopen(&self) -> Option<Arc<dyn Engine>> {
        None
    }

    fn rewrite(&self, _engine: &dyn Engine) {}
}

#[test]
fn memory_engine_of_several_stores_keeps_the_contract() {
    conformance::run(&CheckedFactory, 2);
}

fn batch(key: &[u8], value: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, key, value);
    batch
}

/// The read that a unit does before another writer commits.
type ReadFn = fn(&dyn Reader);

const LOOKS: [ReadFn; 4] = [
    |reader| assert!(reader.get(Table::Doc, b"there", &mut Vec::new()).unwrap()),
    |reader| assert!(!reader.get(Table::Doc, b"new", &mut Vec::new()).unwrap()),
    |reader| {
        let keys: [&[u8]; 2] = [b"new", b"other"];
        reader.multi_get(Table::Doc, &keys, &mut |_, _| {}).unwrap();
    },
    |reader| {
        let range = KeyRange::new(b"n", b"o");
        drop(
            reader
                .cursor(Table::Doc, range, Default::default())
                .unwrap(),
        );
    },
];

#[test]
fn a_unit_whose_reads_were_changed_conflicts_and_applies_nothing() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new_checked());
    let apply = |key: &[u8], value: &[u8]| {
        engine
            .apply(&batch(key, value), Durability::Buffered)
            .unwrap();
    };
    for (n, look) in LOOKS.into_iter().enumerate() {
        let mut reset = WriteBatch::new();
        reset.delete(Table::Doc, b"new");
        reset.delete(Table::Doc, b"own");
        reset.put(Table::Doc, b"there", b"1");
        engine.apply(&reset, Durability::Buffered).unwrap();
        for (written, conflicts) in [("there", n == 0), ("new", n > 0), ("elsewhere", false)] {
            let unit = engine.begin().unwrap();
            assert!(unit.is_checked());
            look(&unit);
            apply(written.as_bytes(), b"rival");
            // The unit reads the state at its beginning.
            look(&unit);
            let committed = unit.commit(&batch(b"own", b"mine"), Durability::Buffered);
            let there = engine.get(Table::Doc, b"own", &mut Vec::new()).unwrap();
            assert_eq!(there, !conflicts, "{n}, {written}");
            match committed {
                Ok(pos) => assert_eq!(pos, engine.last_pos()),
                Err(e) => assert!(matches!(e, StorageError::Conflict), "{e}"),
            }
            engine.apply(&reset, Durability::Buffered).unwrap();
        }
    }
}

#[test]
fn units_in_progress_conflict_with_an_exclusive_commit() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new_checked());
    let commit = |unit: Unit<'_>, key: &[u8]| unit.commit(&batch(key, b"1"), Durability::Buffered);
    let before = engine.begin().unwrap();
    let exclusive = engine.begin_exclusive().unwrap().unwrap();
    let at = exclusive
        .commit(&batch(b"catalog", b"1"), Durability::Buffered)
        .unwrap();
    assert!(matches!(
        commit(before, b"own"),
        Err(StorageError::Conflict)
    ));
    assert_eq!(engine.last_pos(), at);
    commit(engine.begin().unwrap(), b"own").unwrap();
    // One that fails makes nobody conflict.
    let exclusive = engine.begin_exclusive().unwrap().unwrap();
    assert!(exclusive.get(Table::Doc, b"own", &mut Vec::new()).unwrap());
    let before = engine.begin().unwrap();
    commit(engine.begin().unwrap(), b"own2").unwrap();
    engine
        .apply(&batch(b"own", b"2"), Durability::Buffered)
        .unwrap();
    let refused = exclusive.commit(&batch(b"catalog", b"2"), Durability::Buffered);
    assert!(matches!(refused, Err(StorageError::Conflict)));
    commit(before, b"own3").unwrap();
}

#[test]
fn an_exclusive_unit_conflicts_when_a_range_that_it_has_read_changes() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new_checked());
    let count = |unit: &dyn Reader| {
        let (mut rows, opts) = (0, CursorOpts::default());
        let mut cursor = unit.cursor(Table::Doc, KeyRange::ALL, opts).unwrap();
        let each = &mut |_: &[u8], _: &[u8]| {
            rows += 1;
            true
        };
        while cursor.visit(10, each).unwrap() {}
        rows
    };
    let before = engine.begin().unwrap();
    let exclusive = engine.begin_exclusive().unwrap().unwrap();
    assert_eq!(count(&*exclusive), 0);
    before
        .commit(&batch(b"own", b"1"), Durability::Buffered)
        .unwrap();
    let refused = exclusive.commit(&batch(b"catalog", b"1"), Durability::Buffered);
    assert!(matches!(refused, Err(StorageError::Conflict)));
    let exclusive = engine.begin_exclusive().unwrap().unwrap();
    assert_eq!(count(&*exclusive), 1);
    exclusive
        .commit(&batch(b"catalog", b"1"), Durability::Buffered)
        .unwrap();
}

#[test]
fn a_unit_with_locks_reads_the_latest_state() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let unit = engine.begin().unwrap();
    assert!(!unit.is_checked());
    engine
        .apply(&batch(b"k", b"1"), Durability::Buffered)
        .unwrap();
    assert!(unit.get(Table::Doc, b"k", &mut Vec::new()).unwrap());
    let pos = unit
        .commit(&batch(b"k", b"2"), Durability::Buffered)
        .unwrap();
    assert_eq!(pos, engine.last_pos());
}

#[test]
fn the_position_of_a_commit_is_a_time_and_is_found_again() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new_checked());
    let put = |value: &[u8]| {
        let before = engine.last_pos();
        let mut batch = WriteBatch::new();
        batch.put(Table::Log, b"\0\0\0\x01k", value);
        let unit = engine.begin().unwrap();
        let pos = unit.commit(&batch, Durability::Buffered).unwrap();
        assert!(pos > before, "{pos:?} after {before:?}");
        (before, pos)
    };
    let written_at = |after| {
        engine
            .written_at(Table::Log, b"\0\0\0\x01k", after)
            .unwrap()
    };
    assert_eq!(written_at(CommitPos(0)), None);
    let since = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    for value in [&b"1"[..], b"2", b"3"] {
        let (before, pos) = put(value);
        assert!(pos.0 >> 18 >= since, "{pos:?} is no time");
        let snapshot = engine.snapshot().unwrap();
        assert_eq!((written_at(before), snapshot.pos()), (Some(pos), pos));
    }
    let mut batch = WriteBatch::new();
    batch.delete(Table::Log, b"\0\0\0\x01k");
    engine.apply(&batch, Durability::Buffered).unwrap();
    assert_eq!(written_at(CommitPos(0)), None);
    batch.take_positions(1024);
    for _ in 0..500 {
        let before = engine.last_pos().0;
        let unit = engine.begin().unwrap();
        let pos = unit.commit(&batch, Durability::Buffered).unwrap().0;
        assert!(pos - 1023 > before, "{pos} after {before}");
        assert_eq!(pos >> 18, (pos - 1023) >> 18, "of one millisecond");
    }
    let alone = MemoryEngine::new();
    assert_eq!(
        alone.apply(&batch, Durability::Buffered).unwrap(),
        CommitPos(1)
    );
}
