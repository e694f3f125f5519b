//! A standby: until it is promoted the target accepts no writes but the follower's
//! (docs/adr/0084-standby.md). Promises: the target has everything that the source acknowledged up
//! to the time that a promotion reports; without force a promotion happens only if no acknowledged
//! write is lost. Must not know: how changes are applied.

use crate::control::{Control, Request};
use crate::cutover::{Reader, turn};
use crate::error::{Cause, FollowError, Result};
use crate::indexes;
use crate::server::Server;
use crate::state::{Entry, Migration, Phase, State, integer, text};
use crate::stream::{LineSink, Stream};
use crate::users;
use mongodb::bson::{Bson, DateTime, Document, Timestamp, doc};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Interval of the heartbeat, and of reading the source's time, for a standby.
pub(crate) const BEAT: Duration = Duration::from_millis(100);
/// A source that does not answer within this time is unreachable.
const ANSWERS: Duration = Duration::from_millis(400);
/// Largest lag behind a reachable source for a promotion without force.
const BEHIND: Duration = Duration::from_millis(800);
/// The same with force.
const BEHIND_FORCED: Duration = Duration::from_secs(10);
/// Pause before indexes that could not become unique are tried again.
const INDEXES_AGAIN: Duration = Duration::from_secs(1);

/// The followed server and its standby.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) source: Server,
    pub(crate) target: Server,
}

/// The role of a server in a pair.
struct Part {
    role: String,
    me: String,
    peer: String,
    term: i64,
}

async fn part_of(server: &Server) -> Result<Part> {
    let reply = server.run("admin", doc! { "quarryPair": 1 }).await;
    let d = reply.map_err(|e| match e.code {
        Some(59) => FollowError::of_options(format!(
            "{} is not a Quarry server: a standby and its source must both be Quarry",
            server.shown
        )),
        _ => e.in_step(&server.shown),
    })?;
    let own = |name| text(&d, name).to_owned();
    Ok(Part {
        role: own("role"),
        me: own("me"),
        peer: own("peer"),
        term: integer(&d, "term"),
    })
}

async fn become_part(server: &Server, part: &Part) -> Result<()> {
    let command = doc! {
        "quarryPair": 1, "role": &part.role, "me": &part.me, "peer": &part.peer,
        "term": part.term,
    };
    let done = server.run("admin", command).await;
    done.map(|_| ())
        .map_err(|e| e.in_step(&format!("{} cannot become {}", server.shown, part.role)))
}

async fn set_name(server: &Server) -> Result<String> {
    let hello = server.run("admin", doc! { "hello": 1 }).await?;
    Ok(text(&hello, "setName").to_owned())
}

impl Pair {
    /// Makes the target a standby of the source. Repeating it changes nothing.
    pub(crate) async fn join(&self) -> Result<()> {
        let (there, here) = (part_of(&self.source).await?, part_of(&self.target).await?);
        let refuse = |why: &str| Err(FollowError::of_options(why.to_owned()));
        if there.role == "standby" {
            return refuse("the source is a standby itself: follow its primary");
        }
        if here.role == "primary" && here.peer != there.me {
            return refuse("the target is the primary of another pair");
        }
        if here.role == "primary" && here.term > there.term {
            return refuse("the target was promoted: it is the primary");
        }
        let names = [set_name(&self.source).await?, set_name(&self.target).await?];
        let [theirs, ours] = &names;
        if theirs != ours {
            return Err(FollowError::of_options(format!(
                "both servers must have the same --replSet, because clients see them as one set: \
                 the source has {theirs}, the target {ours}"
            )));
        }
        let term = there.term.max(here.term);
        let standby = Part {
            role: "standby".to_owned(),
            me: here.me.clone(),
            peer: there.me.clone(),
            term,
        };
        become_part(&self.target, &standby).await?;
        let primary = Part {
            role: "primary".to_owned(),
            me: there.me,
            peer: here.me,
            term,
        };
        become_part(&self.source, &primary).await
    }

    /// Makes the source refuse writes, or accept them again.
    async fn step_down(&self, down: bool) -> Result<()> {
        let mut part = part_of(&self.source).await?;
        part.role = if down { "standby" } else { "primary" }.to_owned();
        become_part(&self.source, &part).await
    }
}

