//! Encrypted data: no plaintext is on disk, changed data is refused, and a wrong key gives an error
//! of one line.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cipher::MasterKey;
use engine_rocksdb::{Config, RocksEngine};
use storage::{Durability, Engine, Reader, StorageError, Table, WriteBatch};

/// A key of 32 equal bytes in base64.
fn key_of(letter: char) -> Arc<MasterKey> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text: String = std::iter::repeat_n(letter, 42)
        .chain("E=".chars())
        .collect();
    fs::write(file.path(), text).unwrap();
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).unwrap();
    Arc::new(MasterKey::read(file.path()).unwrap())
}

/// The key of all tests of this crate.
pub(crate) fn master() -> Arc<MasterKey> {
    static KEY: OnceLock<Arc<MasterKey>> = OnceLock::new();
    Arc::clone(KEY.get_or_init(|| key_of('A')))
}

fn config(path: &Path, key: Option<Arc<MasterKey>>) -> Config {
    Config {
        master_key: key,
        ..Config::with_budget(path, 64 << 20)
    }
}

const CANARY: &[u8] = b"canary-7Qx9ZkW3-no-block-may-show-this";

/// `CANARY` with a number, so that compression finds few repetitions.
fn canary(number: u32) -> Vec<u8> {
    [CANARY, &number.wrapping_mul(2_654_435_761).to_be_bytes()].concat()
}

/// Fills tables, blob files, journal and manifest; the directory is then as after a kill.
fn open_filled(path: &Path, key: Option<Arc<MasterKey>>) -> Arc<RocksEngine> {
    let engine = Arc::new(RocksEngine::open(config(path, key)).unwrap());
    for round in 0..4u32 {
        for number in 0..500 {
            let number = round * 500 + number;
            let mut batch = WriteBatch::new();
            let short = canary(number);
            batch.put(Table::Doc, &short, &short);
            batch.put(Table::Idx, &short, b"");
            if number % 100 == 0 {
                let long: Vec<u8> = (0..1000).flat_map(|n| canary(number + n)).collect();
                batch.put(Table::Doc, &[&short[..], b"long"].concat(), &long);
            }
            engine.apply(&batch, Durability::Buffered).unwrap();
        }
        if round < 3 {
            engine.flush().unwrap();
        }
    }
    engine.compact_all(Table::Idx).unwrap();
    let mut last = WriteBatch::new();
    last.put(Table::Meta, CANARY, CANARY);
    engine.apply(&last, Durability::Journaled).unwrap();
    engine
}

fn files(path: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    all.sort();
    all
}

fn list_readable(path: &Path) -> Vec<PathBuf> {
    let shows = |file: &PathBuf| {
        // A file that the engine has deleted meanwhile shows nothing.
        let bytes = fs::read(file).unwrap_or_default();
        bytes.windows(12).any(|w| w == &CANARY[..12])
    };
    files(path).into_iter().filter(shows).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::remove_dir_all(to).ok();
    fs::create_dir_all(to).unwrap();
    for file in files(from) {
        let name = file.file_name().unwrap();
        if name != "LOCK" {
            // A file that the engine has deleted meanwhile would be missing after a kill, too.
            match fs::copy(&file, to.join(name)) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                copied => _ = copied.unwrap(),
            }
        }
    }
}

fn of_kind(path: &Path, kind: &str) -> Vec<PathBuf> {
    let mut all = files(path);
    all.retain(|p| p.extension().is_some_and(|e| e == kind));
    all
}

/// All rows, or the first error.
fn read_all(engine: &RocksEngine) -> storage::Result<usize> {
    let mut rows = 0;
    let mut out = Vec::new();
    for number in 0..2000 {
        let key = canary(number);
        rows += usize::from(engine.get(Table::Doc, &key, &mut out)?);
        assert_eq!(out, key, "{number}");
        if number % 100 == 0 {
            let long = [&key[..], b"long"].concat();
            rows += usize::from(engine.get(Table::Doc, &long, &mut out)?);
        }
    }
    Ok(rows)
}

