//! Replays the log of a repository into restored files, up to a moment.
//!
//! Promises: afterwards the files hold the state of that moment: each change up to it exactly once,
//! transactions whole, no later change. Must not know: where the files are moved to.

use super::seal::SegmentCipher;
use crate::engines::{self, EngineOptions};
use crate::failure::Failure;
use ::backup::{Manifest, Moment, Optime, Repository, next_segment, reach};
use commands::{
    Config, Connection, Dispatcher, Outcome, Request, Service, StoreHooks, SystemClock, registry,
};
use model::{Doc, DocBuf, Timestamp, Value, doc};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use store::{Store, VisitResult};

/// Size of the log in restored files that have none yet.
const LOG_BYTES: u64 = 1 << 30;
/// Most entries, and most bytes of entries, that are applied in one batch.
const BATCH_ENTRIES: usize = 1_000;
const BATCH_BYTES: usize = 4 << 20;

/// A backup and the moment up to which the log is replayed.
pub(super) struct Plan {
    pub(super) base: Manifest,
    /// The time of the last log entry to replay.
    pub(super) to: Optime,
}

/// The newest backup that has no change later than the moment and whose log reaches that moment
/// without a hole.
pub(super) fn plan(
    repository: &Repository,
    moment: Moment,
    id: Option<&str>,
) -> Result<Plan, Failure> {
    let segments = repository.segments()?;
    let newest = segments.iter().map(|s| s.to).max();
    let wanted = match moment {
        Moment::Newest => None,
        Moment::At(at) => Some(at),
    };
    let mut ids = repository.ids()?;
    ids.retain(|one| id.is_none_or(|id| id == one));
    let (mut spans, mut without) = (Vec::new(), 0);
    for id in ids.iter().rev() {
        let base = repository.manifest(Some(id))?;
        let (Some(optime), Some(complete)) = (base.optime, base.complete) else {
            without += 1;
            continue;
        };
        let end = reach(&segments, optime);
        let to = wanted.unwrap_or(end);
        if complete <= to && to <= end {
            return Ok(Plan { base, to });
        }
        if complete <= end {
            spans.push(format!("{complete} to {end}"));
        }
    }
    let shown = repository.location();
    spans.reverse();
    spans.dedup();
    let has = match (spans.as_slice(), newest) {
        ([], None) => "no log was shipped into it (quarry backup ship)".to_owned(),
        ([], Some(_)) if without > 0 => format!(
            "{without} backups have no position in the log: they were made from a directory \
             without a server, or by an earlier version"
        ),
        ([], Some(newest)) => format!("the log ends at {newest}, before any backup is complete"),
        (spans, _) => format!("it can restore {}", spans.join(", ")),
    };
    Err(Failure::of_data(format!(
        "{shown} cannot restore {moment}: {has}"
    )))
}

/// How much was replayed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplayCounts {
    pub(super) entries: u64,
}

/// Replays the log into the files that `options` names, which are those of the plan's backup.
pub(super) fn play(
    repository: &Repository,
    seal: &SegmentCipher,
    plan: &Plan,
    options: &EngineOptions<'_>,
    print_message: &mut dyn FnMut(&str),
) -> Result<ReplayCounts, Failure> {
    let engine = engines::open(options).map_err(Failure::of_data)?.engine;
    let clock = Arc::new(SystemClock::default());
    let hooks = StoreHooks::new(clock.clone()).with_log(LOG_BYTES);
    let fail = |e: model::MongoError| Failure::of_data(e.to_string());
    let store = Arc::new(Store::open(engine, Arc::new(hooks)).map_err(fail)?);
    let known = find_known_times(&store, plan)?;
    let service = Service::new(Config::default(), clock, Arc::clone(&store)).into_shared();
    let dispatcher = Arc::new(registry::dispatcher(service));
    let mut player = LogReplayer {
        connection: dispatcher.connect("127.0.0.1:0"),
        dispatcher,
        known,
        batch: Batch::default(),
        chain: Batch::default(),
        played: ReplayCounts::default(),
    };
    let result = read_all(repository, seal, plan, &mut player, print_message);
    let played = player.played;
    drop(player);
    let closed = store.close().map_err(fail);
    result?;
    closed.map(|()| played)
}

/// Times of changes that are later than the backup's own time but already in its files: these
/// transactions were open when the snapshot was taken.
fn find_known_times(store: &Store, plan: &Plan) -> Result<HashSet<Optime>, Failure> {
    let mut known = HashSet::new();
    let (Some(optime), Some(complete)) = (plan.base.optime, plan.base.complete) else {
        return Ok(known);
    };
    let from = Timestamp {
        time: optime.time,
        increment: optime.increment,
    };
    let Some(mut reader) = store.read_log(from) else {
        return Ok(known);
    };
    let mut each = |at: Timestamp, _: Doc<'_>| {
        let at = Optime {
            time: at.time,
            increment: at.increment,
        };
        if at <= complete {
            known.insert(at);
        }
        at <= complete
    };
    loop {
        match reader.visit(1_000, &mut each) {
            Ok(VisitResult::More) if reader.next().as_u64() <= as_u64(complete) + 1 => {}
            Ok(_) => return Ok(known),
            Err(e) => return Err(Failure::of_data(e.to_string())),
        }
    }
}

