//! Data folders of earlier versions of Quarry, stored as packed at that time (`tests/formats`).
//! This version opens each, gives the recorded answers, and finds nothing wrong. Every command
//! refuses a folder with a future format and leaves it unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use model::{DocBuf, Value, doc};
use store::format::LAYOUT_VERSION;

use crate::backup::{command_error, connect, ok, run_quarry, text};
use crate::client::Client;
use crate::driver::Process;

/// A packed folder, unpacked.
struct Fixture {
    root: tempfile::TempDir,
    about: serde_json::Value,
}

fn list_archives() -> Vec<PathBuf> {
    let all = fs::read_dir("../../tests/formats")
        .unwrap()
        .map(|e| e.unwrap().path());
    let mut found: Vec<PathBuf> = all
        .filter(|p| p.extension().is_some_and(|e| e == "gz"))
        .collect();
    found.sort();
    found
}

fn fixtures(kind: &str) -> Vec<Fixture> {
    let all = list_archives().into_iter().map(|p| Fixture::unpack(&p));
    let found: Vec<Fixture> = all.filter(|f| f.about["kind"] == kind).collect();
    assert!(!found.is_empty(), "no fixture of {kind}");
    found
}

impl Fixture {
    fn unpack(file: &Path) -> Fixture {
        let root = tempfile::tempdir().unwrap();
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(file).arg("-C").arg(root.path());
        assert!(tar.status().unwrap().success(), "{}", file.display());
        let about = fs::read_to_string(root.path().join("fixture.json")).unwrap();
        Fixture {
            about: serde_json::from_str(&about).unwrap(),
            root,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn word(&self, name: &str) -> &str {
        self.about[name].as_str().unwrap()
    }

    /// Options for opening the data; a key file belongs to the fixture.
    fn options(&self) -> Vec<String> {
        let listed = self.about["options"].as_array().unwrap().iter();
        let mut options: Vec<String> = listed.map(|o| o.as_str().unwrap().to_owned()).collect();
        if options.last().is_some_and(|o| o == "--encryptionKeyFile") {
            options.push(text(&self.at("key")).to_owned());
        }
        options
    }

    /// Options of commands that open the data without a server.
    fn keys(&self) -> Vec<String> {
        let options = self.options();
        let at = options.iter().position(|o| o == "--encryptionKeyFile");
        at.map_or_else(Vec::new, |at| options[at..].to_vec())
    }

    /// The commands in a list, each with the recorded part of its reply.
    fn read_commands(&self, list: &str) -> Vec<DocBuf> {
        let lines = fs::read_to_string(self.at(list)).unwrap();
        let parse = |line| model::extjson::parse_document(line).unwrap();
        let asked: Vec<DocBuf> = lines.lines().map(parse).collect();
        assert!(asked.len() > 30, "{list} has {} questions", asked.len());
        asked
    }
}

/// A document with the value, for comparison by bytes.
fn wrap_value(value: Value<'_>) -> DocBuf {
    DocBuf::build(|w| _ = w.put("", value))
}

/// Runs the commands of a list; the answers must equal the recorded ones.
fn check(client: &mut Client, asked: &[DocBuf]) {
    for one in asked {
        let one = one.doc();
        let ask = one.field("ask").as_doc().unwrap();
        let reply = ok(client, &ask.to_buf());
        let parts = one.field("part").as_str().unwrap().split('.');
        let reply = Value::Document(reply.doc());
        let answer = parts.fold(reply, |v, name| v.as_doc().unwrap().field(name));
        let kept = wrap_value(one.field("answer"));
        assert_eq!(wrap_value(answer), kept, "{ask:?}");
    }
}

/// A server on the data gives the recorded answers, also after a write and another start.
fn check_data(data: &Path, options: &[&str], asked: &[DocBuf]) {
    let mut late = doc! { "insert": "since", "documents": [{ "_id": 1i32 }] };
    late.put("$db", "since");
    for round in 0..2 {
        let server = Process::start_with(data, options);
        let mut client = connect(server.address());
        check(&mut client, asked);
        if round == 0 {
            ok(&mut client, &late);
        }
        let count = ok(&mut client, &doc! { "count": "since", "$db": "since" });
        assert_eq!(count.doc().field("n").as_i64_exact(), Some(1));
        server.stop();
    }
}

fn borrow_options(options: &[String]) -> Vec<&str> {
    options.iter().map(String::as_str).collect()
}

#[test]
fn data_of_every_format_are_read_as_they_were_written() {
    for fixture in fixtures("data") {
        let (data, keys, options) = (fixture.at("data"), fixture.keys(), fixture.options());
        let validate = ["validate", "--memory", "256M", "--dbpath", text(&data)];
        run_quarry(&[&validate[..], &borrow_options(&keys)[..]].concat());
        check_data(
            &data,
            &borrow_options(&options),
            &fixture.read_commands("asked.jsonl"),
        );
        run_quarry(&[&validate[..], &borrow_options(&keys)[..]].concat());
    }
}

#[test]
fn backups_of_every_format_come_back() {
    for fixture in fixtures("backups") {
        let repository = fixture.at("repository");
        run_quarry(&["backup", "verify", text(&repository)]);
        let (newest, then) = (fixture.at("newest"), fixture.at("then"));
        let restore = ["restore", text(&repository), "--dbpath"];
        run_quarry(&[&restore[..], &[text(&newest)]].concat());
        check_data(&newest, &[], &fixture.read_commands("backup.jsonl"));
        let to = ["--memory", "256M", "--to", fixture.word("to")];
        run_quarry(&[&restore[..], &[text(&then)], &to[..]].concat());
        check_data(&then, &[], &fixture.read_commands("moment.jsonl"));
    }
}

/// Whoever changes a format adds a fixture: `tests/formats/make.sh`.
#[test]
fn the_formats_of_this_version_are_among_them() {
    let engines = [
        ("rocksdb", engine_rocksdb::DISK_FORMAT),
        ("lmdb", engine_lmdb::DISK_FORMAT),
    ];
    let mut wanted: Vec<String> = engines
        .iter()
        .map(|(engine, format)| format!("layout-{LAYOUT_VERSION}-{engine}-{format}.tar.gz"))
        .collect();
    wanted.push(format!("backups-{}.tar.gz", ::backup::FORMAT));
    let there: Vec<String> = list_archives()
        .iter()
        .map(|p| p.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    for name in wanted {
        assert!(there.contains(&name), "{name} is missing in {there:?}");
    }
}

/// Every file below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => _ = found.insert(path.clone(), fs::read(&path).unwrap()),
        }
    }
    found
}

