//! Servers, followers and comparisons for the tests of `quarry follow`. Must not know: which data
//! are moved.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::{Client, Database};

/// A server that keeps its port when it is killed and started again.
pub(crate) struct Node {
    data: tempfile::TempDir,
    port: u16,
    options: Vec<String>,
    pub(crate) child: Option<Child>,
}

impl Node {
    pub(crate) fn start(options: &[&str]) -> Node {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut node = Node {
            data: tempfile::tempdir().unwrap(),
            port,
            options: options.iter().map(|o| (*o).to_owned()).collect(),
            child: None,
        };
        node.run();
        node
    }

    pub(crate) fn run(&mut self) {
        let serve = [
            "serve",
            "--bind_ip",
            "127.0.0.1",
            "--nounixsocket",
            "--memory",
            "256M",
        ];
        let child = Command::new(env!("CARGO_BIN_EXE_quarry"))
            .args(serve)
            .args(["--port", &self.port.to_string(), "--dbpath"])
            .arg(self.data.path())
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            assert!(Instant::now() < deadline, "no connection to the server");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends SIGKILL and restarts on the same data.
    pub(crate) fn kill(&mut self) {
        end(self.child.take());
        self.run();
    }

    pub(crate) fn uri(&self) -> String {
        format!("mongodb://127.0.0.1:{}/", self.port)
    }

    pub(crate) async fn client(&self) -> Client {
        let uri = format!("{}?serverSelectionTimeoutMS=60000", self.uri());
        Client::with_uri_str(uri).await.unwrap()
    }
}

pub(crate) fn end(child: Option<Child>) {
    if let Some(mut child) = child {
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        end(self.child.take());
    }
}

pub(crate) fn quarry(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quarry"));
    command
        .arg("follow")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) fn output_text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8(both).unwrap()
}

pub(crate) fn run_quarry(arguments: &[&str]) -> String {
    let output = quarry(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        output_text(&output)
    );
    output_text(&output)
}

pub(crate) fn command_error(arguments: &[&str]) -> String {
    let output = quarry(arguments).output().unwrap();
    assert!(
        !output.status.success(),
        "{arguments:?}: {}",
        output_text(&output)
    );
    assert_eq!(
        output_text(&output).lines().count(),
        1,
        "{}",
        output_text(&output)
    );
    output_text(&output)
}

/// A follower in a process of its own.
pub(crate) struct Follower {
    arguments: Vec<String>,
    pub(crate) child: Option<Child>,
}

impl Follower {
    pub(crate) fn start(arguments: &[&str]) -> Follower {
        let mut follower = Follower {
            arguments: arguments.iter().map(|a| (*a).to_owned()).collect(),
            child: None,
        };
        follower.run();
        follower
    }

    pub(crate) fn run(&mut self) {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let mut command = quarry(&arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
    }

    /// Sends SIGKILL and starts a follower that continues.
    pub(crate) fn kill(&mut self) {
        end(self.child.take());
        self.run();
    }

    /// The exit status, if it ends by itself.
    pub(crate) fn status(mut self) -> Option<i32> {
        self.child.take().unwrap().wait().unwrap().code()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        end(self.child.take());
    }
}

pub(crate) fn status(target: &Node) -> Document {
    let output = quarry(&["status", "--json", "--to", &target.uri()]).output();
    let output = output.unwrap();
    let shown = output_text(&output);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{shown}"
    );
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    mongodb::bson::serialize_to_document(&json).unwrap()
}

pub(crate) fn wait_for(target: &Node, phase: &str) {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let output = quarry(&["status", "--json", "--to", &target.uri()]).output();
        let said = output_text(&output.unwrap());
        if said.contains(&format!("\"phase\":\"{phase}\"")) {
            return;
        }
        assert!(Instant::now() < deadline, "not {phase}: {said}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

pub(crate) async fn run(db: &Database, command: Document) -> Document {
    db.run_command(command.clone())
        .await
        .unwrap_or_else(|e| panic!("{command}: {e}"))
}

pub(crate) async fn list(db: &Database, command: Document) -> Vec<Document> {
    let mut cursor = db.run_cursor_command(command).await.unwrap();
    let mut all = Vec::new();
    while cursor.advance().await.unwrap() {
        all.push(Document::try_from(cursor.current()).unwrap());
    }
    all
}

/// The content of a database: options, indexes, the bytes of each document.
pub(crate) async fn image(client: &Client, db: &str) -> Vec<String> {
    let db = client.database(db);
    let mut image = Vec::new();
    for listed in list(&db, doc! { "listCollections": 1 }).await {
        let name = listed.get_str("name").unwrap();
        let options = listed.get_document("options").unwrap();
        image.push(format!("{name} {options}"));
        if listed.get_str("type").unwrap() == "view" || name.starts_with("system.") {
            continue;
        }
        for index in list(&db, doc! { "listIndexes": name }).await {
            image.push(format!("{name} index {index}"));
        }
        // In a capped collection the order of documents matters.
        let order = match options.contains_key("capped") {
            true => "$natural",
            false => "_id",
        };
        let found = db.collection::<RawDocumentBuf>(name);
        let mut found = { found.find(doc! {}).sort(doc! { order: 1 }) }
            .await
            .unwrap();
        let mut number = 0;
        while found.advance().await.unwrap() {
            let bytes = found.current().as_bytes();
            let order = if order == "_id" { 0 } else { number };
            image.push(format!("{name} document {order} {bytes:?}"));
            number += 1;
        }
    }
    image.sort();
    image
}

pub(crate) async fn assert_same(source: &Client, target: &Client, db: &str) {
    let (source, target) = (image(source, db).await, image(target, db).await);
    let missing: Vec<_> = source
        .iter()
        .filter(|l| !target.contains(l))
        .take(5)
        .collect();
    let extra: Vec<_> = target
        .iter()
        .filter(|l| !source.contains(l))
        .take(5)
        .collect();
    assert!(
        source == target,
        "missing {missing:#?}, extra {extra:#?}, {} and {} lines",
        source.len(),
        target.len()
    );
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}
