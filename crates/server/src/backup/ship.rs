//! `quarry backup ship`: copies the log of a running server into a repository, as it grows.
//!
//! Promises: segments that follow each other leave no entry out; after an interruption at any
//! moment the next run continues where this one ended; a hole in the source's log is reported. Must
//! not know: what is done with the entries.

use super::location::location;
use super::progress::show_bytes;
use super::seal::{SegmentCipher, key_source};
use crate::client::{Address, Client};
use crate::config::VaultArgs;
use crate::failure::Failure;
use ::backup::{Optime, Repository, Segment, ShipPosition};
use clap::Args;
use model::{Doc, DocBuf, Timestamp, Value, doc};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A segment is written when it has this many bytes, or when the source has no more entries.
const SEGMENT_BYTES: usize = 8 << 20;
/// Longest time that entries wait in memory before they are written.
const KEPT_MAX: Duration = Duration::from_secs(1);
/// So many small segments are merged into one.
const MERGED: usize = 64;
/// Time between two progress lines.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Options of `quarry backup ship`.
#[derive(Args, Clone, Debug)]
pub struct ShipArgs {
    /// Repository for the log: a folder, or s3://BUCKET/PREFIX; it is created if it does not exist
    /// or is empty
    #[arg(value_name = "REPOSITORY")]
    pub repository: PathBuf,
    /// Server whose log is shipped, as mongodb://USER@HOST:PORT/; its user needs to read
    /// local.oplog.rs (role backup)
    #[arg(long, value_name = "URI")]
    pub uri: String,
    /// File that holds the password of the user in --uri
    #[arg(long = "passwordFile", value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Seconds between two queries for new entries of the log, 0.05 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub every: Duration,
    /// End when all existing entries are shipped, instead of waiting for new ones
    #[arg(long)]
    pub once: bool,
    /// File with the master key that encrypts the shipped log; give it if the server's data is
    /// encrypted
    #[arg(long = "encryptionKeyFile", value_name = "FILE")]
    pub encryption_key_file: Option<PathBuf>,
    /// Master key in Vault.
    #[command(flatten)]
    pub vault: VaultArgs,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(n) if (0.05..=3600.0).contains(&n) => Ok(Duration::from_secs_f64(n)),
        _ => Err("from 0.05 to 3600 seconds are allowed".to_owned()),
    }
}

pub(super) fn run(args: &ShipArgs, print_message: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let password = args
        .password_file
        .as_deref()
        .map(super::make::read_password);
    let address = Address::parse(&args.uri, password.transpose()?.as_deref());
    let address = address.map_err(Failure::of_options)?;
    let repository = Repository::to_ship(location(&args.repository)?)?;
    let key = key_source(args.encryption_key_file.as_ref(), &args.vault)?;
    let mut shipper = Shipper {
        seal: SegmentCipher::to_write(&repository, key.as_ref())?,
        repository: &repository,
        entries: 0,
        bytes: 0,
    };
    let mut client = None;
    let mut told: Option<Instant> = None;
    loop {
        let begun = Instant::now();
        match shipper.round(&address, &mut client, print_message) {
            Ok(at) => {
                if told.is_none_or(|t| t.elapsed() >= TELL_EVERY) || args.once {
                    told = Some(Instant::now());
                    print_message(&format!(
                        "shipped up to optime {at}: {} entries, {}; {:.1} s behind",
                        shipper.entries,
                        show_bytes(shipper.bytes),
                        begun.elapsed().as_secs_f64()
                    ));
                }
                if args.once {
                    return Ok(());
                }
            }
            Err(ShipError::Source(why)) if !args.once && told.is_some() => {
                client = None;
                print_message(&format!("{why}; trying again"));
            }
            Err(ShipError::Source(why)) => return Err(Failure::of_network(why)),
            Err(ShipError::Here(failure)) => return Err(failure),
        }
        std::thread::sleep(args.every.saturating_sub(begun.elapsed()));
    }
}

/// Why a round ended early.
enum ShipError {
    /// The source does not answer: it may do so later.
    Source(String),
    /// Trying again would not help.
    Here(Failure),
}

impl From<Failure> for ShipError {
    fn from(failure: Failure) -> ShipError {
        ShipError::Here(failure)
    }
}

impl From<::backup::BackupError> for ShipError {
    fn from(e: ::backup::BackupError) -> ShipError {
        ShipError::Here(e.into())
    }
}

struct Shipper<'r> {
    seal: SegmentCipher,
    repository: &'r Repository,
    entries: u64,
    bytes: u64,
}

