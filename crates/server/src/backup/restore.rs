//! `quarry restore`: a backup into an empty directory.

use super::progress::{Progress, RateArgs, show_bytes};
use crate::failure::Failure;
use ::backup::Repository;
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;
use storage::MARKER;

/// Options of `quarry restore`.
#[derive(Args, Clone, Debug)]
pub struct RestoreArgs {
    /// Folder of the backups
    #[arg(value_name = "REPOSITORY")]
    pub repository: PathBuf,
    /// Data directory to make: empty, not there, or left by the same restore that was interrupted
    #[arg(long, value_name = "DIR")]
    pub dbpath: PathBuf,
    /// Name of the backup, as `quarry backup list` shows it [default: the newest]
    #[arg(long, value_name = "NAME")]
    pub backup: Option<String>,
    /// The bound.
    #[command(flatten)]
    pub rate: RateArgs,
}

pub(super) fn run(args: &RestoreArgs, tell: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut pace = args.rate.pace()?;
    let repository = Repository::to_read(&args.repository)?;
    let manifest = repository.manifest(args.backup.as_deref())?;
    let mut progress = Progress::new("restored", tell);
    let mut watch = progress.watch();
    let to = &args.dbpath;
    let done = ::backup::restore(&repository, &manifest, to, MARKER, &mut pace, &mut watch)?;
    drop(watch);
    tell(&format!(
        "restored backup {}: {} files, {}, in {:.1} s; serve it with --dbpath {} \
         --storageEngine {}",
        manifest.id,
        done.files,
        show_bytes(done.bytes),
        begun.elapsed().as_secs_f64(),
        args.dbpath.display(),
        manifest.engine
    ));
    Ok(())
}
