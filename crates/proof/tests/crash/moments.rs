//! A loss of power at every moment of one operation: changing the master key, opening data of an
//! earlier layout, repairing damaged data. What was there before and what the operation reported as
//! done must be there, and the operation can be repeated.

use crate::check::{
    EngineRef, LogEntries, OpenFn, check_store, folder, number, open_store, start_system_anew,
};
use crate::encrypted::{master_key, open_rocksdb};
use crate::history::{History, HistoryRecorder};
use crate::recorder;
use crate::workload::Client;
use clap::Parser;
use model::{DocBuf, Namespace};
use proof::{Event, Image, Loss, Random};
use server::backup::{RepairArgs, run_repair};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use storage::ObservedEngine;
use store::ReadView;

const SEED: u64 = 5;
/// Moments of a long operation that are tried, with each kind of loss; `QUARRY_MOMENTS` sets it.
const MOMENTS: usize = 4;

type Text<T> = Result<T, String>;

/// Checks images with each kind of loss at these positions in a recording.
fn try_images(
    what: &str,
    events: &[Event],
    positions: &[usize],
    check: &(dyn Fn(&Path, usize) -> Text<()> + Sync),
) {
    let folder = folder();
    let cases: Vec<(usize, Loss)> = positions
        .iter()
        .flat_map(|at| Loss::ALL.map(|loss| (*at, loss)))
        .collect();
    proof::run_cases(0..cases.len(), &|n| {
        let (at, loss) = cases[n];
        let mut random = Random::new(at as u64);
        let mut image = Image::after_loss(events, at, loss, &mut random);
        if loss != Loss::Nothing {
            start_system_anew(&mut image);
        }
        let path = folder.path().join(format!("{loss:?}-{at}"));
        image.write_to(&path).expect("an image");
        if let Err(wrong) = check(&path, at) {
            let last: Vec<String> = events[..at].iter().rev().take(5).map(short).collect();
            panic!("{what}, {loss:?} at event {at}: {wrong}\n{last:#?}");
        }
        fs::remove_dir_all(&path).expect("removed");
    });
    println!("{what}: {} images", cases.len());
}

fn short(event: &Event) -> String {
    let mut line = format!("{event:?}");
    line.truncate(100);
    line
}

/// Some positions between two, and both of these.
fn choose_moments(begun: usize, end: usize) -> Vec<usize> {
    let some = number("QUARRY_MOMENTS").map_or(MOMENTS, |n| usize::try_from(n).unwrap_or(MOMENTS));
    if end - begun <= some {
        return (begun..=end).collect();
    }
    let mut random = Random::new(number("QUARRY_SEED").unwrap_or(SEED));
    let between = (0..some).map(|_| begun + random.below(end - begun));
    let mut moments: Vec<usize> = between.chain([begun, end]).collect();
    moments.sort_unstable();
    moments.dedup();
    moments
}

/// Copies a directory and its files through the recorder, and syncs them.
fn copy_recorded(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_recorded(&entry.path(), &target);
            continue;
        }
        fs::write(&target, fs::read(entry.path()).expect("a file")).expect("a copy");
        let file = File::open(&target).expect("a copy");
        file.sync_all().expect("synced");
    }
    for directory in [to, to.parent().expect("a parent")] {
        let names = File::open(directory).expect("a folder");
        names.sync_all().expect("synced");
    }
}

/// All documents of ordinary collections, by their collection.
fn read_documents(engine: EngineRef) -> Text<BTreeMap<String, Vec<DocBuf>>> {
    let text = |e: model::MongoError| e.to_string();
    let store = open_store(engine).map_err(text)?;
    let mut all = BTreeMap::new();
    for db in store.list_databases().map_err(text)? {
        for entry in store.list_collections(&db).map_err(text)? {
            let ns = Namespace::new(&db, &entry.name).map_err(text)?;
            let found = store.collection(&ns).map_err(text)?;
            let Some(c) = found.filter(|c| !c.is_view() && !c.is_log() && db != "config") else {
                continue;
            };
            let documents: &mut Vec<DocBuf> = all.entry(ns.to_string()).or_default();
            let mut scan = c.scan(&ReadView::LATEST, false);
            while scan
                .visit(100, &mut |row| {
                    documents.push(row.doc.to_buf());
                    true
                })
                .map_err(text)?
            {
                scan.pause();
            }
        }
    }
    store.close().map_err(text)?;
    Ok(all)
}

/// Changes the master key several times under a workload.
pub(crate) fn check_rotation() {
    const STEPS: usize = 12;
    let keys = ['A', 'B'].map(master_key);
    let folder = folder();
    let live = folder.path().join("live");
    fs::create_dir(&live).expect("a folder");
    recorder::begin(&live);
    let engine = open_rocksdb(&live, Some(keys[0].clone())).expect("an empty directory");
    let data = engine.data_key().expect("it is encrypted");
    let observed = Arc::new(ObservedEngine::new(engine, HistoryRecorder::default()));
    let store = Arc::new(open_store(observed.clone()).expect("an empty store"));
    let mut client = Client::of(store.clone(), SEED);
    let mut rotations: Vec<[usize; 2]> = Vec::new();
    for step in 0..STEPS {
        client.step();
        if step % 8 == 3 {
            let begun = recorder::event_count();
            let key = &keys[(rotations.len() + 1) % 2];
            cipher::reseal(&live, &data, key).expect("another master key");
            rotations.push([begun, recorder::event_count()]);
        }
    }
    drop(client);
    let _ = store.close();
    drop(store);
    let events = recorder::end();
    let history = History::of(observed.observer());
    let positions: Vec<usize> = rotations.iter().flat_map(|[b, e]| *b..=*e).collect();
    try_images("a new master key", &events, &positions, &|path, at| {
        let done = rotations.iter().filter(|r| r[1] <= at).count();
        let begun = rotations.iter().filter(|r| r[0] < at).count();
        let fits = |key: &usize| cipher::open(path, &keys[*key]).is_ok();
        let fitting: Vec<usize> = (0..2).filter(fits).collect();
        let [key] = fitting[..] else {
            return Err(format!("the keys {fitting:?} fit"));
        };
        if ![done % 2, begun % 2].contains(&key) {
            return Err(format!("key {key} fits after {done} changes"));
        }
        let engine = open_rocksdb(path, Some(keys[key].clone())).map_err(|e| e.to_string())?;
        let past = &events[..at];
        let least = history.durable(past);
        let most = past.iter().filter(|e| **e == Event::Began).count();
        let states = history.find(&*engine).map_err(|e| e.to_string())?;
        if !states.iter().any(|n| (least..=most).contains(n)) {
            return Err(format!(
                "has the rows of commits {states:?}, not {least} to {most}"
            ));
        }
        check_store(engine, &LogEntries::new())
    });
}

