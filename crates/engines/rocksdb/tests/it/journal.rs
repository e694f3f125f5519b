//! Journals after a kill: flipped bits never open with fewer commits than were flushed, tails that
//! were never flushed always open, and a repair reports what it has lost.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use engine_rocksdb::{Config, RocksEngine};
use storage::{Durability, Engine, Reader, StorageError, Table, WriteBatch};

use crate::encryption::master;

pub(crate) const MARK: &str = "JOURNAL-MARK";

pub(crate) fn config(path: &Path) -> Config {
    Config::with_budget(path, 64 << 20)
}

/// A configuration with or without encryption.
pub(crate) fn config_of(path: &Path, sealed: bool) -> Config {
    Config {
        master_key: sealed.then(master),
        ..config(path)
    }
}

pub(crate) fn key(number: u32) -> Vec<u8> {
    [1u32.to_be_bytes(), number.to_be_bytes()].concat()
}

/// Most values are small; some fill several blocks of the journal.
fn value(number: u32) -> Vec<u8> {
    vec![
        number as u8;
        if number % 16 == 7 {
            70_000
        } else {
            100 + number as usize % 50
        }
    ]
}

pub(crate) fn commit(engine: &RocksEngine, number: u32, durability: Durability) {
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, &key(number), &value(number));
    batch.add(Table::Meta, b"n|all", [1, 1]);
    // Put last, so that a record does not end in zeros.
    batch.put(Table::Idx, &key(number), b"entry");
    engine.apply(&batch, durability).unwrap();
}

/// Copies the directory as it would be after a kill at this moment: written data is there, nothing
/// is closed.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() && entry.file_name() != "LOCK" {
            match fs::copy(entry.path(), to.join(entry.file_name())) {
                // The engine has deleted the file meanwhile; after a kill it would be missing, too.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                copied => _ = copied.unwrap(),
            }
        }
    }
}

pub(crate) fn journals(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    files.sort();
    files
}

/// Bytes that were written: the file is longer, and reads as zeros after them.
pub(crate) fn len(path: &Path) -> u64 {
    let bytes = fs::read(path).unwrap();
    if bytes.starts_with(b"QRYSEAL1") {
        return sealed_len(&bytes);
    }
    bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last as u64 + 1)
}

/// A tag may end in zeros, so the pieces are read in turn: length, that many bytes, tag.
fn sealed_len(bytes: &[u8]) -> u64 {
    let mut at = 64;
    while let Some(length) = bytes.get(at..at + 4) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        if length == 0 {
            break;
        }
        at += 4 + length + 16;
    }
    at as u64
}

fn flip(path: &Path, bit: u64) {
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, bit / 8).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << (bit % 8))], bit / 8)
        .unwrap();
}

/// How many consecutive commits from 0 on are there.
pub(crate) fn count_commits(engine: &RocksEngine) -> u32 {
    let mut out = Vec::new();
    let mut number = 0;
    while engine.get(Table::Doc, &key(number), &mut out).unwrap() {
        assert!(
            out == value(number),
            "commit {number} is not what was written"
        );
        number += 1;
    }
    number
}

/// A directory after a kill: `flushed` commits were acknowledged as durable, `written` were
/// written.
struct CrashedDirectory {
    _root: tempfile::TempDir,
    path: PathBuf,
    flushed: u32,
    written: u32,
    /// Length of the newest journal file when the last flush returned.
    flushed_len: u64,
    scratch: PathBuf,
    sealed: bool,
}

impl CrashedDirectory {
    fn new(flushed: u32, written: u32, early_flush: Option<u32>, sealed: bool) -> Self {
        let root = tempfile::tempdir().unwrap();
        let (live, path, scratch) = (
            root.path().join("live"),
            root.path().join("killed"),
            root.path().join("scratch"),
        );
        // The engine must not flush by itself what this test leaves unflushed.
        let engine = RocksEngine::open(Config {
            journal_commit_interval_ms: 3_600_000,
            ..config_of(&live, sealed)
        })
        .unwrap();
        for number in 0..flushed {
            if early_flush == Some(number) {
                engine.flush().unwrap();
            }
            let last = number + 1 == flushed;
            commit(
                &engine,
                number,
                if last {
                    Durability::Journaled
                } else {
                    Durability::Buffered
                },
            );
        }
        let flushed_len = len(journals(&live).last().unwrap());
        for number in flushed..written {
            commit(&engine, number, Durability::Buffered);
        }
        copy(&live, &path);
        Self {
            _root: root,
            path,
            flushed,
            written,
            flushed_len,
            scratch,
            sealed,
        }
    }

