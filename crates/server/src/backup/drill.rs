//! `quarry backup drill`: restores a backup into a folder of its own, reads and compares everything
//! in it, and removes it again. Meant for a timer: status 0 says that the backup can be relied on.

use super::check::{OpenArgs, check};
use super::location::location;
use super::progress::{Progress, RateArgs, show_bytes};
use super::source::Scratch;
use crate::failure::Failure;
use ::backup::Repository;
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;
use storage::MARKER;

/// Options of `quarry backup drill`.
#[derive(Args, Clone, Debug)]
pub struct DrillArgs {
    /// Repository of the backups: a folder, or s3://BUCKET/PREFIX
    #[arg(value_name = "REPOSITORY")]
    pub repository: PathBuf,
    /// Folder to restore into; it must not exist, and is removed at the end
    #[arg(long, value_name = "DIR")]
    pub scratch: PathBuf,
    /// Name of the backup to try, as `quarry backup list` shows it [default: the newest]
    #[arg(long, value_name = "NAME")]
    pub backup: Option<String>,
    /// The limit of the transfer rate.
    #[command(flatten)]
    pub rate: RateArgs,
    /// Options for opening the data directory.
    #[command(flatten)]
    pub open: OpenArgs,
}

pub(super) fn run(args: &DrillArgs, print_message: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut pace = args.rate.pace()?;
    let repository = Repository::to_read(location(&args.repository)?)?;
    let manifest = repository.manifest(args.backup.as_deref())?;
    if args.scratch.exists() {
        return Err(Failure::of_options(format!(
            "{} exists already; name a folder that does not exist, because the drill removes it \
             at the end",
            args.scratch.display()
        )));
    }
    let scratch = Scratch::make(args.scratch.clone())?;
    let mut progress = Progress::new("restored", print_message);
    let mut watch = progress.watch();
    let to = scratch.path();
    let done = ::backup::restore(&repository, &manifest, to, MARKER, &mut pace, &mut watch)?;
    drop(watch);
    let restored_s = begun.elapsed().as_secs_f64();
    let checked = check(to, &args.open, print_message)?;
    print_message(&format!(
        "backup {} can be relied on: {} files, {}, restored in {restored_s:.1} s; {} collections, \
         {} documents, {} index entries are valid; {:.1} s in all",
        manifest.id,
        done.files,
        show_bytes(done.bytes),
        checked.collections,
        checked.documents,
        checked.index_entries,
        begun.elapsed().as_secs_f64()
    ));
    Ok(())
}
