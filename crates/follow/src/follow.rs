//! A migration from its beginning to its end. Promises: whatever breaks, the servers among it, it
//! goes on from what is kept in the target; what cannot be followed is told before anything is
//! copied.

use crate::address::Address;
use crate::align::Aligner;
use crate::apply::Applier;
use crate::bring::Bringer;
use crate::control::{Control, Counts, Request, fresh_name};
use crate::copy::Copier;
use crate::cutover;
use crate::error::{Cause, FollowError, Result};
use crate::events::{self, Start};
use crate::names::{Names, Ns, OWN};
use crate::oplog;
use crate::pace::Pace;
use crate::server::Server;
use crate::state::{Migration, Phase, State, text};
use crate::stream::{Stream, Tell, Verification, why_ended};
use crate::survey::survey;
use crate::users;
use crate::verify::{Pass, Verifier};
use crate::watched::Watched;
use mongodb::bson::{DateTime, doc};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Documents that wait to be mended at most.
const MENDS: usize = 100;
/// How long it waits before it tries again.
const PAUSE: Duration = Duration::from_secs(1);
/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// What is to be done.
#[derive(Clone)]
pub struct Settings {
    /// From where.
    pub source: Address,
    /// To where.
    pub target: Address,
    /// What, and under which names.
    pub names: Names,
    /// Most bytes a second that are copied.
    pub rate: Option<u64>,
    /// Ranges copied at once.
    pub workers: usize,
    /// What an earlier one has copied is dropped first.
    pub restart: bool,
    /// The source's log is read in place of change streams.
    pub by_log: bool,
    /// Users and roles are moved at the cut-over.
    pub users: bool,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to; it can go on later.
    Stopped,
    /// The target is its own.
    Done,
}

/// Follows until it is cut over or told to stop.
///
/// # Errors
/// One line.
pub(crate) async fn follow(
    settings: &Settings,
    awaited: &Awaited,
    tell: Tell<'_>,
) -> Result<Ended> {
    let mut work = Work::begin(settings, awaited, tell).await?;
    loop {
        match work.go_on(tell).await {
            Err(e) if e.cause == Cause::Network => {
                tell(&format!("{e}; tries again"));
                tokio::time::sleep(PAUSE).await;
            }
            ended => {
                let _ = work.control.release(None).await;
                return ended;
            }
        }
    }
}

struct Work {
    applier_parts: Bringer,
    control: Arc<Control>,
    counts: Arc<Counts>,
    watched: Arc<Watched>,
    asked: watch::Receiver<Option<Request>>,
    beating: tokio::task::JoinHandle<FollowError>,
}

impl Drop for Work {
    fn drop(&mut self) {
        self.beating.abort();
    }
}

impl Work {
    async fn begin(settings: &Settings, awaited: &Awaited, tell: Tell<'_>) -> Result<Work> {
        let source = awaited.connect(&settings.source, "the source").await?;
        let target = awaited.connect(&settings.target, "the target").await?;
        if !source.has_log {
            return Err(FollowError::of_options(format!(
                "{} is no replica set and no sharded cluster, so it tells no changes",
                source.shown
            )));
        }
        let pace = Arc::new(Pace::new(settings.rate));
        let aligner = Aligner {
            source: source.clone(),
            target: target.clone(),
            state: State::of(&target),
            names: settings.names.clone(),
        };
        let counts = Arc::new(Counts::default());
        let control = Arc::new(Control {
            state: State::of(&target),
            source,
            owner: fresh_name(),
            counts: Arc::clone(&counts),
            pace: Arc::clone(&pace),
        });
        if settings.restart && aligner.state.migration().await?.is_some() {
            control.take().await?;
            forget(&aligner).await?;
        }
        begin(&aligner, settings, tell).await?;
        control.take().await?;
        let (asking, asked) = watch::channel(None);
        let beating = tokio::spawn(Arc::clone(&control).beat(asking));
        let copier = Copier {
            aligner,
            pace,
            workers: settings.workers,
        };
        Ok(Work {
            applier_parts: Bringer { copier },
            control,
            counts,
            watched: Arc::default(),
            asked,
            beating,
        })
    }

    fn state(&self) -> &State {
        &self.control.state
    }

