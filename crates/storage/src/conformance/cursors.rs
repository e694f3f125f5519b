//! Cursors and snapshots.

use std::sync::Arc;

use super::tools::{get, key, put, scan, scan_keys};
use crate::batch::WriteBatch;
use crate::engine::{CursorOpts, Durability, Engine};
use crate::keys::{KeyRange, Table};
use crate::rows::RowBatch;

const REVERSE: CursorOpts = CursorOpts {
    reverse: true,
    keys_only: false,
    fill_cache: true,
    readahead_bytes: 0,
    limit_hint: 0,
    bytes_before: 0,
};

fn fill(engine: &dyn Engine, count: u32) {
    let mut batch = WriteBatch::new();
    for ident in 1..=3u32 {
        for i in 0..count {
            batch.put(
                Table::Idx,
                &key(ident, &format!("{i:03}")),
                &i.to_le_bytes(),
            );
        }
    }
    engine.apply(&batch, Durability::Buffered).unwrap();
}

pub(super) fn order_and_bounds(engine: &dyn Engine) {
    // Bytes compare as unsigned numbers, and a prefix comes before a longer key.
    let bodies: [&[u8]; 6] = [b"", b"\0", b"\0\0", b"\x7f", b"\x80", b"\xff\xff\xff"];
    let keys: Vec<Vec<u8>> = bodies
        .iter()
        .map(|body| [&[0, 0, 0, 2], *body].concat())
        .collect();
    for k in keys.iter().rev() {
        put(engine, Table::Doc, &[(k, b"v")]);
    }
    put(
        engine,
        Table::Doc,
        &[(&[0, 0, 0, 1, 0xFF], b"below"), (&[0, 0, 0, 3], b"above")],
    );
    for flushed in [false, true] {
        let range = KeyRange::new(&[0, 0, 0, 2], &[0, 0, 0, 3]);
        assert_eq!(
            scan_keys(engine, Table::Doc, range),
            keys,
            "flushed: {flushed}"
        );
        let mut backwards: Vec<Vec<u8>> = scan(engine, Table::Doc, range, REVERSE)
            .into_iter()
            .map(|row| row.0)
            .collect();
        backwards.reverse();
        assert_eq!(backwards, keys);
        let inner = KeyRange::new(&keys[1], &keys[4]);
        assert_eq!(
            scan_keys(engine, Table::Doc, inner),
            keys[1..4],
            "lower included, upper excluded"
        );
        let reversed: Vec<_> = scan(engine, Table::Doc, inner, REVERSE)
            .into_iter()
            .map(|row| row.0)
            .collect();
        assert_eq!(
            reversed,
            [keys[3].clone(), keys[2].clone(), keys[1].clone()]
        );
        engine.flush().unwrap();
    }
    assert_eq!(scan_keys(engine, Table::Doc, KeyRange::ALL).len(), 8);
}

