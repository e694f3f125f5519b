//! What a backup stores, and what a restore brings back.

use crate::{MARKER, TestFolder, files, noise};
use backup::{Pace, ProgressEvent, Repository, Retention, back_up, prune, verify};
use std::fs;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

#[test]
fn a_backup_comes_back_as_it_was() {
    let place = TestFolder::new();
    place.write("a.fixed", &noise(1, 3 * MIB + 17));
    place.write("journal/b.log", &noise(2, 2 * MIB));
    place.write("empty", b"");
    let stored = place.back_up();
    assert_eq!(stored.files, 4);
    assert_eq!(stored.id, "20261118T110640.123Z");
    let restored = place.restore().unwrap();
    assert_eq!(restored.bytes, stored.bytes);
    assert_eq!(files(&place.target), files(&place.data));
    let again = place.back_up();
    assert_eq!(again.id, "20261118T110640.124Z", "no two have one name");
    assert_eq!(again.stored_bytes, 0);
}

#[test]
fn unchanged_data_is_not_stored_again_nor_fixed_files_read_again() {
    let place = TestFolder::new();
    for n in 0..100 {
        place.write(&format!("{n:03}.fixed"), &noise(n, 64 * 1024));
    }
    let mut in_place = noise(1000, 20 * MIB);
    place.write("in-place", &in_place);
    let first = place.back_up();
    assert_eq!(first.stored_bytes, first.bytes);
    fs::remove_file(place.data.join("007.fixed")).unwrap();
    place.write("100.fixed", &noise(2000, 64 * 1024));
    in_place[7 * MIB + 5] ^= 1;
    place.write("in-place", &in_place);
    let second = place.back_up();
    assert_eq!(second.stored_bytes, (64 * 1024 + MIB) as u64);
    let read = second.read_bytes;
    assert!(
        read < (21 * MIB) as u64,
        "fixed files were read: {read} bytes"
    );
    place.restore().unwrap();
    assert_eq!(files(&place.target), files(&place.data));
}

#[test]
fn a_fixed_file_that_was_written_to_after_all_is_stored_again() {
    let place = TestFolder::new();
    place.write("a.fixed", &noise(1, 1000));
    place.back_up();
    std::thread::sleep(Duration::from_millis(20));
    place.write("a.fixed", &noise(2, 1000));
    assert_eq!(place.back_up().stored_bytes, 1000);
}

#[test]
fn rules_remove_backups_and_what_only_they_had() {
    let place = TestFolder::new();
    let mut shared = noise(1, 5000);
    place.write("shared.fixed", &shared);
    for n in 0..4 {
        place.write("own.fixed", &noise(100 + n, 1000));
        place.back_up();
    }
    let repository = Repository::to_write(&place.repository).unwrap();
    let keep = Retention {
        last: Some(2),
        daily: None,
    };
    {
        let _reader = place.reading();
        let refused = prune(&repository, keep, &mut |_| Ok(())).unwrap_err();
        assert!(refused.to_string().contains("being read"), "{refused}");
    }
    let pruned = prune(&repository, keep, &mut |_| Ok(())).unwrap();
    assert_eq!(
        (pruned.backups.len(), pruned.pieces, pruned.bytes),
        (2, 2, 2000)
    );
    drop(repository);
    let sound = verify(
        &place.reading(),
        None,
        &mut Pace::new(None),
        &mut |_| Ok(()),
    )
    .unwrap();
    assert_eq!((sound.backups, sound.findings), (2, Vec::new()));
    place.restore().unwrap();
    shared.truncate(5000);
    assert_eq!(files(&place.target)["shared.fixed"], shared);
}

#[test]
fn only_one_process_makes_a_backup_at_a_time() {
    let place = TestFolder::new();
    let _held = Repository::to_write(&place.repository).unwrap();
    let refused = Repository::to_write(&place.repository).unwrap_err();
    assert!(refused.to_string().contains("another backup"), "{refused}");
}

#[test]
fn no_step_moves_more_than_a_mebibyte() {
    let place = TestFolder::new();
    place.write("a.fixed", &noise(1, 5 * MIB + 1));
    place.write("b", &noise(2, 3 * MIB + 1));
    let repository = Repository::to_write(&place.repository).unwrap();
    let mut moved = Vec::new();
    let mut watch = |step: ProgressEvent<'_>| {
        if let ProgressEvent::Moved(bytes) = step {
            moved.push(bytes);
        }
        Ok(())
    };
    back_up(
        &repository,
        &place.source(),
        &mut Pace::new(None),
        &mut watch,
    )
    .unwrap();
    assert_eq!(moved.iter().max(), Some(&(MIB as u64)), "{moved:?}");
    assert_eq!(moved.len(), 6 + 4 + 1, "{moved:?}");
}

#[test]
fn a_bound_on_the_rate_holds() {
    let place = TestFolder::new();
    place.write("a.fixed", &noise(1, 2 * MIB));
    place.write("b", &noise(2, 2 * MIB));
    let repository = Repository::to_write(&place.repository).unwrap();
    let start = Instant::now();
    let mut pace = Pace::new(Some(4 << 20));
    back_up(&repository, &place.source(), &mut pace, &mut |_| Ok(())).unwrap();
    let took = start.elapsed();
    assert!(
        took >= Duration::from_millis(850),
        "4 MiB at 4 MiB/s took {took:?}"
    );
}

#[test]
fn a_linked_folder_has_the_contents_and_shares_the_fixed_files() {
    use std::os::unix::fs::MetadataExt;
    let place = TestFolder::new();
    place.write("a.fixed", &noise(1, MIB));
    place.write("b.log", &noise(2, MIB));
    place.back_up();
    let repository = place.reading();
    let manifest = repository.manifest(None).unwrap();
    let linked = backup::link(&repository, &manifest, &place.target, MARKER).unwrap();
    assert!(linked.written_bytes < linked.bytes);
    assert_eq!(files(&place.target), files(&place.data));
    let links = |name| fs::metadata(place.target.join(name)).unwrap().nlink();
    assert_eq!((links("a.fixed"), links("b.log")), (2, 1));
}
