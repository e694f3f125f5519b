//! Deletes the oldest entries of the log of changes, and writes the time to the log while there are
//! no writes, so that the operation time advances.

use super::worker::{NextRound, Worker};
use model::{Result, Timestamp};
use state::service::Service;

/// Interval in seconds at which the time is written while there are no writes.
const NOTE_EVERY_S: i64 = 10;

pub(super) static WORKER: Worker = Worker {
    error: ("REPL", "the log could not be kept"),
    is_due_early: |service| service.store.feed().is_some_and(|log| log.is_to_be_cut()),
    ..Worker::short("logOfChanges", || {
        Box::new(|service, _| keep_log(service).map(|()| NextRound::Again))
    })
};

fn keep_log(service: &Service) -> Result<()> {
    let now_s = service.clock.now_ms() / 1000;
    if service.store.log().is_none() {
        // Without a log of all changes, only the clock advances the operation time.
        let time = u32::try_from(now_s).unwrap_or(0);
        service.advance_cluster_time(Timestamp { time, increment: 1 });
    }
    let Some(log) = service.store.feed() else {
        return Ok(());
    };
    let is_read = service.store.log().is_some() || !log.consumer_names().is_empty();
    if is_read && now_s - i64::from(log.current().time) >= NOTE_EVERY_S {
        service
            .store
            .note(&model::doc! { "msg": "periodic noop" })?;
    }
    service.store.truncate_log()?;
    Ok(())
}
