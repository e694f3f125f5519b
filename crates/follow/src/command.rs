//! The commands to a running follower, sent through the state in the target. Promises: a repeated
//! command waits for the same result, or returns it. Must not know: the source.

use crate::address::Address;
use crate::connections::Connections;
use crate::control::{GONE, Request, fresh_name};
use crate::error::{FollowError, Result};
use crate::server::Server;
use crate::standby;
use crate::state::{Migration, Phase, State, integer, text};
use crate::stream::LineSink;
use mongodb::bson::{Bson, DateTime, Document, doc};
use std::time::{Duration, Instant};

/// Most findings in a status.
const FINDINGS_SHOWN: i64 = 20;
/// How long a follower may be silent before a command stops waiting for it.
const AWAY: Duration = Duration::from_secs(20);
/// How long a promotion waits for a new heartbeat of the follower.
const SIGN_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often a waiting promotion reads the state.
const PROMOTED_EVERY: Duration = Duration::from_millis(20);

/// Sends commands to the follower of a target.
pub(crate) struct CommandSender {
    state: State,
    shown: String,
    target: Server,
}

impl CommandSender {
    pub(crate) async fn connect(
        connections: &Connections,
        target: &Address,
    ) -> Result<CommandSender> {
        let target = connections.connect(&target.directly()).await;
        let target = target.map_err(|e| e.in_step("the target"))?;
        Ok(CommandSender {
            state: State::of(&target),
            shown: target.shown.clone(),
            target,
        })
    }

    async fn migration(&self) -> Result<Migration> {
        let migration = self.state.migration().await?;
        migration.ok_or_else(|| {
            FollowError::of_options(format!("no migration into {} was started", self.shown))
        })
    }

