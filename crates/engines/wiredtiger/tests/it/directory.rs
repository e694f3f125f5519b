//! Opening directories in every condition, checkpoints, the state after a kill.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use engine_wiredtiger::{ADVICE, Config, Library};
use storage::{Durability, Engine, KeyRange, Reader, StorageError, Table, WriteBatch};

use crate::tools::{config, library, open, root};

/// A file is checked every few seconds, and a turn takes several.
const WAIT: Duration = Duration::from_secs(60);

fn refusal(config: &Config) -> StorageError {
    match open(config) {
        Ok(_) => panic!("the directory should be refused"),
        Err(error) => error,
    }
}

fn key(n: u32) -> Vec<u8> {
    [&[0, 0, 0, 1][..], &n.to_be_bytes()].concat()
}

fn put(engine: &dyn Engine, n: u32, durability: Durability) {
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, &key(n), b"value");
    batch.add(Table::Meta, b"count", [1, 0]);
    engine.apply(&batch, durability).unwrap();
}

fn has(engine: &dyn Engine, n: u32) -> bool {
    engine.get(Table::Doc, &key(n), &mut Vec::new()).unwrap()
}

#[test]
fn one_process_at_a_time_and_no_foreign_directory() {
    if library().is_none() {
        return;
    }
    let root = root();
    let own = config(&root.path().join("own"));
    let engine = open(&own).unwrap();
    let version = library().unwrap().version();
    assert!(version.starts_with("WiredTiger "), "{version}");
    assert!(matches!(refusal(&own), StorageError::Locked { .. }));
    drop(engine);
    drop(open(&own).unwrap());

    // A directory of mongod is refused.
    let foreign = root.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("WiredTiger.wt"), "theirs").unwrap();
    let error = refusal(&config(&foreign));
    assert!(
        matches!(error, StorageError::ForeignDirectory { .. }),
        "{error}"
    );
    assert_eq!(fs::read_dir(&foreign).unwrap().count(), 1);
}

#[test]
fn what_is_absent_is_one_line() {
    for (name, include) in [
        ("libwiredtiger-that-is-not-there.so", None),
        ("nowhere/libx.so", Some("nowhere")),
    ] {
        let line = Library::load(name, include).err().unwrap();
        assert!(line.contains(ADVICE) && !line.contains('\n'), "{line}");
    }
}

#[test]
fn a_checkpoint_opens_by_itself() {
    if library().is_none() {
        return;
    }
    let root = root();
    let engine = open(&config(&root.path().join("data"))).unwrap();
    (0..100).for_each(|n| put(&engine, n, Durability::Buffered));
    let copy = root.path().join("copy");
    engine.checkpoint(&copy).unwrap();
    put(&engine, 100, Durability::Buffered);
    let copied = open(&config(&copy)).unwrap();
    assert!((0..100).all(|n| has(&copied, n)) && !has(&copied, 100));
    assert!(copied.verify().unwrap().findings.is_empty());
}

/// The log files of a directory.
fn logs(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).unwrap().map(|e| e.unwrap().path());
    let is_log = |path: &PathBuf| path.to_string_lossy().contains("WiredTigerLog.");
    let mut logs: Vec<_> = entries.filter(is_log).collect();
    logs.sort();
    logs
}

const COPIER: &str = "QUARRY_WIREDTIGER_COPIER";

/// The child process of the test below: leaves a directory with several log files.
#[test]
fn copies_and_ends() {
    let Ok(path) = std::env::var(COPIER) else {
        return;
    };
    let path = Path::new(&path);
    let engine = open(&config(path)).unwrap();
    put(&engine, 0, Durability::Journaled);
    fs::copy(&logs(path)[0], path.with_extension("log")).unwrap();
    // Each copy begins a log file.
    for n in 1..3 {
        let copy = path.with_extension(n.to_string());
        engine.checkpoint(&copy).unwrap();
        put(&engine, n, Durability::Journaled);
    }
    engine.close().unwrap();
    std::process::abort();
}

