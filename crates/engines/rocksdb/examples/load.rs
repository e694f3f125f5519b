//! Loads many documents with index entries into a small memory budget and reports rates, stalls and
//! memory.
//!
//! ```text
//! cargo run --release -p quarry-engine-rocksdb --example load -- \
//!     [MEGABYTES] [BUDGET_MB] [THREADS] [DIRECTORY]
//! ```
//! Each write is a document of 1 kB (half of it compressible), two index entries at random places
//! and a log entry. One line per five seconds: rate, longest write and longest admission wait of
//! the interval, resident memory, level-0 files, pending compaction bytes, pressure. The last line
//! is the verdict on the whole run.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use engine_rocksdb::{Config, RocksEngine};
use storage::{Durability, Engine, Table, WriteBatch, WriteClass};

#[derive(Default)]
struct Totals {
    bytes: AtomicU64,
    writes: AtomicU64,
    longest_us: AtomicU64,
    over_250_ms: AtomicU64,
    next: AtomicU64,
    done: AtomicBool,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u64| {
        args.next()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (target, budget, threads) = (number(5120) << 20, number(512) << 20, number(4));
    let root = args
        .next()
        .map_or_else(|| std::env::temp_dir().join("quarry-load"), PathBuf::from);
    std::fs::remove_dir_all(&root).ok();
    let engine =
        RocksEngine::open(Config::with_budget(&root, budget as usize)).expect("the engine opens");
    let totals = Totals::default();
    let begun = Instant::now();
    let mut peak_rss = 0;
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| write(&engine, &totals, target)))
            .collect();
        scope.spawn(|| {
            for writer in writers {
                writer.join().expect("a writer ends");
            }
            totals.done.store(true, Ordering::Relaxed);
        });
        let (mut last_bytes, mut worst) = (0, 0);
        while !totals.done.load(Ordering::Relaxed) {
            let interval = Instant::now();
            while interval.elapsed() < Duration::from_secs(5)
                && !totals.done.load(Ordering::Relaxed)
            {
                std::thread::sleep(Duration::from_millis(100));
                peak_rss = peak_rss.max(status_kb("VmRSS:"));
            }
            let bytes = totals.bytes.load(Ordering::Relaxed);
            let longest = totals.longest_us.swap(0, Ordering::Relaxed);
            worst = worst.max(longest);
            let metrics = metrics(&engine);
            let get = |name: &str| metrics.get(name).copied().unwrap_or(0);
            println!(
                "{:>6.1} s {:>7.1} MB/s longest {:>7.1} ms rss {:>5} MB l0 {:>2}/{:>2} imm {} \
                    pending {:>5} MB pressure {:.2} rate {} MB/s stalls {}+{}",
                begun.elapsed().as_secs_f64(),
                (bytes - last_bytes) as f64 / interval.elapsed().as_secs_f64() / 1e6,
                longest as f64 / 1e3,
                status_kb("VmRSS:") / 1024,
                get("doc.l0_files"),
                get("idx.l0_files"),
                get("doc.immutable_memtables"),
                (get("doc.pending_compaction_bytes") + get("idx.pending_compaction_bytes")) >> 20,
                get("pressure_permille") as f64 / 1e3,
                get("admission_rate_bytes_per_s") / 1_000_000,
                get("stall_delays"),
                get("stall_stops"),
            );
            last_bytes = bytes;
        }
        totals.longest_us.store(worst, Ordering::Relaxed);
    });
    let metrics = metrics(&engine);
    println!(
        "loaded {} MB in {:.1} s: {:.0} writes/s, longest write {:.1} ms, {} writes over 250 ms, \
            peak rss {} MB of {} MB, {} open files, stalls {} delayed {} stopped, admission waits \
            {} (longest {} ms)",
        totals.bytes.load(Ordering::Relaxed) >> 20,
        begun.elapsed().as_secs_f64(),
        totals.writes.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64(),
        totals.longest_us.load(Ordering::Relaxed) as f64 / 1e3,
        totals.over_250_ms.load(Ordering::Relaxed),
        peak_rss / 1024,
        budget >> 20,
        std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count),
        metrics["stall_delays"],
        metrics["stall_stops"],
        metrics["admission_waits"],
        metrics["admission_wait_us_max"] / 1000,
    );
    engine.close().expect("the engine closes");
    drop(engine);
    std::fs::remove_dir_all(&root).ok();
}

fn write(engine: &RocksEngine, totals: &Totals, target: u64) {
    let (mut batch, mut value) = (WriteBatch::new(), vec![b'x'; 1024]);
    while totals.bytes.load(Ordering::Relaxed) < target {
        let number = totals.next.fetch_add(1, Ordering::Relaxed);
        let mut noise = number;
        for chunk in value[..512].chunks_exact_mut(8) {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            chunk.copy_from_slice(&noise.to_le_bytes());
        }
        let id = number.to_be_bytes();
        batch.clear();
        batch.put(Table::Doc, &[&[0, 0, 0, 1][..], &id].concat(), &value);
        for index in 2..4u8 {
            let scattered = noise.rotate_left(u32::from(index) * 16).to_be_bytes();
            batch.put(
                Table::Idx,
                &[&[0, 0, 0, index][..], &scattered, &id].concat(),
                b"\0",
            );
        }
        batch.put(
            Table::Log,
            &[&[0, 0, 0, 9][..], &id].concat(),
            &value[..200],
        );
        let begun = Instant::now();
        let waited = engine.admit(batch.byte_len(), WriteClass::Client);
        engine.apply(&batch, Durability::Buffered).expect("a write");
        let us = begun.elapsed().as_micros() as u64;
        totals.longest_us.fetch_max(us, Ordering::Relaxed);
        if us > 150_000 {
            let (all, journal) = (us / 1000, metrics(engine)["journal_flush_us_last"] / 1000);
            println!(
                "slow write: {all} ms, {} ms of it admission, last journal flush {journal} ms",
                waited.as_millis()
            );
        }
        totals
            .over_250_ms
            .fetch_add(u64::from(us > 250_000), Ordering::Relaxed);
        totals
            .bytes
            .fetch_add(batch.byte_len() as u64, Ordering::Relaxed);
        totals.writes.fetch_add(1, Ordering::Relaxed);
    }
}

fn metrics(engine: &RocksEngine) -> HashMap<String, i64> {
    let mut metrics = HashMap::new();
    engine.stats(&mut |name, value| {
        metrics.insert(name.to_owned(), value);
    });
    metrics
}

fn status_kb(field: &str) -> u64 {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|text| {
            text.lines().find_map(|line| {
                line.strip_prefix(field)?
                    .split_whitespace()
                    .next()?
                    .parse()
                    .ok()
            })
        })
        .unwrap_or(0)
}
