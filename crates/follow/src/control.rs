//! Communication with a running follower through the state in the target: the follower writes a
//! heartbeat and reads requests each time. Promises: at most one follower works on a target. Must
//! not know: how requests are executed.

use crate::error::{FollowError, Result};
use crate::pace::Pace;
use crate::server::Server;
use crate::state::{MIGRATION, Phase, State, integer, text};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, Timestamp, doc};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Interval of the heartbeat.
pub(crate) const BEAT: Duration = Duration::from_millis(500);
/// A follower without a heartbeat for this long is gone.
pub(crate) const GONE: Duration = Duration::from_secs(5);

/// The period over which rates are averaged.
const RATES_OVER: Duration = Duration::from_secs(2);

/// A request to a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Stop,
    /// The standby becomes the primary.
    Promote {
        /// The id by which the answer is recognized.
        id: String,
        /// Even if acknowledged writes are lost.
        force: bool,
    },
    CutOver {
        /// The id by which the answer is recognized.
        id: String,
        /// Block writes to the source.
        fence: bool,
    },
}

impl Request {
    pub(crate) fn parse(migration: &Document) -> Option<Request> {
        let asked = migration.get_document("request").ok()?;
        match asked.get_str("kind").ok()? {
            "stop" => Some(Request::Stop),
            "promote" => Some(Request::Promote {
                id: asked.get_str("id").ok()?.to_owned(),
                force: asked.get_bool("force").unwrap_or(false),
            }),
            "cutover" => Some(Request::CutOver {
                id: asked.get_str("id").ok()?.to_owned(),
                fence: asked.get_bool("fence").unwrap_or(false),
            }),
            _ => None,
        }
    }
}

/// The progress of a follower, written with each heartbeat.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Events applied since it started.
    applied: AtomicU64,
    /// Events read and not applied yet.
    waiting: AtomicU64,
    position: AtomicU64,
    source_time: AtomicU64,
    /// The age of the last change when it was applied, in milliseconds.
    lag_ms: AtomicU64,
}

fn pack_time(time: Timestamp) -> u64 {
    u64::from(time.time) << 32 | u64::from(time.increment)
}

fn unpack_time(time: u64) -> Timestamp {
    Timestamp {
        time: (time >> 32) as u32,
        increment: (time & u64::from(u32::MAX)) as u32,
    }
}

impl Counts {
    /// Notes the age of the last change that was applied; `None` if no change is waiting.
    pub(crate) fn note_lag(&self, wall_ms: Option<Option<i64>>) {
        let lag = match wall_ms {
            None => 0,
            Some(None) => return,
            Some(Some(at)) => DateTime::now().timestamp_millis().saturating_sub(at),
        };
        self.lag_ms
            .store(u64::try_from(lag).unwrap_or(0), Ordering::Relaxed);
    }

    pub(crate) fn lag_ms(&self) -> u64 {
        self.lag_ms.load(Ordering::Relaxed)
    }

    /// The latest time that the source has reported.
    pub(crate) fn source_time(&self) -> Timestamp {
        unpack_time(self.source_time.load(Ordering::Relaxed))
    }

    pub(crate) fn note_source_time(&self, time: Timestamp) {
        self.source_time
            .fetch_max(pack_time(time), Ordering::Relaxed);
    }

    pub(crate) fn note_applied(&self, events: usize) {
        self.applied.fetch_add(events as u64, Ordering::Relaxed);
    }

    pub(crate) fn note_waiting(&self, events: usize) {
        self.waiting.store(events as u64, Ordering::Relaxed);
    }

    pub(crate) fn note_position(&self, time: Timestamp) {
        self.position.store(pack_time(time), Ordering::Relaxed);
    }

    pub(crate) fn position(&self) -> Timestamp {
        unpack_time(self.position.load(Ordering::Relaxed))
    }

    pub(crate) fn applied_count(&self) -> u64 {
        self.applied.load(Ordering::Relaxed)
    }

    /// Seconds by which the applied changes are behind the source.
    pub(crate) fn lag_seconds(&self) -> u64 {
        let position = self.position.load(Ordering::Relaxed) >> 32;
        match position {
            0 => 0,
            _ => { self.source_time.load(Ordering::Relaxed) >> 32 }.saturating_sub(position),
        }
    }

    fn document(&self) -> Document {
        let number = |n: &AtomicU64| n.load(Ordering::Relaxed) as i64;
        doc! {
            "applied": number(&self.applied), "waiting": number(&self.waiting),
            "position": self.position(),
            "sourceTime": unpack_time(self.source_time.load(Ordering::Relaxed)),
            "lagSeconds": self.lag_seconds() as i64, "lagMillis": number(&self.lag_ms),
        }
    }
}

/// A follower's control over the migration.
pub(crate) struct Control {
    pub(crate) state: State,
    pub(crate) source: Server,
    pub(crate) owner: String,
    pub(crate) counts: Arc<Counts>,
    pub(crate) pace: Arc<Pace>,
    /// Interval of the heartbeat.
    pub(crate) beat: Duration,
}

/// Recent rates per second.
struct Rates {
    since: Instant,
    bytes_then: u64,
    applied_then: u64,
    bytes: f64,
    applied: f64,
}

