//! A backup repository with changed files: manifests, segments of the log, the position up to which
//! the log was shipped. Each repository is read, reported as damaged, or restored unchanged.

use backup::{Optime, Pace, Repository, Source, back_up, verify};
use proof::fuzz::{Fuzz, Limit, Outcome, change_bytes, number_of};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const LAST: &str = "ENGINE";

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn files(folder: &Path, below: &Path, out: &mut Files) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, below, out);
        } else if let (Ok(name), Ok(bytes)) = (path.strip_prefix(below), fs::read(&path)) {
            out.insert(name.to_owned(), bytes);
        }
    }
}

fn read_files(folder: &Path) -> Files {
    let mut out = Files::new();
    files(folder, folder, &mut out);
    out
}

/// A changed file of a repository.
#[derive(Clone, Debug)]
struct ChangedFile {
    name: PathBuf,
    bytes: Vec<u8>,
}

fn make(root: &Path) -> (Files, Files) {
    let (data, to) = (root.join("data"), root.join("repository"));
    fs::create_dir(&data).expect("a folder");
    fs::write(data.join(LAST), b"engine x\n").expect("a file");
    fs::write(data.join("a.fixed"), vec![7; 3000]).expect("a file");
    fs::write(data.join("b"), b"changes").expect("a file");
    let at = |time| Optime { time, increment: 1 };
    let source = Source {
        directory: &data,
        engine: "x",
        quarry: "1.2.3",
        optime: Some(at(10)),
        complete: None,
        begun_ms: 1_795_000_000_123,
        is_fixed: |path| path.extension().is_some_and(|e| e == "fixed"),
    };
    let repository = Repository::to_write(&to).expect("a repository");
    back_up(&repository, &source, &mut Pace::new(None), &mut |_| Ok(())).expect("a backup");
    drop(repository);
    let shipping = Repository::to_ship(&to).expect("the repository");
    for i in 10..13 {
        shipping
            .add_segment(at(i), at(i + 1), &[i as u8; 200])
            .expect("a segment");
    }
    (read_files(&to), read_files(&data))
}

fn use_it(at: &Path, target: &Path) -> backup::Result<usize> {
    let repository = Repository::to_read(at)?;
    let ids = repository.ids()?.len();
    let manifest = repository.manifest(None)?;
    let segments = repository.segments()?;
    for segment in &segments {
        if let Ok(Some(bytes)) = repository.read_segment(segment) {
            assert_eq!(bytes.len(), 200, "what was changed is no segment");
            assert!(
                bytes.iter().all(|b| *b == bytes[0]),
                "a changed segment is read"
            );
        }
    }
    let _ = repository.place();
    let _ = repository.log_key();
    let seen = verify(&repository, None, &mut Pace::new(None), &mut |_| Ok(()))?;
    let mut pace = Pace::new(None);
    backup::restore(&repository, &manifest, target, LAST, &mut pace, &mut |_| {
        Ok(())
    })?;
    Ok(ids + segments.len() + seen.findings.len())
}

#[test]
fn repositories() {
    let root = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() {
        Path::new("/dev/shm").to_owned()
    } else {
        std::env::temp_dir()
    })
    .expect("a folder");
    let (stored, data) = make(root.path());
    let corpus: Vec<ChangedFile> = stored
        .iter()
        .map(|(name, bytes)| ChangedFile {
            name: name.clone(),
            bytes: bytes.clone(),
        })
        .collect();
    let fuzz = Fuzz {
        name: "repositories",
        limit: Limit::of(1200),
        corpus: &corpus,
        change: |random, one, other| change_bytes(random, &mut one.bytes, &other.bytes),
        show: |one| format!("{one:?}"),
    };
    let mut n = 0;
    let tried = fuzz.run(|one| {
        n += 1;
        let at = root.path().join(format!("changed-{n}"));
        let target = root.path().join(format!("target-{n}"));
        for (name, bytes) in &stored {
            let path = at.join(name);
            fs::create_dir_all(path.parent().unwrap_or(&at)).expect("a folder");
            let is_changed = *name == one.name;
            fs::write(path, if is_changed { &one.bytes } else { bytes }).expect("a file");
        }
        let used = use_it(&at, &target);
        if used.is_ok() {
            assert_eq!(
                read_files(&target),
                data,
                "what was restored is what was backed up"
            );
        }
        let _ = fs::remove_dir_all(&at);
        let _ = fs::remove_dir_all(&target);
        let name = one.name.to_string_lossy();
        let kind = name.split('/').next().unwrap_or_default().to_owned();
        Outcome::of(&used, |n| number_of((kind, n)))
    });
    assert!(tried.outcomes > 5, "{tried:?}");
}
