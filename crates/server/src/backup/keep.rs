//! `quarry backup list`, `verify` and `prune`. Must not know: how backups and the log come about.

use super::location::location;
use super::progress::{Progress, RateArgs, show_bytes};
use crate::failure::Failure;
use crate::output::print_line;
use ::backup::{Optime, Repository, Retention, reach};
use clap::Args;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Options of `quarry backup list`.
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// Repository of the backups: a folder, or s3://BUCKET/PREFIX
    #[arg(value_name = "REPOSITORY")]
    pub repository: PathBuf,
    /// Print one JSON document per line
    #[arg(long)]
    pub json: bool,
}

/// Options of `quarry backup verify`.
#[derive(Args, Clone, Debug)]
pub struct VerifyArgs {
    /// Repository of the backups: a folder, or s3://BUCKET/PREFIX
    #[arg(value_name = "REPOSITORY")]
    pub repository: PathBuf,
    /// Name of the backup to verify, as `quarry backup list` shows it [default: all backups]
    #[arg(long, value_name = "NAME")]
    pub backup: Option<String>,
    /// The limit of the transfer rate.
    #[command(flatten)]
    pub rate: RateArgs,
}

/// Options of `quarry backup prune`.
#[derive(Args, Clone, Debug)]
pub struct PruneArgs {
    /// Repository of the backups: a folder, or s3://BUCKET/PREFIX
    #[arg(value_name = "REPOSITORY")]
    pub repository: PathBuf,
    /// The backups to keep.
    #[command(flatten)]
    pub retention: RetentionArgs,
}

/// Rules for keeping backups. A backup is kept if either rule keeps it; the newest always is.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct RetentionArgs {
    /// Keep the newest N backups and remove the others, unless --keepDaily keeps them [default:
    /// keep all]
    #[arg(long = "keepLast", alias = "keep-last", value_name = "N")]
    pub keep_last: Option<u32>,
    /// Keep the newest backup of each of the last N days that have one (days in UTC) and remove the
    /// others, unless --keepLast keeps them
    #[arg(long = "keepDaily", alias = "keep-daily", value_name = "N")]
    pub keep_daily: Option<u32>,
}

impl RetentionArgs {
    pub(super) fn retention(self) -> Retention {
        Retention {
            last: self.keep_last,
            daily: self.keep_daily,
        }
    }
}

pub(super) fn list(args: &ListArgs, print_message: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let repository = Repository::to_read(location(&args.repository)?)?;
    for id in repository.ids()? {
        let manifest = repository.manifest(Some(&id))?;
        let (files, bytes, engine) = (manifest.files.len(), manifest.bytes(), &manifest.engine);
        let optime = manifest.optime.map(|at| (at.time, at.increment));
        match args.json {
            true => print_json(&serde_json::json!({
                "id": id, "begunMs": manifest.begun_ms, "engine": engine, "files": files,
                "bytes": bytes, "quarry": manifest.quarry,
                "optime": optime.map(|(t, i)| serde_json::json!({ "t": t, "i": i })),
            })),
            false => {
                let optime = optime.map(|(t, i)| format!(", up to optime {t}:{i}"));
                let (size, optime) = (show_bytes(bytes), optime.unwrap_or_default());
                print_message(&format!("{id}: {engine}, {files} files, {size}{optime}"));
            }
        }
    }
    list_log(&repository, args.json, print_message)
}

/// Shows how far the log was shipped and which moments can be restored with it.
fn list_log(
    repository: &Repository,
    json: bool,
    print_message: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    let Some(place) = repository.place()? else {
        return Ok(());
    };
    let segments = repository.segments()?;
    let bytes = segments.iter().map(|s| s.bytes).sum::<u64>();
    let mut spans: Vec<(Optime, Optime)> = Vec::new();
    for id in repository.ids()? {
        let manifest = repository.manifest(Some(&id))?;
        let (Some(optime), Some(complete)) = (manifest.optime, manifest.complete) else {
            continue;
        };
        let end = reach(&segments, optime);
        if complete <= end && spans.last().is_none_or(|(_, last)| *last < end) {
            spans.push((complete, end));
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.map_or(0, |d| d.as_millis());
    let behind_ms = i64::try_from(now_ms).unwrap_or(i64::MAX) - place.seen_ms;
    if json {
        let time = |at: &Optime| serde_json::json!({ "t": at.time, "i": at.increment });
        let span = |(from, to): &(Optime, Optime)| {
            let (from, to) = (time(from), time(to));
            serde_json::json!({ "from": from, "to": to })
        };
        print_json(&serde_json::json!({ "log": {
            "upTo": time(&place.at), "behindMs": behind_ms, "segments": segments.len(),
            "bytes": bytes, "restores": spans.iter().map(span).collect::<Vec<_>>(),
        }}));
        return Ok(());
    }
    let spans = spans.iter().map(|(from, to)| format!("{from} to {to}"));
    let spans = match spans.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "restores no moment before the next backup is made".to_owned(),
        spans => format!("restores any moment from {spans}"),
    };
    print_message(&format!(
        "log: up to optime {}, {:.1} s behind; {} segments, {}; {spans}",
        place.at,
        behind_ms as f64 / 1000.0,
        segments.len(),
        show_bytes(bytes)
    ));
    Ok(())
}

/// Lines for programs have no prefix.
fn print_json(line: &serde_json::Value) {
    print_line(format_args!("{line}"));
}

pub(super) fn verify(
    args: &VerifyArgs,
    print_message: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    let repository = Repository::to_read(location(&args.repository)?)?;
    let mut pace = args.rate.pace()?;
    let mut progress = Progress::new("read back", print_message);
    let id = args.backup.as_deref();
    let found = ::backup::verify(&repository, id, &mut pace, &mut progress.watch())?;
    let Some(first) = found.findings.first() else {
        print_message(&format!(
            "{} backups are sound: {} pieces, {} segments of the log, {}",
            found.backups,
            found.pieces,
            found.segments,
            show_bytes(found.bytes)
        ));
        return Ok(());
    };
    found.findings.iter().for_each(|line| print_message(line));
    Err(Failure::of_data(match found.findings.len() {
        1 => first.clone(),
        more => format!("{more} findings, the first is: {first}"),
    }))
}

pub(super) fn prune(args: &PruneArgs, print_message: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let retention = args.retention.retention();
    if !retention.is_set() {
        return Err(Failure::of_options(
            "give the backups to keep: --keepLast N, --keepDaily N, or both",
        ));
    }
    let repository = Repository::to_write(location(&args.repository)?)?;
    remove_old(&repository, retention, print_message)
}

/// Removes the backups that no rule keeps. Without a rule it removes nothing.
pub(super) fn remove_old(
    repository: &Repository,
    retention: Retention,
    print_message: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    if !retention.is_set() {
        return Ok(());
    }
    let mut progress = Progress::new("removed", print_message);
    let pruned = ::backup::prune(repository, retention, &mut progress.watch())?;
    print_message(&format!(
        "removed {} backups, {} pieces, {} segments of the log, {}",
        pruned.backups.len(),
        pruned.pieces,
        pruned.segments,
        show_bytes(pruned.bytes)
    ));
    Ok(())
}
