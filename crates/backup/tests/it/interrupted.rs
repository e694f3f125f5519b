//! Interruptions at each step: what exists then, and that the next call continues from it. A step
//! is interrupted by an error right after a change on the disk; nothing is cleaned up, as after a
//! kill.

use crate::{MARKER, TestFolder, files, noise};
use backup::{
    BackupError, Pace, ProgressEvent, Repository, Result, Retention, back_up, prune, restore,
};

/// Counts steps, and interrupts the call at one of them.
struct StepLimit {
    left: usize,
}

impl StepLimit {
    fn watch(&mut self) -> impl FnMut(ProgressEvent<'_>) -> Result<()> {
        move |_| match self.left {
            0 => Err(BackupError::new("killed")),
            _ => {
                self.left -= 1;
                Ok(())
            }
        }
    }
}

fn place() -> TestFolder {
    let place = TestFolder::new();
    for n in 0..3 {
        place.write(&format!("{n}.fixed"), &noise(n, 3000));
    }
    place.write("in-place", &noise(9, (2 << 20) + 100));
    place
}

fn unlimited() -> Pace {
    Pace::new(None)
}

/// Interrupts `call` at its first step, its second, and so on, until it completes; returns the
/// number of steps.
fn end_at_each_step(mut call: impl FnMut(&mut StepLimit) -> bool) -> usize {
    let ends = (0..).find(|left| call(&mut StepLimit { left: *left }));
    ends.unwrap()
}

#[test]
fn an_interrupted_backup_is_not_listed_and_a_second_run_completes_it() {
    let steps = end_at_each_step(|until| {
        let place = place();
        let ended = {
            let repository = Repository::to_write(&place.repository).unwrap();
            back_up(
                &repository,
                &place.source(),
                &mut unlimited(),
                &mut until.watch(),
            )
        };
        if ended.is_err() {
            assert!(place.reading().ids().unwrap().is_empty());
        }
        let again = place.back_up();
        let objects = files(&place.repository.join("objects"));
        let held: usize = objects.values().map(Vec::len).sum();
        assert_eq!(held as u64, again.bytes, "each piece is there once");
        place.restore().unwrap();
        assert_eq!(files(&place.target), files(&place.data));
        assert_eq!(files(&place.repository.join("incoming")).len(), 0);
        ended.is_ok()
    });
    assert!(steps > 12, "only {steps} steps");
}

#[test]
fn files_finished_by_an_interrupted_backup_are_not_read_again() {
    let place = place();
    let mut files_done = 0;
    let ended = {
        let repository = Repository::to_write(&place.repository).unwrap();
        back_up(
            &repository,
            &place.source(),
            &mut unlimited(),
            &mut |step| {
                files_done += usize::from(matches!(step, ProgressEvent::File(_)));
                match files_done {
                    3 => Err(BackupError::new("killed")),
                    _ => Ok(()),
                }
            },
        )
    };
    assert!(ended.is_err());
    let again = place.back_up();
    assert_eq!(
        again.bytes - again.read_bytes,
        9000,
        "three files are known"
    );
}

#[test]
fn an_interrupted_restore_is_no_database_and_a_second_run_completes_it() {
    let steps = end_at_each_step(|until| {
        let place = place();
        place.back_up();
        let repository = place.reading();
        let manifest = repository.manifest(None).unwrap();
        let run = |until: &mut StepLimit| {
            let (to, mut watch) = (&place.target, until.watch());
            restore(
                &repository,
                &manifest,
                to,
                MARKER,
                &mut unlimited(),
                &mut watch,
            )
        };
        let ended = run(until);
        let here = files(&place.target);
        if here.contains_key(MARKER) {
            let complete = files(&place.data).into_iter();
            assert!(complete.into_iter().all(|(n, b)| here.get(&n) == Some(&b)));
        }
        if ended.is_err() {
            let is_seen = here.keys().any(|name| !name.starts_with('.'));
            assert!(is_seen, "a folder that looks empty: {:?}", here.keys());
            run(&mut StepLimit { left: usize::MAX }).unwrap();
        }
        assert_eq!(files(&place.target), files(&place.data));
        ended.is_ok()
    });
    assert!(steps > 7, "only {steps} steps");
}

#[test]
fn an_interrupted_removal_leaves_sound_backups_and_a_second_run_completes_it() {
    let keep = Retention {
        last: Some(1),
        daily: None,
    };
    let steps = end_at_each_step(|until| {
        let place = place();
        for n in 0..3 {
            place.write("own.fixed", &noise(100 + n, 1000));
            place.back_up();
        }
        let repository = Repository::to_write(&place.repository).unwrap();
        let ended = prune(&repository, keep, &mut until.watch());
        let ids = repository.ids().unwrap();
        assert!(!ids.is_empty());
        let sound = backup::verify(&repository, None, &mut unlimited(), &mut |_| Ok(()));
        assert_eq!(sound.unwrap().findings, Vec::<String>::new());
        prune(&repository, keep, &mut |_| Ok(())).unwrap();
        let manifest = repository.manifest(None).unwrap();
        let held = files(&place.repository.join("objects"));
        let held: usize = held.values().map(Vec::len).sum();
        assert_eq!(held as u64, manifest.bytes(), "nothing else is left");
        ended.is_ok()
    });
    assert!(steps >= 4, "only {steps} steps");
}
