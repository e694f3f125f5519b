//! Altered, truncated, missing and foreign files: each gives one line that names the file.

use crate::{TestFolder, noise};
use backup::{Pace, Repository, verify};
use std::fs;
use std::path::Path;

fn place() -> TestFolder {
    let place = TestFolder::new();
    place.write("a.fixed", &noise(1, 100_000));
    place.back_up();
    place
}

/// The error of a restore; checks that verifying has one finding with the same line.
fn restore_error(place: &TestFolder) -> String {
    let line = place.restore().unwrap_err().to_string();
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(!place.target.join(crate::MARKER).exists());
    let seen = verify(
        &place.reading(),
        None,
        &mut Pace::new(None),
        &mut |_| Ok(()),
    )
    .unwrap();
    assert_eq!(seen.findings.len(), 1, "{:?}", seen.findings);
    assert!(seen.findings[0].contains(&line), "{:?}", seen.findings);
    line
}

fn names(line: &str, path: &Path) -> bool {
    line.contains(path.to_str().unwrap())
}

#[test]
fn an_altered_piece() {
    let place = place();
    let object = place.object();
    let mut bytes = fs::read(&object).unwrap();
    bytes[77_777] ^= 4;
    fs::write(&object, bytes).unwrap();
    let line = restore_error(&place);
    assert!(names(&line, &object) && line.contains("a.fixed"), "{line}");
    assert!(line.contains("is altered"), "{line}");
}

#[test]
fn a_truncated_piece() {
    let place = place();
    let object = place.object();
    let bytes = fs::read(&object).unwrap();
    fs::write(&object, &bytes[..99_999]).unwrap();
    let line = restore_error(&place);
    assert!(names(&line, &object), "{line}");
    assert!(
        line.contains("truncated: it has 99999 bytes, not 100000"),
        "{line}"
    );
    let again = place.back_up();
    assert_eq!(again.stored_bytes, 100_000, "the next backup mends it");
}

#[test]
fn a_missing_piece() {
    let place = place();
    let object = place.object();
    fs::remove_file(&object).unwrap();
    let line = restore_error(&place);
    assert!(
        names(&line, &object) && line.contains("is missing"),
        "{line}"
    );
}

#[test]
fn an_altered_manifest() {
    let place = place();
    let folder = place.repository.join("backups");
    let path = fs::read_dir(folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replace("\"engine\": \"x\"", "\"engine\": \"y\""),
    )
    .unwrap();
    let line = restore_error(&place);
    assert!(names(&line, &path) && line.contains("is altered"), "{line}");
}

#[test]
fn a_repository_of_a_newer_format_and_a_folder_that_is_none() {
    let place = place();
    let marker = place.repository.join("QUARRY-BACKUPS");
    fs::write(&marker, "quarry backups\nformat 2\n").unwrap();
    for opened in [
        Repository::to_read(&place.repository),
        Repository::to_write(&place.repository),
    ] {
        let line = opened.unwrap_err().to_string();
        assert!(names(&line, &marker) && line.contains("format 2"), "{line}");
        assert!(line.contains("newer quarry"), "{line}");
    }
    let line = Repository::to_read(&place.data).unwrap_err().to_string();
    assert!(line.contains("is not a repository of backups"), "{line}");
    let line = Repository::to_write(&place.data).unwrap_err().to_string();
    assert!(line.contains("choose an empty folder"), "{line}");
}

#[test]
fn a_call_that_was_killed_before_the_marker_was_there() {
    let place = place();
    let begun = place.repository.with_extension("begun");
    fs::create_dir_all(begun.join("incoming")).unwrap();
    fs::write(begun.join("incoming/piece"), "quarry ba").unwrap();
    drop(Repository::to_write(&begun).unwrap());
    fs::remove_file(begun.join("QUARRY-BACKUPS")).unwrap();
    fs::write(begun.join("incoming/mine"), "x").unwrap();
    let line = Repository::to_write(&begun).unwrap_err().to_string();
    assert!(line.contains("choose an empty folder"), "{line}");
}

#[test]
fn a_target_that_holds_something_else() {
    let place = place();
    fs::create_dir(&place.target).unwrap();
    fs::write(place.target.join("mine"), "x").unwrap();
    let line = place.restore().unwrap_err().to_string();
    assert!(line.contains("is not empty: it holds \"mine\""), "{line}");
    assert_eq!(fs::read(place.target.join("mine")).unwrap(), b"x");
    let line = place
        .reading()
        .manifest(Some("2026"))
        .unwrap_err()
        .to_string();
    assert!(line.contains("holds no backup \"2026\""), "{line}");
}