    /// Opens a copy after `harm` has changed it.
    fn open_after(&self, repair: bool, harm: impl FnOnce(&Path)) -> storage::Result<RocksEngine> {
        fs::remove_dir_all(&self.scratch).ok();
        copy(&self.path, &self.scratch);
        harm(&self.scratch);
        RocksEngine::open(Config {
            repair,
            ..config_of(&self.scratch, self.sealed)
        })
    }
}

#[test]
fn flipped_bits_never_open_with_fewer_commits_than_were_flushed() {
    for (early_flush, sealed) in [(None, false), (Some(20), false), (Some(20), true)] {
        let killed = CrashedDirectory::new(60, 60, early_flush, sealed);
        let newest = journals(&killed.path).pop().unwrap();
        let bits = len(&newest) * 8;
        // Every bit at both ends, then some spread over the file.
        let spread = (0..60).map(|step| bits / 60 * step + step % 8);
        let places: Vec<u64> = (0..160)
            .step_by(5)
            .chain(bits - 96..bits)
            .chain(spread)
            .collect();
        let mut refused = 0;
        for bit in places {
            let opened = killed.open_after(false, |path| {
                flip(&path.join(newest.file_name().unwrap()), bit)
            });
            match opened {
                Ok(engine) => assert_eq!(
                    count_commits(&engine),
                    killed.flushed,
                    "bit {bit} of {bits}"
                ),
                Err(StorageError::JournalDamaged { found }) => {
                    let name = newest.file_name().unwrap().to_string_lossy().into_owned();
                    assert!(found.contains(&name), "{found}");
                    refused += 1;
                }
                Err(error) => panic!("bit {bit}: {error}"),
            }
        }
        assert!(refused > 150, "only {refused} of the flips were noticed");
    }
}

#[test]
fn tails_that_were_never_flushed_open_with_everything_that_was() {
    tails_open(false);
    tails_open(true);
}

fn tails_open(sealed: bool) {
    let killed = CrashedDirectory::new(20, 40, None, sealed);
    let name = journals(&killed.path)
        .pop()
        .unwrap()
        .file_name()
        .unwrap()
        .to_owned();
    let whole = len(&killed.path.join(&name));
    assert!(whole > killed.flushed_len);
    let check = |what: String, opened: storage::Result<RocksEngine>| {
        let engine = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(
            (killed.flushed..=killed.written).contains(&count_commits(&engine)),
            "{what}"
        );
    };
    let (from, step) = (killed.flushed_len, (whole - killed.flushed_len) / 25);
    for cut in (0..12)
        .map(|by| from + by)
        .chain((0..25).map(|n| from + n * step))
    {
        let shorten = |path: &Path| {
            let file = fs::OpenOptions::new()
                .write(true)
                .open(path.join(&name))
                .unwrap();
            file.set_len(cut).unwrap();
        };
        check(
            format!("cut at {cut} of {whole}"),
            killed.open_after(false, shorten),
        );
        // Any page of the tail may be missing.
        let hole = |path: &Path| {
            let file = fs::OpenOptions::new()
                .write(true)
                .open(path.join(&name))
                .unwrap();
            file.write_all_at(&vec![0; (whole - cut).min(4096) as usize], cut)
                .unwrap();
        };
        check(
            format!("hole at {cut} of {whole}"),
            killed.open_after(false, hole),
        );
    }
    for bit in (from * 8..whole * 8).step_by(((whole - from) * 8 / 20) as usize) {
        check(
            format!("bit {bit}"),
            killed.open_after(false, |path| flip(&path.join(&name), bit)),
        );
    }
    let cut_flushed = killed.open_after(false, |path| {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(path.join(&name))
            .unwrap();
        file.set_len(killed.flushed_len - 1).unwrap();
    });
    assert!(
        matches!(cut_flushed, Err(StorageError::JournalDamaged { .. })),
        "a flushed byte is missing"
    );
}

