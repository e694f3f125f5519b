//! Single keys, batches, limits, drops, reopening.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::tools::{Factory, get, key, put, scan_keys};
use crate::batch::{WriteBatch, counter_decode, counter_encode};
use crate::engine::{CommitPos, CursorOpts, Durability, Engine};
use crate::error::StorageError;
use crate::keys::{IdentSet, KeyRange, Table};

pub(super) fn get_put_delete(engine: &dyn Engine) {
    let k = key(1, "a");
    assert_eq!(get(engine, Table::Doc, &k), None);
    put(engine, Table::Doc, &[(&k, b"1")]);
    assert_eq!(get(engine, Table::Doc, &k).as_deref(), Some(&b"1"[..]));
    put(engine, Table::Doc, &[(&k, b"2")]);
    assert_eq!(get(engine, Table::Doc, &k).as_deref(), Some(&b"2"[..]));
    let mut batch = WriteBatch::new();
    batch.delete(Table::Doc, &k);
    batch.delete(Table::Doc, &key(1, "never there"));
    engine.apply(&batch, Durability::Buffered).unwrap();
    assert_eq!(get(engine, Table::Doc, &k), None);
}

pub(super) fn tables_are_separate(engine: &dyn Engine) {
    let k = key(7, "same");
    let mut batch = WriteBatch::new();
    for table in Table::ALL {
        batch.put(table, &k, table.name().as_bytes());
    }
    engine.apply(&batch, Durability::Buffered).unwrap();
    for table in Table::ALL {
        assert_eq!(
            get(engine, table, &k).as_deref(),
            Some(table.name().as_bytes())
        );
    }
}

pub(super) fn value_sizes(engine: &dyn Engine) {
    for len in [0usize, 1, 511, 512, 513, 70_000, 17 << 20] {
        let value: Vec<u8> = (0..len).map(|i| (i * 31 + len) as u8).collect();
        let k = key(1, &len.to_string());
        put(engine, Table::Doc, &[(&k, &value)]);
        assert!(
            get(engine, Table::Doc, &k) == Some(value),
            "{len} bytes come back"
        );
    }
    engine.flush().unwrap();
    assert_eq!(
        get(engine, Table::Doc, &key(1, "0")).as_deref(),
        Some(&b""[..]),
        "an empty value is a value"
    );
}

pub(super) fn operations_in_order(engine: &dyn Engine) {
    let k = key(1, "k");
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, &k, b"1");
    batch.delete(Table::Doc, &k);
    batch.put(Table::Doc, &k, b"2");
    batch.put(Table::Idx, &k, b"3");
    batch.delete(Table::Idx, &k);
    engine.apply(&batch, Durability::Buffered).unwrap();
    assert_eq!(get(engine, Table::Doc, &k).as_deref(), Some(&b"2"[..]));
    assert_eq!(get(engine, Table::Idx, &k), None);
}

pub(super) fn counters(engine: &dyn Engine) {
    let pair = |k: &[u8]| get(engine, Table::Meta, k).map(|value| counter_decode(&value));
    let mut batch = WriteBatch::new();
    for _ in 0..3 {
        batch.add(Table::Meta, b"n|1", [1, 100]);
    }
    engine.apply(&batch, Durability::Buffered).unwrap();
    assert_eq!(pair(b"n|1"), Some([3, 300]));
    for _ in 0..100 {
        batch.clear();
        batch.add(Table::Meta, b"n|1", [-1, -7]);
        engine.apply(&batch, Durability::Buffered).unwrap();
    }
    assert_eq!(pair(b"n|1"), Some([-97, -400]));
    engine.flush().unwrap();
    batch.clear();
    batch.add(Table::Meta, b"n|1", [97, 400]);
    // A put replaces what was added before it, and is added to after it.
    batch.put(Table::Meta, b"n|2", &counter_encode([5, 5]));
    batch.add(Table::Meta, b"n|2", [1, 1]);
    // Malformed bytes count as zero.
    batch.put(Table::Meta, b"n|3", b"not a counter");
    batch.add(Table::Meta, b"n|3", [2, 2]);
    batch.add(Table::Meta, b"n|4", [i64::MAX, 1]);
    batch.add(Table::Meta, b"n|4", [1, 1]);
    engine.apply(&batch, Durability::Buffered).unwrap();
    assert_eq!(pair(b"n|1"), Some([0, 0]));
    assert_eq!(pair(b"n|2"), Some([6, 6]));
    assert_eq!(pair(b"n|3"), Some([2, 2]));
    assert_eq!(pair(b"n|4"), Some([i64::MIN, 2]), "sums wrap");
    let keys = scan_keys(engine, Table::Meta, KeyRange::ALL);
    assert_eq!(keys, [b"n|1", b"n|2", b"n|3", b"n|4"]);
}

