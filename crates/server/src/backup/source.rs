//! Where the files of a backup come from: a snapshot that a running server keeps open, or a data
//! directory whose lock is held.

use crate::client::{Address, Client};
use crate::config::WiredTigerArgs;
use crate::engines::{self, EngineOptions};
use crate::failure::Failure;
use ::backup::{Optime, Repository};
use model::{Binary, Doc, DocBuf, DocWriter, Value, doc};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the cursor of the snapshot is used: a server closes cursors that are idle for ten
/// minutes.
const KEEP_OPEN_EVERY: Duration = Duration::from_secs(60);
/// The end of the error by which a server refuses a second backup cursor.
const ONE_IS_OPEN: &str = "(code 50886)";
/// How long the server may take to close the cursor of a backup that was killed.
const CLOSED_WITHIN: Duration = Duration::from_secs(10);
/// In a data directory: its files while they are copied.
const OFFLINE: &str = ".backup-offline";

/// Files that do not change as long as this value lives.
pub(super) struct PinnedFiles {
    /// Their directory.
    pub(super) directory: PathBuf,
    /// Name of the engine.
    pub(super) engine: String,
    /// The files have every change up to this time.
    pub(super) optime: Option<Optime>,
    /// The files have no change later than this time.
    pub(super) complete: Option<Optime>,
    _held: Box<dyn std::any::Any>,
}

/// Holds a snapshot of a running server.
pub(super) fn hold_online(
    address: &Address,
    repository: &Repository,
) -> Result<PinnedFiles, Failure> {
    let mut client = Client::connect(address).map_err(Failure::of_network)?;
    // The process that noted this session is dead, because this process holds the repository's
    // lock. The session may belong to another server, or the server may have closed it already.
    let before = repository
        .read_interrupted()
        .and_then(|text| text.parse().ok());
    let started = client.run("admin", &doc! { "startSession": 1i32 });
    let started = started.map_err(Failure::of_network)?;
    let session = Session::of(started.doc().field("id").as_doc().unwrap_or(Doc::EMPTY))
        .ok_or_else(|| {
            Failure::of_network(format!("{} did not start a session", address.describe()))
        })?;
    // Noted before the cursor is opened: a kill in between would otherwise leave a cursor that
    // nobody knows of.
    repository.note_held(Some(&session.to_string()))?;
    let reply = open_cursor(&mut client, session, before).map_err(Failure::of_network)?;
    let cursor = reply.doc().field("cursor").as_doc().unwrap_or(Doc::EMPTY);
    let id = cursor.field("id").as_i64_exact().unwrap_or(0);
    let first = cursor.field("firstBatch").as_array();
    let metadata = first.and_then(|batch| batch.get(0)?.as_doc()?.field("metadata").as_doc());
    let directory = metadata.and_then(|m| m.field("dbpath").as_str());
    let (Some(metadata), Some(directory)) = (metadata, directory) else {
        return Err(Failure::of_network(format!(
            "the answer of {} to $backupCursor has no list of files",
            address.describe()
        )));
    };
    let directory = PathBuf::from(directory);
    let time = |name: &str| match metadata.field(name) {
        Value::Timestamp(at) => Some(Optime {
            time: at.time,
            increment: at.increment,
        }),
        _ => None,
    };
    let (optime, complete) = (time("checkpointTimestamp"), time("lastTimestamp"));
    let held = CursorKeeper::start(client, session, id);
    let engine = storage::engine_of(&directory)?.ok_or_else(|| {
        Failure::of_data(format!(
            "the files of {} cannot be read in {} on this machine; run the backup on the \
             server's machine, as a user who may read them",
            address.describe(),
            directory.display()
        ))
    })?;
    Ok(PinnedFiles {
        directory,
        engine,
        optime,
        complete,
        _held: Box::new(held),
    })
}

/// Opens the cursor in a session. The cursor of the session before it is closed first; if the
/// server still works on that one, this tries again.
fn open_cursor(
    client: &mut Client,
    session: Session,
    before: Option<Session>,
) -> Result<DocBuf, String> {
    let open = DocBuf::build(|w| {
        w.put("aggregate", 1i32);
        w.array("pipeline").doc().doc("$backupCursor");
        w.doc("cursor").put("batchSize", 1i32);
        session.write(&mut w.doc("lsid"));
    });
    let began = Instant::now();
    loop {
        if let Some(before) = before {
            let _ = client.run("admin", &before.kill());
        }
        match client.run("admin", &open) {
            Err(why)
                if before.is_some()
                    && why.ends_with(ONE_IS_OPEN)
                    && began.elapsed() < CLOSED_WITHIN =>
            {
                std::thread::sleep(CLOSED_WITHIN / 100);
            }
            other => return other,
        }
    }
}