/// Makes the target of a pair its primary.
pub(crate) async fn make_primary(target: &Server) -> Result<()> {
    let mut part = part_of(target).await?;
    if part.role == "primary" {
        return Ok(());
    }
    part.role = "primary".to_owned();
    part.term += 1;
    become_part(target, &part).await
}

/// The request.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) force: bool,
}

/// The result of a promotion.
pub(crate) struct Outcome {
    /// The standby has all changes up to this time.
    up_to: Timestamp,
    source_time: Timestamp,
    /// The source accepts no more writes.
    stepped_down: bool,
}

/// Notes that the standby was promoted.
async fn conclude(state: &State, order: &Order, outcome: &Outcome, begun: Instant) -> Result<()> {
    let report = doc! {
        "promoted": true, "upTo": outcome.up_to, "sourceTime": outcome.source_time,
        "sourceSteppedDown": outcome.stepped_down, "forced": order.force,
        "millis": i64::try_from(begun.elapsed().as_millis()).unwrap_or(i64::MAX),
    };
    let done = doc! {
        "phase": Phase::Done.name(), "request": Bson::Null, "running": false, "report": report,
        "answer": { "id": &order.id, "ok": true }, "done": DateTime::now(),
    };
    state.set(done).await
}

/// Notes why the standby was not promoted.
pub(crate) async fn refuse(
    state: &State,
    order: &Order,
    why: &FollowError,
    print: LineSink<'_>,
) -> Result<()> {
    let failed = doc! {
        "request": Bson::Null, "answer": { "id": &order.id, "ok": false, "why": &why.message },
    };
    state.set(failed).await?;
    print(&format!("not promoted: {why}"));
    Ok(())
}

/// Promotes while the source is reachable: the source stops accepting writes, then its last change
/// is applied. False if this was refused.
pub(crate) async fn hand_over(
    pair: &Pair,
    stream: &mut Stream,
    reader: &mut Reader,
    order: &Order,
    print: LineSink<'_>,
) -> Result<bool> {
    let begun = Instant::now();
    print("promoting the standby");
    let state = stream.state.clone();
    match hand_over_or_not(pair, stream, reader, order, print).await {
        Ok(outcome) => {
            conclude(&state, order, &outcome, begun).await?;
            print("promoted: the standby is the primary");
            Ok(true)
        }
        // The source became unreachable: the caller decides.
        Err(e) if e.cause == Cause::Network => Err(e),
        Err(e) => {
            refuse(&state, order, &e, print).await?;
            Ok(false)
        }
    }
}

async fn hand_over_or_not(
    pair: &Pair,
    stream: &mut Stream,
    reader: &mut Reader,
    order: &Order,
    print: LineSink<'_>,
) -> Result<Outcome> {
    if !stream.is_ready {
        return Err(not_ready_error());
    }
    let most = if order.force { BEHIND_FORCED } else { BEHIND };
    let lag = Duration::from_millis(stream.counts.lag_ms());
    if lag > most {
        return Err(report_lag(lag));
    }
    pair.step_down(true).await?;
    let last = pair.source.time().await?;
    let begun = Instant::now();
    while stream.position() < last {
        if begun.elapsed() > most {
            if order.force {
                break;
            }
            pair.step_down(false).await?;
            return Err(report_lag(begun.elapsed()));
        }
        turn(stream, reader, print).await?;
    }
    if let Err(e) = finish_indexes(&pair.target, &stream.applier.entries()).await {
        print(&format!("{e}; finish this index yourself"));
    }
    make_primary(&pair.target).await?;
    Ok(Outcome {
        up_to: stream.position(),
        source_time: last,
        stepped_down: true,
    })
}

fn not_ready_error() -> FollowError {
    FollowError::of_data(
        "the standby is not complete yet: all data must be copied and the unique indexes built \
         first",
    )
}

fn report_lag(lag: Duration) -> FollowError {
    FollowError::of_data(format!(
        "the standby is {} ms behind: try again, or give --force",
        lag.as_millis()
    ))
}

/// Waits until a promotion is requested while the source does not answer; no other task would
/// notice soon.
pub(crate) async fn wait_promotion_alone(
    source: Server,
    mut asked: watch::Receiver<Option<Request>>,
) -> Order {
    loop {
        let is_promotion =
            |request: &Option<Request>| matches!(request, Some(Request::Promote { .. }));
        let order = match asked.wait_for(is_promotion).await {
            Ok(request) => match &*request {
                Some(Request::Promote { id, force }) => Some(Order {
                    id: id.clone(),
                    force: *force,
                }),
                _ => None,
            },
            Err(_) => None,
        };
        let Some(order) = order else {
            std::future::pending::<()>().await;
            continue;
        };
        match tokio::time::timeout(ANSWERS, source.time()).await {
            Ok(Ok(_)) => tokio::time::sleep(BEAT).await,
            _ => return order,
        }
    }
}

