//! Receives changes and applies them to the target. Promises: everything before the stored resume
//! position was applied; receiving may be cancelled, applying may not. Must not know: where changes
//! come from.

use crate::apply::Applier;
use crate::control::Counts;
use crate::error::{FollowError, Result};
use crate::events::{self, Event, StreamItem};
use crate::state::State;
use crate::verify::{Difference, Verifier, VerifyResult, keep_verifying};
use mongodb::bson::{Bson, Document, RawDocumentBuf, Timestamp, doc};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// How often the position is stored if there are no events.
const KEEP_EVERY: Duration = Duration::from_secs(2);
/// Time between two progress lines.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// Receives lines for people.
pub(crate) type LineSink<'t> = &'t mut dyn FnMut(&str);

/// The comparison that runs while changes are applied.
pub(crate) struct Verification {
    /// The running task; dropping this ends it.
    pub(crate) task: JoinSet<()>,
    pub(crate) mends: mpsc::Receiver<Difference>,
    pub(crate) verifier: Verifier,
    /// The result of the last pass without differences.
    pub(crate) found: watch::Sender<Option<VerifyResult>>,
    /// Ranges compared at once when nothing else is to be done.
    pub(crate) workers: usize,
}

impl Verification {
    /// Starts comparing everything from time to time.
    pub(crate) fn begin(&mut self) {
        let (verifier, found) = (self.verifier.clone(), self.found.clone());
        self.task.spawn(keep_verifying(verifier, found));
    }

    /// Stops the comparison.
    pub(crate) async fn pause(&mut self) {
        self.task.shutdown().await;
    }

    pub(crate) fn has_passed(&self) -> bool {
        self.found.borrow().is_some()
    }
}

/// The changes to apply, and the documents to repair.
pub(crate) struct Stream {
    pub(crate) applier: Applier,
    pub(crate) steps: mpsc::Receiver<StreamItem>,
    pub(crate) verification: Verification,
    pub(crate) mending: Vec<Difference>,
    pub(crate) received: Vec<StreamItem>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) state: State,
    /// The standby is complete and may be promoted.
    pub(crate) is_ready: bool,
    pub(crate) kept: Instant,
    pub(crate) told: Instant,
}

impl Stream {
    /// Waits for the next changes; false if none will come. May be cancelled without losing any.
    pub(crate) async fn receive(&mut self) -> bool {
        tokio::select! {
            number = self.steps.recv_many(&mut self.received, events::WAITING) => number > 0,
            Some(different) = self.verification.mends.recv() => {
                self.mending.push(different);
                true
            }
        }
    }

    /// Takes the documents that are to be repaired now.
    pub(crate) fn take_mends(&mut self) {
        while let Ok(different) = self.verification.mends.try_recv() {
            self.mending.push(different);
        }
    }

    /// Applies everything received. After an error the stored position is still correct.
    pub(crate) async fn apply(&mut self, print: LineSink<'_>) -> Result<()> {
        let mut token: Option<RawDocumentBuf> = None;
        let mut events: Vec<Event> = Vec::new();
        let mut is_within = false;
        for step in self.received.drain(..) {
            token = step.token.or(token);
            is_within = step.event.as_ref().is_some_and(|e| e.in_transaction);
            events.extend(step.event);
        }
        self.counts.note_waiting(events.len() + self.steps.len());
        for Difference { entry, id } in self.mending.drain(..) {
            print(&format!("{} differed in {id:?}: read again", entry.target));
            let look = Event::of_document(entry.key, entry.source, id);
            self.applier.apply(&[look]).await?;
        }
        let refused = self.applier.refused.len();
        let ours = self.applier.apply(&events).await?;
        for new in self.applier.refused.iter().skip(refused) {
            print(&format!("not followed: {new}"));
        }
        self.counts.note_applied(ours);
        self.counts.note_waiting(self.steps.len());
        let time = token.as_deref().and_then(events::time_of);
        let time = time.or(events.last().map(|e| e.time));
        // More events of this transaction have the same time, so that time is not reached yet.
        let time = if is_within {
            time.map(events::time_before)
        } else {
            time
        };
        let is_due = !events.is_empty() || self.kept.elapsed() >= KEEP_EVERY;
        if let (true, Some(token)) = (is_due, &token) {
            let kept = Document::try_from(token)?;
            let at = time.map_or(Bson::Null, Bson::Timestamp);
            let kept = doc! { "token": kept, "position": at };
            self.state.set(kept).await?;
            self.kept = Instant::now();
        }
        if let Some(time) = time {
            self.counts.note_position(time);
        }
        self.counts.note_lag(events.last().map(|e| e.wall_ms));
        if self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            print(&format!(
                "applied {} changes, {} s behind",
                self.counts.applied_count(),
                self.counts.lag_seconds()
            ));
        }
        Ok(())
    }

    pub(crate) fn position(&self) -> Timestamp {
        self.counts.position()
    }
}

/// The reason why reading has ended.
pub(crate) async fn end_reason(tasks: &mut JoinSet<Result<()>>) -> FollowError {
    match tasks.join_next().await {
        Some(Ok(Err(e))) => e,
        Some(Err(e)) => FollowError::of_data(format!("the reader of changes ended: {e}")),
        Some(Ok(Ok(()))) | None => FollowError::of_network("the changes of the source ended"),
    }
}
