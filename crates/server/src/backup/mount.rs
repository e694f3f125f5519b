//! `quarry mount`: serves a backup read-only. Immutable files are links into the repository, so the
//! server starts at once and reads only the blocks that requests need.

use super::location::location;
use super::source::Scratch;
use crate::config::{ServeArgs, Settings};
use crate::failure::Failure;
use crate::serve;
use ::backup::Repository;
use clap::Args;
use std::path::PathBuf;
use storage::MARKER;

/// Options of `quarry mount`.
#[derive(Args, Clone, Debug)]
pub struct MountArgs {
    /// Repository of the backups: a folder; a bucket cannot be mounted
    #[arg(value_name = "REPOSITORY")]
    pub repository: PathBuf,
    /// Name of the backup to serve, as `quarry backup list` shows it [default: the newest]
    #[arg(long, value_name = "NAME")]
    pub backup: Option<String>,
    /// Those of `quarry serve`; --dbpath is a folder for links, made and removed again.
    #[command(flatten)]
    pub serve: Box<ServeArgs>,
}

pub(super) fn run(args: &MountArgs, print_message: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    // Held as long as the server runs, so that no other command removes the linked files.
    let repository = Repository::to_read(location(&args.repository)?)?;
    let manifest = repository.manifest(args.backup.as_deref())?;
    let Some(folder) = args.serve.dbpath.clone() else {
        return Err(Failure::of_options(
            "--dbpath is missing: it names the folder for links, which must not exist and is \
             removed at the end",
        ));
    };
    if folder.exists() {
        return Err(Failure::of_options(format!(
            "{} exists already; name a folder that does not exist, because it is removed at the \
             end",
            folder.display()
        )));
    }
    let mut settings = Settings::of(&args.serve).map_err(Failure::of_options)?;
    if settings.log.fork {
        return Err(Failure::of_options(
            "quarry mount does not run in the background, because it removes its folder at the \
             end; leave --fork out",
        ));
    }
    settings.storage_engine.clone_from(&manifest.engine);
    settings.mounted = true;
    let scratch = Scratch::make(folder)?;
    let linked = ::backup::link(&repository, &manifest, scratch.path(), MARKER)?;
    print_message(&format!(
        "backup {}: {} files, {} bytes of {} copied, the rest are links",
        manifest.id, linked.files, linked.written_bytes, linked.bytes
    ));
    let served = serve::run_with(settings);
    drop(scratch);
    served.map_err(|e| Failure {
        message: e.message,
        code: e.code,
    })
}
