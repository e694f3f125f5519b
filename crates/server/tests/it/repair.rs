//! `quarry repair` with the real binary: damaged files and rows, a server on the directory, kills
//! in the middle. Afterwards `quarry validate` finds nothing, and every readable document is
//! present.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{Doc, DocBuf, doc};

use crate::backup::{command_error, connect, ok, quarry, run_quarry, text};
use crate::driver::Process;

const COUNT: i32 = 4_000;

struct TestFolder {
    root: tempfile::TempDir,
}

impl TestFolder {
    fn new() -> TestFolder {
        TestFolder {
            root: tempfile::tempdir().unwrap(),
        }
    }

    fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    fn set_aside_folder(&self, number: u32) -> PathBuf {
        self.root.path().join(format!("data.set-aside-{number}"))
    }

    fn arguments<'a>(&self, command: &'a str, data: &'a str) -> Vec<&'a str> {
        vec![command, "--dbpath", data, "--memory", "256M"]
    }

    fn repair(&self) -> String {
        run_quarry(&self.arguments("repair", text(&self.data())))
    }

    /// Checks that `quarry validate` finds nothing; returns the ids of the documents.
    fn check(&self, options: &[&str]) -> BTreeSet<i32> {
        run_quarry(&self.arguments("validate", text(&self.data())));
        let server = Process::start_with(&self.data(), options);
        let mut client = connect(server.address());
        let found = ids(&mut client, &doc! {});
        // The index gives the same documents as the collection.
        assert_eq!(ids(&mut client, &doc! { "n": { "$gte": 0i32 } }), found);
        found
    }
}

fn document(n: i32) -> DocBuf {
    let noise = format!(
        "{:x}",
        u128::from(n.unsigned_abs() + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    );
    doc! { "_id": n, "n": n % 10, "noise": noise.as_str(), "pad": "x".repeat(300).as_str() }
}

fn fill(data: &Path, options: &[&str]) {
    let server = Process::start_with(data, options);
    let mut client = connect(server.address());
    let index = doc! { "createIndexes": "c", "indexes": [{ "key": { "n": 1i32 }, "name": "n_1" }],
    "$db": "d" };
    ok(&mut client, &index);
    for start in (0..COUNT).step_by(500) {
        let insert = DocBuf::build(|w| {
            w.put("insert", "c");
            let mut list = w.array("documents");
            (start..start + 500).for_each(|n| _ = list.push(document(n).doc()));
            drop(list);
            w.put("$db", "d");
        });
        ok(&mut client, &insert);
    }
    ok(&mut client, &doc! { "fsync": 1i32, "$db": "admin" });
}

/// Ids of the documents that a filter finds; each document must be as it was inserted.
fn ids(client: &mut crate::client::Client, filter: &DocBuf) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let find = doc! { "find": "c", "filter": filter, "batchSize": 10_000i32, "$db": "d" };
    let reply = ok(client, &find);
    let cursor = reply.doc().field("cursor").as_doc().unwrap();
    for one in cursor.field("firstBatch").as_array().unwrap().iter() {
        let one = one.as_doc().unwrap();
        let id = one.field("_id").as_i64_exact().unwrap() as i32;
        assert_eq!(one.to_buf(), document(id));
        assert!(found.insert(id), "{id} is there twice");
    }
    assert_eq!(cursor.field("id").as_i64_exact(), Some(0));
    found
}

/// Flips a byte at one third and at two thirds of the largest table of a directory.
fn damage(data: &Path) {
    let files = fs::read_dir(data).unwrap().map(|e| e.unwrap().path());
    let tables = files.filter(|p| p.extension().is_some_and(|e| e == "sst"));
    let largest = tables
        .max_by_key(|p| fs::metadata(p).unwrap().len())
        .unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    for third in [1, 2] {
        let at = bytes.len() * third / 3;
        bytes[at] ^= 0x10;
    }
    // A new file, because copies have links to the old one.
    fs::remove_file(&largest).unwrap();
    fs::write(&largest, bytes).unwrap();
}

