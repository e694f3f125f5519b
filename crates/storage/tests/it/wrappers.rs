//! The test engines: observed, mirrored, broken on purpose.

use std::sync::Arc;

use storage::conformance::{self, Factory};
use storage::{
    Contract, CursorOpts, Durability, Engine, Fault, FaultInjector, KeyRange, MemoryEngine, Mirror,
    ObservedEngine, Reader, Recorder, StorageError, Table, WriteBatch,
};

struct EngineFactory(fn() -> Arc<dyn Engine>);

impl Factory for EngineFactory {
    fn fresh(&self) -> Arc<dyn Engine> {
        (self.0)()
    }

    fn reopen(&self) -> Option<Arc<dyn Engine>> {
        None
    }

    fn rewrite(&self, _engine: &dyn Engine) {}
}

fn memory() -> Arc<dyn Engine> {
    Arc::new(MemoryEngine::new())
}

fn batch(key: &[u8], value: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, key, value);
    batch
}

#[test]
fn contract_checker_and_mirror_keep_the_contract() {
    conformance::run(
        &EngineFactory(|| Arc::new(ObservedEngine::new(memory(), Contract::default()))),
        2,
    );
    conformance::run(
        &EngineFactory(|| Arc::new(Mirror::new(memory(), memory()))),
        3,
    );
}

#[test]
fn contract_checker_refuses_bad_arguments() {
    let engine = ObservedEngine::new(memory(), Contract::default());
    let long = vec![b'k'; (64 << 20) + 1];
    for key in [&b""[..], b"abc", &[0xFF; 4], &long] {
        assert!(
            engine
                .apply(&batch(key, b"v"), Durability::Buffered)
                .is_err(),
            "{} bytes",
            key.len()
        );
        assert!(engine.get(Table::Doc, key, &mut Vec::new()).is_err());
    }
    let mut counter = WriteBatch::new();
    counter.add(Table::Doc, b"\0\0\0\x01n", [1, 1]);
    assert!(matches!(
        engine.apply(&counter, Durability::Buffered),
        Err(StorageError::Contract(_))
    ));
    assert!(
        engine
            .apply(&batch(b"\0\0\0\x01k", b"v"), Durability::Buffered)
            .is_ok()
    );
    assert!(engine.observer().last_pos().0 > 0);
}

#[test]
fn recorder_writes_what_was_written() {
    let engine = ObservedEngine::new(memory(), Recorder::default());
    let mut changes = batch(b"\0\0\0\x01k", b"v");
    changes.delete(Table::Idx, b"\0\0\0\x02");
    changes.add(Table::Meta, b"n", [1, -2]);
    engine.apply(&changes, Durability::Journaled).unwrap();
    engine
        .drop_range(Table::Doc, KeyRange::new(b"a", b"b"))
        .unwrap();
    engine
        .get(Table::Doc, b"\0\0\0\x01k", &mut Vec::new())
        .unwrap();
    engine
        .multi_get(Table::Doc, &[b"a", b"b"], &mut |_, _| {})
        .unwrap();
    let text: String = engine
        .observer()
        .take()
        .iter()
        .map(storage::RecordedChange::to_text)
        .collect();
    assert_eq!(
        text,
        "apply Journaled\n  put doc 000000016b = 76\n  delete idx 00000002\n  add meta 6e + [1, \
            -2]\ndrop doc 61..62\n"
    );
    assert_eq!(engine.observer().reads(), [1, 2, 0, 0]);
    assert!(engine.observer().take().is_empty());
}

#[test]
fn faults_strike_where_planned() {
    let engine = ObservedEngine::new(memory(), FaultInjector::default());
    let fault = |after_calls, lasting, work_is_done| Fault {
        after_calls,
        error: StorageError::Full {
            context: "planned".to_owned(),
        },
        lasting,
        work_is_done,
        writes_only: true,
    };
    let put = |key: &[u8]| engine.apply(&batch(key, b"v"), Durability::Buffered);
    engine.observer().plan(Some(fault(1, false, false)));
    assert!(
        put(b"\0\0\0\x01a").is_ok() && put(b"\0\0\0\x01b").is_err() && put(b"\0\0\0\x01c").is_ok()
    );
    engine.observer().plan(Some(fault(0, true, true)));
    assert!(put(b"\0\0\0\x01d").is_err() && put(b"\0\0\0\x01e").is_err());
    engine.observer().plan(None);
    let mut keys = Vec::new();
    let mut cursor = engine
        .cursor(Table::Doc, KeyRange::ALL, CursorOpts::default())
        .unwrap();
    cursor
        .visit(10, &mut |key, _| {
            keys.push(key[4]);
            true
        })
        .unwrap();
    assert_eq!(
        keys, b"acde",
        "a refused write leaves nothing, a lost answer leaves its work"
    );
}

#[test]
#[should_panic(expected = "differs")]
fn mirror_notices_a_difference() {
    let (first, second) = (memory(), memory());
    first
        .apply(&batch(b"\0\0\0\x01k", b"1"), Durability::Buffered)
        .unwrap();
    second
        .apply(&batch(b"\0\0\0\x01k", b"2"), Durability::Buffered)
        .unwrap();
    let _ = Mirror::new(first, second).compare_all();
}