pub(super) fn batches(engine: &dyn Engine) {
    fill(engine, 10);
    let (from, to) = (2u32.to_be_bytes(), 3u32.to_be_bytes());
    let range = KeyRange::new(&from, &to);
    let mut rows = RowBatch::new();
    let mut cursor = engine
        .cursor(Table::Idx, range, CursorOpts::default())
        .unwrap();
    assert!(cursor.next_batch(&mut rows, 4, usize::MAX).unwrap());
    assert_eq!(rows.len(), 4);
    // Eleven bytes a row: the second one reaches the limit.
    assert!(cursor.next_batch(&mut rows, 100, 15).unwrap());
    assert_eq!(rows.len(), 2);
    assert!(cursor.next_batch(&mut rows, 1, 0).unwrap());
    assert_eq!(rows.len(), 1, "one row always fits");
    assert_eq!(rows.last().map(|(k, _)| k.to_vec()), Some(key(2, "006")));
    assert!(!cursor.next_batch(&mut rows, 100, usize::MAX).unwrap());
    assert_eq!(rows.len(), 3);
    assert!(
        !cursor.next_batch(&mut rows, 100, usize::MAX).unwrap(),
        "an exhausted cursor stays exhausted"
    );
    assert!(rows.is_empty());
    let keys_only = CursorOpts {
        keys_only: true,
        fill_cache: false,
        limit_hint: 3,
        ..CursorOpts::default()
    };
    for (k, value) in scan(engine, Table::Idx, range, keys_only) {
        assert!(k.starts_with(&from) && value.is_empty());
    }
    let mut seen = 0;
    let mut cursor = engine
        .cursor(Table::Idx, range, CursorOpts::default())
        .unwrap();
    assert!(
        cursor
            .visit(0, &mut |_, _| panic!("nothing was asked for"))
            .unwrap()
    );
    cursor
        .visit(100, &mut |_, _| {
            seen += 1;
            seen < 5
        })
        .unwrap();
    assert_eq!(seen, 5, "visit stops when told");
    cursor
        .visit(1, &mut |k, _| {
            assert_eq!(k, key(2, "005"));
            true
        })
        .unwrap();
}

pub(super) fn seek(engine: &dyn Engine) {
    fill(engine, 10);
    let (from, to) = (2u32.to_be_bytes(), 3u32.to_be_bytes());
    let range = KeyRange::new(&from, &to);
    let first = |cursor: &mut dyn crate::Cursor| {
        let mut rows = RowBatch::new();
        cursor.next_batch(&mut rows, 1, usize::MAX).unwrap();
        rows.last().map(|(k, _)| k.to_vec())
    };
    let mut forward = engine
        .cursor(Table::Idx, range, CursorOpts::default())
        .unwrap();
    let mut reverse = engine.cursor(Table::Idx, range, REVERSE).unwrap();
    // (target, first forward: >= target, first in reverse: < target)
    let cases = [
        (key(2, "005"), Some(key(2, "005")), Some(key(2, "004"))),
        (key(2, "0055"), Some(key(2, "006")), Some(key(2, "005"))),
        (key(1, "003"), Some(key(2, "000")), None),
        (key(3, "003"), None, Some(key(2, "009"))),
        (key(2, "000"), Some(key(2, "000")), None),
        (key(2, "zzz"), None, Some(key(2, "009"))),
        (key(2, "002"), Some(key(2, "002")), Some(key(2, "001"))),
    ];
    for (target, ahead, behind) in cases {
        forward.seek(&target).unwrap();
        assert_eq!(first(&mut *forward), ahead, "forward to {target:02x?}");
        reverse.seek(&target).unwrap();
        assert_eq!(
            first(&mut *reverse),
            behind,
            "in reverse from {target:02x?}"
        );
    }
    // Resumes as a reader that reads page by page does.
    let mut pages = Vec::new();
    let mut cursor = engine
        .cursor(Table::Idx, range, CursorOpts::default())
        .unwrap();
    let mut rows = RowBatch::new();
    while cursor.next_batch(&mut rows, 3, usize::MAX).unwrap() && !rows.is_empty() {
        let mut resume = rows.last().unwrap().0.to_vec();
        pages.extend(rows.iter().map(|(k, _)| k.to_vec()));
        resume.push(0);
        cursor = engine
            .cursor(Table::Idx, range, CursorOpts::default())
            .unwrap();
        cursor.seek(&resume).unwrap();
    }
    pages.extend(rows.iter().map(|(k, _)| k.to_vec()));
    assert_eq!(pages, scan_keys(engine, Table::Idx, range));
}

