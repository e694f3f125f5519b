//! The cost of the storage trait compared with direct calls of the binding crate, in CPU
//! microseconds per operation.
//!
//! ```text
//! cargo run --release -p quarry-engine-rocksdb --example floor -- [KEYS] [DIRECTORY] [lru]
//! ```
//! Both sides run on one thread, with the same options and the same data, alternately, and the
//! fastest round counts (CPU time, so other processes matter little). "raw" uses the binding crate
//! as its documentation suggests.

use std::hint::black_box;
use std::path::PathBuf;

use engine_rocksdb::{CacheKind, Config, RocksEngine};
use rust_rocksdb::{ColumnFamily, DB, ReadOptions, WriteBatch as RawBatch, WriteOptions};
use storage::{CursorOpts, Durability, Engine, KeyRange, RowBatch, Table, WriteBatch};

const ROUNDS: usize = 7;
const VALUE: usize = 200;

fn main() {
    let mut args = std::env::args().skip(1);
    let keys: u32 = args
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(200_000);
    let root = args
        .next()
        .map_or_else(|| std::env::temp_dir().join("quarry-floor"), PathBuf::from);
    std::fs::remove_dir_all(&root).ok();
    let mut config = Config::with_budget(root.join("engine"), 512 << 20);
    if args.next().is_some_and(|kind| kind == "lru") {
        config.cache_kind = CacheKind::Lru;
    }
    let engine = RocksEngine::open(config).expect("the engine opens");
    let bench = Bench {
        engine: &engine,
        keys,
    };
    println!(
        "{:<22} {:>9} {:>9} {:>7}   CPU us per operation, {keys} keys of {VALUE} bytes",
        "", "raw", "trait", "ratio"
    );
    bench.run();
    engine.close().expect("the engine closes");
    std::fs::remove_dir_all(&root).ok();
}

struct Bench<'a> {
    engine: &'a RocksEngine,
    keys: u32,
}

// Scattered over the key space, but reproducible.
fn key(number: u32) -> [u8; 16] {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&1u32.to_be_bytes());
    key[4..8].copy_from_slice(&number.wrapping_mul(2_654_435_761).to_be_bytes());
    key[8..12].copy_from_slice(&number.to_be_bytes());
    key
}

fn cpu_us() -> f64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is writable memory of the right type.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
}

// `prepare` gives both sides the same initial state: empty memtables.
fn compare(
    name: &str,
    operations: usize,
    prepare: &dyn Fn(),
    mut raw: impl FnMut(),
    mut through: impl FnMut(),
) {
    let mut best = [f64::MAX; 2];
    for _ in 0..ROUNDS {
        for (slot, side) in [
            (0, &mut raw as &mut dyn FnMut()),
            (1, &mut through as &mut dyn FnMut()),
        ] {
            prepare();
            let begun = cpu_us();
            side();
            best[slot] = best[slot].min((cpu_us() - begun) / operations as f64);
        }
    }
    println!(
        "{name:<22} {:>9.3} {:>9.3} {:>7.2}",
        best[0],
        best[1],
        best[1] / best[0]
    );
}