    /// From what is kept to the end, or to what breaks.
    async fn go_on(&mut self, tell: Tell<'_>) -> Result<Ended> {
        let migration = self.state().migration().await?;
        let migration = migration.ok_or_else(|| {
            FollowError::of_data("the state of the migration is no longer in the target")
        })?;
        if migration.phase == Phase::Done {
            tell("this target was cut over already");
            return Ok(Ended::Done);
        }
        let begun = Instant::now();
        let bringing = Applier::new(self.applier_parts.clone(), Arc::clone(&self.watched));
        let mut asked = self.asked.clone();
        let mut every = tokio::time::interval(TELL_EVERY);
        every.tick().await;
        let mut bringing = std::pin::pin!(bringing);
        let applier = loop {
            tokio::select! {
                applier = &mut bringing => break applier?,
                () = stop_asked(&mut asked) => return self.stop(tell).await,
                e = &mut self.beating => return Err(ended(e)),
                _ = every.tick() => tell_copied(&self.applier_parts.copier.pace, begun, tell),
            }
        };
        tell_copied(&self.applier_parts.copier.pace, begun, tell);
        if migration.phase == Phase::Copying {
            let phase = doc! { "phase": Phase::Following.name(), "copiedAt": DateTime::now() };
            self.state().set(phase).await?;
            tell("everything is copied; changes are followed");
        }
        self.follow_changes(applier, &migration, tell).await
    }

    /// Compares what there is while changes are applied.
    fn verify(&self, kept: Option<Pass>) -> Verification {
        let (mend, mends) = mpsc::channel(MENDS);
        let aligner = &self.applier_parts.copier.aligner;
        let verifier = Verifier {
            source: aligner.source.clone(),
            target: aligner.target.clone(),
            state: aligner.state.clone(),
            counts: Arc::clone(&self.counts),
            pace: Arc::clone(&self.applier_parts.copier.pace),
            watched: Arc::clone(&self.watched),
            mend,
        };
        let mut verification = Verification {
            task: JoinSet::new(),
            mends,
            verifier,
            found: watch::channel(kept).0,
            workers: self.applier_parts.copier.workers,
        };
        verification.begin();
        verification
    }

    async fn stop(&self, tell: Tell<'_>) -> Result<Ended> {
        let none = doc! { "request": null };
        self.control.release(Some(none)).await?;
        tell("stopped; the same command goes on from here");
        Ok(Ended::Stopped)
    }

    async fn follow_changes(
        &mut self,
        applier: Applier,
        migration: &Migration,
        tell: Tell<'_>,
    ) -> Result<Ended> {
        let (out, steps) = mpsc::channel(events::WAITING);
        let source = self.control.source.clone();
        let mut tasks = JoinSet::new();
        match &migration.token {
            token if migration.by_log => {
                let time = token.as_deref().and_then(events::time_of);
                let from = time.unwrap_or(migration.start);
                tasks.spawn(oplog::read(source, from, out));
            }
            Some(token) => {
                let behind = Start::Behind(token.clone());
                tasks.spawn(events::read(source, behind, out));
            }
            None => {
                let from = Start::At(migration.start);
                tasks.spawn(events::read(source, from, out));
            }
        }
        let mut stream = Stream {
            applier,
            steps,
            verification: self.verify(Pass::kept(&migration.document)),
            mending: Vec::new(),
            received: Vec::new(),
            counts: Arc::clone(&self.counts),
            state: self.state().clone(),
            kept: Instant::now(),
            told: Instant::now(),
        };
        let mut asked = self.asked.clone();
        let mut answered = None;
        loop {
            let request = asked.borrow_and_update().clone();
            match request {
                Some(Request::Stop) => return self.stop(tell).await,
                // It was answered, and the beat has not seen so yet.
                Some(Request::CutOver { id, .. }) if answered.as_ref() == Some(&id) => {}
                Some(Request::CutOver { id, fence }) => {
                    answered = Some(id.clone());
                    let order = cutover::Order { id, fence };
                    if cutover::cut_over(&mut stream, &mut tasks, &order, tell).await? {
                        return Ok(Ended::Done);
                    }
                    continue;
                }
                None => {}
            }
            tokio::select! {
                more = stream.receive() => if !more {
                    return Err(why_ended(&mut tasks).await);
                },
                _ = asked.changed() => {}
                e = &mut self.beating => return Err(ended(e)),
            }
            stream.apply(tell).await?;
        }
    }
}

