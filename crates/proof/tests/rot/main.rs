//! One flipped bit in any file of a data directory (ADR 0078): the directory is refused or a read
//! fails with a message about damage, or all data is unchanged. Changed data is never returned. For
//! RocksDB, whose files have checksums, with and without encryption; `docs/engines.md` describes
//! LMDB, which has none. `QUARRY_ROT=n` sets the number of bits, `QUARRY_SEED=n` begins with
//! another seed.

#[path = "../shared/encrypted.rs"]
mod encrypted;
#[path = "../crash/workload.rs"]
mod workload;

use cipher::MasterKey;
use commands::{StoreHooks, SystemClock};
use encrypted::{master_key, open_rocksdb};
use engine_rocksdb::RocksEngine;
use proof::Random;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use storage::{CursorOpts, Engine, KeyRange, Reader, Result, StorageError, Table};
use store::Store;
use workload::Client;

const BITS: usize = 120;

type Rows = BTreeMap<(Table, Vec<u8>), Vec<u8>>;
type Files = BTreeMap<PathBuf, Vec<u8>>;

fn rows(engine: &RocksEngine) -> Result<Rows> {
    let mut rows = Rows::new();
    for table in Table::ALL.into_iter().filter(|t| *t != Table::Tmp) {
        let mut cursor = engine.cursor(table, KeyRange::ALL, CursorOpts::default())?;
        while cursor.visit(1000, &mut |key, value| {
            rows.insert((table, key.to_vec()), value.to_vec());
            true
        })? {}
    }
    Ok(rows)
}

fn files(folder: &Path) -> Files {
    let all = fs::read_dir(folder).expect("the folder").flatten();
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).expect("a file");
        (PathBuf::from(path.file_name().expect("a name")), bytes)
    };
    all.map(|e| e.path())
        .filter(|p| p.is_file())
        .map(read)
        .collect()
}

/// The kind of a file, for the table of results.
fn kind(name: &Path) -> &'static str {
    let text = name.to_string_lossy();
    match name.extension().and_then(|e| e.to_str()) {
        Some("log") => "journal",
        Some("sst") => "table",
        Some("blob") => "large values",
        _ if text.starts_with("MANIFEST") => "manifest",
        _ if text.starts_with("OPTIONS") => "options",
        _ if text.starts_with("LOG") => "text for people",
        _ if text == "CURRENT" => "name of the manifest",
        _ if text == "JOURNAL-MARK" => "mark",
        _ if text == cipher::KEYS_FILE => "keys",
        _ if text == storage::MARKER => "marker",
        _ => "other",
    }
}

/// A directory as the end of the process leaves it, with its rows: part in the journal, part in
/// tables.
fn directory(root: &Path, key: Option<Arc<MasterKey>>) -> (Files, Rows) {
    let live = root.join("live");
    fs::create_dir(&live).expect("a folder");
    let engine = open_rocksdb(&live, key).expect("an empty directory");
    let hooks = StoreHooks::new(Arc::new(SystemClock::default())).with_log(1 << 20);
    let store = Arc::new(Store::open(engine.clone(), Arc::new(hooks)).expect("a store"));
    let mut client = Client::of(store.clone(), 11);
    for step in 0..80 {
        client.step();
        if step == 40 {
            engine.flush().expect("flushed");
        }
    }
    // A value that is stored in a separate file.
    let large = format!(
        "'insert': 'large', 'documents': [{{'s': '{}'}}]",
        "sea".repeat(40_000)
    );
    client.send(&large, "");
    engine.flush().expect("flushed");
    client.send("'insert': 'small', 'documents': [{'s': 1}]", "");
    assert!(!client.failed);
    let (kept, whole) = copy_at_rest(&live, &store, &engine);
    drop(client);
    let _ = store.close();
    (kept, whole)
}

/// Files and rows of one moment: obsolete files are removed and tables are merged in the
/// background.
fn copy_at_rest(live: &Path, store: &Store, engine: &RocksEngine) -> (Files, Rows) {
    loop {
        let last = store::CommitPos(engine.last_pos().0);
        store.wait_durable(last).expect("durable");
        let (before, kept) = (rows(engine).expect("rows"), files(live));
        let is_same = rows(engine).expect("rows") == before && engine.last_pos().0 == last.0;
        if is_same && files(live) == kept {
            return (kept, before);
        }
    }
}

