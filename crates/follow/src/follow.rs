//! A migration from beginning to end. Promises: after any failure, also of a server, it continues
//! from the state in the target; collections that cannot be followed are reported before anything
//! is copied.

use crate::address::Address;
use crate::align::Aligner;
use crate::apply::Applier;
use crate::bring::InitialSync;
use crate::connections::Connections;
use crate::control::{BEAT, Control, Counts, Request, fresh_name};
use crate::copy::Copier;
use crate::cutover;
use crate::error::{Cause, FollowError, Result};
use crate::events::{self, StreamStart};
use crate::names::{Ns, OWN};
use crate::oplog;
use crate::pace::Pace;
use crate::reverse;
use crate::server::Server;
use crate::settings::{FollowOutcome, Settings};
use crate::standby::{self, Order, Pair, Upkeep};
use crate::state::{Migration, Phase, State, integer, text};
use crate::stream::{LineSink, Stream, Verification, end_reason};
use crate::survey::{Survey, survey};
use crate::throttle;
use crate::users;
use crate::verify::{Verifier, VerifyResult};
use crate::watched::WatchedDocuments;
use mongodb::bson::{DateTime, Document, doc};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Most documents waiting to be repaired.
const MENDS: usize = 100;
/// Pause before a retry.
const PAUSE: Duration = Duration::from_secs(1);
/// Time between two progress lines.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// Follows until cut over or stopped, then in the reverse direction if asked for.
///
/// # Errors
/// One line.
pub(crate) async fn follow(
    settings: &Settings,
    awaited: &AwaitedServer<'_>,
    print: LineSink<'_>,
) -> Result<FollowOutcome> {
    let ended = follow_once(settings, awaited, print).await?;
    if ended != FollowOutcome::Done || !settings.reverse {
        return Ok(ended);
    }
    print("from now on the source follows the target, until the next cut-over");
    let back = reverse::settings(settings, awaited.connections).await?;
    follow_once(&back, awaited, print).await
}

async fn follow_once(
    settings: &Settings,
    awaited: &AwaitedServer<'_>,
    print: LineSink<'_>,
) -> Result<FollowOutcome> {
    let mut work = FollowContext::begin(settings, awaited, print).await?;
    loop {
        // A promotion does not wait for a source that is unreachable.
        let alone = work.wait_promotion();
        let went_on = tokio::select! {
            went_on = work.go_on(print) => went_on,
            order = alone => {
                let target = work.applier_parts.copier.aligner.target.clone();
                match standby::promote_alone(&work.control, &target, &order, print).await {
                    Ok(true) => return Ok(FollowOutcome::Done),
                    Ok(false) => {
                        work.wait_for_answer_seen(&order).await;
                        continue;
                    }
                    Err(e) => Err(e),
                }
            }
        };
        match went_on {
            Err(e) if e.cause == Cause::Network => {
                print(&format!("{e}; trying again"));
                tokio::time::sleep(PAUSE).await;
            }
            ended => {
                let _ = work.control.release(None).await;
                return ended;
            }
        }
    }
}

struct FollowContext {
    applier_parts: InitialSync,
    control: Arc<Control>,
    counts: Arc<Counts>,
    watched: Arc<WatchedDocuments>,
    asked: watch::Receiver<Option<Request>>,
    beating: tokio::task::JoinHandle<FollowError>,
    keeping_time: tokio::task::JoinHandle<()>,
    throttling: Option<tokio::task::JoinHandle<()>>,
    pair: Option<Pair>,
}

impl Drop for FollowContext {
    fn drop(&mut self) {
        self.keeping_time.abort();
        self.throttling.iter().for_each(|task| task.abort());
        self.beating.abort();
    }
}

