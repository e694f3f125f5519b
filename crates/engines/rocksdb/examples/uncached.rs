//! Updates of small documents by id when far more documents are stored than fit into memory: the
//! cost of one update in processor time, device reads and bytes, without a server.
//!
//! ```text
//! eval "$(scripts/natives.sh)"
//! cargo run --release -p quarry-engine-rocksdb --example uncached -- \
//!     [THOUSANDS] [LIMIT_MB] [THREADS] [SECONDS] [DIRECTORY]
//! ```
//! Documents of about 220 bytes (a third of it digits that hardly compress) in 8 idents, loaded in
//! key order, then read and put back with 10 bytes changed, at random, by all threads. With control
//! groups of version 1 the process first puts itself under the limit of memory, so that the
//! system's page cache counts, too; the engine gets four fifths. Processor time is that of the
//! whole process, with all flushes and compactions of the interval.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use engine_rocksdb::{Config, RocksEngine};
use storage::{Durability, Engine, Reader, Table, WriteBatch, WriteClass};

const IDENTS: u64 = 8;
const WARM_UP: Duration = Duration::from_secs(10);

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u64| {
        args.next()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (docs, limit_mb, threads, seconds) =
        (number(4238) * 1000, number(256), number(8), number(30));
    let root = args.next().map_or_else(
        || std::env::temp_dir().join("quarry-uncached"),
        PathBuf::from,
    );
    std::fs::remove_dir_all(&root).ok();
    let limited = limit_memory(limit_mb << 20);
    let budget = (limit_mb << 20) / 5 * 4;
    let engine =
        RocksEngine::open(Config::with_budget(&root, budget as usize)).expect("the engine opens");
    let begun = Instant::now();
    load(&engine, docs);
    settle(&engine);
    println!(
        "{docs} documents in {:.1} s, memory limited: {limited}, {:.0} bytes on disk each",
        begun.elapsed().as_secs_f64(),
        metric(&engine, "doc.sst_bytes") as f64 / docs as f64
    );
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (engine, done, stop) = (&engine, &done, &stop);
            scope.spawn(move || update(engine, docs, thread, done, stop));
        }
        std::thread::sleep(WARM_UP);
        let before = Sample::take(&engine, &done);
        std::thread::sleep(Duration::from_secs(seconds));
        let after = Sample::take(&engine, &done);
        stop.store(true, Ordering::Relaxed);
        report(&before, &after, &engine);
    });
    engine.close().expect("the engine closes");
    drop(engine);
    std::fs::remove_dir_all(&root).ok();
}

fn key(number: u64) -> Vec<u8> {
    let ident = (number % IDENTS) as u32 + 1;
    [&ident.to_be_bytes()[..], &(number / IDENTS).to_be_bytes()].concat()
}

fn next(noise: &mut u64) -> u64 {
    *noise = noise
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *noise >> 20
}

fn digits(out: &mut [u8], noise: &mut u64) {
    for chunk in out.chunks_mut(12) {
        let mut left = next(noise);
        for byte in chunk {
            *byte = b'0' + (left % 10) as u8;
            left /= 10;
        }
    }
}

fn load(engine: &RocksEngine, docs: u64) {
    let (mut batch, mut value, mut noise) = (WriteBatch::new(), vec![b'x'; 221], 1);
    for ident in 0..IDENTS {
        for number in (ident..docs).step_by(IDENTS as usize) {
            digits(&mut value[40..220], &mut noise);
            batch.put(Table::Doc, &key(number), &value);
            if batch.len() == 500 || number + IDENTS >= docs {
                engine.admit(batch.byte_len(), WriteClass::Client);
                engine.apply(&batch, Durability::Buffered).expect("a write");
                batch.clear();
            }
        }
    }
    engine.flush().expect("a flush");
}