/// WiredTiger deletes log files that no checkpoint needs, on some file systems the newest first. A
/// process that ends meanwhile leaves older ones, with a gap before those in use.
#[test]
fn a_checkpoint_opens_when_the_removal_of_logs_was_broken_off() {
    if library().is_none() {
        return;
    }
    let root = root();
    let path = root.path().join("data");
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "directory::copies_and_ends"])
        .env(COPIER, &path)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(ended.signal().is_some(), "{ended}");
    let mut before = logs(&path);
    let in_use = before.pop().unwrap();
    before.iter().for_each(|log| fs::remove_file(log).unwrap());
    assert!(in_use.to_string_lossy().ends_with("0003"), "{in_use:?}");
    let stale = path.join("WiredTigerLog.0000000001");
    fs::copy(path.with_extension("log"), stale).unwrap();
    let engine = open(&config(&path)).unwrap();
    let copy = root.path().join("copy");
    engine.checkpoint(&copy).unwrap();
    let copied = open(&config(&copy)).unwrap();
    assert!((0..3).all(|n| has(&copied, n)));
}

#[test]
fn the_cause_of_a_failed_opening_is_told() {
    if library().is_none() {
        return;
    }
    let root = root();
    let engine = open(&config(&root.path().join("data"))).unwrap();
    put(&engine, 0, Durability::Journaled);
    let copy = root.path().join("copy");
    engine.checkpoint(&copy).unwrap();
    // The library misses a file between the two, and finally lists what is in its cache.
    let third = copy.join("WiredTigerLog.0000000003");
    fs::copy(&logs(&copy)[0], third).unwrap();
    let error = refusal(&config(&copy));
    let line = format!("{error}: {}", std::error::Error::source(&error).unwrap());
    assert!(line.contains("WiredTigerLog.0000000002"), "{line}");
    assert!(!line.contains('\n'), "{line}");
}

/// A failed call during the first opening leaves a table without a file.
#[test]
fn a_table_without_a_file_is_made_anew_unless_there_are_rows() {
    if library().is_none() {
        return;
    }
    let root = root();
    for (folder, is_filled) in [("empty", false), ("filled", true)] {
        let path = root.path().join(folder);
        let engine = open(&config(&path)).unwrap();
        if is_filled {
            put(&engine, 1, Durability::Journaled);
        }
        engine.close().unwrap();
        drop(engine);
        fs::remove_file(path.join("cap.wt")).unwrap();
        if is_filled {
            let error = refusal(&config(&path)).to_string();
            assert!(
                error.contains("corrupt") && error.contains("cap.wt"),
                "{error}"
            );
            continue;
        }
        let engine = open(&config(&path)).unwrap();
        let mut batch = WriteBatch::new();
        batch.put(Table::Cap, &key(1), b"value");
        engine.apply(&batch, Durability::Journaled).unwrap();
        engine.close().unwrap();
        drop(engine);
        let engine = open(&config(&path)).unwrap();
        assert!(engine.get(Table::Cap, &key(1), &mut Vec::new()).unwrap());
    }
}

#[test]
fn reading_only_changes_nothing() {
    if library().is_none() {
        return;
    }
    let root = root();
    let own = config(&root.path().join("data"));
    let engine = open(&own).unwrap();
    put(&engine, 1, Durability::Buffered);
    engine.close().unwrap();
    drop(engine);
    let files = || -> Vec<_> {
        let entries = fs::read_dir(&own.path).unwrap();
        let mut all: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
        all.sort();
        all.into_iter()
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect()
    };
    let before = files();
    let engine = open(&Config {
        read_only: true,
        ..own.clone()
    })
    .unwrap();
    assert!(has(&engine, 1));
    assert!(matches!(refusal(&own), StorageError::Locked { .. }));
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, &key(2), b"value");
    let written = engine.apply(&batch, Durability::Buffered);
    assert!(matches!(written, Err(StorageError::ReadOnly { .. })));
    engine.close().unwrap();
    drop(engine);
    assert!(files() == before, "a file was changed");
}

const CHILD: &str = "QUARRY_WIREDTIGER_CHILD";

