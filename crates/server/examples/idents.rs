//! Lists what a data directory has for each identifier of a collection or index: for tests of
//! leaked space. Must not change the directory.
//!
//! ```text
//! cargo run -p quarry-server --example idents -- ENGINE DATA_DIRECTORY
//! ```
//! The directory must belong to a stopped server. Lines: `TABLE IDENT KEYS dropped` for an
//! identifier whose drop is recorded and whose keys still exist, `TABLE IDENT KEYS` for others, and
//! `meta TAG ROWS` for the rows of each kind (`docs/on-disk.md`). An identifier without a catalog
//! row (`c`) belongs to no collection or index.

use server::engines::{EngineOptions, open_source};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use storage::{CursorOpts, Engine, KeyRange, Table};

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().expect("ENGINE, one of those of this build");
    let path = args
        .next()
        .expect("DATA_DIRECTORY, the --dbpath of a stopped server");
    let options = EngineOptions {
        name: &name,
        path: Path::new(&path),
        bytes: 64 << 20,
        journal_commit_interval_ms: 100,
        repair: false,
        key: None,
        wiredtiger_library: None,
        wiredtiger_include: None,
        tikv: None,
        awaited: None,
        linked: false,
    };
    let scratch = format!("{path}.idents");
    let source = open_source(&options, Path::new(&scratch)).expect("the engine opens");
    let engine = source.engine.as_ref();
    let (mut rows, mut dropped) = (BTreeMap::<u8, u64>::new(), BTreeSet::new());
    each_key(engine, Table::Meta, &mut |key| {
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
        each_key(engine, table, &mut |key| {
            *keys.entry(ident(key).unwrap_or_default()).or_default() += 1
        });
        for (ident, n) in keys {
            let dropped = dropped.contains(&ident);
            let dropped = if dropped { " dropped" } else { "" };
            println!("{} {ident} {n}{dropped}", table.name());
        }
    }
}

fn ident(key: &[u8]) -> Option<u32> {
    key.first_chunk::<4>().map(|b| u32::from_be_bytes(*b))
}

fn each_key(reader: &dyn Engine, table: Table, f: &mut dyn FnMut(&[u8])) {
    let opts = CursorOpts {
        keys_only: true,
        fill_cache: false,
        ..CursorOpts::default()
    };
    let mut cursor = reader.cursor(table, KeyRange::ALL, opts).expect("a cursor");
    let each = &mut |key: &[u8], _: &[u8]| {
        f(key);
        true
    };
    while cursor.visit(4096, each).expect("a read") {}
}