#[test]
fn no_file_shows_what_was_written_and_a_kill_loses_nothing() {
    let root = tempfile::tempdir().unwrap();
    let (open, sealed, killed) = (
        root.path().join("open"),
        root.path().join("sealed"),
        root.path().join("killed"),
    );
    // Without encryption the search finds plaintext in tables, blob files and journal.
    drop(open_filled(&open, None));
    let engine = open_filled(&open.with_file_name("open2"), None);
    let found = list_readable(&open.with_file_name("open2"));
    for kind in ["sst", "blob", "log"] {
        let has = found
            .iter()
            .any(|p| p.extension().is_some_and(|e| e == kind));
        assert!(has, "{kind}: {found:?}");
    }
    drop(engine);
    let engine = open_filled(&sealed, Some(master()));
    assert_eq!(list_readable(&sealed), Vec::<PathBuf>::new());
    copy(&sealed, &killed);
    let point = root.path().join("checkpoint");
    engine.checkpoint(&point).unwrap();
    drop(engine);
    for path in [&sealed, &killed, &point] {
        let engine = RocksEngine::open(config(path, Some(master()))).unwrap();
        assert_eq!(read_all(&engine).unwrap(), 2020, "{}", path.display());
        assert!(engine.verify().unwrap().findings.is_empty());
        drop(engine);
        assert_eq!(list_readable(path), Vec::<PathBuf>::new());
    }
}

#[test]
fn wrong_keys_are_a_one_line_error_and_change_nothing() {
    let root = tempfile::tempdir().unwrap();
    let (sealed, open) = (root.path().join("sealed"), root.path().join("open"));
    drop(open_filled(&sealed, Some(master())));
    drop(open_filled(&open, None));
    let said = |path: &Path, key: Option<Arc<MasterKey>>| {
        let before = files(path).len();
        let error = RocksEngine::open(config(path, key)).err().unwrap();
        assert!(
            matches!(error, StorageError::NotUnlocked { .. }),
            "{error:?}"
        );
        assert_eq!(files(path).len(), before);
        let text = error.to_string();
        assert!(!text.contains('\n'), "{text}");
        text
    };
    assert!(said(&sealed, Some(key_of('B'))).contains("does not fit"));
    assert!(said(&sealed, None).contains("no encryption key was given"));
    assert!(said(&open, Some(master())).contains("is not encrypted"));
    // Another master key replaces the first, and only the new one works afterwards.
    let engine = RocksEngine::open(config(&sealed, Some(master()))).unwrap();
    let data = engine.data_key().unwrap();
    cipher::reseal(&sealed, &data, &key_of('B')).unwrap();
    assert_eq!(read_all(&engine).unwrap(), 2020);
    drop(engine);
    assert!(said(&sealed, Some(master())).contains("does not fit"));
    let engine = RocksEngine::open(config(&sealed, Some(key_of('B')))).unwrap();
    assert_eq!(read_all(&engine).unwrap(), 2020);
}

#[test]
fn whatever_was_changed_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let (sealed, harmed) = (root.path().join("sealed"), root.path().join("harmed"));
    drop(open_filled(&sealed, Some(master())));
    let attempt = |harm: &dyn Fn(&Path)| -> storage::Result<usize> {
        copy(&sealed, &harmed);
        harm(&harmed);
        let engine = RocksEngine::open(config(&harmed, Some(master())))?;
        let rows = read_all(&engine)?;
        match engine.verify()?.findings.into_iter().next() {
            None => Ok(rows),
            Some(found) => Err(StorageError::Corrupt {
                context: found,
                source: None,
            }),
        }
    };
    assert_eq!(attempt(&|_| {}).unwrap(), 2020);
    let mut tried = 0;
    for kind in ["sst", "blob"] {
        let names: Vec<_> = of_kind(&sealed, kind)
            .iter()
            .map(|p| p.file_name().unwrap().to_owned())
            .collect();
        assert!(names.len() > 1, "{kind}: {names:?}");
        for name in &names {
            let length = fs::metadata(sealed.join(name)).unwrap().len();
            // Header, first page, some page within, the last byte.
            for at in [20, 100, length / 2, length - 1] {
                let changed = attempt(&|path| {
                    let file = path.join(name);
                    let mut bytes = fs::read(&file).unwrap();
                    bytes[at as usize] ^= 4;
                    fs::write(&file, bytes).unwrap();
                });
                let error = changed.expect_err("a changed byte");
                assert!(!error.to_string().contains('\n'));
                tried += 1;
            }
        }
        // Replaces one file with another of the same length and kind.
        let swapped = attempt(&|path| {
            fs::copy(path.join(&names[0]), path.join(&names[1])).unwrap();
        });
        assert!(swapped.is_err(), "{kind}");
    }
    assert!(tried >= 16, "{tried}");
    for name in ["CURRENT", "MANIFEST"] {
        let changed = attempt(&|path| {
            let of_name = |p: &PathBuf| {
                let file = p.file_name().unwrap().to_string_lossy().into_owned();
                file.starts_with(name)
            };
            let file = files(path).into_iter().find(of_name).unwrap();
            let mut bytes = fs::read(&file).unwrap();
            bytes[70] ^= 1;
            fs::write(&file, bytes).unwrap();
        });
        assert!(changed.is_err(), "{name}");
    }
}