/// Whether an error clearly reports damage.
fn says_damage(error: &StorageError) -> bool {
    let source = std::error::Error::source(error).map(ToString::to_string);
    let text = format!("{error} {}", source.unwrap_or_default()).to_lowercase();
    let words = [
        "damage",
        "corrupt",
        "checksum",
        "mismatch",
        "belongs to",
        "newer",
        "names no",
        "no quarry-engine",
        "cannot",
        "not found",
        "no such file",
        "was changed",
        "on-disk format",
    ];
    words.iter().any(|w| text.contains(w))
}

/// The directory to test, and the results by kind of file.
struct RotTrial<'a> {
    root: &'a Path,
    key: Option<Arc<MasterKey>>,
    kept: &'a Files,
    whole: &'a Rows,
    seed: u64,
    seen: Mutex<BTreeMap<(&'static str, &'static str), usize>>,
}

impl RotTrial<'_> {
    /// Flips one bit of a file in a copy of the directory, and reads everything.
    fn flip(&self, n: usize, name: &Path) {
        let mut random = Random::new(self.seed << 32 | n as u64);
        let mut changed = self.kept[name].clone();
        // Journal files are longer than their content.
        let held = changed.iter().rposition(|b| *b != 0).map_or(1, |at| at + 1);
        let (byte, bit) = (random.below(held), random.below(8));
        changed[byte] ^= 1 << bit;
        let folder = self.root.join(format!("rot-{n}"));
        fs::create_dir(&folder).expect("a folder");
        for (other, bytes) in self.kept {
            let bytes = if other == name { &changed } else { bytes };
            fs::write(folder.join(other), bytes).expect("a file");
        }
        let read = open_rocksdb(&folder, self.key.clone()).and_then(|engine| {
            let read = rows(&engine);
            let _ = engine.close();
            read
        });
        let seed = self.seed;
        let what = format!(
            "seed {seed}: bit {bit} of byte {byte} of {}",
            name.display()
        );
        let told = match read {
            Ok(read) if read == *self.whole => "nothing changed",
            Ok(read) => {
                let lost = self.whole.keys().filter(|k| !read.contains_key(*k)).count();
                let new = read.keys().filter(|k| !self.whole.contains_key(*k)).count();
                panic!("{what}: answered, {lost} rows lost, {new} new, others differ");
            }
            Err(error) => {
                assert!(says_damage(&error), "{what}: {error:?}");
                "refused"
            }
        };
        let mut seen = self.seen.lock().expect("no panic");
        *seen.entry((kind(name), told)).or_default() += 1;
        let _ = fs::remove_dir_all(&folder);
    }
}

#[test]
fn a_flipped_bit_is_told_or_changes_nothing() {
    flip_bits(None, &["journal", "table", "manifest", "large values"]);
}

#[test]
fn a_flipped_bit_of_encrypted_data_is_reported_or_changes_nothing() {
    let must = ["journal", "table", "manifest", "large values", "keys"];
    flip_bits(Some(master_key('A')), &must);
}

/// Flips bits of a directory, one at a time; for each kind of file in `must` at least one flip must
/// be refused.
fn flip_bits(key: Option<Arc<MasterKey>>, must: &[&'static str]) {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let bits = number("QUARRY_ROT").map_or(BITS, |n| usize::try_from(n).unwrap_or(BITS));
    let seed = number("QUARRY_SEED").unwrap_or(1);
    let memory = Path::new("/dev/shm");
    let root = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    }
    .expect("a folder");
    let (kept, whole) = directory(root.path(), key.clone());
    let same = root.path().join("same");
    fs::create_dir(&same).expect("a folder");
    kept.iter()
        .for_each(|(name, bytes)| fs::write(same.join(name), bytes).expect("a file"));
    let engine = open_rocksdb(&same, key.clone()).expect("a copy without a flipped bit opens");
    assert!(
        rows(&engine).expect("rows") == whole,
        "a copy has the same rows"
    );
    engine.close().expect("closed");
    let names: Vec<&PathBuf> = kept.keys().filter(|n| !kept[*n].is_empty()).collect();
    let tried = RotTrial {
        root: root.path(),
        key: key.clone(),
        kept: &kept,
        whole: &whole,
        seed,
        seen: Mutex::default(),
    };
    // The files take turns, so that small ones are tested as often as large ones.
    proof::run_cases(0..bits, &|n| tried.flip(n, names[n % names.len()]));
    let seen = tried.seen.into_inner().expect("no panic");
    let of = if key.is_some() { "encrypted" } else { "plain" };
    println!("bit rot, seed {seed}: {bits} bits, {of}, {seen:?}");
    for must in must {
        assert!(seen.contains_key(&(*must, "refused")), "{must}: {seen:?}");
    }
}
