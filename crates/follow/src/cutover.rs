//! The end of a migration: stops writes to the source, applies the last change, finishes the
//! indexes, compares. Promises: a repeated request continues, or returns the result; after a
//! failure the migration goes on following. Must not know: who asked.

use crate::error::{Cause, FollowError, Result};
use crate::indexes;
use crate::reverse;
use crate::series;
use crate::server::Server;
use crate::state::{Entry, Phase, integer};
use crate::stream::{LineSink, Stream, end_reason};
use crate::survey::survey;
use crate::users;
use crate::verify::{REMEMBERED, VerifyResult};
use mongodb::bson::{DateTime, Document, Timestamp, doc};
use std::future::Future;
use tokio::task::JoinSet;

/// The request.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) fence: bool,
}

/// The task that reads changes; it ends only with an error.
pub(crate) type Reader = JoinSet<Result<()>>;

/// Cuts over; false if it failed, and then the answer says why.
pub(crate) async fn cut_over(
    stream: &mut Stream,
    reader: &mut Reader,
    order: &Order,
    print: LineSink<'_>,
) -> Result<bool> {
    print("cutting over");
    let phase = doc! { "phase": Phase::CuttingOver.name() };
    stream.state.set(phase).await?;
    match finish(stream, reader, order, print).await {
        Ok(report) => {
            let done = doc! {
                "phase": Phase::Done.name(), "request": null, "running": false, "report": report,
                "answer": { "id": &order.id, "ok": true }, "done": DateTime::now(),
            };
            stream.state.set(done).await?;
            print("cut over: the target is on its own");
            Ok(true)
        }
        // A network error is not final: the cut-over will be resumed.
        Err(e) if e.cause == Cause::Network => Err(e),
        Err(e) => {
            if order.fence {
                let source = &stream.applier.bringer.copier.aligner.source;
                hold_back(source, false).await?;
            }
            let failed = doc! {
                "phase": Phase::Following.name(), "request": null,
                "answer": { "id": &order.id, "ok": false, "why": &e.message },
            };
            stream.state.set(failed).await?;
            stream.verification.pause().await;
            stream.verification.begin();
            print(&format!("not cut over: {e}"));
            Ok(false)
        }
    }
}

async fn finish(
    stream: &mut Stream,
    reader: &mut Reader,
    order: &Order,
    print: LineSink<'_>,
) -> Result<Document> {
    let source = stream.applier.bringer.copier.aligner.source.clone();
    while !stream.verification.has_passed() {
        turn(stream, reader, print).await?;
    }
    if order.fence {
        hold_back(&source, true).await?;
    }
    let last = source.time().await?;
    reach(stream, reader, last, print).await?;
    let applied = stream.counts.applied_count();
    // Names, options and indexes are aligned once more, whatever the stream has said about them.
    stream.applier.align_and_copy().await?;
    if let Some(refused) = stream.applier.refused.first() {
        return Err(FollowError::of_data(refused.clone()));
    }
    let mut entries = stream.applier.entries();
    let aligner = stream.applier.bringer.copier.aligner.clone();
    for entry in &mut entries {
        aligner.align_indexes(entry).await?;
    }
    let compared = compare_all(stream, reader, print).await?;
    let found = survey(&source, &aligner.names).await?;
    let mut series = series::copy_series(&aligner, &found).await?;
    let functions = series::bring_functions(&source, &aligner.target, &aligner.names).await?;
    let mut collections = count_all(&source, &aligner.target, &entries).await?;
    reach(stream, reader, source.time().await?, print).await?;
    if stream.counts.applied_count() != applied {
        return Err(FollowError::of_data(
            "clients still write to the source: stop them, or give --fence",
        ));
    }
    collections.append(&mut series);
    let migration = stream.state.migration().await?.map(|m| m.document);
    let migration = migration.unwrap_or_default();
    let wants = |what| migration.get_bool(what).unwrap_or(false);
    let users = match wants("users") {
        true => users::copy_users(&source, &aligner.target).await?,
        false => 0,
    };
    for entry in &entries {
        indexes::finish(&aligner.target, entry).await?;
    }
    if wants("feedsBack") {
        if order.fence {
            hold_back(&source, false).await?;
        }
        reverse::prepare(&aligner, &entries).await?;
    }
    Ok(doc! {
        "collections": collections, "last": last, "users": users, "compared": compared.documents,
        "mended": compared.differences, "functions": functions,
    })
}