impl FollowContext {
    async fn begin(
        settings: &Settings,
        awaited: &AwaitedServer<'_>,
        print: LineSink<'_>,
    ) -> Result<FollowContext> {
        let from = match settings.standby {
            true => settings.source.directly(),
            false => settings.source.clone(),
        };
        let source = awaited.connect(&from, "the source").await?;
        let to = settings.target.directly();
        let target = awaited.connect(&to, "the target").await?;
        if !source.has_log {
            return Err(FollowError::of_options(format!(
                "{} is neither a replica set nor a sharded cluster, so it reports no changes",
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
            beat: if settings.standby {
                standby::BEAT
            } else {
                BEAT
            },
        });
        if settings.reverse {
            reverse::check(&aligner.target)?;
        }
        let pair = settings.standby.then(|| Pair {
            source: aligner.source.clone(),
            target: aligner.target.clone(),
        });
        if settings.restart && aligner.state.migration().await?.is_some() {
            control.take().await?;
            forget(&aligner).await?;
        }
        begin(&aligner, settings, pair.as_ref(), print).await?;
        control.take().await?;
        let (asking, asked) = watch::channel(None);
        let beating = tokio::spawn(Arc::clone(&control).write_heartbeats(asking));
        let keeping_time = tokio::spawn(Arc::clone(&control).keep_time());
        let throttling = settings.latency.map(|most| {
            let source = control.source.clone();
            tokio::spawn(throttle::keep(source, Arc::clone(&pace), most))
        });
        let copier = Copier {
            aligner,
            pace,
            workers: settings.workers,
        };
        Ok(FollowContext {
            applier_parts: InitialSync { copier },
            control,
            counts,
            watched: Arc::default(),
            asked,
            beating,
            keeping_time,
            throttling,
            pair,
        })
    }

    /// Waits for a promotion request that no other task handles because the source does not answer.
    fn wait_promotion(&self) -> impl Future<Output = Order> + use<> {
        let (source, asked) = (self.control.source.clone(), self.asked.clone());
        let is_standby = self.pair.is_some();
        async move {
            if !is_standby {
                std::future::pending::<()>().await;
            }
            standby::wait_promotion_alone(source, asked).await
        }
    }

    /// Waits until the heartbeat has read that the request is gone, so that it is not answered
    /// twice.
    async fn wait_for_answer_seen(&self, order: &Order) {
        let mut asked = self.asked.clone();
        let is_over = |request: &Option<Request>| match request {
            Some(Request::Promote { id, .. }) => *id != order.id,
            _ => true,
        };
        let _ = asked.wait_for(is_over).await;
    }

    fn state(&self) -> &State {
        &self.control.state
    }

    /// Continues from the stored state to the end, or to an error.
    async fn go_on(&mut self, print: LineSink<'_>) -> Result<FollowOutcome> {
        let migration = self.state().migration().await?;
        let migration = migration.ok_or_else(|| {
            FollowError::of_data("the state of the migration is no longer in the target")
        })?;
        if migration.phase == Phase::Done {
            print("this target was cut over already");
            return Ok(FollowOutcome::Done);
        }
        if migration.phase == Phase::Copying {
            let totals = size_of(&self.applier_parts.copier.aligner).await?;
            self.state().set(totals).await?;
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
                () = wait_stop(&mut asked) => return self.stop(print).await,
                e = &mut self.beating => return Err(heartbeat_error(e)),
                _ = every.tick() => tell_copied(&self.applier_parts.copier.pace, begun, print),
            }
        };
        tell_copied(&self.applier_parts.copier.pace, begun, print);
        if migration.phase == Phase::Copying {
            let phase = doc! { "phase": Phase::Following.name(), "copiedAt": DateTime::now() };
            self.state().set(phase).await?;
            print("everything is copied; changes are followed");
        }
        self.follow_changes(applier, &migration, print).await
    }

    /// Starts comparing while changes are applied.
    fn verify(&self, kept: Option<VerifyResult>) -> Verification {
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

    async fn stop(&self, print: LineSink<'_>) -> Result<FollowOutcome> {
        let none = doc! { "request": null };
        self.control.release(Some(none)).await?;
        print("stopped; the same command continues from here");
        Ok(FollowOutcome::Stopped)
    }

    async fn follow_changes(
        &mut self,
        applier: Applier,
        migration: &Migration,
        print: LineSink<'_>,
    ) -> Result<FollowOutcome> {
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
                let behind = StreamStart::Behind(token.clone());
                tasks.spawn(events::read(source, behind, out));
            }
            None => {
                let from = StreamStart::At(migration.start);
                tasks.spawn(events::read(source, from, out));
            }
        }
        let mut stream = Stream {
            applier,
            steps,
            verification: self.verify(VerifyResult::from_migration(&migration.document)),
            mending: Vec::new(),
            received: Vec::new(),
            counts: Arc::clone(&self.counts),
            state: self.state().clone(),
            is_ready: standby::is_ready(migration),
            kept: Instant::now(),
            told: Instant::now(),
        };
        self.counts.note_position(standby::position(migration));
        let mut asked = self.asked.clone();
        let mut answered = None;
        let mut upkeep = Upkeep::new();
        loop {
            let request = asked.borrow_and_update().clone();
            match request {
                Some(Request::Stop) => return self.stop(print).await,
                // Already answered; the heartbeat has not read that yet.
                Some(Request::CutOver { id, .. }) if answered.as_ref() == Some(&id) => {}
                Some(Request::CutOver { id, .. }) if self.pair.is_some() => {
                    let order = Order {
                        id: id.clone(),
                        force: false,
                    };
                    answered = Some(id);
                    let why = FollowError::of_options("this is a standby: promote it");
                    standby::refuse(&stream.state, &order, &why, print).await?;
                    continue;
                }
                Some(Request::CutOver { id, fence }) => {
                    answered = Some(id.clone());
                    let order = cutover::Order { id, fence };
                    if cutover::cut_over(&mut stream, &mut tasks, &order, print).await? {
                        return Ok(FollowOutcome::Done);
                    }
                    continue;
                }
                Some(Request::Promote { id, .. }) if answered.as_ref() == Some(&id) => {}
                Some(Request::Promote { id, force }) => {
                    answered = Some(id.clone());
                    let order = Order { id, force };
                    if self.promote(&mut stream, &mut tasks, &order, print).await? {
                        return Ok(FollowOutcome::Done);
                    }
                    continue;
                }
                None => {}
            }
            tokio::select! {
                more = stream.receive() => if !more {
                    return Err(end_reason(&mut tasks).await);
                },
                _ = asked.changed() => {}
                e = &mut self.beating => return Err(heartbeat_error(e)),
            }
            stream.apply(print).await?;
            if self.pair.is_some() {
                upkeep.maintain(&mut stream, print).await?;
            }
        }
    }

