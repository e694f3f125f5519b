//! Crash images (ADR 0078): a random workload runs over an engine whose file operations are
//! recorded; the recording is cut at every position, data not covered by a sync is lost in part,
//! and each image is opened. It must contain everything reported as durable, and exactly the rows
//! after one commit. `QUARRY_IMAGES=n` sets the number of images for each engine, `QUARRY_SEED=n`
//! begins with another seed; a failure names the seed and the image and saves it, and
//! `QUARRY_IMAGE=n` tries only this image.

#[path = "../shared/encrypted.rs"]
mod encrypted;
#[path = "../shared/symbols.rs"]
mod symbols;

mod check;
mod creation;
mod faults;
mod history;
mod moments;
mod names;
mod recorder;
mod workload;

use check::EngineRef;
use engine_lmdb::LmdbEngine;
use engine_rocksdb::{CacheKind, RocksEngine};
use engine_wiredtiger::{LIBRARY_NAME, Library, WiredTigerEngine};
use std::path::Path;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use storage::{Result, StorageError};

/// One recording at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn rocksdb(path: &Path) -> Result<EngineRef> {
    let config = engine_rocksdb::Config {
        background_jobs: 2,
        statistics: false,
        cache_kind: CacheKind::Lru,
        free_bytes_min: 0,
        free_percent_min: 0,
        journal_commit_interval_ms: 5,
        ..engine_rocksdb::Config::with_budget(path, 64 << 20)
    };
    Ok(Arc::new(RocksEngine::open(config)?))
}

fn lmdb(path: &Path) -> Result<EngineRef> {
    let config = engine_lmdb::Config {
        map_bytes: 1 << 30,
        ..engine_lmdb::Config::at(path)
    };
    Ok(Arc::new(LmdbEngine::open(&config)?))
}

/// WiredTiger is a library of the system; it calls the replaced functions, too.
fn wiredtiger(path: &Path) -> Result<EngineRef> {
    let library = Library::load(LIBRARY_NAME, None)
        .map_err(|line| StorageError::io("WiredTiger", std::io::Error::other(line)))?;
    let config = engine_wiredtiger::Config {
        journal_commit_interval_ms: 5,
        ..engine_wiredtiger::Config::at(path, 64 << 20)
    };
    Ok(Arc::new(WiredTigerEngine::open(&config, &library)?))
}

/// Whether the library is there; otherwise a test prints why it does nothing.
fn has_wiredtiger() -> bool {
    let loaded = Library::load(LIBRARY_NAME, None);
    if let Err(line) = &loaded {
        println!("skipped: {line}");
    }
    loaded.is_ok()
}

#[test]
fn rocksdb_opens_every_image_as_one_commit_left_it() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    check::search("rocksdb", rocksdb, 2_000);
}

#[test]
fn lmdb_opens_every_image_as_one_commit_left_it() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    check::search("lmdb", lmdb, 8_000);
}

#[test]
fn wiredtiger_opens_every_image_as_one_commit_left_it() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if has_wiredtiger() {
        check::search("wiredTiger", wiredtiger, 60);
    }
}

#[test]
fn the_names_of_new_directories_are_durable_before_the_first_commit() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    names::check("rocksdb", rocksdb);
    names::check("lmdb", lmdb);
    if has_wiredtiger() {
        names::check("wiredTiger", wiredtiger);
    }
}

#[test]
fn a_directory_opens_after_a_loss_of_power_while_it_was_made() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    creation::check("rocksdb", rocksdb);
    creation::check("lmdb", lmdb);
    if has_wiredtiger() {
        creation::check("wiredTiger", wiredtiger);
    }
}

#[test]
fn rocksdb_keeps_what_is_durable_when_calls_fail() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    faults::search("rocksdb", rocksdb);
}

#[test]
fn lmdb_keeps_what_is_durable_when_calls_fail() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    faults::search("lmdb", lmdb);
}

#[test]
fn wiredtiger_keeps_what_is_durable_when_calls_fail() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if has_wiredtiger() {
        faults::search("wiredTiger", wiredtiger);
    }
}

#[test]
fn a_new_master_key_fits_after_a_loss_of_power_or_the_old_one_does() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    moments::check_rotation();
}

#[test]
fn data_of_an_earlier_layout_opens_after_a_loss_of_power_while_it_was_opened() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    moments::check_upgrade("rocksdb", rocksdb);
    moments::check_upgrade("lmdb", lmdb);
}

#[test]
fn a_repair_can_be_repeated_after_a_loss_of_power() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    moments::check_repair(rocksdb);
}
