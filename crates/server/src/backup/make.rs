//! `quarry backup make`: backs up a source into a repository.

use super::keep::RetentionArgs;
use super::location::location;
use super::progress::{Progress, RateArgs, show_bytes};
use super::source::{PinnedFiles, hold_offline, hold_online};
use crate::client::Address;
use crate::config::WiredTigerArgs;
use crate::engines::is_fixed;
use crate::failure::Failure;
use ::backup::{Repository, Source};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Options of `quarry backup make`.
#[derive(Args, Clone, Debug)]
pub struct MakeArgs {
    /// Repository for the backup: a folder, or s3://BUCKET/PREFIX; it is created if it does not
    /// exist or is empty
    #[arg(value_name = "REPOSITORY")]
    pub repository: PathBuf,
    /// The source of the backup.
    #[command(flatten)]
    pub source: SourceArgs,
    /// The limit of the transfer rate.
    #[command(flatten)]
    pub rate: RateArgs,
    /// The backups to keep afterwards.
    #[command(flatten)]
    pub retention: RetentionArgs,
}

/// A running server, or a directory.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false, id = "source", args = ["uri", "dbpath"])]
pub struct SourceArgs {
    /// Running server on this machine, as mongodb://USER@HOST:PORT/; its user needs the action
    /// fsync (role hostManager)
    #[arg(long, value_name = "URI")]
    pub uri: Option<String>,
    /// Data directory to back up instead of a running server; no server may run on it
    #[arg(long, value_name = "DIR")]
    pub dbpath: Option<PathBuf>,
    /// File that holds the password of the user in --uri
    #[arg(long = "passwordFile", value_name = "FILE", requires = "uri")]
    pub password_file: Option<PathBuf>,
    /// The location of WiredTiger.
    #[command(flatten)]
    pub wiredtiger: WiredTigerArgs,
}

impl SourceArgs {
    fn hold(&self, repository: &Repository) -> Result<PinnedFiles, Failure> {
        match (&self.uri, &self.dbpath) {
            (Some(uri), None) => {
                let password = self.password_file.as_deref().map(read_password);
                let password = password.transpose()?;
                let address = Address::parse(uri, password.as_deref());
                hold_online(&address.map_err(Failure::of_options)?, repository)
            }
            (None, Some(data)) => hold_offline(data, &self.wiredtiger),
            _ => Err(Failure::of_options("give one of --uri and --dbpath")),
        }
    }
}

pub(super) fn read_password(file: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|e| Failure::of_options(format!("cannot read {}: {e}", file.display())))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Makes a backup.
pub(super) fn run(args: &MakeArgs, print_message: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let mut pace = args.rate.pace()?;
    let begun = Instant::now();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let begun_ms = now.map_or(0, |d| d.as_millis());
    let repository = Repository::to_write(location(&args.repository)?)?;
    let held = args.source.hold(&repository)?;
    print_message(&format!("copying from {}", held.directory.display()));
    let source = Source {
        directory: &held.directory,
        engine: &held.engine,
        quarry: env!("CARGO_PKG_VERSION"),
        optime: held.optime,
        complete: held.complete,
        begun_ms: i64::try_from(begun_ms).unwrap_or(i64::MAX),
        is_fixed,
    };
    let mut progress = Progress::new("copied", print_message);
    let stored = ::backup::back_up(&repository, &source, &mut pace, &mut progress.watch())?;
    drop(held);
    repository.note_held(None)?;
    print_message(&format!(
        "backup {}: {} files, {}; read {}, stored {}, in {:.1} s",
        stored.id,
        stored.files,
        show_bytes(stored.bytes),
        show_bytes(stored.read_bytes),
        show_bytes(stored.stored_bytes),
        begun.elapsed().as_secs_f64()
    ));
    super::keep::remove_old(&repository, args.retention.retention(), print_message)
}