/// Applies everything up to a time.
async fn reach(
    stream: &mut Stream,
    reader: &mut Reader,
    time: Timestamp,
    print: LineSink<'_>,
) -> Result<()> {
    while stream.position() < time {
        turn(stream, reader, print).await?;
    }
    Ok(())
}

/// Applies the next changes. Returns at least twice a second, because the stream also reports that
/// there are none.
pub(crate) async fn turn(
    stream: &mut Stream,
    reader: &mut Reader,
    print: LineSink<'_>,
) -> Result<()> {
    if !stream.receive().await {
        return Err(end_reason(reader).await);
    }
    stream.apply(print).await
}

/// Compares every document once more, now that the source gets no writes. Differences are repaired
/// and compared again.
async fn compare_all(
    stream: &mut Stream,
    reader: &mut Reader,
    print: LineSink<'_>,
) -> Result<VerifyResult> {
    stream.verification.pause().await;
    print("comparing everything again");
    let verifier = stream.verification.verifier.clone();
    let workers = stream.verification.workers;
    let whole = async move { verifier.pass(workers).await };
    let mut pass = compare_and_apply(stream, reader, whole, print).await?;
    if pass.differences > REMEMBERED as i64 {
        return Err(FollowError::of_data(format!(
            "{} documents differed unexpectedly, see the findings of quarry follow status; they \
             were copied again: repeat the cut-over",
            pass.differences
        )));
    }
    let mut left = std::mem::take(&mut pass.different);
    left.append(&mut pass.unsettled);
    if !left.is_empty() {
        let verifier = stream.verification.verifier.clone();
        let again = compare_and_apply(
            stream,
            reader,
            async move { verifier.compare_again(left).await },
            print,
        )
        .await?;
        if again.differences > 0 || !again.unsettled.is_empty() {
            return Err(FollowError::of_data(
                "documents still differ, see the findings of quarry follow status: a client may \
                 be writing to the source or the target",
            ));
        }
    }
    Ok(pass)
}

/// Compares while changes are applied, and repairs differences.
async fn compare_and_apply(
    stream: &mut Stream,
    reader: &mut Reader,
    comparing: impl Future<Output = Result<VerifyResult>> + Send + 'static,
    print: LineSink<'_>,
) -> Result<VerifyResult> {
    let mut looking = JoinSet::new();
    looking.spawn(comparing);
    loop {
        tokio::select! {
            ended = looking.join_next() => {
                let Some(ended) = ended else { continue };
                let fail = |e| FollowError::of_data(format!("comparing ended: {e}"));
                let pass = ended.map_err(fail)?;
                stream.take_mends();
                stream.apply(print).await?;
                return pass;
            }
            more = stream.receive() => {
                if !more {
                    return Err(end_reason(reader).await);
                }
                stream.apply(print).await?;
            }
        }
    }
}

/// Blocks or unblocks writes to the source.
async fn hold_back(source: &Server, hold: bool) -> Result<()> {
    let within = |e: FollowError| e.in_step("the source cannot be fenced");
    if source.is_at_least(6, 0) {
        let command = doc! { "setUserWriteBlockMode": 1, "global": hold };
        return source
            .run("admin", command)
            .await
            .map(|_| ())
            .map_err(within);
    }
    let now = source.run("admin", doc! { "currentOp": 1 }).await?;
    let is_held = now.get_bool("fsyncLock").unwrap_or(false);
    let command = match (hold, is_held) {
        (true, false) => doc! { "fsync": 1, "lock": true },
        (false, true) => doc! { "fsyncUnlock": 1 },
        _ => return Ok(()),
    };
    source
        .run("admin", command)
        .await
        .map(|_| ())
        .map_err(within)
}

/// The number of documents of each collection in source and target.
async fn count_all(source: &Server, target: &Server, entries: &[Entry]) -> Result<Vec<Document>> {
    let mut all = Vec::new();
    for entry in entries {
        let ns = &entry.source;
        let there = count(source, &ns.db, &ns.coll).await?;
        let here = count(target, &entry.target.db, &entry.target.coll).await?;
        if there != here {
            return Err(FollowError::of_data(format!(
                "{ns} has {there} documents in the source and {here} in the target"
            )));
        }
        all.push(
            doc! { "source": ns.to_string(), "target": entry.target.to_string(),
            "documents": here },
        );
    }
    Ok(all)
}

async fn count(server: &Server, db: &str, coll: &str) -> Result<i64> {
    let counted = server.run(db, doc! { "count": coll, "query": {} }).await?;
    Ok(integer(&counted, "n"))
}
