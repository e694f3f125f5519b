//! Runs a workload, makes crash images of it, opens each and reports errors.

use crate::history::{History, HistoryRecorder};
use crate::recorder;
use crate::workload::Client;
use commands::{StoreHooks, SystemClock};
use model::{DocBuf, Namespace, doc};
use operation::Operation;
use proof::{Event, Image, Loss, Random};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use storage::{Engine, ObservedEngine, Result};
use store::{ReadView, Store};

pub(crate) type EngineRef = Arc<dyn Engine>;
pub(crate) type OpenFn = fn(&Path) -> Result<EngineRef>;

const IMAGES_A_RUN: usize = 150;
const STEPS: usize = 60;
/// The file and byte range in which `mark.rs` of RocksDB's engine writes the id of the system's
/// boot.
const MARK: (&str, std::ops::Range<usize>) = ("JOURNAL-MARK", 8..48);

pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Entries of the log by their times.
pub(crate) type LogEntries = BTreeMap<u64, DocBuf>;

/// The recorded calls on a directory and on its engine.
struct Run {
    seed: u64,
    events: Vec<Event>,
    history: History,
    /// The entries that the log had at the end, by their times.
    entries: LogEntries,
    open: OpenFn,
    folder: PathBuf,
}

/// An image and how it was made.
struct CrashCase {
    image: Image,
    loss: Loss,
    at: usize,
}

/// Tries images of workloads with consecutive seeds; so many, unless `QUARRY_IMAGES` says more.
pub(crate) fn search(engine: &str, open: OpenFn, ordinary: usize) {
    let asked = number("QUARRY_IMAGES").and_then(|n| usize::try_from(n).ok());
    let images = asked.unwrap_or(ordinary);
    let first = number("QUARRY_SEED").unwrap_or(1);
    let (begun, mut tried, mut states, mut runs) = (Instant::now(), 0, 0, 0);
    while tried < images {
        let folder = folder();
        let run = record(first + runs, open, folder.path());
        let only = number("QUARRY_IMAGE").map(|n| usize::try_from(n).unwrap_or(0));
        let some = only.map_or(0..IMAGES_A_RUN.min(images - tried), |n| n..n + 1);
        tried += if only.is_some() { images } else { some.len() };
        runs += 1;
        states += try_images(engine, &run, some);
    }
    println!(
        "{engine}: {tried} images of {runs} workloads, {states} states of commits, {:.1} s",
        begun.elapsed().as_secs_f64()
    );
}

/// A temporary folder, in memory if the system has a place for that.
pub(crate) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    made.expect("a folder")
}

pub(crate) fn open_store(engine: Arc<dyn Engine>) -> model::Result<Store> {
    let hooks = StoreHooks::new(Arc::new(SystemClock::default())).with_log(1 << 20);
    Store::open(engine, Arc::new(hooks))
}

fn record(seed: u64, open: OpenFn, folder: &Path) -> Run {
    let live = folder.join("live");
    std::fs::create_dir(&live).expect("a folder");
    recorder::begin(&live);
    let engine = open(&live).expect("an empty directory");
    let observed = Arc::new(ObservedEngine::new(engine, HistoryRecorder::default()));
    let store = Arc::new(open_store(observed.clone()).expect("an empty store"));
    let mut client = Client::of(store.clone(), seed);
    for _ in 0..STEPS {
        client.step();
    }
    assert!(!client.failed, "nothing fails without a fault");
    let well = client.replies.get(&0).copied().unwrap_or(0);
    assert!(
        well > STEPS / 2,
        "few commands go well: {:?}",
        client.replies
    );
    drop(client);
    let entries = read_log(&store).expect("a log");
    let _ = store.close();
    drop(store);
    let events = recorder::end();
    Run {
        seed,
        events,
        history: History::of(observed.observer()),
        entries,
        open,
        folder: folder.to_owned(),
    }
}

/// The number of distinct states that the images contained.
fn try_images(engine: &str, run: &Run, images: std::ops::Range<usize>) -> usize {
    let seen = parking_lot::Mutex::new(BTreeSet::new());
    proof::run_cases(images, &|image| {
        if let Err(wrong) = run.try_image(image, &seen) {
            let seed = run.seed;
            run.keep(image);
            panic!("{engine}: {wrong}\nQUARRY_SEED={seed} QUARRY_IMAGE={image} finds it again");
        }
    });
    seen.into_inner().len()
}

impl Run {
    /// Saves the image and its recording: background threads make each run of one seed slightly
    /// different.
    fn keep(&self, image: usize) {
        let kept = std::env::temp_dir().join(format!("quarry-crash-{}-{image}", self.seed));
        let _ = std::fs::remove_dir_all(&kept);
        let _ = std::fs::create_dir(&kept);
        let made = self.image(image);
        let _ = made.image.write_to(&kept.join("image"));
        let events: Vec<String> = self.events.iter().map(line).collect();
        let head = format!("{:?} at event {}\n", made.loss, made.at);
        let _ = std::fs::write(kept.join("events"), head + &events.join("\n"));
        println!("the image and its events are kept in {}", kept.display());
    }