/// Without it the file would grow with each commit, and each flush would write its inode.
#[test]
fn a_journal_file_has_its_length_before_its_content_and_loses_the_rest_when_closed() {
    let root = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(config(root.path())).unwrap();
    let newest = journals(root.path()).pop().unwrap();
    let mut lengths = Vec::new();
    for number in 0..50 {
        commit(&engine, number, Durability::Journaled);
        lengths.push(fs::metadata(&newest).unwrap().len());
    }
    let used = len(&newest);
    assert!(
        lengths.iter().all(|length| *length == lengths[0]),
        "{lengths:?}"
    );
    assert!(lengths[0] > 4 * used, "{} of {used}", lengths[0]);
    drop(engine);
    for file in journals(root.path()) {
        let left = fs::metadata(&file).unwrap().len();
        assert!(left < 2 * used, "{left} of {used}");
    }
    assert_eq!(
        count_commits(&RocksEngine::open(config(root.path())).unwrap()),
        50
    );
}

/// RocksDB continues to read after a page of zeros; commits after a missing one must not appear.
#[test]
fn records_after_a_gap_in_the_tail_are_not_replayed() {
    let killed = CrashedDirectory::new(20, 400, None, false);
    let name = journals(&killed.path)
        .pop()
        .unwrap()
        .file_name()
        .unwrap()
        .to_owned();
    let engine = killed.open_after(false, |path| {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(path.join(&name))
            .unwrap();
        // From the middle of a block to its end, so that reading resumes with the next block.
        let from = killed.flushed_len + 100;
        let to = from.next_multiple_of(32 * 1024);
        assert!(
            to + 4096 < len(&path.join(&name)),
            "records behind the hole"
        );
        file.write_all_at(&vec![0; (to - from) as usize], from)
            .unwrap();
    });
    let engine = engine.unwrap();
    let first_missing = count_commits(&engine);
    assert!((killed.flushed..killed.written).contains(&first_missing));
    let mut out = Vec::new();
    for number in first_missing..killed.written {
        assert!(
            !engine.get(Table::Doc, &key(number), &mut out).unwrap(),
            "{number}"
        );
    }
}

/// After a loss of power the mark may be older than the journal. It then proves less, and never
/// causes a refusal of an undamaged journal.
#[test]
fn an_older_mark_of_an_earlier_run_of_the_system_refuses_nothing_sound() {
    let root = tempfile::tempdir().unwrap();
    let (live, killed) = (root.path().join("live"), root.path().join("killed"));
    let engine = RocksEngine::open(config(&live)).unwrap();
    commit(&engine, 0, Durability::Journaled);
    let mut mark = fs::read(live.join(MARK)).unwrap();
    // The identifier of this run of the system is at byte 8.
    mark[8..48].fill(b'x');
    commit(&engine, 1, Durability::Journaled);
    // Everything is written to tables, and the journal file of both commits is deleted.
    engine.flush().unwrap();
    copy(&live, &killed);
    fs::write(killed.join(MARK), &mark).unwrap();
    assert_eq!(
        count_commits(&RocksEngine::open(config(&killed)).unwrap()),
        2
    );
}