pub(super) fn multi_get(engine: &dyn Engine) {
    let rows: Vec<(Vec<u8>, Vec<u8>)> = (0..200u32)
        .map(|i| (key(1, &format!("{i:04}")), i.to_le_bytes().to_vec()))
        .collect();
    let refs: Vec<(&[u8], &[u8])> = rows
        .iter()
        .step_by(2)
        .map(|(k, v)| (&k[..], &v[..]))
        .collect();
    put(engine, Table::Doc, &refs);
    let snapshot = engine.snapshot().unwrap();
    for count in [0usize, 1, 63, 64, 65, 200] {
        // Backwards, so nothing may rely on sorted input; one key twice.
        let mut keys: Vec<&[u8]> = rows.iter().take(count).rev().map(|(k, _)| &k[..]).collect();
        keys.extend(keys.first().copied());
        for reader in [engine as &dyn crate::Reader, &*snapshot] {
            let mut next = 0;
            let each = &mut |index: usize, value: Option<&[u8]>| {
                assert_eq!(index, next, "answers come in the order of the keys");
                next += 1;
                let row = rows.iter().position(|(k, _)| k == keys[index]).unwrap();
                let expected = row.is_multiple_of(2).then(|| rows[row].1.as_slice());
                assert_eq!(value, expected, "row {row}");
            };
            reader.multi_get(Table::Doc, &keys, each).unwrap();
            assert_eq!(next, keys.len(), "every key is answered");
        }
    }
}

pub(super) fn delete_range(engine: &dyn Engine) {
    if !engine.caps().delete_range {
        return;
    }
    let keys = ["a", "b", "c", "d"].map(|body| key(1, body));
    for k in &keys {
        put(engine, Table::Doc, &[(k, b"x")]);
    }
    let snapshot = engine.snapshot().unwrap();
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, &key(1, "bb"), b"x");
    batch.delete_range(Table::Doc, &keys[1], &keys[3]);
    batch.put(Table::Doc, &key(1, "cc"), b"x");
    batch.delete_range(Table::Doc, &keys[3], &keys[0]);
    engine.apply(&batch, Durability::Buffered).unwrap();
    assert_eq!(
        scan_keys(engine, Table::Doc, KeyRange::ALL),
        [key(1, "a"), key(1, "cc"), key(1, "d")]
    );
    assert_eq!(get(engine, Table::Doc, &keys[1]), None);
    assert_eq!(scan_keys(&*snapshot, Table::Doc, KeyRange::ALL), keys);
}

pub(super) fn limits(engine: &dyn Engine) {
    let out_of_bounds = KeyRange::new(b"a", &[0xFF; 5]);
    let refused = engine.cursor(Table::Doc, out_of_bounds, CursorOpts::default());
    assert!(matches!(refused.err(), Some(StorageError::Contract(_))));
    assert!(matches!(
        engine.drop_range(Table::Doc, out_of_bounds),
        Err(StorageError::Contract(_))
    ));
    let max = engine.caps().batch_bytes_max;
    if max <= 256 << 20 {
        let mut batch = WriteBatch::new();
        let piece = vec![0u8; 32 << 20];
        while batch.byte_len() <= max {
            batch.put(Table::Doc, &key(1, "big"), &piece);
        }
        assert!(matches!(
            engine.apply(&batch, Durability::Buffered),
            Err(StorageError::TooLarge { .. })
        ));
        assert_eq!(get(engine, Table::Doc, &key(1, "big")), None);
    }
    let longest = engine.caps().key_bytes_max;
    let mut long = key(1, "long");
    long.resize(longest, b'x');
    put(engine, Table::Idx, &[(&long, b"v")]);
    assert_eq!(get(engine, Table::Idx, &long).as_deref(), Some(&b"v"[..]));
    assert_eq!(scan_keys(engine, Table::Idx, KeyRange::ALL), [long.clone()]);
    long.push(b'x');
    let mut batch = WriteBatch::new();
    batch.put(Table::Idx, &long, b"v");
    assert!(matches!(
        engine.apply(&batch, Durability::Buffered),
        Err(StorageError::KeyTooLong { .. })
    ));
    // Empty and inverted ranges are legal and empty.
    put(engine, Table::Doc, &[(&key(1, "m"), b"x")]);
    for range in [
        KeyRange::new(b"z", b"a"),
        KeyRange::new(b"a", b"a"),
        KeyRange::new(b"", b""),
    ] {
        assert!(scan_keys(engine, Table::Doc, range).is_empty());
        assert_eq!(engine.approx_size(Table::Doc, range).unwrap(), 0);
        engine.drop_range(Table::Doc, range).unwrap();
    }
    assert!(get(engine, Table::Doc, &key(1, "m")).is_some());
}

