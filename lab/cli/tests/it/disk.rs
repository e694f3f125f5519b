//! The disk of the results fills during a run: the run ends early, its page gives the reason, and
//! the run can continue when there is space again.

use std::process::Command;

use crate::fake::{FakeServer, Faults};
use crate::lab;

/// Runs in a separate mount namespace: the results go to a small disk, which is filled when the
/// measured step has written two intervals. The disk's final contents are kept.
const SCRIPT: &str = r#"
set -e
mount -t tmpfs -o size=6m tmpfs "$DISK"
"$LAB" run hot --target "$TARGET" --rows 10 --clients 1 --warmup-seconds 0 --seconds 14 \
    --out "$DISK" >/dev/null 2>"$KEPT.stderr" &
lab=$!
until [ "$(cat "$DISK"/*/intervals.csv 2>/dev/null | grep -c '^hot,')" -ge 2 ]; do
    kill -0 $lab
    sleep 0.02
done
dd if=/dev/zero of="$DISK/fill" bs=4096 2>/dev/null || true
set +e
wait $lab
status=$?
rm "$DISK/fill"
cp -r "$DISK" "$KEPT"
exit $status
"#;

/// Starts a command in a new mount namespace, if this user may.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount"]);
    command
}

#[test]
fn a_disk_of_results_that_fills_leaves_a_page_that_says_so() {
    if !unshare().arg("true").status().is_ok_and(|it| it.success()) {
        println!("skipped: no mount namespace of its own for this user");
        return;
    }
    let fake = FakeServer::start(Faults::default());
    let directory = tempfile::tempdir().unwrap();
    let (disk, kept) = (directory.path().join("disk"), directory.path().join("kept"));
    std::fs::create_dir(&disk).unwrap();
    let status = unshare()
        .args(["sh", "-c", SCRIPT])
        .env("DISK", &disk)
        .env("KEPT", &kept)
        .env("LAB", env!("CARGO_BIN_EXE_quarry-lab"))
        .env("TARGET", fake.uri())
        .status()
        .unwrap();
    let said = std::fs::read_to_string(kept.with_extension("stderr")).unwrap();
    assert_eq!(status.code(), Some(3), "{said}");
    assert!(said.contains("No space left on device"), "{said}");

    let folder = std::fs::read_dir(&kept).unwrap().next().unwrap().unwrap();
    let folder = folder.path();
    let result = lab_kit::folder::read_result(&folder).unwrap();
    let reason = result.run.stopped_because.unwrap();
    assert!(!result.run.complete);
    assert!(reason.contains("intervals.csv: No space left"), "{reason}");
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("No space left on device"));
    assert!(!folder.join(lab_kit::folder::RESERVE).exists());
    let rows = std::fs::read_to_string(folder.join("intervals.csv")).unwrap();
    let mut fields = rows.lines().map(|row| row.split(',').count());
    let columns = fields.next().unwrap();
    assert!(rows.ends_with('\n') && fields.all(|number| number == columns));

    let resumed = lab(&["resume", folder.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&resumed.stderr);
    assert_eq!(resumed.status.code(), Some(0), "{said}");
    let result = lab_kit::folder::read_result(&folder).unwrap();
    assert!(result.run.complete);
}

#[test]
fn a_disk_of_results_without_room_for_them_refuses_the_run() {
    if !unshare().arg("true").status().is_ok_and(|it| it.success()) {
        println!("skipped: no mount namespace of its own for this user");
        return;
    }
    let fake = FakeServer::start(Faults::default());
    let disk = tempfile::tempdir().unwrap();
    let script = r#"
        mount -t tmpfs -o size=1m tmpfs "$DISK"
        "$LAB" run hot --target "$TARGET" --rows 10 --out "$DISK" >/dev/null
        status=$?
        ls "$DISK"
        exit $status"#;
    let ended = unshare()
        .args(["sh", "-c", script])
        .env("DISK", disk.path())
        .env("LAB", env!("CARGO_BIN_EXE_quarry-lab"))
        .env("TARGET", fake.uri())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    assert!(fake.collections().is_empty(), "the target was touched");
    assert!(ended.stdout.is_empty(), "a folder is left behind");
}