    fn image(&self, number: usize) -> CrashCase {
        let mut random = Random::new(self.seed << 32 | number as u64);
        let loss = Loss::ALL[random.below(Loss::ALL.len())];
        let at = random.below(self.events.len() + 1);
        let mut image = Image::after_loss(&self.events, at, loss, &mut random);
        if loss != Loss::Nothing {
            start_system_anew(&mut image);
        }
        CrashCase { image, loss, at }
    }

    fn try_image(
        &self,
        number: usize,
        seen: &parking_lot::Mutex<BTreeSet<usize>>,
    ) -> std::result::Result<(), String> {
        let CrashCase { image, loss, at } = self.image(number);
        let past = self.events.get(..at).unwrap_or_default();
        let least = self.history.durable(past);
        let most = past.iter().filter(|e| **e == Event::Began).count();
        let what = format!("{loss:?} at event {at} of {}", self.events.len());
        let folder = self.folder.join(format!("image-{number}"));
        image.write_to(&folder).map_err(|e| e.to_string())?;
        let opened = (self.open)(&folder).map_err(|e| format!("{what}: does not open: {e}"))?;
        let states = self
            .history
            .find(&*opened)
            .map_err(|e| format!("{what}: {e}"))?;
        let state = states.iter().copied().find(|n| (least..=most).contains(n));
        let Some(state) = state else {
            return Err(format!(
                "{what}: holds the rows of commits {states:?}, not of one from {least} to {most} \
                 of {}",
                self.history.len()
            ));
        };
        if seen.lock().insert(state) {
            check_store(opened, &self.entries)
                .map_err(|e| format!("{what}, after {state} commits: {e}"))?;
        } else {
            drop(opened);
        }
        std::fs::remove_dir_all(&folder).map_err(|e| e.to_string())
    }
}

/// One event as a line; for bytes only their number.
fn line(event: &Event) -> String {
    match event {
        Event::Write {
            file,
            at,
            bytes,
            durable,
        } => format!(
            "Write {file} at {at}, {} bytes, durable {durable}",
            bytes.len()
        ),
        other => format!("{other:?}"),
    }
}

/// Changes the boot id, as a restart after a loss of power does.
pub(crate) fn start_system_anew(image: &mut Image) {
    let (file, run) = MARK;
    for (name, mark) in &mut image.files {
        let run = mark.bytes.get_mut(run.clone());
        if let Some(run) = run.filter(|run| name.ends_with(file) && run.iter().any(|b| *b != 0)) {
            run.fill(b'-');
        }
    }
}

/// Checks that all stored data is consistent, that entries of the log equal those known, and that
/// the store accepts writes.
pub(crate) fn check_store(
    engine: EngineRef,
    known: &LogEntries,
) -> std::result::Result<(), String> {
    let text = |e: model::MongoError| e.to_string();
    let store = open_store(engine).map_err(text)?;
    for (time, entry) in read_log(&store)? {
        // Opening the store added an entry, perhaps with the time of one that is lost.
        let is_opening = entry.doc().field("op").as_str() == Some("n");
        if !is_opening && known.get(&time).is_some_and(|known| *known != entry) {
            return Err(format!("the entry with time {time} is {entry:?}"));
        }
    }
    for round in 0..2 {
        for db in store.list_databases().map_err(text)? {
            for entry in store.list_collections(&db).map_err(text)? {
                let ns = Namespace::new(&db, &entry.name).map_err(text)?;
                let found = store.collection(&ns).map_err(text)?;
                let c = found.ok_or_else(|| format!("{ns} is listed and not there"))?;
                if c.is_view() || c.is_log() {
                    continue;
                }
                let found = c.validate().map_err(text)?;
                if !found.errors.is_empty() {
                    return Err(format!("{ns}: {:?}", found.errors));
                }
            }
        }
        read_log(&store)?;
        if round == 0 {
            let ns = Namespace::new("d", "after").map_err(text)?;
            let operation = Operation::new_detached(Arc::new(SystemClock::default()));
            let c = store
                .writer(&operation)
                .create_collection(&ns, DocBuf::new(), [9; 16])
                .map_err(text)?;
            c.writer(&operation)
                .insert(&[doc! { "_id": 1i32 }.doc()], true)
                .map_err(text)?;
        }
    }
    store.close().map_err(text)
}

/// Reads the log to its end and checks that its times grow.
fn read_log(store: &Store) -> std::result::Result<LogEntries, String> {
    let ns = Namespace::new("local", "oplog.rs").map_err(|e| e.to_string())?;
    let log = store.collection(&ns).map_err(|e| e.to_string())?;
    let log = log.ok_or("there is no log")?;
    let (mut entries, mut wrong, mut last) = (LogEntries::new(), None, 0);
    let mut scan = log.scan(&ReadView::LATEST, false);
    while scan
        .visit(100, &mut |row| {
            match row.doc.field("ts") {
                model::Value::Timestamp(at) if at.as_u64() > last => {
                    last = at.as_u64();
                    entries.insert(last, row.doc.to_buf());
                }
                other => wrong = Some(format!("{other:?} follows the time {last} in the log")),
            }
            true
        })
        .map_err(|e| e.to_string())?
    {
        scan.pause();
    }
    match wrong {
        Some(wrong) => Err(wrong),
        None if entries.is_empty() => Err("the log is empty".to_owned()),
        None => Ok(entries),
    }
}