pub(super) fn positions(engine: &dyn Engine) {
    let mut last = CommitPos(0);
    let mut batch = WriteBatch::new();
    for i in 0..20u32 {
        batch.clear();
        batch.put(Table::Doc, &i.to_be_bytes(), b"x");
        let pos = engine.apply(&batch, Durability::Buffered).unwrap();
        assert!(pos > last, "{pos:?} follows {last:?}");
        last = pos;
    }
    let pos = engine.apply(&batch, Durability::Journaled).unwrap();
    assert!(
        engine.durable_pos() >= pos,
        "a journaled commit is durable when apply returns"
    );
    assert!(engine.snapshot().unwrap().pos() >= pos);
    engine.wait_durable(last).unwrap();
    batch.clear();
    assert!(
        engine.apply(&batch, Durability::Buffered).unwrap() >= pos,
        "an empty batch is fine"
    );
}

pub(super) fn last_pos(engine: &dyn Engine) {
    let mut batch = WriteBatch::new();
    let mut last = engine.last_pos();
    for i in 0..20u32 {
        batch.clear();
        batch.put(Table::Doc, &i.to_be_bytes(), b"x");
        let pos = engine.apply(&batch, Durability::Buffered).unwrap();
        assert!(engine.last_pos() > last, "a commit moves the last position");
        last = engine.last_pos();
        assert_eq!(
            last, pos,
            "nobody else commits: the last position is this commit's"
        );
        assert!(
            engine.durable_pos() <= last,
            "nothing is durable that was not committed"
        );
        assert_eq!(engine.snapshot().unwrap().pos(), last);
    }
    assert_eq!(engine.last_pos(), last, "reading moves nothing");
    engine.wait_durable(last).unwrap();
    assert!(engine.durable_pos() >= last);
}

pub(super) fn check_closed(engine: &dyn Engine) {
    put(engine, Table::Doc, &[(&key(1, "a"), b"x")]);
    engine.close().unwrap();
    engine.close().unwrap();
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, &key(1, "b"), b"x");
    assert!(matches!(
        engine.apply(&batch, Durability::Buffered),
        Err(StorageError::Closed)
    ));
    assert!(matches!(
        engine.get(Table::Doc, &key(1, "k"), &mut Vec::new()),
        Err(StorageError::Closed)
    ));
    assert!(matches!(
        engine.snapshot().err(),
        Some(StorageError::Closed)
    ));
    assert!(
        engine
            .cursor(Table::Doc, KeyRange::ALL, CursorOpts::default())
            .is_err()
    );
}

pub(super) fn check_dropped_idents(factory: &dyn Factory) {
    let engine = factory.fresh();
    for ident in 1..=5u32 {
        for i in 0..50 {
            put(
                &*engine,
                Table::Doc,
                &[(&key(ident, &i.to_string()), b"value")],
            );
        }
    }
    engine.flush().unwrap();
    engine.set_dropped(
        Table::Doc,
        Arc::new([2, 4].into_iter().collect::<IdentSet>()),
    );
    factory.rewrite(&*engine);
    for ident in 1..=5u32 {
        let gone = engine.is_gone(Table::Doc, ident).unwrap();
        assert_eq!(
            gone,
            ident % 2 == 0,
            "is_gone tells whether keys of ident {ident} are left"
        );
    }
    let left = scan_keys(&*engine, Table::Doc, KeyRange::ALL);
    let mut idents: Vec<u8> = left.iter().map(|key| key[3]).collect();
    idents.dedup();
    assert_eq!(
        idents,
        [1, 3, 5],
        "dropped idents are gone, the others are not"
    );
    assert_eq!(left.len(), 150);
    engine.set_dropped(Table::Doc, Arc::default());
    put(&*engine, Table::Doc, &[(&key(2, "again"), b"x")]);
    engine.flush().unwrap();
    factory.rewrite(&*engine);
    assert!(
        get(&*engine, Table::Doc, &key(2, "again")).is_some(),
        "an ident no longer in the set is kept"
    );
}