#[test]
fn repair_opens_up_to_the_damage_and_reports_it() {
    let killed = CrashedDirectory::new(60, 60, None, false);
    let name = journals(&killed.path)
        .pop()
        .unwrap()
        .file_name()
        .unwrap()
        .to_owned();
    let sound = killed.open_after(true, |_| {}).unwrap();
    assert_eq!((count_commits(&sound), sound.repair_note()), (60, None));
    drop(sound);
    assert!(!killed.scratch.join("journal-before-repair-1").exists());

    let middle = len(&killed.path.join(&name)) * 4;
    let harm = |path: &Path| flip(&path.join(&name), middle);
    assert!(matches!(
        killed.open_after(false, harm),
        Err(StorageError::JournalDamaged { .. })
    ));
    // A refusal changes nothing: the same directory is refused again, and can be repaired.
    let again = RocksEngine::open(config(&killed.scratch));
    assert!(matches!(again, Err(StorageError::JournalDamaged { .. })));
    let repaired = RocksEngine::open(Config {
        repair: true,
        ..config(&killed.scratch)
    })
    .unwrap();
    let report = repaired.repair_note().unwrap().to_owned();
    assert!(
        report.contains(&*name.to_string_lossy()) && report.contains("given up"),
        "{report}"
    );
    let left = count_commits(&repaired);
    assert!((1..60).contains(&left), "{left}");
    let kept = fs::read(killed.scratch.join("journal-before-repair-1").join(&name)).unwrap();
    assert_eq!(
        kept.len() as u64,
        fs::metadata(killed.path.join(&name)).unwrap().len()
    );
    commit(&repaired, left, Durability::Journaled);
    repaired.close().unwrap();
    drop(repaired);
    let open = RocksEngine::open(config(&killed.scratch)).unwrap();
    assert_eq!(count_commits(&open), left + 1);
}

/// One table was flushed, the others still need the damaged file: all readable records must be
/// applied.
#[test]
fn repair_takes_all_it_can_when_tables_hold_later_commits() {
    let root = tempfile::tempdir().unwrap();
    let (live, killed) = (root.path().join("live"), root.path().join("killed"));
    let engine = RocksEngine::open(config(&live)).unwrap();
    for number in 0..30 {
        commit(&engine, number, Durability::Journaled);
    }
    let raw = engine.raw();
    raw.flush_cf(raw.cf_handle("doc").unwrap()).unwrap();
    for number in 30..40 {
        commit(&engine, number, Durability::Journaled);
    }
    copy(&live, &killed);
    let first = journals(&killed).into_iter().next().unwrap();
    flip(&first, len(&first) * 4);
    let refused = RocksEngine::open(config(&killed));
    assert!(
        matches!(refused, Err(StorageError::JournalDamaged { .. })),
        "{:?}",
        refused.err()
    );
    let repaired = RocksEngine::open(Config {
        repair: true,
        ..config(&killed)
    })
    .unwrap();
    assert_eq!(
        count_commits(&repaired),
        40,
        "the documents were in a table or behind the damage"
    );
    assert!(
        repaired
            .repair_note()
            .unwrap()
            .contains("every readable record")
    );
}

/// Commits without a journal record take positions, too: the mark must not require them in the
/// journal.
#[test]
fn commits_without_the_journal_leave_no_gap_in_it() {
    let root = tempfile::tempdir().unwrap();
    let (live, killed) = (root.path().join("live"), root.path().join("killed"));
    let engine = RocksEngine::open(config(&live)).unwrap();
    for number in 0..10 {
        commit(&engine, number, Durability::Journaled);
        commit(&engine, 1000 + number, Durability::None);
        engine.wait_durable(engine.last_pos()).unwrap();
    }
    copy(&live, &killed);
    assert_eq!(
        count_commits(&RocksEngine::open(config(&killed)).unwrap()),
        10
    );
    let newest = journals(&killed).pop();
    assert!(newest.is_some());
}

#[test]
fn a_journal_file_that_is_gone_is_missed() {
    let killed = CrashedDirectory::new(10, 10, None, false);
    let opened = killed.open_after(false, |path| {
        fs::remove_file(journals(path).pop().unwrap()).unwrap()
    });
    assert!(
        matches!(opened, Err(StorageError::JournalDamaged { .. })),
        "{:?}",
        opened.err()
    );
}

/// A process that is refused because the directory is in use must not change the mark of the
/// process that uses it.
#[test]
fn a_second_opener_leaves_the_mark_alone() {
    let root = tempfile::tempdir().unwrap();
    let live = root.path().join("live");
    let engine = RocksEngine::open(config(&live)).unwrap();
    commit(&engine, 0, Durability::Journaled);
    let before = fs::read(live.join(MARK)).unwrap();
    for repair in [false, true] {
        let second = RocksEngine::open(Config {
            repair,
            ..config(&live)
        });
        assert!(
            matches!(second, Err(StorageError::Locked { .. })),
            "{:?}",
            second.err()
        );
    }
    assert!(
        before == fs::read(live.join(MARK)).unwrap(),
        "the mark was written"
    );
}