/// The server that is waited for before anything is done, for who asks meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    server: Mutex<Option<String>>,
}

impl Awaited {
    fn set(&self, server: Option<String>) {
        *self.server.lock().unwrap_or_else(|e| e.into_inner()) = server;
    }

    pub(crate) fn get(&self) -> Option<String> {
        let server = self.server.lock().unwrap_or_else(|e| e.into_inner());
        server.clone()
    }

    async fn connect(&self, address: &Address, what: &str) -> Result<Server> {
        let shown = address.hosts().await.unwrap_or_default();
        self.set(Some(format!("{what} {shown}")));
        let connected = Server::connect(address).await.map_err(|e| e.within(what));
        self.set(None);
        connected
    }
}

/// Waits until a stop is asked for.
async fn stop_asked(asked: &mut watch::Receiver<Option<Request>>) {
    let is_stop = |request: &Option<Request>| *request == Some(Request::Stop);
    if asked.wait_for(is_stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn ended(joined: std::result::Result<FollowError, tokio::task::JoinError>) -> FollowError {
    joined.unwrap_or_else(|e| FollowError::of_data(format!("the beat ended: {e}")))
}

fn tell_copied(pace: &Pace, begun: Instant, tell: Tell<'_>) {
    let seconds = begun.elapsed().as_secs_f64().max(0.001);
    let (documents, bytes) = (pace.documents(), pace.bytes() as f64 / f64::from(1 << 20));
    tell(&format!(
        "copied {documents} documents, {bytes:.1} MiB, {:.1} MiB a second",
        bytes / seconds
    ));
}

/// Drops what was copied, and what is known of it.
async fn forget(aligner: &Aligner) -> Result<()> {
    if let Some(migration) = aligner.state.migration().await?
        && migration.phase == Phase::Done
    {
        return Err(FollowError::of_options(
            "this target was cut over: what was copied is its own, and is not dropped",
        ));
    }
    for view in aligner.state.views().await? {
        if let Some(ns) = Ns::parse(text(&view, "_id")) {
            aligner.drop_target(&ns).await?;
        }
    }
    for entry in aligner.state.entries().await? {
        aligner.drop_target(&entry.target).await?;
    }
    let drop = doc! { "dropDatabase": 1 };
    aligner.target.run(OWN, drop).await.map(|_| ())
}

/// Begins a migration, or sees whether the one that was begun is the same.
async fn begin(aligner: &Aligner, settings: &Settings, tell: Tell<'_>) -> Result<()> {
    let names = aligner.names.kept();
    if let Some(migration) = aligner.state.migration().await? {
        if migration.names != names {
            return Err(FollowError::of_options(format!(
                "the migration into this target was begun with {}, and now is to go on with \
                 {names}",
                migration.names
            )));
        }
        // Another way to read changes begins anew where the one before is.
        if migration.by_log != settings.by_log {
            return Err(FollowError::of_options(
                "the migration into this target was begun with --by-oplog, or without: go on so",
            ));
        }
        return aligner.state.set(doc! { "users": settings.users }).await;
    }
    // Before anything is looked at: what changes from here on is told by the stream.
    let start = aligner.source.time().await?;
    aligner.source.settle(start).await?;
    let found = survey(&aligner.source, &aligner.names).await?;
    let mut refused = found.refused.clone();
    for new in found.collections.iter().chain(&found.views) {
        match aligner.refuse_present(new).await {
            Err(e) if e.cause == Cause::Options => refused.push(e.message),
            done => done?,
        }
    }
    refused.extend(aligner.try_all(&found).await?);
    if settings.users {
        users::check(&aligner.source).await?;
    }
    if !refused.is_empty() {
        return Err(FollowError::of_options(format!(
            "cannot be followed: {}",
            refused.join("; ")
        )));
    }
    tell(&format!(
        "{} collections and {} views of {} (version {}) into {}",
        found.collections.len(),
        found.views.len(),
        aligner.source.shown,
        aligner.source.shown_version(),
        aligner.target.shown
    ));
    let fields = doc! {
        "version": 1, "phase": Phase::Copying.name(), "names": names, "start": start,
        "source": &aligner.source.shown, "begun": DateTime::now(),
        "byLog": settings.by_log, "users": settings.users,
    };
    aligner.state.set(fields).await
}
