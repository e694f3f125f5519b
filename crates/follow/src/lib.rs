//! Live migration: a copy of a source that follows its changes until the cut-over
//! (docs/adr/0073-follow.md).
//!
//! Promises: a source is only read, unless it is to be fenced; a migration continues after an
//! interruption at any moment, also of either server; no line has a password. Must not know:
//! Quarry. Both servers are reached by the wire protocol.

mod address;
mod align;
mod apply;
mod bring;
mod command;
mod connections;
mod control;
mod copy;
mod cutover;
mod error;
mod events;
mod follow;
mod indexes;
mod names;
mod oplog;
mod pace;
mod reverse;
mod series;
mod server;
mod settings;
mod standby;
mod state;
mod stream;
mod survey;
mod throttle;
mod users;
mod verify;
mod watched;
mod write;

pub use address::Address;
pub use error::{Cause, FollowError, Result};
pub use mongodb::bson::{Bson, Document};
pub use names::Names;
pub use settings::{FollowOutcome, Settings};
pub use state::Phase;

use command::CommandSender;
use connections::Connections;
use std::future::Future;
use tokio::signal::unix::{SignalKind, signal};

/// Threads for the work on both servers.
const THREADS: usize = 4;

fn block_on<T>(connections: &Connections, work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(|e| FollowError::of_data(format!("threads cannot be started: {e}")))?;
    let done = runtime.block_on(async {
        let done = work.await;
        connections.close().await;
        done
    });
    // Requests on their way to a server that does not answer are not waited for.
    runtime.shutdown_background();
    done
}

/// Runs a command on the state of a migration in its target.
fn ask<T>(target: &Address, question: impl AsyncFnOnce(CommandSender) -> Result<T>) -> Result<T> {
    let connections = Connections::default();
    block_on(&connections, async {
        question(CommandSender::connect(&connections, target).await?).await
    })
}

/// Waits for SIGINT or SIGTERM.
async fn wait_for_signal() -> Result<()> {
    let fail = |e: std::io::Error| FollowError::of_data(format!("no signals: {e}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(fail)?;
    let mut end = signal(SignalKind::terminate()).map_err(fail)?;
    tokio::select! {
        _ = interrupt.recv() => Ok(()),
        _ = end.recv() => Ok(()),
    }
}

/// Follows until cut over, or stopped by a signal or a command; `tell` is given lines for people.
///
/// # Errors
/// One line.
pub fn run(settings: &Settings, print: &mut dyn FnMut(&str)) -> Result<FollowOutcome> {
    let connections = Connections::default();
    let awaited = follow::AwaitedServer::new(&connections);
    block_on(&connections, async {
        let ended = tokio::select! {
            ended = follow::follow(settings, &awaited, print) => return ended,
            told = wait_for_signal() => told.map(|()| FollowOutcome::Stopped),
        };
        match awaited.get() {
            Some(server) => print(&format!("stopped: {server} has not answered yet")),
            None => print("stopped; the same command continues from here"),
        }
        ended
    })
}

/// Asks the follower of a target to stop, and waits until it has.
///
/// # Errors
/// One line.
pub fn stop(target: &Address, print: &mut dyn FnMut(&str)) -> Result<()> {
    ask(target, async |asker| asker.stop(print).await)
}

/// Asks the follower of a target to cut over, and waits for its report.
///
/// # Errors
/// One line: it failed; the migration goes on following.
pub fn cut_over(target: &Address, fence: bool, print: &mut dyn FnMut(&str)) -> Result<Document> {
    ask(target, async |asker| asker.cut_over(fence, print).await)
}

/// Makes the standby the primary. The report's `upTo` is the time up to which the standby has
/// everything that the source acknowledged.
///
/// # Errors
/// One line: acknowledged writes would be lost and `force` was not given, or the standby is not
/// complete.
pub fn promote(target: &Address, force: bool) -> Result<Document> {
    ask(target, async |asker| asker.promote(force).await)
}

/// The status of the migration into a target.
///
/// # Errors
/// One line.
pub fn status(target: &Address) -> Result<Document> {
    ask(target, async |asker| asker.status().await)
}