    async fn promote(
        &self,
        stream: &mut Stream,
        reader: &mut cutover::Reader,
        order: &Order,
        print: LineSink<'_>,
    ) -> Result<bool> {
        match &self.pair {
            Some(pair) => standby::hand_over(pair, stream, reader, order, print).await,
            None => {
                let why = FollowError::of_options("this is not a standby: cut it over");
                standby::refuse(&stream.state, order, &why, print).await?;
                Ok(false)
            }
        }
    }
}

/// The server that the follower is waiting for, shown in its status meanwhile.
#[derive(Debug)]
pub(crate) struct AwaitedServer<'a> {
    pub(crate) connections: &'a Connections,
    server: Mutex<Option<String>>,
}

impl<'a> AwaitedServer<'a> {
    pub(crate) fn new(connections: &'a Connections) -> AwaitedServer<'a> {
        let server = Mutex::default();
        AwaitedServer {
            connections,
            server,
        }
    }

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
        let connected = self.connections.connect(address).await;
        let connected = connected.map_err(|e| e.in_step(what));
        self.set(None);
        connected
    }
}

/// The amount to copy, for estimating the remaining time.
async fn size_of(aligner: &Aligner) -> Result<Document> {
    let found = survey(&aligner.source, &aligner.names).await?;
    let [mut documents, mut bytes] = [0, 0];
    for one in &found.collections {
        let stats = doc! { "collStats": &one.source.coll };
        match aligner.source.run(&one.source.db, stats).await {
            Ok(stats) => {
                documents += integer(&stats, "count");
                bytes += integer(&stats, "size");
            }
            // The collection was dropped meanwhile.
            Err(e) if e.cause == Cause::Data => {}
            Err(e) => return Err(e),
        }
    }
    Ok(doc! { "documentsTotal": documents, "bytesTotal": bytes })
}