pub(super) fn stable(engine: &dyn Engine) {
    fill(engine, 10);
    let mut cursor = engine
        .cursor(Table::Idx, KeyRange::ALL, CursorOpts::default())
        .unwrap();
    let mut batch = WriteBatch::new();
    for i in 0..10 {
        batch.delete(Table::Idx, &key(2, &format!("{i:03}")));
        batch.put(Table::Idx, &key(1, &format!("{i:03}new")), b"late");
    }
    engine.apply(&batch, Durability::Buffered).unwrap();
    let (mut rows, mut count) = (RowBatch::new(), 0);
    loop {
        let more = cursor.next_batch(&mut rows, 4, usize::MAX).unwrap();
        count += rows.len();
        assert!(
            rows.iter().all(|(_, value)| value != b"late"),
            "a cursor shows the state of its creation"
        );
        if !more {
            break;
        }
    }
    assert_eq!(count, 30);
}

/// The callback of a visit may write: the cursor holds no lock of the engine.
pub(super) fn visitor_writes(engine: &dyn Engine) {
    fill(engine, 40);
    for opts in [CursorOpts::default(), REVERSE] {
        let (lower, upper) = (key(2, ""), key(3, ""));
        let mut cursor = engine
            .cursor(Table::Idx, KeyRange::new(&lower, &upper), opts)
            .unwrap();
        let mut seen = 0;
        let mut each = |row: &[u8], _: &[u8]| {
            let mut batch = WriteBatch::new();
            batch.put(Table::Idx, row, b"late");
            batch.put(Table::Idx, &[row, b"new"].concat(), b"late");
            engine.apply(&batch, Durability::Buffered).unwrap();
            seen += 1;
            true
        };
        while cursor.visit(15, &mut each).unwrap() {}
        assert_eq!(
            seen % 40,
            0,
            "a cursor does not see what its visitor wrote: {seen}"
        );
    }
}

pub(super) fn snapshots(engine: &dyn Engine) {
    let k = key(1, "k");
    put(engine, Table::Doc, &[(&k, b"old"), (&key(1, "x"), b"dies")]);
    let old = engine.snapshot().unwrap();
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, &k, b"new");
    batch.delete(Table::Doc, &key(1, "x"));
    batch.put(Table::Doc, &key(1, "y"), b"born");
    batch.add(Table::Meta, b"n|1", [1, 1]);
    let pos = engine.apply(&batch, Durability::Buffered).unwrap();
    let new = engine.snapshot().unwrap();
    assert!(old.pos() < pos && pos <= new.pos());
    engine.flush().unwrap();
    for _ in 0..2 {
        assert_eq!(get(&*old, Table::Doc, &k).as_deref(), Some(&b"old"[..]));
        assert_eq!(get(&*new, Table::Doc, &k).as_deref(), Some(&b"new"[..]));
        assert_eq!(
            get(&*old, Table::Meta, b"n|1"),
            None,
            "one state over all tables"
        );
        assert_eq!(
            scan_keys(&*old, Table::Doc, KeyRange::ALL),
            [k.clone(), key(1, "x")]
        );
        assert_eq!(
            scan_keys(&*new, Table::Doc, KeyRange::ALL),
            [k.clone(), key(1, "y")]
        );
        put(engine, Table::Doc, &[(&key(1, "z"), b"later")]);
    }
    assert!(old.age() >= new.age());
}

pub(super) fn outlive(engine: Arc<dyn Engine>) {
    put(&*engine, Table::Doc, &[(&key(1, "k"), b"v")]);
    let snapshot = engine.snapshot().unwrap();
    let mut cursor = snapshot
        .cursor(Table::Doc, KeyRange::ALL, CursorOpts::default())
        .unwrap();
    drop(snapshot);
    let mut batch = WriteBatch::new();
    batch.delete(Table::Doc, &key(1, "k"));
    engine.apply(&batch, Durability::Buffered).unwrap();
    let mut rows = RowBatch::new();
    std::thread::spawn(move || {
        cursor.next_batch(&mut rows, 10, usize::MAX).unwrap();
        assert_eq!(
            rows.len(),
            1,
            "a cursor keeps its snapshot and may change threads"
        );
    })
    .join()
    .unwrap();
}