impl Shipper<'_> {
    /// Ships everything the source has now; returns the time of the last entry shipped.
    fn round(
        &mut self,
        address: &Address,
        client: &mut Option<Client>,
        print_message: &mut dyn FnMut(&str),
    ) -> Result<Optime, ShipError> {
        if client.is_none() {
            *client = Some(Client::connect(address).map_err(ShipError::Source)?);
        }
        let Some(client) = client else {
            return Err(ShipError::Source("there is no connection".to_owned()));
        };
        let mut source = Log {
            client,
            shown: address.describe(),
        };
        let now = source.now()?;
        let mut at = match self.repository.place()? {
            Some(place) => place.at,
            None => self.begin(&mut source, now.at, print_message)?,
        };
        let is_entry = (self.repository.segments()?.iter()).any(|s| s.to == at);
        match self.read(&mut source, at, is_entry) {
            Ok(end) => at = end,
            Err(ReadEnd::Hole) if now.at < at => {
                return Err(ShipError::Here(Failure::of_data(format!(
                    "the repository has the log up to {at}, but the log of {} ends at {}: it is \
                     another server, or its data was restored to an earlier time; ship into a new \
                     folder",
                    source.shown, now.at
                ))));
            }
            Err(ReadEnd::Hole) => {
                print_message(&format!(
                    "the log of {} no longer has the entries after {at}: there is a hole up to \
                     {}, make a new backup",
                    source.shown, now.at
                ));
                at = now.at;
            }
            Err(ReadEnd::Trouble(trouble)) => return Err(trouble),
        }
        let seen_ms = now.ms;
        self.repository.set_place(ShipPosition { at, seen_ms })?;
        self.merge()?;
        Ok(at)
    }

    /// Where the first segment begins: at the newest backup, if the source's log still reaches back
    /// to it.
    fn begin(
        &self,
        source: &mut Log<'_>,
        now: Optime,
        print_message: &mut dyn FnMut(&str),
    ) -> Result<Optime, ShipError> {
        let newest = match self.repository.ids()?.is_empty() {
            true => None,
            false => self.repository.manifest(None)?.optime,
        };
        let Some(base) = newest else {
            print_message("shipping begins now: make a backup next");
            return Ok(now);
        };
        match source.oldest()?.is_some_and(|oldest| oldest <= base) {
            true => Ok(base),
            false => {
                print_message(&format!(
                    "the log of {} no longer reaches back to the newest backup: make a new backup",
                    source.shown
                ));
                Ok(now)
            }
        }
    }

    /// Reads entries from `at` on and writes segments; returns the time of the last entry read.
    fn read(
        &mut self,
        source: &mut Log<'_>,
        at: Optime,
        is_entry: bool,
    ) -> Result<Optime, ReadEnd> {
        if !is_entry && source.oldest()?.is_none_or(|oldest| oldest > at) {
            return Err(ReadEnd::Hole);
        }
        let (mut after, mut last, mut run) = (at, at, Vec::new());
        let (mut is_first, mut begun) = (is_entry, Instant::now());
        let mut batch = source.find(at)?;
        loop {
            for entry in batch.entries() {
                let time = time_of(entry).ok_or_else(|| source.strange())?;
                match std::mem::take(&mut is_first) {
                    true if time != at => return Err(ReadEnd::Hole),
                    _ if time <= last => {}
                    _ => {
                        run.extend_from_slice(entry.as_bytes());
                        last = time;
                        self.entries += 1;
                    }
                }
            }
            let more = batch.cursor != 0;
            // The time limit applies even while the source writes its log as fast as it is read.
            let is_full = run.len() >= SEGMENT_BYTES || begun.elapsed() >= KEPT_MAX;
            if last > after && (is_full || !more) {
                begun = Instant::now();
                self.write(after, last, std::mem::take(&mut run))?;
                after = last;
            }
            if !more {
                break;
            }
            batch = source.get_more(batch.cursor)?;
        }
        match is_first {
            true => Err(ReadEnd::Hole),
            false => Ok(last),
        }
    }

    fn write(&mut self, after: Optime, to: Optime, bytes: Vec<u8>) -> Result<(), ShipError> {
        let bytes = self.seal.close(&Segment::name(after, to), bytes);
        self.repository.add_segment(after, to, &bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Merges the newest segments into one when there are many small ones.
    fn merge(&self) -> Result<(), ShipError> {
        let all = self.repository.segments()?;
        let mut run: Vec<&Segment> = Vec::new();
        let mut bytes = 0;
        for segment in all.iter().rev() {
            bytes += segment.bytes;
            let follows = run.last().is_none_or(|next| next.after == segment.to);
            if !follows || bytes > SEGMENT_BYTES as u64 {
                break;
            }
            run.push(segment);
        }
        run.reverse();
        let (Some(first), Some(last)) = (run.first(), run.last()) else {
            return Ok(());
        };
        if run.len() < MERGED {
            return Ok(());
        }
        let mut whole = Vec::new();
        for segment in &run {
            let Some(part) = self.seal.open(self.repository, segment)? else {
                // A removal of old backups has removed the segment meanwhile.
                return Ok(());
            };
            whole.extend(part);
        }
        let whole = self.seal.close(&Segment::name(first.after, last.to), whole);
        self.repository.add_segment(first.after, last.to, &whole)?;
        for segment in run {
            self.repository.remove_segment(segment)?;
        }
        Ok(())
    }
}

/// Why reading ended early.
enum ReadEnd {
    /// The source's log does not reach back to that time.
    Hole,
    Trouble(ShipError),
}

impl<E: Into<ShipError>> From<E> for ReadEnd {
    fn from(e: E) -> ReadEnd {
        ReadEnd::Trouble(e.into())
    }
}

/// The source's log.
struct Log<'c> {
    client: &'c mut Client,
    shown: String,
}