/// Waits until a stop is asked for.
async fn wait_stop(asked: &mut watch::Receiver<Option<Request>>) {
    let is_stop = |request: &Option<Request>| *request == Some(Request::Stop);
    if asked.wait_for(is_stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn heartbeat_error(
    joined: std::result::Result<FollowError, tokio::task::JoinError>,
) -> FollowError {
    joined.unwrap_or_else(|e| FollowError::of_data(format!("the heartbeat ended: {e}")))
}

fn tell_copied(pace: &Pace, begun: Instant, print: LineSink<'_>) {
    let seconds = begun.elapsed().as_secs_f64().max(0.001);
    let (documents, bytes) = (pace.documents(), pace.bytes() as f64 / f64::from(1 << 20));
    print(&format!(
        "copied {documents} documents, {bytes:.1} MiB, {:.1} MiB a second",
        bytes / seconds
    ));
}

/// Drops the copied collections and their state.
async fn forget(aligner: &Aligner) -> Result<()> {
    if let Some(migration) = aligner.state.migration().await?
        && migration.phase == Phase::Done
    {
        return Err(FollowError::of_options(
            "this target was cut over: the copied data now belongs to it and is not dropped",
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

/// Begins a migration, or checks that the one begun before is the same.
async fn begin(
    aligner: &Aligner,
    settings: &Settings,
    pair: Option<&Pair>,
    print: LineSink<'_>,
) -> Result<()> {
    let names = aligner.names.encode();
    let migration = aligner.state.migration().await?;
    let is_over = migration.as_ref().is_some_and(|m| m.phase == Phase::Done);
    if let (Some(pair), false) = (pair, is_over) {
        pair.join().await?;
    }
    if let Some(migration) = migration {
        if migration.names != names {
            return Err(FollowError::of_options(format!(
                "the migration into this target was started with {}, and cannot continue with \
                 {names}",
                migration.names
            )));
        }
        // The two ways to read changes have different positions, so a migration cannot switch
        // between them.
        if migration.by_log != settings.by_log {
            return Err(FollowError::of_options(
                "a migration keeps its way to read changes: give --by-oplog if and only if it \
                 was started with it",
            ));
        }
        if migration.document.get_bool("standby").unwrap_or(false) != settings.standby {
            return Err(FollowError::of_options(
                "a migration does not become a standby or end being one: give --standby if and \
                 only if it was started with it",
            ));
        }
        let wishes = doc! { "users": settings.users, "feedsBack": settings.reverse };
        return aligner.state.set(wishes).await;
    }
    // Read before the survey: the stream reports all changes from this time on.
    let start = aligner.source.time().await?;
    aligner.source.settle(start).await?;
    let found = survey(&aligner.source, &aligner.names).await?;
    let refused = list_refusals(aligner, &found, settings).await?;
    if !refused.is_empty() {
        return Err(FollowError::of_options(format!(
            "the source cannot be followed: {}",
            refused.join("; ")
        )));
    }
    print(&format!(
        "{} collections and {} views of {} (version {}) into {}",
        found.collections.len(),
        found.views.len(),
        aligner.source.shown,
        aligner.source.shown_version(),
        aligner.target.shown
    ));
    if !found.series.is_empty() {
        print(&format!(
            "{} time-series collections are copied at the cut-over, when the source is quiet",
            found.series.len()
        ));
    }
    let fields = doc! {
        "version": 1, "phase": Phase::Copying.name(), "names": names, "start": start,
        "source": &aligner.source.shown, "begun": DateTime::now(),
        "byLog": settings.by_log, "users": settings.users, "standby": settings.standby,
        "feedsBack": settings.reverse,
    };
    aligner.state.set(fields).await
}

/// The collections that cannot be followed, each with the reason.
async fn list_refusals(
    aligner: &Aligner,
    found: &Survey,
    settings: &Settings,
) -> Result<Vec<String>> {
    let mut refused = found.refused.clone();
    if settings.standby || settings.reverse {
        let series = found.series.iter().map(|one| {
            format!(
                "{} is a time-series collection, whose changes no change stream reports, so it \
                 can only be copied at a cut-over",
                one.source
            )
        });
        refused.extend(series);
    }
    let all = found.collections.iter().chain(&found.views);
    for new in all.chain(&found.series) {
        match aligner.refuse_present(new).await {
            Err(e) if e.cause == Cause::Options => refused.push(e.message),
            done => done?,
        }
    }
    refused.extend(aligner.try_all(found).await?);
    if settings.users {
        users::check(&aligner.source).await?;
    }
    Ok(refused)
}
