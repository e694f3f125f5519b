//! Devices that become full. Each test mounts a small file system in memory; without the right to
//! mount it reports that and does nothing.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use engine_rocksdb::{Config, RocksEngine};
use storage::{Durability, Engine, KeyRange, StorageError, Table, WriteBatch};

const MB: u64 = 1 << 20;
/// Bytes that the guard keeps free in these tests.
const RESERVE: u64 = 60 * MB;

/// A mounted file system that is unmounted when the value is dropped.
struct SmallDevice(tempfile::TempDir);

impl SmallDevice {
    fn mount(megabytes: u64) -> Option<Self> {
        let at = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m");
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "quarry-test"])
            .arg(at.path())
            .output();
        if done.is_ok_and(|done| done.status.success()) {
            return Some(Self(at));
        }
        println!("skipped: this user cannot mount a small file system");
        None
    }

    fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    /// Takes this many bytes from the engine, or all that are left.
    fn fill(&self, name: &str, bytes: u64) {
        let mut file = fs::File::create(self.0.path().join(name)).unwrap();
        let block = vec![1u8; 64 << 10];
        for _ in 0..bytes / block.len() as u64 {
            if file.write_all(&block).is_err() {
                break;
            }
        }
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.0.path().join(name)).unwrap();
    }

    fn free_bytes(&self) -> u64 {
        let out = Command::new("stat")
            .args(["-f", "-c", "%a %S"])
            .arg(self.0.path())
            .output();
        let text = String::from_utf8(out.unwrap().stdout).unwrap();
        text.split_whitespace()
            .map(|word| word.parse::<u64>().unwrap())
            .product()
    }
}

impl Drop for SmallDevice {
    fn drop(&mut self) {
        let done = Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(
            done.is_ok_and(|done| done.success()),
            "a file system stays mounted"
        );
    }
}

fn config(path: &Path, free_bytes_min: u64) -> Config {
    Config {
        free_bytes_min,
        free_percent_min: 0,
        ..Config::with_budget(path, 64 << 20)
    }
}

fn key(number: u64) -> Vec<u8> {
    [&1u32.to_be_bytes()[..], &number.to_be_bytes()].concat()
}

fn noise(number: u64, bytes: usize) -> Vec<u8> {
    let (mut value, mut noise) = (vec![0u8; bytes], number);
    for chunk in value.chunks_exact_mut(8) {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        chunk.copy_from_slice(&noise.to_le_bytes());
    }
    value
}

fn put(engine: &dyn Engine, number: u64) -> storage::Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, &key(number), &noise(number, 8 << 10));
    engine.apply(&batch, Durability::Buffered).map(|_| ())
}

fn delete(engine: &dyn Engine, numbers: std::ops::Range<u64>) -> storage::Result<()> {
    let mut batch = WriteBatch::new();
    for number in numbers {
        batch.delete(Table::Doc, &key(number));
    }
    engine.apply(&batch, Durability::Journaled).map(|_| ())
}

/// Puts documents without a pause until one is refused; returns how many were put.
fn put_until_full(engine: &dyn Engine, first: u64) -> u64 {
    for number in first.. {
        match put(engine, number) {
            Ok(()) => assert!(number < 100_000, "the device never runs full"),
            Err(error) => {
                assert!(matches!(error, StorageError::Full { .. }), "{error:?}");
                return number;
            }
        }
    }
    unreachable!("an endless range")
}