fn as_u64(at: Optime) -> u64 {
    u64::from(at.time) << 32 | u64::from(at.increment)
}

fn read_all(
    repository: &Repository,
    seal: &SegmentCipher,
    plan: &Plan,
    player: &mut LogReplayer,
    print_message: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    let begin = plan.base.optime.unwrap_or(plan.to);
    let mut at = begin;
    while at < plan.to {
        let segments = repository.segments()?;
        let gone = || Failure::of_data(format!("the log after {at} is missing in the repository"));
        let segment = next_segment(&segments, at).ok_or_else(gone)?;
        // If the segment is missing, it may have been merged into a larger one since it was listed:
        // list again.
        let Some(bytes) = seal.open(repository, segment)? else {
            continue;
        };
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let wrong = || {
                let shown = repository.shelf().full_name(&segment.path());
                Failure::of_data(format!(
                    "{shown} holds bytes that are not an entry of the log"
                ))
            };
            let (entry, behind) = split(rest).ok_or_else(wrong)?;
            rest = behind;
            let Value::Timestamp(ts) = entry.field("ts") else {
                return Err(wrong());
            };
            let time = Optime {
                time: ts.time,
                increment: ts.increment,
            };
            if time > plan.to {
                break;
            }
            if time > at {
                player.take(time, entry)?;
            }
        }
        at = segment.to;
        let entries = player.played.entries;
        print_message(&format!(
            "played {entries} entries, up to {}",
            at.min(plan.to)
        ));
    }
    player.flush()
}

/// The document at the start of the bytes, and the bytes after it.
fn split(bytes: &[u8]) -> Option<(Doc<'_>, &[u8])> {
    let length = bytes.first_chunk::<4>().map(|b| u32::from_le_bytes(*b))?;
    let (first, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    Some((model::validate(first).ok()?, rest))
}

/// Entries that are applied together.
#[derive(Default)]
struct Batch {
    entries: Vec<DocBuf>,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, entry: Doc<'_>) {
        self.bytes += entry.as_bytes().len();
        self.entries.push(entry.to_buf());
    }
}

struct LogReplayer {
    dispatcher: Arc<Dispatcher>,
    connection: Connection,
    known: HashSet<Optime>,
    batch: Batch,
    /// Parts of a transaction whose last part has not been read yet.
    chain: Batch,
    played: ReplayCounts,
}

impl LogReplayer {
    fn take(&mut self, time: Optime, entry: Doc<'_>) -> Result<(), Failure> {
        if self.known.contains(&time) {
            return Ok(());
        }
        self.played.entries += 1;
        let o = entry.field("o").as_doc().unwrap_or(Doc::EMPTY);
        match (entry.field("op").as_str(), o.first()) {
            (Some("n"), _) => Ok(()),
            (Some("c"), Some(("collMod", _))) => {
                self.flush()?;
                let db = entry.field("ns").as_str().unwrap_or_default();
                let db = db.split('.').next().unwrap_or_default();
                self.run(&time.to_string(), db, &o.to_buf())
            }
            (Some("c"), Some(("applyOps", _))) if o.field("partialTxn").truthy() => {
                self.chain.push(entry);
                Ok(())
            }
            _ => {
                let chain = std::mem::take(&mut self.chain);
                self.batch.bytes += chain.bytes;
                self.batch.entries.extend(chain.entries);
                self.batch.push(entry);
                let is_full =
                    self.batch.entries.len() >= BATCH_ENTRIES || self.batch.bytes >= BATCH_BYTES;
                if is_full { self.flush() } else { Ok(()) }
            }
        }
    }

    /// Applies the entries of the batch.
    fn flush(&mut self) -> Result<(), Failure> {
        let batch = std::mem::take(&mut self.batch);
        let Some(first) = batch.entries.first() else {
            return Ok(());
        };
        let from = match first.doc().field("ts") {
            Value::Timestamp(at) => format!("{}:{} or soon after", at.time, at.increment),
            _ => String::new(),
        };
        let command = DocBuf::build(|w| {
            let mut list = w.array("applyOps");
            batch.entries.iter().for_each(|e| _ = list.push(e.doc()));
        });
        self.run(&from, "admin", &command)
    }

    fn run(&mut self, time: &str, db: &str, command: &DocBuf) -> Result<(), Failure> {
        let mut body = command.clone();
        body.put("$db", db);
        body.put("writeConcern", doc! { "w": 1i32, "j": false }.doc());
        let mut reply = Vec::new();
        let mut request = Request::new(body.doc());
        loop {
            let outcome = self
                .dispatcher
                .handle(&mut self.connection, &request, &mut reply);
            match outcome {
                Outcome::Wait { until_us, .. } => {
                    let now_us = self.dispatcher.service().clock.monotonic_us();
                    let wait = Duration::from_micros(until_us.saturating_sub(now_us));
                    std::thread::sleep(wait.min(Duration::from_millis(10)));
                    request.waited = true;
                }
                _ => break,
            }
        }
        let reply = Doc::from_prefix(&reply);
        if reply.field("ok").truthy() {
            return Ok(());
        }
        let reason = reply.field("errmsg").as_str().unwrap_or("no reason given");
        Err(Failure::of_data(format!(
            "the entry of the log at {time} cannot be applied: {reason}"
        )))
    }
}