    /// Asks the follower to stop, and waits until it has.
    pub(crate) async fn stop(&self, print: LineSink<'_>) -> Result<()> {
        let migration = self.migration().await?;
        if !is_running(&migration.document) {
            print("no quarry follow is running for this target");
            return Ok(());
        }
        let fields = doc! { "request": { "kind": "stop" } };
        self.state.set(fields).await?;
        loop {
            let now = self.migration().await?;
            if !is_running(&now.document) {
                print("stopped");
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Asks the follower to cut over, and waits for its answer.
    pub(crate) async fn cut_over(&self, fence: bool, print: LineSink<'_>) -> Result<Document> {
        let migration = self.migration().await?;
        let id = match Request::parse(&migration.document) {
            Some(Request::CutOver { id, .. }) => id,
            _ => fresh_name(),
        };
        let mut seen = None;
        loop {
            let now = self.migration().await?;
            if now.phase == Phase::Done {
                let report = now.document.get_document("report");
                return Ok(report.cloned().unwrap_or_default());
            }
            if let Some(why) = refusal(&now.document, &id) {
                return Err(FollowError::of_data(format!("not cut over: {why}")));
            }
            let is_asked = matches!(Request::parse(&now.document), Some(Request::CutOver { .. }));
            if is_running(&now.document) {
                if !is_asked {
                    let request = doc! { "kind": "cutover", "id": &id, "fence": fence };
                    self.state.set(doc! { "request": request }).await?;
                    print("the cut-over was requested; waiting for the last change");
                }
                seen = Some(Instant::now());
            } else if seen.is_none_or(|at| at.elapsed() > AWAY) {
                return Err(self.withdraw(&id, now.phase).await?);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Asks the follower to promote the standby, and waits for its answer.
    pub(crate) async fn promote(&self, force: bool) -> Result<Document> {
        let migration = self.migration().await?;
        if !migration.document.get_bool("standby").unwrap_or(false) {
            return Err(FollowError::of_options(format!(
                "{} is not a standby; a migration ends by quarry follow cutover",
                self.shown
            )));
        }
        if migration.phase == Phase::Done {
            return Ok(standby::report(&migration));
        }
        let id = fresh_name();
        let is_attended = is_running(&migration.document)
            || (!force && self.shows_a_sign_within(SIGN_WITHIN).await?);
        if !is_attended {
            if !force {
                return Err(FollowError::of_options(
                    "no quarry follow is running for this standby, so the writes that it lacks \
                     are unknown: start quarry follow again, or give --force",
                ));
            }
            standby::promote_unattended(&self.state, &self.target, &migration, &id).await?;
            return Ok(standby::report(&self.migration().await?));
        }
        let request = doc! { "kind": "promote", "id": &id, "force": force };
        self.state.set(doc! { "request": request }).await?;
        let mut seen = Instant::now();
        loop {
            let now = self.migration().await?;
            if now.phase == Phase::Done {
                return Ok(standby::report(&now));
            }
            if let Some(why) = refusal(&now.document, &id) {
                return Err(FollowError::of_data(format!("not promoted: {why}")));
            }
            if is_running(&now.document) {
                seen = Instant::now();
            } else if has_left(&now.document) || seen.elapsed() > SIGN_WITHIN {
                return Err(self.withdraw(&id, now.phase).await?);
            }
            tokio::time::sleep(PROMOTED_EVERY).await;
        }
    }

    /// Waits for the next heartbeat: a follower that got no CPU for a while is still running.
    async fn shows_a_sign_within(&self, time: Duration) -> Result<bool> {
        let began = Instant::now();
        loop {
            let now = self.migration().await?;
            if is_running(&now.document) {
                return Ok(true);
            }
            if has_left(&now.document) || began.elapsed() > time {
                return Ok(false);
            }
            tokio::time::sleep(PROMOTED_EVERY).await;
        }
    }

    /// Withdraws a cut-over that has not begun, so that it does not happen much later.
    async fn withdraw(&self, id: &str, phase: Phase) -> Result<FollowError> {
        if phase == Phase::CuttingOver {
            return Ok(FollowError::of_data(
                "quarry follow has ended in the middle of the cut-over: start it again to \
                 continue the cut-over",
            ));
        }
        let asked = doc! { "request.id": id, "phase": phase.name() };
        let none = doc! { "request": Bson::Null };
        self.state.set_if(asked, none).await?;
        Ok(FollowError::of_options(
            "no quarry follow is running for this target: start it again first",
        ))
    }

    /// The status of the migration.
    pub(crate) async fn status(&self) -> Result<Document> {
        let migration = self.migration().await?;
        let entries = self.state.entries().await?;
        let copied = self.state.sum_copied().await?;
        let d = &migration.document;
        let whole = entries.iter().filter(|e| e.copied).count();
        let mut status = doc! {
            "phase": migration.phase.name(), "running": is_running(d),
            "source": text(d, "source"), "target": &self.shown,
            "collections": entries.len() as i64, "collectionsCopied": whole as i64,
            "documentsCopied": copied.documents, "bytesCopied": copied.bytes,
        };
        let progress = d.get_document("progress").cloned().unwrap_or_default();
        for name in [
            "applied",
            "waiting",
            "lagSeconds",
            "lagMillis",
            "position",
            "sourceTime",
            "bytesPerSecond",
            "appliedPerSecond",
            "bound",
        ] {
            if let Some(value) = progress.get(name) {
                status.insert(name, value.clone());
            }
        }
        for name in [
            "documentsTotal",
            "bytesTotal",
            "begun",
            "copiedAt",
            "done",
            "verified",
            "report",
            "answer",
            "standby",
            "ready",
        ] {
            if let Some(value) = d.get(name) {
                status.insert(name, value.clone());
            }
        }
        if let Some(seconds) = seconds_left(migration.phase, &status) {
            status.insert("secondsLeft", seconds);
        }
        let findings = self.state.findings(FINDINGS_SHOWN).await?;
        status.insert("findings", findings);
        Ok(status)
    }
}

/// Seconds until everything is copied, or until the waiting changes are applied, at the present
/// rate.
fn seconds_left(phase: Phase, status: &Document) -> Option<i64> {
    let (left, rate) = match phase {
        Phase::Copying => {
            let left = integer(status, "bytesTotal") - integer(status, "bytesCopied");
            (left, integer(status, "bytesPerSecond"))
        }
        Phase::Following | Phase::CuttingOver => {
            let waiting = integer(status, "waiting");
            (waiting, integer(status, "appliedPerSecond"))
        }
        Phase::Done => return None,
    };
    match left <= 0 {
        true => Some(0),
        false => (rate > 0).then(|| left / rate + 1),
    }
}

/// Whether the follower has noted that it ended.
fn has_left(d: &Document) -> bool {
    !d.get_bool("running").unwrap_or(false)
}

fn is_running(d: &Document) -> bool {
    let beat = d.get_datetime("heartbeat").copied();
    let now = DateTime::now().timestamp_millis();
    let age = beat.map_or(i64::MAX, |b| now.saturating_sub(b.timestamp_millis()));
    d.get_bool("running").unwrap_or(false) && age < 2 * GONE.as_millis() as i64
}

fn refusal(d: &Document, id: &str) -> Option<String> {
    let answer = d.get_document("answer").ok()?;
    if text(answer, "id") != id || answer.get_bool("ok").unwrap_or(true) {
        return None;
    }
    Some(
        answer
            .get_str("why")
            .unwrap_or("no reason given")
            .to_owned(),
    )
}