/// A session of a server in which the backup cursor is opened. Its id is known before the cursor
/// exists.
#[derive(Clone, Copy)]
struct Session(u128);

impl Session {
    /// The session in the reply of `startSession`.
    fn of(id: Doc<'_>) -> Option<Session> {
        match id.field("id") {
            Value::Binary(binary) => {
                Some(Session(u128::from_be_bytes(binary.bytes.try_into().ok()?)))
            }
            _ => None,
        }
    }

    fn write(self, w: &mut DocWriter<'_>) {
        let bytes = self.0.to_be_bytes();
        w.put(
            "id",
            Value::Binary(Binary {
                subtype: 4,
                bytes: &bytes,
            }),
        );
    }

    /// The command that ends the session and its cursors.
    fn kill(self) -> DocBuf {
        DocBuf::build(|w| self.write(&mut w.array("killSessions").doc()))
    }
}

impl std::fmt::Display for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl std::str::FromStr for Session {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Session, Self::Err> {
        u128::from_str_radix(text, 16).map(Session)
    }
}

/// Keeps a cursor open by a thread of its own, and closes it when dropped.
struct CursorKeeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl CursorKeeper {
    fn start(client: Client, session: Session, cursor: i64) -> CursorKeeper {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || keep_open(client, session, cursor, &stopped));
        CursorKeeper {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for CursorKeeper {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Uses the cursor until told to stop. If the server ends meanwhile the files stay until it starts
/// again; whoever reads them then gets an error.
fn keep_open(mut client: Client, session: Session, cursor: i64, stopped: &Receiver<()>) {
    let more = DocBuf::build(|w| {
        w.put("getMore", cursor).put("collection", "$cmd.aggregate");
        session.write(&mut w.doc("lsid"));
    });
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(KEEP_OPEN_EVERY) {
        if client.run("admin", &more).is_err() {
            return;
        }
    }
    let _ = client.run("admin", &session.kill());
}

/// Holds a data directory on which no server runs.
pub(super) fn hold_offline(
    data: &Path,
    wiredtiger: &WiredTigerArgs,
) -> Result<PinnedFiles, Failure> {
    let data = data
        .canonicalize()
        .map_err(|e| Failure::of_data(format!("cannot read {}: {e}", data.display())))?;
    let shown = data.display();
    let engine = match storage::engine_of(&data)? {
        Some(name) if engines::is_known(&name) => name,
        Some(name) => {
            return Err(Failure::of_data(format!(
                "{shown} belongs to storage engine {name}; this build has {}",
                engines::list()
            )));
        }
        None => {
            return Err(Failure::of_data(format!(
                "{shown} is not a data directory of Quarry"
            )));
        }
    };
    let scratch = Scratch::make(data.join(OFFLINE))?;
    let directory = scratch.0.join("files");
    let options = EngineOptions {
        name: &engine,
        path: &data,
        bytes: crate::memory::MemoryShares::of(crate::memory::BYTES_MIN).engine,
        journal_commit_interval_ms: 100,
        repair: false,
        key: None,
        wiredtiger_library: wiredtiger.wiredtiger_library.as_deref(),
        wiredtiger_include: wiredtiger.wiredtiger_include.as_deref(),
        tikv: None,
        awaited: None,
        linked: false,
    };
    let lent = engines::copy_files(&options, &directory).map_err(Failure::of_data)?;
    Ok(PinnedFiles {
        directory,
        engine,
        optime: None,
        complete: None,
        _held: Box::new((lent, scratch)),
    })
}

/// A folder that is removed again.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn make(path: PathBuf) -> Result<Scratch, Failure> {
        let fail = |e| Failure::of_data(format!("cannot make {}: {e}", path.display()));
        let scratch = Scratch(path.clone());
        scratch.remove().map_err(fail)?;
        std::fs::create_dir(&path).map_err(fail)?;
        Ok(scratch)
    }

    fn remove(&self) -> std::io::Result<()> {
        match std::fs::remove_dir_all(&self.0) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If this fails, the next backup removes the folder.
        let _ = self.remove();
    }
}