impl Bench<'_> {
    fn run(&self) {
        let db = self.engine.raw();
        let doc = db.cf_handle("doc").expect("the table exists");
        let engine: &dyn Engine = self.engine;
        self.writes(db, doc, engine);
        engine.flush().expect("a flush");
        self.engine.compact_all(Table::Doc).expect("a compaction");
        self.reads("sst", db, doc, engine);
        self.scans(db, doc, engine);
    }

    fn writes(&self, db: &DB, doc: &ColumnFamily, engine: &dyn Engine) {
        let flush = || engine.flush().expect("a flush");
        let value = [7u8; VALUE];
        let (opts, many) = (WriteOptions::default(), 20_000u32);
        let mut batch = WriteBatch::new();
        compare(
            "put",
            many as usize,
            &flush,
            || (0..many).for_each(|i| db.put_cf_opt(doc, key(i), value, &opts).expect("a put")),
            || {
                for i in 0..many {
                    batch.clear();
                    batch.put(Table::Doc, &key(i), &value);
                    engine.apply(&batch, Durability::Buffered).expect("a put");
                }
            },
        );
        let families =
            ["doc", "idx", "idx", "log"].map(|name| db.cf_handle(name).expect("the table exists"));
        let tables = [Table::Doc, Table::Idx, Table::Idx, Table::Log];
        let entry = |i: u32, part: usize| {
            let mut key = key(i);
            key[15] = part as u8;
            key
        };
        compare(
            "insert of 4 keys",
            many as usize,
            &flush,
            || {
                for i in 0..many {
                    let mut batch = RawBatch::default();
                    for (part, family) in families.iter().enumerate() {
                        batch.put_cf(
                            family,
                            entry(i, part),
                            if part == 0 { &value[..] } else { &value[..8] },
                        );
                    }
                    db.write_opt(&batch, &opts).expect("a batch");
                }
            },
            || {
                for i in 0..many {
                    batch.clear();
                    for (part, table) in tables.iter().enumerate() {
                        batch.put(
                            *table,
                            &entry(i, part),
                            if part == 0 { &value[..] } else { &value[..8] },
                        );
                    }
                    engine.apply(&batch, Durability::Buffered).expect("a batch");
                }
            },
        );
        let mut load = WriteBatch::new();
        for i in 0..self.keys {
            load.put(Table::Doc, &key(i), &value);
            if load.byte_len() > 1 << 20 {
                engine.apply(&load, Durability::Buffered).expect("a load");
                load.clear();
            }
        }
        engine.apply(&load, Durability::Buffered).expect("a load");
    }

    fn reads(&self, place: &str, db: &DB, doc: &ColumnFamily, engine: &dyn Engine) {
        let flush = || engine.flush().expect("a flush");
        let many = self.keys.min(100_000);
        let step = |i: u32| key(i.wrapping_mul(7919) % self.keys);
        let mut out = Vec::new();
        compare(
            &format!("get ({place})"),
            many as usize,
            &flush,
            || {
                for i in 0..many {
                    black_box(
                        db.get_cf(doc, step(i))
                            .expect("a get")
                            .expect("a value")
                            .len(),
                    );
                }
            },
            || {
                for i in 0..many {
                    assert!(engine.get(Table::Doc, &step(i), &mut out).expect("a get"));
                    black_box(out.len());
                }
            },
        );
        compare(
            &format!("get_with ({place})"),
            many as usize,
            &flush,
            || {
                for i in 0..many {
                    black_box(
                        db.get_pinned_cf(doc, step(i))
                            .expect("a get")
                            .expect("a value")
                            .len(),
                    );
                }
            },
            || {
                for i in 0..many {
                    engine
                        .get_with(Table::Doc, &step(i), &mut |value| {
                            black_box(value.len());
                        })
                        .expect("a get");
                }
            },
        );
        let absent = |i: u32| {
            let mut key = step(i);
            key[15] = 9;
            key
        };
        compare(
            "get of absent key",
            many as usize,
            &flush,
            || {
                (0..many).for_each(|i| {
                    assert!(db.get_pinned_cf(doc, absent(i)).expect("a get").is_none())
                })
            },
            || {
                (0..many).for_each(|i| {
                    assert!(
                        !engine
                            .get_with(Table::Doc, &absent(i), &mut |_| {})
                            .expect("a get")
                    )
                })
            },
        );
        let groups = many / 64;
        let group = |g: u32| {
            let mut keys: Vec<[u8; 16]> = (0..64).map(|i| step(g * 64 + i)).collect();
            keys.sort_unstable();
            keys
        };
        let opts = ReadOptions::default();
        compare(
            "multi_get of 64, per key",
            groups as usize * 64,
            &flush,
            || {
                for g in 0..groups {
                    let keys = group(g);
                    for value in db.batched_multi_get_cf_opt(doc, &keys, true, &opts) {
                        black_box(value.expect("a get").expect("a value").len());
                    }
                }
            },
            || {
                for g in 0..groups {
                    let keys = group(g);
                    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
                    let each = &mut |_: usize, value: Option<&[u8]>| {
                        black_box(value.map(<[u8]>::len));
                    };
                    engine
                        .multi_get(Table::Doc, &keys, each)
                        .expect("a get of many");
                }
            },
        );
    }

    fn scans(&self, db: &DB, doc: &ColumnFamily, engine: &dyn Engine) {
        let flush = || engine.flush().expect("a flush");
        let mut rows = RowBatch::new();
        let bounds = || {
            let mut opts = ReadOptions::default();
            opts.set_iterate_lower_bound(1u32.to_be_bytes());
            opts.set_iterate_upper_bound(2u32.to_be_bytes());
            opts
        };
        let (lower, upper) = (1u32.to_be_bytes(), 2u32.to_be_bytes());
        let range = KeyRange::new(&lower, &upper);
        let mut bytes = Vec::new();
        compare(
            "scan, copied, per row",
            self.keys as usize,
            &flush,
            || {
                let mut iter = db.raw_iterator_cf_opt(doc, bounds());
                iter.seek_to_first();
                while let Some((key, value)) = iter.item() {
                    bytes.clear();
                    bytes.extend_from_slice(key);
                    bytes.extend_from_slice(value);
                    black_box(bytes.len());
                    iter.next();
                }
            },
            || {
                let mut cursor = engine
                    .cursor(Table::Doc, range, CursorOpts::default())
                    .expect("a cursor");
                while cursor.next_batch(&mut rows, 256, 1 << 20).expect("a scan") {
                    black_box(rows.byte_len());
                }
            },
        );
        compare(
            "scan in place, per row",
            self.keys as usize,
            &flush,
            || {
                let mut iter = db.raw_iterator_cf_opt(doc, bounds());
                iter.seek_to_first();
                while let Some((key, value)) = iter.item() {
                    black_box((key, value));
                    iter.next();
                }
            },
            || {
                let mut cursor = engine
                    .cursor(Table::Doc, range, CursorOpts::default())
                    .expect("a cursor");
                let visited = cursor.visit(usize::MAX, &mut |key, value| {
                    black_box((key, value));
                    true
                });
                assert!(!visited.expect("a scan"));
            },
        );
        let many = 20_000u32;
        compare(
            "cursor of one row",
            many as usize,
            &flush,
            || {
                for i in 0..many {
                    let mut opts = ReadOptions::default();
                    let from = key(i);
                    opts.set_iterate_lower_bound(from);
                    opts.set_iterate_upper_bound(2u32.to_be_bytes());
                    let mut iter = db.raw_iterator_cf_opt(doc, opts);
                    iter.seek(from);
                    black_box(iter.item().is_some());
                }
            },
            || {
                for i in 0..many {
                    let from = key(i);
                    let range = KeyRange::new(&from, &upper);
                    let mut cursor = engine
                        .cursor(Table::Doc, range, CursorOpts::default())
                        .expect("a cursor");
                    cursor
                        .visit(1, &mut |key, _| {
                            black_box(key.len());
                            true
                        })
                        .expect("a seek");
                }
            },
        );
        compare(
            "snapshot and get",
            many as usize,
            &flush,
            || {
                for i in 0..many {
                    black_box(db.snapshot().get_cf(doc, key(i)).expect("a get").is_some());
                }
            },
            || {
                let mut out = Vec::new();
                for i in 0..many {
                    black_box(
                        engine
                            .snapshot()
                            .expect("one")
                            .get(Table::Doc, &key(i), &mut out)
                            .expect("a get"),
                    );
                }
            },
        );
    }
}