pub(super) fn drop_range(engine: &dyn Engine) {
    for ident in 1..=3u32 {
        for i in 0..500 {
            put(
                engine,
                Table::Doc,
                &[(&key(ident, &format!("{i:03}")), &[7; 100])],
            );
        }
        engine.flush().unwrap();
    }
    let (lower, upper) = (2u32.to_be_bytes(), 3u32.to_be_bytes());
    engine
        .drop_range(Table::Doc, KeyRange::new(&lower, &upper))
        .unwrap();
    for ident in [1u32, 3] {
        let (from, to) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
        assert_eq!(
            scan_keys(engine, Table::Doc, KeyRange::new(&from, &to)).len(),
            500,
            "ident {ident} is untouched"
        );
    }
}

pub(super) fn compact(engine: &dyn Engine) {
    for ident in 1..=3u32 {
        for i in 0..500 {
            let row = [7; 100];
            put(
                engine,
                Table::Doc,
                &[(&key(ident, &format!("{i:03}")), &row)],
            );
        }
        engine.flush().unwrap();
    }
    let before = engine.snapshot().unwrap();
    let mut batch = WriteBatch::new();
    for i in (0..500).filter(|i| i % 5 > 0) {
        batch.delete(Table::Doc, &key(2, &format!("{i:03}")));
    }
    engine.apply(&batch, Durability::Buffered).unwrap();
    engine.flush().unwrap();
    let (lower, upper) = (2u32.to_be_bytes(), 3u32.to_be_bytes());
    let range = KeyRange::new(&lower, &upper);
    for stop in [true, false] {
        for rows in [Some(100), None] {
            let unused = engine.unused_size(Table::Doc, range, rows).unwrap();
            assert!(unused < 10 << 20, "{unused} bytes of three times 50,000");
        }
        engine.compact(Table::Doc, range, &|| stop).unwrap();
        let rows = |ident: u32| {
            let (from, to) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
            scan_keys(engine, Table::Doc, KeyRange::new(&from, &to)).len()
        };
        assert_eq!([rows(1), rows(2), rows(3)], [500, 100, 500]);
    }
    let mut seen = false;
    let look = &mut |value: &[u8]| seen = value == [7; 100];
    assert!(before.get_with(Table::Doc, &key(2, "001"), look).unwrap());
    assert!(seen, "a snapshot keeps what was deleted after it");
    let empty = KeyRange::new(b"z", b"a");
    assert_eq!(engine.unused_size(Table::Doc, empty, None).unwrap(), 0);
    engine.compact(Table::Doc, empty, &|| false).unwrap();
}

pub(super) fn reopen(factory: &dyn Factory) {
    let engine = factory.fresh();
    put(&*engine, Table::Doc, &[(&key(1, "flushed"), b"1")]);
    engine.flush().unwrap();
    put(&*engine, Table::Tmp, &[(&key(1, "scratch"), b"1")]);
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, &key(1, "journaled"), b"2");
    batch.add(Table::Meta, b"n|1", [1, 10]);
    engine.apply(&batch, Durability::Journaled).unwrap();
    engine.apply(&batch, Durability::Buffered).unwrap();
    engine.close().unwrap();
    drop(engine);
    let Some(engine) = factory.reopen() else {
        return;
    };
    assert_eq!(
        get(&*engine, Table::Doc, &key(1, "flushed")).as_deref(),
        Some(&b"1"[..])
    );
    assert_eq!(
        get(&*engine, Table::Doc, &key(1, "journaled")).as_deref(),
        Some(&b"2"[..])
    );
    assert_eq!(
        counter_decode(&get(&*engine, Table::Meta, b"n|1").unwrap()),
        [2, 20]
    );
    assert_eq!(
        get(&*engine, Table::Tmp, &key(1, "scratch")),
        None,
        "scratch is emptied at open"
    );
    assert!(engine.verify().unwrap().findings.is_empty());
    engine.close().unwrap();
}

pub(super) fn checkpoint(engine: &dyn Engine) {
    let here = std::env::temp_dir();
    assert!(
        engine.checkpoint(&here).is_err(),
        "an existing directory is refused, or the engine cannot do it"
    );
    static COPIES: AtomicU64 = AtomicU64::new(0);
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let copy = here.join(format!("quarry-copy-{}-{number}", std::process::id()));
    let made = engine.checkpoint(&copy);
    let there = std::fs::read_dir(&copy).is_ok_and(|mut files| files.next().is_some());
    let _ = std::fs::remove_dir_all(&copy);
    if engine.caps().checkpoint {
        made.expect("the engine says that it can");
        assert!(there, "nothing was copied");
    } else {
        let refused = matches!(made, Err(StorageError::Unsupported(_)));
        assert!(
            refused && !there,
            "the engine says that it cannot: {made:?}"
        );
    }
}
