//! `quarry restore`: restores a backup into an empty directory, either as it was made or with the
//! log replayed up to a moment.

use super::check::OpenArgs;
use super::location::location;
use super::progress::{Progress, RateArgs, show_bytes};
use super::replay::{self, Plan};
use super::seal::{SegmentCipher, key_source};
use crate::engines::EngineOptions;
use crate::failure::Failure;
use ::backup::{Moment, Pace, Repository};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;
use storage::MARKER;

/// In the directory, while the log is replayed. No server opens a directory that contains it.
const FOLDER: &str = "QUARRY-REPLAY";

/// Options of `quarry restore`.
#[derive(Args, Clone, Debug)]
pub struct RestoreArgs {
    /// Repository of the backups: a folder, or s3://BUCKET/PREFIX
    #[arg(value_name = "REPOSITORY")]
    pub repository: PathBuf,
    /// Directory for the restored data: one that is empty or does not exist, or that of the same
    /// interrupted restore, which then continues
    #[arg(long, value_name = "DIR")]
    pub dbpath: PathBuf,
    /// Name of the backup to restore, as `quarry backup list` shows it [default: the newest; with
    /// --to the newest before MOMENT]
    #[arg(long, value_name = "NAME")]
    pub backup: Option<String>,
    /// Replay the shipped log up to this moment: newest, a time such as 2026-11-26T14:05:00Z,
    /// seconds since the epoch, or an optime such as 1764165600:3 [default: the data as it was
    /// backed up]
    #[arg(long, value_name = "MOMENT")]
    pub to: Option<String>,
    /// The limit of the transfer rate.
    #[command(flatten)]
    pub rate: RateArgs,
    /// Options for opening the data directory, for --to.
    #[command(flatten)]
    pub open: OpenArgs,
}

pub(super) fn run(args: &RestoreArgs, print_message: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut pace = args.rate.pace()?;
    let repository = Repository::to_read(location(&args.repository)?)?;
    if let Some(text) = &args.to {
        let moment = Moment::parse(text).map_err(|e| Failure::of_options(e.to_string()))?;
        let plan = replay::plan(&repository, moment, args.backup.as_deref())?;
        return restore_up_to(args, &repository, &plan, &mut pace, print_message);
    }
    if args.dbpath.join(FOLDER).exists() {
        return Err(Failure::of_options(format!(
            "{} holds an unfinished restore with --to: finish it, or remove the directory",
            args.dbpath.display()
        )));
    }
    let manifest = repository.manifest(args.backup.as_deref())?;
    let mut progress = Progress::new("restored", print_message);
    let mut watch = progress.watch();
    let to = &args.dbpath;
    let done = ::backup::restore(&repository, &manifest, to, MARKER, &mut pace, &mut watch)?;
    drop(watch);
    print_message(&format!(
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

/// Restores the files into a folder of the directory, replays the log there, then moves the files
/// up. A restore that was interrupted during the replay begins that anew.
fn restore_up_to(
    args: &RestoreArgs,
    repository: &Repository,
    plan: &Plan,
    pace: &mut Pace,
    print_message: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    let begun = Instant::now();
    let manifest = &plan.base;
    let stage = Stage::take(&args.dbpath, &format!("{} {}", manifest.id, plan.to))?;
    let mut entries = None;
    if !stage.is_played() {
        let data = stage.data()?;
        let mut progress = Progress::new("restored", print_message);
        let mut watch = progress.watch();
        ::backup::restore(repository, manifest, &data, MARKER, pace, &mut watch)?;
        drop(watch);
        let source = key_source(args.open.encryption_key_file.as_ref(), &args.open.vault)?;
        let seal = SegmentCipher::to_read(repository, source.as_ref())?;
        let options = EngineOptions {
            name: &manifest.engine,
            path: &data,
            ..args.open.engine_options(source.as_ref())?
        };
        entries = Some(replay::play(repository, &seal, plan, &options, print_message)?.entries);
        stage.note_played()?;
    }
    stage.finish()?;
    let played = entries.map_or(String::new(), |n| format!(" and {n} entries of the log"));
    print_message(&format!(
        "restored optime {}: backup {}{played}, in {:.1} s; serve it with --dbpath {} \
         --storageEngine {}",
        plan.to,
        manifest.id,
        begun.elapsed().as_secs_f64(),
        args.dbpath.display(),
        manifest.engine
    ));
    Ok(())
}

/// The folder in which the log is replayed.
struct Stage {
    target: PathBuf,
}

impl Stage {
    /// Takes an empty directory, or one in which the same restore was begun.
    fn take(target: &Path, job: &str) -> Result<Stage, Failure> {
        let stage = Stage {
            target: target.to_owned(),
        };
        let (folder, shown) = (stage.folder(), target.display());
        let noted = fs::read_to_string(folder.join("job"));
        match noted {
            Ok(noted) if noted == job => return Ok(stage),
            Ok(noted) if !noted.is_empty() => {
                return Err(Failure::of_options(format!(
                    "{shown} holds an unfinished restore of backup and optime {noted}; finish \
                     that, or remove the directory"
                )));
            }
            _ => {}
        }
        fs::create_dir_all(target).map_err(|e| stage.restore_error(&e))?;
        for entry in fs::read_dir(target).map_err(|e| stage.restore_error(&e))? {
            let name = entry.map_err(|e| stage.restore_error(&e))?.file_name();
            let name = name.to_string_lossy();
            if name != FOLDER && name != "lost+found" && !name.starts_with('.') {
                return Err(Failure::of_options(format!(
                    "{shown} holds {name:?}; restore into an empty directory"
                )));
            }
        }
        let write = || {
            fs::create_dir_all(&folder)?;
            fs::write(folder.join("job.new"), job)?;
            fs::rename(folder.join("job.new"), folder.join("job"))
        };
        write().map_err(|e| stage.restore_error(&e))?;
        Ok(stage)
    }

    fn restore_error(&self, e: &std::io::Error) -> Failure {
        Failure::of_data(format!(
            "cannot restore into {}: {e}",
            self.target.display()
        ))
    }

    fn folder(&self) -> PathBuf {
        self.target.join(FOLDER)
    }

    fn is_played(&self) -> bool {
        self.folder().join("played").exists()
    }

    /// The folder for the restored files. Files of an interrupted replay are removed first.
    fn data(&self) -> Result<PathBuf, Failure> {
        let data = self.folder().join("data");
        if data.join(MARKER).exists() {
            fs::remove_dir_all(&data).map_err(|e| self.restore_error(&e))?;
        }
        Ok(data)
    }

    fn note_played(&self) -> Result<(), Failure> {
        let write = || {
            fs::File::create(self.folder().join("played"))?.sync_all()?;
            fs::File::open(self.folder())?.sync_all()
        };
        write().map_err(|e| self.restore_error(&e))
    }

    fn finish(self) -> Result<(), Failure> {
        let moved = crate::moving::move_up(&self.folder().join("data"), &self.target)
            .and_then(|()| fs::remove_dir_all(self.folder()));
        moved.map_err(|e| self.restore_error(&e))
    }
}