/// Promotes without the source. False if this was refused.
pub(crate) async fn promote_alone(
    control: &Arc<Control>,
    target: &Server,
    order: &Order,
    print: LineSink<'_>,
) -> Result<bool> {
    let begun = Instant::now();
    let state = &control.state;
    let migration = state.migration().await?;
    let migration = migration.ok_or_else(not_ready_error)?;
    if !is_ready(&migration) {
        refuse(state, order, &not_ready_error(), print).await?;
        return Ok(false);
    }
    let up_to = position(&migration).max(control.counts.position());
    let source_time = control.counts.source_time();
    if !order.force {
        let why = FollowError::of_data(
            "the source does not answer, so writes that it acknowledged since its last answer \
             would be lost; --force promotes the standby as it is",
        );
        refuse(state, order, &why, print).await?;
        return Ok(false);
    }
    make_primary(target).await?;
    let outcome = Outcome {
        up_to,
        source_time,
        stepped_down: false,
    };
    conclude(state, order, &outcome, begun).await?;
    print("promoted: the standby is the primary");
    Ok(true)
}

/// Promotes a standby on which no follower is running.
pub(crate) async fn promote_unattended(
    state: &State,
    target: &Server,
    migration: &Migration,
    id: &str,
) -> Result<()> {
    if !is_ready(migration) {
        return Err(not_ready_error());
    }
    let begun = Instant::now();
    make_primary(target).await?;
    let position = position(migration);
    let outcome = Outcome {
        up_to: position,
        source_time: position,
        stepped_down: false,
    };
    let order = Order {
        id: id.to_owned(),
        force: true,
    };
    conclude(state, &order, &outcome, begun).await
}

pub(crate) fn is_ready(migration: &Migration) -> bool {
    migration.document.get_bool("ready").unwrap_or(false)
}

/// The time up to which everything was applied.
pub(crate) fn position(migration: &Migration) -> Timestamp {
    let none = Timestamp {
        time: 0,
        increment: 0,
    };
    migration.document.get_timestamp("position").unwrap_or(none)
}

async fn finish_indexes(target: &Server, entries: &[Entry]) -> Result<()> {
    for entry in entries {
        indexes::finish(target, entry).await?;
    }
    Ok(())
}

/// Work of a standby besides applying changes: it makes indexes unique as soon as possible, so that
/// a promotion need not wait for that.
pub(crate) struct Upkeep {
    /// The number of index changes that were last finished.
    finished: Option<u64>,
    again_at: Instant,
}

impl Upkeep {
    pub(crate) fn new() -> Upkeep {
        Upkeep {
            finished: None,
            again_at: Instant::now(),
        }
    }

    pub(crate) async fn maintain(
        &mut self,
        stream: &mut Stream,
        print: LineSink<'_>,
    ) -> Result<()> {
        let changed = stream.applier.index_changes;
        if self.finished == Some(changed) || Instant::now() < self.again_at {
            return Ok(());
        }
        self.again_at = Instant::now() + INDEXES_AGAIN;
        if !stream.is_ready && stream.position() < stream.applier.aligned {
            return Ok(());
        }
        let target = &stream.applier.bringer.copier.aligner.target;
        match finish_indexes(target, &stream.applier.entries()).await {
            // Two documents have the same key until a waiting change of one of them is applied.
            Err(e) if e.cause == Cause::Data => return Ok(()),
            done => done?,
        }
        self.finished = Some(changed);
        if !stream.is_ready {
            let migration = stream.state.migration().await?;
            if migration.is_some_and(|m| m.document.get_bool("users").unwrap_or(false)) {
                let aligner = &stream.applier.bringer.copier.aligner;
                users::copy_users(&aligner.source, &aligner.target).await?;
            }
            stream.is_ready = true;
            stream.state.set(doc! { "ready": true }).await?;
            print("the standby is complete");
        }
        Ok(())
    }
}

/// The stored report of a promotion.
pub(crate) fn report(migration: &Migration) -> Document {
    let report = migration.document.get_document("report");
    report.cloned().unwrap_or_default()
}
