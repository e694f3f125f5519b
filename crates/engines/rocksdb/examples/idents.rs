//! Lists what a data directory holds for each identifier of a collection or index: for tests of
//! leaked space.
//!
//! ```text
//! cargo run -p quarry-engine-rocksdb --example idents -- DATA_DIRECTORY
//! ```
//! The directory is that of a stopped server. Lines: `TABLE IDENT KEYS dropped` for an identifier
//! whose drop is recorded and whose keys are still there, `TABLE IDENT KEYS` for others, and `meta
//! TAG ROWS` for the rows of each kind (`docs/on-disk.md`): without a catalog row (`c`), an
//! identifier in another table belongs to nobody.

use engine_rocksdb::{Config, RocksEngine};
use std::collections::{BTreeMap, BTreeSet};
use storage::{CursorOpts, Engine, KeyRange, Reader, Table};

fn main() {
    let path = std::env::args()
        .nth(1)
        .expect("DATA_DIRECTORY, the --dbpath of a stopped server");
    let mut config = Config::with_budget(path, 64 << 20);
    config.create = false;
    let engine = RocksEngine::open(config).expect("the engine opens");
    let (mut rows, mut dropped) = (BTreeMap::<u8, u64>::new(), BTreeSet::new());
    each_key(&engine, Table::Meta, &mut |key| {
        let tag = key.first().copied().unwrap_or_default();
        *rows.entry(tag).or_default() += 1;
        if tag == b'd' {
            dropped.extend(ident(&key[1..]));
        }
    });
    for (tag, n) in rows {
        println!("meta {} {n}", char::from(tag));
    }
    for table in [Table::Doc, Table::Idx, Table::Cap] {
        let mut keys = BTreeMap::<u32, u64>::new();
        each_key(&engine, table, &mut |key| {
            *keys.entry(ident(key).unwrap_or_default()).or_default() += 1
        });
        for (ident, n) in keys {
            println!(
                "{} {ident} {n}{}",
                table.name(),
                if dropped.contains(&ident) {
                    " dropped"
                } else {
                    ""
                }
            );
        }
    }
    engine.close().expect("the engine closes");
}

fn ident(key: &[u8]) -> Option<u32> {
    key.first_chunk::<4>().map(|b| u32::from_be_bytes(*b))
}

fn each_key(engine: &RocksEngine, table: Table, f: &mut dyn FnMut(&[u8])) {
    let opts = CursorOpts {
        keys_only: true,
        fill_cache: false,
        ..CursorOpts::default()
    };
    let mut cursor = engine.cursor(table, KeyRange::ALL, opts).expect("a cursor");
    let each = &mut |key: &[u8], _: &[u8]| {
        f(key);
        true
    };
    while cursor.visit(4096, each).expect("a read") {}
}