/// Opens data of the earliest layout that is kept.
pub(crate) fn check_upgrade(engine: &str, open: OpenFn) {
    let folder = folder();
    let archive = format!("../../tests/formats/layout-4-{engine}-1.tar.gz");
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(&archive).arg("-C").arg(folder.path());
    assert!(tar.status().expect("tar").success(), "{archive}");
    let live = folder.path().join("live");
    recorder::begin(&live);
    copy_recorded(&folder.path().join("data"), &live);
    let begun = recorder::event_count();
    let documents = open(&live)
        .map_err(|e| e.to_string())
        .and_then(read_documents);
    let events = recorder::end();
    let documents = documents.unwrap_or_else(|e| panic!("{archive}: {e}"));
    assert!(
        documents.values().map(Vec::len).sum::<usize>() > 10,
        "{documents:?}"
    );
    let positions = choose_moments(begun, events.len());
    try_images(&archive, &events, &positions, &|path, _| {
        let again = read_documents(open(path).map_err(|e| e.to_string())?)?;
        if again != documents {
            return Err(format!("has {again:?}, not {documents:?}"));
        }
        check_store(open(path).map_err(|e| e.to_string())?, &LogEntries::new())
    });
}

#[derive(Parser)]
struct RepairLine {
    #[command(flatten)]
    args: RepairArgs,
}

/// Repairs a directory into the first free set-aside folder.
fn repair(data: &Path) -> Text<()> {
    let line = ["repair", "--memory", "128M", "--dbpath"].map(Into::into);
    let line = line.into_iter().chain([data.as_os_str().to_owned()]);
    let line = RepairLine::try_parse_from(line).map_err(|e| e.to_string())?;
    run_repair(&line.args, &mut |_| {}).map_err(|e| e.message)
}

/// Makes a directory of which a block of the largest table is damaged.
fn make_damaged(data: &Path, open: OpenFn) {
    let engine = open(data).expect("an empty directory");
    let store = Arc::new(open_store(engine.clone()).expect("an empty store"));
    let mut client = Client::of(store.clone(), SEED);
    for n in 0..40 {
        let documents: Vec<String> = (0..20)
            .map(|i| format!("{{'_id': {}, 'pad': '{}'}}", n * 20 + i, "x".repeat(300)))
            .collect();
        client.send(
            &format!("'insert': 'kept', 'documents': [{}]", documents.join(", ")),
            "",
        );
        client.step();
    }
    engine.flush().expect("flushed");
    drop(client);
    let _ = store.close();
    drop((store, engine));
    let files = fs::read_dir(data).expect("a folder").flatten();
    let tables = files
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "sst"));
    let len = |p: &PathBuf| fs::metadata(p).map_or(0, |m| m.len());
    let largest = tables.max_by_key(len).expect("a table");
    let mut bytes = fs::read(&largest).expect("a table");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&largest, bytes).expect("a table");
}

/// Repairs a directory with a damaged table.
pub(crate) fn check_repair(open: OpenFn) {
    let folder = folder();
    let damaged = folder.path().join("damaged");
    make_damaged(&damaged, open);
    let live = folder.path().join("live");
    fs::create_dir(&live).expect("a folder");
    recorder::begin(&live);
    copy_recorded(&damaged, &live.join("data"));
    let begun = recorder::event_count();
    let done = repair(&live.join("data"));
    let end = recorder::event_count();
    let events = recorder::end();
    done.expect("a repair");
    assert!(
        events.iter().any(|e| matches!(e, Event::Exchange { .. })),
        "the data was not rebuilt"
    );
    let open = |path: &Path| open(&path.join("data")).map_err(|e| e.to_string());
    let documents = read_documents(open(&live).expect("it is sound")).expect("documents");
    let kept = documents.get("d.kept").map_or(0, Vec::len);
    assert!((700..=800).contains(&kept), "{kept} documents are left");
    // Each image takes a second repair.
    let positions = choose_moments(begun, end);
    try_images("a repair", &events, &positions, &|path, at| {
        if at < end {
            repair(&path.join("data"))?;
        }
        let again = read_documents(open(path)?)?;
        if again != documents {
            let of = |all: &BTreeMap<String, Vec<DocBuf>>| -> Vec<(String, usize)> {
                all.iter()
                    .map(|(name, d)| (name.clone(), d.len()))
                    .collect()
            };
            return Err(format!("has {:?}, not {:?}", of(&again), of(&documents)));
        }
        check_store(open(path)?, &LogEntries::new())
    });
}