/// Sets the next format in a marker; returns its number.
fn make_newer(marker: &Path, format: &serde_json::Value) -> u64 {
    let format = format.as_u64().unwrap();
    let said = fs::read_to_string(marker).unwrap();
    let newer = said.replace(
        &format!("format {format}\n"),
        &format!("format {}\n", format + 1),
    );
    assert_ne!(said, newer);
    fs::write(marker, newer).unwrap();
    format + 1
}

#[test]
fn data_of_a_format_to_come_are_refused_by_every_command() {
    for fixture in fixtures("data") {
        let (data, keys, options) = (fixture.at("data"), fixture.keys(), fixture.options());
        let newer = make_newer(&data.join("QUARRY-ENGINE"), &fixture.about["format"]);
        let before = files(fixture.root.path());
        let (there, elsewhere) = (text(&data), fixture.at("elsewhere"));
        let (keys, options) = (borrow_options(&keys), borrow_options(&options));
        let serve = [&["serve", "--port", "0", "--dbpath", there], &options[..]].concat();
        let validate = [&["validate", "--dbpath", there], &keys[..]].concat();
        let repair = [&["repair", "--dbpath", there], &keys[..]].concat();
        let backup = vec!["backup", "make", text(&elsewhere), "--dbpath", there];
        for command in [serve, validate, repair, backup] {
            let line = command_error(&command);
            let names = line.contains(there) && line.contains(&format!("format {newer}"));
            assert!(names && line.contains("use a newer quarry"), "{line}");
            // A repository that a backup may have begun is not part of the data.
            let _ = fs::remove_dir_all(&elsewhere);
            assert_eq!(files(fixture.root.path()), before, "{command:?}");
        }
    }
}

#[test]
fn backups_of_a_format_to_come_are_refused_by_every_command() {
    for fixture in fixtures("backups") {
        let (repository, to) = (fixture.at("repository"), fixture.at("to"));
        let marker = repository.join("QUARRY-BACKUPS");
        let newer = make_newer(&marker, &fixture.about["format"]);
        let before = files(fixture.root.path());
        let there = text(&repository);
        for command in [
            vec!["restore", there, "--dbpath", text(&to)],
            vec!["mount", there, "--dbpath", text(&to), "--port", "0"],
            vec!["backup", "verify", there],
            vec!["backup", "list", there],
            vec!["backup", "drill", there, "--scratch", text(&to)],
            vec!["backup", "make", there, "--dbpath", text(&to)],
        ] {
            let line = command_error(&command);
            let names = line.contains(text(&marker)) && line.contains(&format!("format {newer}"));
            assert!(names && line.contains("newer quarry"), "{line}");
            assert_eq!(files(fixture.root.path()), before, "{command:?}");
        }
    }
}