fn put_within(engine: &dyn Engine, number: u64, longest: Duration) {
    let begun = Instant::now();
    while let Err(error) = put(engine, number) {
        assert!(begun.elapsed() < longest, "still refusing: {error:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn holds(engine: &dyn Engine, number: u64) -> bool {
    engine
        .get_with(Table::Doc, &key(number), &mut |_| {})
        .unwrap()
}

// Fills the device, checks what still works, frees space, and checks that all acknowledged writes
// are there and new ones work.
fn survive(guarded: bool) {
    let Some(device) = SmallDevice::mount(300) else {
        return;
    };
    device.fill("ballast", 120 * MB);
    let config = config(&device.data(), if guarded { RESERVE } else { 0 });
    let engine = RocksEngine::open(config.clone()).unwrap();
    let written = put_until_full(&engine, 0);
    assert!(holds(&engine, 0), "reads work on a full device");
    if guarded {
        delete(&engine, 7..8).expect("deletes work while space is short");
    }
    device.remove("ballast");
    put_within(&engine, written, Duration::from_secs(30));
    engine
        .wait_durable(engine.snapshot().unwrap().pos())
        .unwrap();
    engine.close().unwrap();
    drop(engine);
    let engine = RocksEngine::open(config).unwrap();
    for number in (0..=written).filter(|number| !guarded || *number != 7) {
        assert!(
            holds(&engine, number),
            "acknowledged write {number} of {written} is lost"
        );
    }
    engine.close().unwrap();
}

#[test]
fn full_disk_is_survived_with_and_without_the_guard() {
    survive(true);
    survive(false);
}

#[test]
fn growth_ends_before_the_reserve_however_fast_it_is() {
    let Some(device) = SmallDevice::mount(300) else {
        return;
    };
    let engine = RocksEngine::open(config(&device.data(), RESERVE)).unwrap();
    put_until_full(&engine, 0);
    let free = device.free_bytes();
    assert!(
        free >= RESERVE,
        "{} MB are free, {} MB should be",
        free / MB,
        RESERVE / MB
    );
    // Space for all admitted writes is reserved: background work must not run out of space.
    engine.flush().unwrap();
    let free = device.free_bytes();
    assert!(
        free >= RESERVE / 2,
        "{} MB are free after the flush",
        free / MB
    );
    engine.close().unwrap();
}

#[test]
fn shrinking_puts_and_deletes_pass_while_growth_is_refused() {
    let Some(device) = SmallDevice::mount(300) else {
        return;
    };
    let engine = RocksEngine::open(config(&device.data(), RESERVE)).unwrap();
    let written = put_until_full(&engine, 0);
    // More than a flush of the memtables may free.
    device.fill("ballast", 40 * MB);
    let mut batch = WriteBatch::new();
    for number in 0..100 {
        batch.put(Table::Doc, &key(number), b"smaller than before");
    }
    let refused = engine.apply(&batch, Durability::Buffered);
    assert!(
        matches!(refused, Err(StorageError::Full { .. })),
        "{refused:?}"
    );
    batch.set_shrinks();
    engine
        .apply(&batch, Durability::Journaled)
        .expect("documents that shrink");
    delete(&engine, 100..200).expect("documents that go");
    assert!(put(&engine, written).is_err(), "growth is still refused");
    engine.close().unwrap();
}

#[test]
fn a_device_without_a_free_byte_opens_and_takes_deletes_and_drops() {
    let Some(device) = SmallDevice::mount(300) else {
        return;
    };
    let config = config(&device.data(), RESERVE);
    let engine = RocksEngine::open(config.clone()).unwrap();
    let written = put_until_full(&engine, 0);
    engine.close().unwrap();
    drop(engine);
    device.fill("somebody else's", u64::MAX);
    let engine = RocksEngine::open(config.clone()).expect("a full device opens");
    assert!(put(&engine, written).is_err(), "growth is refused");
    for first in (0..written / 2).step_by(100) {
        delete(&engine, first..(first + 100).min(written)).expect("deletes on a full device");
    }
    assert!(!holds(&engine, 0) && holds(&engine, written - 1));
    // Once more, with the journal records of the deletes.
    drop(engine);
    let engine = RocksEngine::open(config.clone()).expect("a full device opens again");
    assert!(!holds(&engine, 0) && holds(&engine, written - 1));
    let (lower, upper) = (1u32.to_be_bytes(), 2u32.to_be_bytes());
    engine.set_dropped(Table::Doc, std::sync::Arc::new([1].into_iter().collect()));
    engine
        .drop_range(Table::Doc, KeyRange::new(&lower, &upper))
        .expect("drops on a full device");
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, b"\0\0\0\x02k", &noise(1, 8 << 10));
    let begun = Instant::now();
    while let Err(error) = engine.apply(&batch, Durability::Journaled) {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "still refusing: {error:?}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    engine.close().unwrap();
}

// A compaction writes its output before it deletes its input, and each sealed memtable begins a
// journal file that is extended in advance: neither may use the reserve. The point at which the
// writer is refused depends on the size of the device, so several are tried.
#[test]
fn background_work_stays_out_of_the_reserve() {
    for megabytes in 252..262 {
        let Some(device) = SmallDevice::mount(megabytes) else {
            return;
        };
        let engine = RocksEngine::open(config(&device.data(), RESERVE)).unwrap();
        put_until_full(&engine, 0);
        let begun = Instant::now();
        let mut least = u64::MAX;
        while begun.elapsed() < Duration::from_millis(400) {
            least = least.min(device.free_bytes());
            std::thread::sleep(Duration::from_millis(20));
        }
        engine.close().unwrap();
        let (least, reserve) = (least >> 20, RESERVE >> 20);
        assert!(
            least >= reserve,
            "{least} MB were free of {megabytes} MB, {reserve} MB should be"
        );
    }
}