fn settle(engine: &RocksEngine) {
    let busy = || {
        [
            "doc.pending_compaction_bytes",
            "doc.running_compactions",
            "doc.immutable_memtables",
        ]
        .iter()
        .any(|name| metric(engine, name) > 0)
    };
    while busy() {
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn update(engine: &RocksEngine, docs: u64, thread: u64, done: &AtomicU64, stop: &AtomicBool) {
    let (mut batch, mut value, mut noise) = (WriteBatch::new(), Vec::new(), thread * 7919 + 11);
    while !stop.load(Ordering::Relaxed) {
        let key = key(next(&mut noise) % docs);
        assert!(engine.get(Table::Doc, &key, &mut value).expect("a read"));
        digits(&mut value[50..60], &mut noise);
        batch.clear();
        batch.put(Table::Doc, &key, &value);
        engine.admit(batch.byte_len(), WriteClass::Client);
        engine.apply(&batch, Durability::Buffered).expect("a write");
        done.fetch_add(1, Ordering::Relaxed);
    }
}

const METRICS: [&str; 8] = [
    "cache_data_misses",
    "cache_misses",
    "flush_bytes_written",
    "compact_bytes_written",
    "compact_bytes_read",
    "wal_bytes_written",
    "admission_wait_us",
    "compactions",
];

struct Sample {
    at: Instant,
    done: u64,
    user_us: u64,
    system_us: u64,
    io: [u64; 4],
    metrics: [i64; METRICS.len()],
}

impl Sample {
    fn take(engine: &RocksEngine, done: &AtomicU64) -> Self {
        // SAFETY: `rusage` is plain data, which the call fills.
        let usage = unsafe {
            let mut usage = std::mem::zeroed::<libc::rusage>();
            libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
            usage
        };
        let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        let io = ["syscr: ", "rchar: ", "read_bytes: ", "write_bytes: "].map(|name| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.parse().ok())
                .unwrap_or(0)
        });
        Self {
            at: Instant::now(),
            done: done.load(Ordering::Relaxed),
            user_us: us(usage.ru_utime),
            system_us: us(usage.ru_stime),
            io,
            metrics: METRICS.map(|name| metric(engine, name)),
        }
    }
}

fn report(before: &Sample, after: &Sample, engine: &RocksEngine) {
    let ops = (after.done - before.done).max(1) as f64;
    let each = |from: u64, to: u64| to.saturating_sub(from) as f64 / ops;
    println!(
        "{:.0}/s, cpu {:.1} us = {:.1} user + {:.1} system; per update: {:.2} reads of {:.0} \
            bytes, from the device {:.0} bytes, to it {:.0} bytes",
        ops / (after.at - before.at).as_secs_f64(),
        each(
            before.user_us + before.system_us,
            after.user_us + after.system_us
        ),
        each(before.user_us, after.user_us),
        each(before.system_us, after.system_us),
        each(before.io[0], after.io[0]),
        each(before.io[1], after.io[1]),
        each(before.io[2], after.io[2]),
        each(before.io[3], after.io[3]),
    );
    let mut line = String::from("per update:");
    for (index, name) in METRICS.iter().enumerate() {
        let moved = after.metrics[index] - before.metrics[index];
        line.push_str(&format!(" {name} {:.3}", moved as f64 / ops));
    }
    println!(
        "{line}; cache {} of {} MB, l0 {}, on disk {} MB",
        metric(engine, "block_cache_usage_bytes") >> 20,
        metric(engine, "block_cache_capacity_bytes") >> 20,
        metric(engine, "doc.l0_files"),
        metric(engine, "doc.sst_bytes") >> 20,
    );
}

fn metric(engine: &RocksEngine, wanted: &str) -> i64 {
    let mut found = 0;
    engine.stats(&mut |name, value| {
        if name == wanted {
            found = value;
        }
    });
    found
}

fn limit_memory(bytes: u64) -> bool {
    let group = PathBuf::from(format!(
        "/sys/fs/cgroup/memory/quarry-uncached-{}",
        std::process::id()
    ));
    let write = |name: &str, text: String| -> std::io::Result<()> {
        std::fs::OpenOptions::new()
            .write(true)
            .open(group.join(name))?
            .write_all(text.as_bytes())
    };
    std::fs::create_dir(&group)
        .and_then(|()| write("memory.limit_in_bytes", bytes.to_string()))
        .and_then(|()| write("cgroup.procs", std::process::id().to_string()))
        .is_ok()
}