/// The child process of the test below: writes until it is killed, and reports acknowledged writes.
#[test]
fn writes_until_it_is_killed() {
    let Ok(path) = std::env::var(CHILD) else {
        return;
    };
    let engine = open(&config(Path::new(&path))).unwrap();
    let acknowledged = Path::new(&path).with_extension("acknowledged");
    let next = acknowledged.with_extension("next");
    let first = (0..).find(|n| !has(&engine, *n)).unwrap();
    for n in first.. {
        // Both must survive the death of a process.
        let durability = if n % 10 == 0 {
            Durability::Journaled
        } else {
            Durability::Buffered
        };
        put(&engine, n, durability);
        // Written to another file and renamed: the process may be killed between emptying a file
        // and writing to it.
        fs::write(&next, n.to_string()).unwrap();
        fs::rename(&next, &acknowledged).unwrap();
    }
}

#[test]
fn a_killed_process_loses_nothing() {
    if library().is_none() {
        return;
    }
    let root = root();
    let path = root.path().join("data");
    let acknowledged = path.with_extension("acknowledged");
    let said = || {
        fs::read_to_string(&acknowledged)
            .ok()
            .and_then(|t| t.parse::<u32>().ok())
    };
    for round in 1..=3u32 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "directory::writes_until_it_is_killed"])
            .env(CHILD, &path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while said().is_none_or(|n| n < round * 200) {
            assert_eq!(child.try_wait().unwrap(), None, "the writer has ended");
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let last = said().unwrap();
        // A reader must not apply the log, and names who can.
        let reading = Config {
            read_only: true,
            ..config(&path)
        };
        let line = refusal(&reading).to_string();
        assert!(line.contains("start a server on it and stop it"), "{line}");
        let engine = open(&config(&path)).unwrap();
        for n in 0..=last {
            assert!(has(&engine, n), "{n} of {last} is lost");
        }
        let mut count = Vec::new();
        engine.get(Table::Meta, b"count", &mut count).unwrap();
        let stored = (0..).take_while(|n| has(&engine, *n)).count();
        assert_eq!(
            storage::counter_decode(&count)[0],
            i64::try_from(stored).unwrap()
        );
        assert!(engine.verify().unwrap().findings.is_empty());
    }
}

/// The size of the file of documents.
fn doc_bytes(engine: &dyn Engine) -> i64 {
    let mut bytes = 0;
    engine.stats(&mut |name, value| {
        if name == "doc.size_bytes" {
            bytes = value;
        }
    });
    bytes
}

#[test]
fn removed_rows_leave_their_space_to_the_file_system() {
    if library().is_some() {
        shrinks(24_000, 2_000);
    }
}

#[test]
fn removed_rows_larger_than_half_a_page_do_so_too() {
    if library().is_some() {
        shrinks(2_400, 20_000);
    }
}

/// Writes rows of one size, removes two thirds, and waits for the file to become shorter.
fn shrinks(rows: u32, value_bytes: usize) {
    let root = root();
    let engine = open(&config(root.path())).unwrap();
    let value = vec![7u8; value_bytes];
    // The remaining rows were written last: they are at the end of the file.
    for first in (0..rows).step_by(rows as usize / 24) {
        let mut batch = WriteBatch::new();
        for n in first..first + rows / 24 {
            batch.put(Table::Doc, &key(n), &value);
        }
        engine.apply(&batch, Durability::Buffered).unwrap();
        engine.flush().unwrap();
    }
    let stays = rows / 3 * 2;
    let kept = i64::from(rows - stays) * i64::try_from(value_bytes).unwrap();
    let before = doc_bytes(&engine);
    assert!(before > 3 * kept, "{before}");
    let (lower, upper) = (key(0), key(stays));
    let gone = KeyRange::new(&lower, &upper);
    engine.drop_range(Table::Doc, gone).unwrap();
    engine.flush().unwrap();
    let began = Instant::now();
    while doc_bytes(&engine) > kept * 3 / 2 {
        let (waited, now) = (began.elapsed(), doc_bytes(&engine));
        assert!(waited < WAIT, "{now} of {before} bytes, {kept} in use");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(engine);
    let engine = open(&config(root.path())).unwrap();
    let found: Vec<_> = (0..rows).filter(|n| has(&engine, *n)).collect();
    assert_eq!(found, (stays..rows).collect::<Vec<_>>());
}
