//! The cluster of the tests, and engines on it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;

use engine_tikv::{Config, TikvEngine};
use storage::{Durability, Engine, Table, WriteBatch};

/// The variable that names an existing cluster.
const PD: &str = "QUARRY_TIKV_PD";

/// A cluster of processes started by the tests, or an existing one.
pub(crate) struct Cluster {
    pub(crate) pd: Vec<String>,
    /// Process of its store; `None` for an existing cluster.
    pub(crate) store: Option<i32>,
    // Ends the cluster's processes when this process is gone, because its standard input is closed
    // then.
    _holder: Option<Child>,
}

impl Cluster {
    /// Starts a cluster.
    ///
    /// # Errors
    /// One line that says what is missing.
    pub(crate) fn start() -> Result<Cluster, String> {
        let script = "../../../scripts/cluster.sh";
        let mut holder = Command::new(script)
            .arg("hold")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("scripts/cluster.sh cannot run: {e}"))?;
        let mut line = String::new();
        let output = holder.stdout.take().expect("its output is a pipe");
        let mut output = BufReader::new(output);
        output.read_line(&mut line).expect("its output is text");
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["ready", pd, _, store] => Ok(Cluster {
                pd: vec![pd.to_owned()],
                store: Some(store.parse().expect("a process")),
                _holder: Some(holder),
            }),
            _ => {
                let _ = holder.wait();
                Err(line.trim().to_owned())
            }
        }
    }

    /// The existing cluster, or a new one.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub(crate) fn open() -> Result<Cluster, String> {
        let Ok(pd) = std::env::var(PD) else {
            return Cluster::start();
        };
        Ok(Cluster {
            pd: pd.split(',').map(str::to_owned).collect(),
            store: None,
            _holder: None,
        })
    }
}

/// PD addresses of the cluster that the tests share, if there is one; otherwise the reason is
/// printed.
pub(crate) fn pd() -> Option<Vec<String>> {
    static CLUSTER: OnceLock<Result<Cluster, String>> = OnceLock::new();
    match CLUSTER.get_or_init(Cluster::open) {
        Ok(cluster) => Some(cluster.pd.clone()),
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// The configuration of a new database.
pub(crate) fn config(pd: &[String]) -> Config {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).expect("a clock");
    let name = format!("t{}-{}-{number}", now.as_micros(), std::process::id());
    Config::at(pd.to_vec(), name)
}

pub(crate) fn open(config: &Config) -> TikvEngine {
    TikvEngine::open(config).expect("the engine opens")
}

/// Opens a database that another server holds, on a thread that reports when it has the lease.
pub(crate) fn stand_by(config: &Config) -> (JoinHandle<TikvEngine>, mpsc::Receiver<()>) {
    let config = Config {
        standby: Some(Arc::default()),
        ..config.clone()
    };
    let (tell, told) = mpsc::channel();
    let standby = std::thread::spawn(move || {
        let engine = open(&config);
        tell.send(()).unwrap();
        engine
    });
    (standby, told)
}

pub(crate) fn key(n: u32) -> Vec<u8> {
    [[0, 0, 0, 1], n.to_be_bytes()].concat()
}

pub(crate) fn put(engine: &dyn Engine, n: u32, value: &[u8]) -> storage::Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, &key(n), value);
    batch.add(Table::Meta, b"count", [1, 0]);
    engine.apply(&batch, Durability::Buffered).map(|_| ())
}

pub(crate) fn get(engine: &dyn Engine, n: u32) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    let found = engine.get(Table::Doc, &key(n), &mut value).expect("a read");
    found.then_some(value)
}
