//! The cost of large documents: bytes written to the device for each byte stored, space, reads and
//! scans; with values in separate files (blob files) and without.
//!
//! ```text
//! eval "$(scripts/natives.sh)"
//! cargo run --release -p quarry-engine-rocksdb --example large -- \
//!     [VALUE_KB] [MEGABYTES] [BUDGET_MB] [BLOB_MIN_KB] [DIRECTORY]
//! ```
//! Stores MEGABYTES of documents at random places of the key order, overwrites as much again twice
//! at random, then reads at random and scans. Half of each value is noise. BLOB_MIN_KB 0 keeps all
//! values in table files.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine_rocksdb::{Config, RocksEngine};
use storage::{CursorOpts, Durability, Engine, KeyRange, Reader, Table, WriteBatch, WriteClass};

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u64| {
        args.next()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (value_bytes, megabytes, budget, blob_min) = (
        number(100) << 10,
        number(2048),
        number(256) << 20,
        number(16) << 10,
    );
    let root = args
        .next()
        .map_or_else(|| std::env::temp_dir().join("quarry-large"), PathBuf::from);
    std::fs::remove_dir_all(&root).ok();
    let config = Config {
        blob_bytes_min: blob_min,
        ..Config::with_budget(&root, budget as usize)
    };
    let engine = RocksEngine::open(config).expect("the engine opens");
    let docs = (megabytes << 20) / value_bytes;
    println!(
        "{docs} documents of {value_bytes} bytes, values of {blob_min} bytes and more in blob \
            files (0: none)"
    );
    let mut noise = 1;
    for (phase, writes) in [
        ("store", docs),
        ("overwrite", docs),
        ("overwrite again", docs),
    ] {
        let (before, begun) = (Sample::take(), Instant::now());
        for number in 0..writes {
            let id = if phase == "store" {
                number
            } else {
                next(&mut noise) % docs
            };
            put(&engine, scatter_id(id), value_bytes as usize, &mut noise);
        }
        engine.flush().expect("a flush");
        let seconds = begun.elapsed().as_secs_f64();
        settle(&engine);
        let (after, stored) = (Sample::take(), (writes * value_bytes) as f64);
        println!(
            "{phase}: {:.0} MB/s, {:.2} bytes written for each (journal included), {:.2} read, cpu \
                {:.1} ms per MB, directory {} MB",
            stored / seconds / 1e6,
            (after.written - before.written) as f64 / stored,
            (after.read - before.read) as f64 / stored,
            (after.cpu_us - before.cpu_us) as f64 / 1e3 / (stored / 1e6),
            directory_bytes(&root) >> 20
        );
    }
    let (before, begun, mut value) = (Sample::take(), Instant::now(), Vec::new());
    let reads = 3000;
    for _ in 0..reads {
        let id = next(&mut noise) % docs;
        assert!(
            engine
                .get(Table::Doc, &key(scatter_id(id)), &mut value)
                .expect("a read")
        );
    }
    let (after, elapsed) = (Sample::take(), begun.elapsed());
    println!(
        "read: {:.0} us each, cpu {:.0} us, {:.2} system calls, {:.0} KB from files",
        elapsed.as_micros() as f64 / reads as f64,
        (after.cpu_us - before.cpu_us) as f64 / reads as f64,
        (after.calls - before.calls) as f64 / reads as f64,
        (after.read_all - before.read_all) as f64 / 1024.0 / reads as f64
    );
    for keys_only in [false, true] {
        let opts = CursorOpts {
            keys_only,
            ..CursorOpts::default()
        };
        let (begun, mut rows, mut bytes) = (Instant::now(), 0u64, 0);
        let mut cursor = engine
            .cursor(Table::Doc, KeyRange::ALL, opts)
            .expect("a cursor");
        cursor
            .visit(usize::MAX, &mut |_, value| {
                (rows, bytes) = (rows + 1, bytes + value.len());
                true
            })
            .expect("a scan");
        assert_eq!(rows, docs);
        println!(
            "scan, keys only {keys_only}: {:.2} s, {:.0} MB/s",
            begun.elapsed().as_secs_f64(),
            bytes as f64 / 1e6 / begun.elapsed().as_secs_f64()
        );
    }
    let upper = 2u32.to_be_bytes();
    let size = engine.approx_size(Table::Doc, KeyRange::new(&1u32.to_be_bytes(), &upper));
    println!("approx_size {} MB", size.expect("a size") >> 20);
    engine.close().expect("the engine closes");
    drop(engine);
    std::fs::remove_dir_all(&root).ok();
}

fn put(engine: &RocksEngine, id: u64, bytes: usize, noise: &mut u64) {
    let mut value = vec![b'x'; bytes];
    for chunk in value[..bytes / 2].chunks_exact_mut(8) {
        chunk.copy_from_slice(&next(noise).to_le_bytes());
    }
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, &key(id), &value);
    engine.admit(batch.byte_len(), WriteClass::Client);
    engine.apply(&batch, Durability::Buffered).expect("a write");
}

fn key(id: u64) -> Vec<u8> {
    [&1u32.to_be_bytes()[..], &id.to_be_bytes()].concat()
}

fn scatter_id(id: u64) -> u64 {
    id.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn next(noise: &mut u64) -> u64 {
    *noise ^= *noise << 13;
    *noise ^= *noise >> 7;
    *noise ^= *noise << 17;
    *noise
}

fn settle(engine: &RocksEngine) {
    let names = [
        "doc.pending_compaction_bytes",
        "doc.running_compactions",
        "doc.immutable_memtables",
    ];
    loop {
        let mut busy = false;
        engine.stats(&mut |name, value| busy |= names.contains(&name) && value > 0);
        if !busy {
            return;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

struct Sample {
    cpu_us: u64,
    written: u64,
    read: u64,
    read_all: u64,
    calls: u64,
}

impl Sample {
    fn take() -> Self {
        // SAFETY: `rusage` is plain data, which the call fills.
        let usage = unsafe {
            let mut usage = std::mem::zeroed::<libc::rusage>();
            libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
            usage
        };
        let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        let io = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.parse().ok())
                .unwrap_or(0)
        };
        Self {
            cpu_us: us(usage.ru_utime) + us(usage.ru_stime),
            written: io("wchar: "),
            read: io("read_bytes: "),
            read_all: io("rchar: "),
            calls: io("syscr: "),
        }
    }
}

fn directory_bytes(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).expect("a directory");
    entries
        .filter_map(|entry| entry.ok()?.metadata().ok())
        .map(|meta| meta.len())
        .sum()
}