impl Rates {
    fn begin(control: &Control) -> Rates {
        Rates {
            since: Instant::now(),
            bytes_then: control.pace.bytes(),
            applied_then: control.counts.applied_count(),
            bytes: 0.0,
            applied: 0.0,
        }
    }

    fn update(&mut self, control: &Control) {
        let seconds = self.since.elapsed().as_secs_f64();
        if seconds < RATES_OVER.as_secs_f64() {
            return;
        }
        let (bytes, applied) = (control.pace.bytes(), control.counts.applied_count());
        self.bytes = bytes.saturating_sub(self.bytes_then) as f64 / seconds;
        self.applied = applied.saturating_sub(self.applied_then) as f64 / seconds;
        (self.since, self.bytes_then, self.applied_then) = (Instant::now(), bytes, applied);
    }
}

/// A unique name.
pub(crate) fn fresh_name() -> String {
    ObjectId::new().to_hex()
}

/// Identifies the processes' number space: this boot of the machine and the PID namespace.
fn place() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let seen = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    match boot.is_empty() || seen.as_os_str().is_empty() {
        true => fresh_name(),
        false => format!("{} {}", boot.trim(), seen.display()),
    }
}

fn is_alive(pid: i64) -> bool {
    std::path::Path::new("/proc").join(pid.to_string()).exists()
}

impl Control {
    /// Takes the migration over, unless another follower works on it.
    ///
    /// # Errors
    /// One line, if another follower does.
    pub(crate) async fn take(&self) -> Result<()> {
        let began = Instant::now();
        let seen = self.read_heartbeat().await?;
        while self.is_held(&seen).await? {
            if self.read_heartbeat().await? != seen {
                return Err(FollowError::of_options(
                    "another quarry follow is running for this target",
                ));
            }
            if began.elapsed() > GONE {
                break;
            }
            tokio::time::sleep(BEAT).await;
        }
        let (place, pid) = (place(), i64::from(std::process::id()));
        let mut fields = doc! {
            "owner": &self.owner, "place": place, "pid": pid, "running": true,
            "heartbeat": DateTime::now(),
        };
        // An earlier request is dropped: whoever still waits for it repeats it. A cut-over that has
        // begun is kept.
        let migration = self.state.migration().await?;
        if migration.is_some_and(|m| m.phase != Phase::CuttingOver) {
            fields.insert("request", Bson::Null);
        }
        self.state.set(fields).await
    }

    async fn read_heartbeat(&self) -> Result<Option<Document>> {
        let migration = self.state.migration().await?;
        let Some(d) = migration.map(|m| m.document) else {
            return Ok(None);
        };
        let seen = d.get("heartbeat").cloned();
        Ok(seen.map(|at| doc! { "at": at, "owner": text(&d, "owner") }))
    }

    async fn is_held(&self, seen: &Option<Document>) -> Result<bool> {
        let migration = self.state.migration().await?;
        let d = migration.map(|m| m.document).unwrap_or_default();
        let mine = text(&d, "owner") == self.owner;
        let is_dead = text(&d, "place") == place() && !is_alive(integer(&d, "pid"));
        let is_running = d.get_bool("running").unwrap_or(false);
        Ok(seen.is_some() && !mine && !is_dead && is_running)
    }

    /// Reads the source's time again and again. A source that does not answer delays nothing else.
    pub(crate) async fn keep_time(self: Arc<Self>) {
        loop {
            if let Ok(time) = self.source.time().await {
                self.counts.note_source_time(time);
            }
            tokio::time::sleep(self.beat).await;
        }
    }

    /// Writes heartbeats until another follower has taken over.
    pub(crate) async fn write_heartbeats(
        self: Arc<Self>,
        asked: watch::Sender<Option<Request>>,
    ) -> FollowError {
        let mut rates = Rates::begin(&self);
        loop {
            tokio::time::sleep(self.beat).await;
            rates.update(&self);
            let mut progress = self.counts.document();
            progress.insert("documents", self.pace.documents() as i64);
            progress.insert("bytes", self.pace.bytes() as i64);
            progress.insert("bytesPerSecond", rates.bytes as i64);
            progress.insert("appliedPerSecond", rates.applied as i64);
            progress.insert(
                "compared",
                self.pace.total_bytes().saturating_sub(self.pace.bytes()) as i64,
            );
            progress.insert("bound", self.pace.bound().map(|bound| bound as i64));
            let fields = doc! { "heartbeat": DateTime::now(), "progress": progress };
            match self
                .state
                .set_if(doc! { "owner": &self.owner }, fields)
                .await
            {
                Ok(true) => {}
                Ok(false) => {
                    return FollowError::of_options(
                        "another quarry follow has taken over this target",
                    );
                }
                // The target is unreachable; the code that writes to it gets the error, too.
                Err(_) => continue,
            }
            if let Ok(Some(migration)) = self.state.migration().await {
                let request = Request::parse(&migration.document);
                asked.send_if_modified(|last| {
                    let is_new = *last != request;
                    *last = request;
                    is_new
                });
            }
        }
    }

    /// Releases the migration, so that the next follower need not wait.
    pub(crate) async fn release(&self, answer: Option<Document>) -> Result<()> {
        let mut fields = doc! { "running": false };
        if let Some(answer) = answer {
            fields.extend(answer);
        }
        let owned = doc! { "_id": MIGRATION, "owner": &self.owner };
        self.state.set_if(owned, fields).await.map(|_| ())
    }
}