struct SourceTime {
    /// The time up to which every entry of the source is complete and can be read.
    at: Optime,
    ms: i64,
}

struct Batch {
    reply: DocBuf,
    cursor: i64,
}

impl Batch {
    fn entries(&self) -> impl Iterator<Item = Doc<'_>> {
        let cursor = self.reply.doc().field("cursor").as_doc();
        let cursor = cursor.unwrap_or(Doc::EMPTY);
        let batch = ["firstBatch", "nextBatch"].map(|name| cursor.field(name).as_array());
        let batch = batch.into_iter().flatten();
        batch.flat_map(|list| list.iter().filter_map(|entry| entry.as_doc()))
    }
}

fn time_of(entry: Doc<'_>) -> Option<Optime> {
    match entry.field("ts") {
        Value::Timestamp(Timestamp { time, increment }) => Some(Optime { time, increment }),
        _ => None,
    }
}

impl Log<'_> {
    fn strange(&self) -> ShipError {
        ShipError::Here(Failure::of_network(format!(
            "the log of {} has an entry without a time",
            self.shown
        )))
    }

    fn now(&mut self) -> Result<SourceTime, ShipError> {
        let hello = self.client.run("admin", &doc! { "hello": 1i32 });
        let hello = hello.map_err(ShipError::Source)?;
        let hello = hello.doc();
        let ms = match hello.field("localTime") {
            Value::Date(ms) => ms,
            _ => 0,
        };
        match hello.field("operationTime") {
            Value::Timestamp(Timestamp { time, increment }) if hello.contains("setName") => {
                Ok(SourceTime {
                    at: Optime { time, increment },
                    ms,
                })
            }
            _ => Err(ShipError::Here(Failure::of_options(format!(
                "{} has no log of changes, because it is not a member of a replica set: start it \
                 with --replSet NAME",
                self.shown
            )))),
        }
    }

    /// The time of the oldest entry that the source still has.
    fn oldest(&mut self) -> Result<Option<Optime>, ShipError> {
        let find = doc! { "find": "oplog.rs", "sort": { "$natural": 1i32 }, "limit": 1i32,
        "projection": { "ts": 1i32 } };
        let reply = self.client.run("local", &find).map_err(ShipError::Source)?;
        let batch = Batch { reply, cursor: 0 };
        Ok(batch.entries().next().and_then(time_of))
    }

    fn find(&mut self, from: Optime) -> Result<Batch, ShipError> {
        let from = Timestamp {
            time: from.time,
            increment: from.increment,
        };
        let find = doc! { "find": "oplog.rs", "filter": { "ts": { "$gte": from } },
        "readConcern": { "level": "majority" } };
        self.batch(&find)
    }

    fn get_more(&mut self, cursor: i64) -> Result<Batch, ShipError> {
        self.batch(&doc! { "getMore": cursor, "collection": "oplog.rs" })
    }

    fn batch(&mut self, command: &DocBuf) -> Result<Batch, ShipError> {
        let reply = self
            .client
            .run("local", command)
            .map_err(ShipError::Source)?;
        let cursor = reply.doc().field("cursor").as_doc();
        let cursor = cursor.and_then(|c| c.field("id").as_i64_exact());
        Ok(Batch {
            cursor: cursor.unwrap_or(0),
            reply,
        })
    }
}