#[test]
fn sound_data_are_left_alone_and_a_server_keeps_its_folder() {
    let place = TestFolder::new();
    let data = place.data();
    fill(&data, &[]);
    let said = place.repair();
    assert!(said.contains("the rows have no errors"), "{said}");
    assert!(said.contains("is valid: "), "{said}");
    assert!(!place.set_aside_folder(1).exists());
    let server = Process::start_with(&data, &[]);
    let line = command_error(&place.arguments("repair", text(&data)));
    assert!(line.contains("in use"), "{line}");
    drop(server);
    let nowhere = place.root.path().join("nowhere");
    fs::create_dir(&nowhere).unwrap();
    let line = command_error(&place.arguments("repair", text(&nowhere)));
    assert!(line.contains("is not a data directory"), "{line}");
    let inside = data.join("inside");
    let mut arguments = place.arguments("repair", text(&data));
    arguments.extend(["--setAside", text(&inside)]);
    let line = command_error(&arguments);
    assert!(line.contains("lies in the data directory"), "{line}");
    assert_eq!(place.check(&[]), (0..COUNT).collect());
}

#[test]
fn a_damaged_table_file_costs_what_lies_in_its_damaged_blocks() {
    let place = TestFolder::new();
    let data = place.data();
    fill(&data, &["--replSet", "rs"]);
    damage(&data);
    command_error(&place.arguments("validate", text(&data)));
    let said = place.repair();
    assert!(said.contains("cannot be read"), "{said}");
    let left = place.check(&["--replSet", "rs"]);
    let lost = COUNT as usize - left.len();
    assert!(
        (1..=80).contains(&lost),
        "{lost} documents are lost\n{said}"
    );
    // The old files and the report.
    let apart = place.set_aside_folder(1);
    assert!(apart.join("files").join("QUARRY-ENGINE").exists());
    assert!(!apart.join("files/.repair").exists() && !data.join(".repair").exists());
    let report = fs::read_to_string(apart.join("report.txt")).unwrap();
    assert!(report.contains("cannot be read"), "{report}");
    let again = place.repair();
    assert!(again.contains("the rows have no errors"), "{again}");
    assert!(!place.set_aside_folder(2).exists());
}

#[test]
fn a_damaged_catalog_of_files_costs_nothing() {
    let place = TestFolder::new();
    let data = place.data();
    fill(&data, &[]);
    let files = fs::read_dir(&data).unwrap().map(|e| e.unwrap().path());
    let is_catalog = |p: &PathBuf| p.to_string_lossy().contains("MANIFEST");
    let catalog = files.into_iter().find(is_catalog).unwrap();
    let mut bytes = fs::read(&catalog).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&catalog, bytes).unwrap();
    command_error(&place.arguments("validate", text(&data)));
    let said = place.repair();
    assert_eq!(place.check(&[]), (0..COUNT).collect(), "{said}");
}

#[test]
fn a_repair_that_is_killed_can_be_repeated() {
    let place = TestFolder::new();
    let data = place.data();
    fill(&data, &[]);
    damage(&data);
    let mut number = 1;
    for step in 0..12 {
        let mut child = quarry(&place.arguments("repair", text(&data)))
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(20 + step * step * 12));
        let _ = child.kill();
        child.wait().unwrap();
        while place.set_aside_folder(number).exists() {
            number += 1;
        }
    }
    place.repair();
    let left = place.check(&[]);
    let lost = COUNT as usize - left.len();
    assert!((1..=80).contains(&lost), "{lost} documents are lost");
}

#[test]
fn lmdb_is_repaired_in_its_place() {
    let place = TestFolder::new();
    let data = place.data();
    let options = ["--storageEngine", "lmdb"];
    fill(&data, &options);
    let said = place.repair();
    assert!(said.contains("the rows have no errors"), "{said}");
    // The bytes of a record in the only file: the type byte of a field is changed.
    let file = data.join("data.mdb");
    let mut bytes = fs::read(&file).unwrap();
    let of = document(1234);
    let whole = of.as_bytes();
    let at = bytes.windows(whole.len()).position(|w| w == whole).unwrap();
    let field = whole.windows(5).position(|w| w == b"\x02pad\0").unwrap();
    bytes[at + field] = 0x7A;
    fs::write(&file, bytes).unwrap();
    let line = command_error(&place.arguments("validate", text(&data)));
    assert!(line.contains("BSON"), "{line}");
    place.repair();
    let left = place.check(&options);
    assert_eq!(left, (0..COUNT).filter(|n| *n != 1234).collect());
    // The readable part of the record is set apart in mongorestore's format.
    let apart = fs::read(place.set_aside_folder(1).join("d/c.damaged.bson")).unwrap();
    let row = Doc::from_prefix(&apart);
    assert_eq!(row.len_bytes(), apart.len());
    model::validate(row.as_bytes()).unwrap();
    let readable = row.field("readable").as_doc().unwrap();
    assert_eq!(readable.field("_id").as_i64_exact(), Some(1234));
    assert_eq!(readable.field("n").as_i64_exact(), Some(4));
}
