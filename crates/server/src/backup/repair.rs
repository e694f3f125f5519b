//! `quarry repair`: repairs a data directory on which no server runs (ADR 0091). Data that cannot
//! stay is set apart in a folder beside it.

use super::aside::{REPORT, SalvageFolder};
use super::check::{self, DataDirectory, OpenArgs};
use super::salvaged;
use super::seal::key_source;
use super::source::Scratch;
use crate::engines::{self, EngineOptions, Source};
use crate::failure::{Failure, with_cause};
use clap::Args;
use commands::{StoreHooks, SystemClock};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::Engine;
use store::RepairReport;

/// In the data directory: the copy of links that is read.
const COPY: &str = ".repair";
/// In the folder of data set apart: the new data while they are made.
const REBUILT: &str = "rebuilt";
/// In the folder of data set apart: the damaged files as they were.
const FILES: &str = "files";

/// Options of `quarry repair`.
#[derive(Args, Clone, Debug)]
pub struct RepairArgs {
    /// Data directory to repair; no server may run on it
    #[arg(long, value_name = "DIR")]
    pub dbpath: PathBuf,
    /// Folder for the documents and files that the repair removes from the data, never encrypted;
    /// it is created when it is needed [default: the data directory's name followed by
    /// ".set-aside-1", or by the next free number]
    #[arg(long = "setAside", value_name = "DIR")]
    pub set_aside: Option<PathBuf>,
    /// Options for opening the data directory.
    #[command(flatten)]
    pub open: OpenArgs,
}

pub(super) fn run(args: &RepairArgs, print_message: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let DataDirectory { path: data, engine } = DataDirectory::find(&args.dbpath)?;
    let folder = folder_for(args.set_aside.as_deref(), &data)?;
    let key = key_source(args.open.encryption_key_file.as_ref(), &args.open.vault)?;
    let options = EngineOptions {
        name: &engine,
        path: &data,
        repair: engines::repairs_journal(&engine),
        ..args.open.engine_options(key.as_ref())?
    };
    let head = format!("quarry repair of {}", data.display());
    let mut apart = SalvageFolder::new(folder, head, print_message)?;
    let scratch = Scratch::make(data.join(COPY))?;
    let done = match examine(&options, scratch.path(), &mut apart)? {
        DirectoryState::Sound => repair_in_place(&options, &mut apart)?,
        DirectoryState::Damaged(source) => rebuild(&options, source, scratch.path(), &mut apart)?,
    };
    drop(scratch);
    finish(apart, &done)?;
    let checked = check::check(&data, &args.open, &mut |_| {})?;
    print_message(&format!(
        "{} is valid: {} collections, {} documents, {} index entries",
        data.display(),
        checked.collections,
        checked.documents,
        checked.index_entries
    ));
    Ok(())
}

/// The folder that was asked for, or the first numbered one that does not exist yet.
fn folder_for(asked: Option<&Path>, data: &Path) -> Result<PathBuf, Failure> {
    if let Some(asked) = asked {
        let absolute = std::path::absolute(asked).map_err(|e| {
            Failure::of_data(format!("cannot resolve the path {}: {e}", asked.display()))
        })?;
        if absolute.starts_with(data) {
            return Err(Failure::of_options(format!(
                "--setAside {} lies in the data directory; name a folder outside of it",
                asked.display()
            )));
        }
        return Ok(absolute);
    }
    let named = |number: u32| {
        let mut name = data.as_os_str().to_owned();
        name.push(format!(".set-aside-{number}"));
        PathBuf::from(name)
    };
    let free = (1..).map(named).find(|folder| !folder.exists());
    free.ok_or_else(|| {
        Failure::of_data("no number is free for a set-aside folder; name one with --setAside")
    })
}

/// A data directory as it was found.
enum DirectoryState {
    /// All of its files can be read.
    Sound,
    /// Some files are damaged; the source gives what can be read of them.
    Damaged(Source),
}

/// Reads all files of a directory, which is not changed.
fn examine(
    options: &EngineOptions<'_>,
    copy: &Path,
    apart: &mut SalvageFolder<'_>,
) -> Result<DirectoryState, Failure> {
    let source = match engines::open_source(options, &copy.join("files")) {
        Ok(source) => source,
        Err(why) => {
            // Errors other than damage are returned as they are.
            let (files, rest) = (copy.join("files"), copy.join("rest"));
            let opened = engines::open_rest(options, &files, &rest);
            let opened = opened.map_err(|_| Failure::of_data(why.clone()))?;
            apart.report(&why);
            for file in &opened.left_out {
                apart.report(&format!("file {file} cannot be read and is left out"));
            }
            return Ok(DirectoryState::Damaged(opened.source));
        }
    };
    let findings = match source.engine.verify() {
        Ok(verified) => verified.findings,
        Err(e) if storage::is_damage(&e) => vec![with_cause(&e)],
        Err(e) => return Err(e.into()),
    };
    findings.iter().for_each(|line| apart.report(line));
    Ok(match findings.is_empty() {
        true => DirectoryState::Sound,
        false => DirectoryState::Damaged(source),
    })
}

/// Repairs a directory with damaged files: a new directory is made of what can be read and takes
/// its place; the damaged one is set apart.
fn rebuild(
    options: &EngineOptions<'_>,
    source: Source,
    scratch: &Path,
    apart: &mut SalvageFolder<'_>,
) -> Result<RepairReport, Failure> {
    let folder = apart.make().map(Path::to_owned);
    let folder =
        folder.map_err(|e| Failure::of_data(format!("cannot create the set-aside folder: {e}")))?;
    let rebuilt = folder.join(REBUILT);
    let target = engines::open(&EngineOptions {
        path: &rebuilt,
        repair: false,
        ..*options
    });
    let target = target.map_err(Failure::of_data)?.engine;
    let rest = scratch.join("rest");
    salvaged::copy(source.engine.as_ref(), target.as_ref(), &rest, apart)?;
    let done = repair(&target, apart)?;
    drop(target);
    // The lock on the damaged directory is held until the rebuilt one is in its place.
    exchange(options.path, &rebuilt)?;
    let files = folder.join(FILES);
    let name_it = || {
        std::fs::rename(&rebuilt, &files)?;
        std::fs::File::open(&folder)?.sync_all()
    };
    name_it().map_err(|e| Failure::of_data(format!("cannot make {}: {e}", files.display())))?;
    drop(source);
    let _ = std::fs::remove_dir_all(files.join(COPY));
    apart.report(&format!(
        "the data was rebuilt from the readable rows; the damaged files are kept in {}",
        files.display()
    ));
    Ok(done)
}

/// Exchanges two directories atomically.
fn exchange(data: &Path, rebuilt: &Path) -> Result<(), Failure> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let swapped = renameat_with(CWD, data, CWD, rebuilt, RenameFlags::EXCHANGE);
    let synced = swapped.map_err(std::io::Error::from).and_then(|()| {
        let parents = [data.parent(), rebuilt.parent()];
        let mut parents = parents.into_iter().flatten();
        parents.try_for_each(|parent| std::fs::File::open(parent)?.sync_all())
    });
    synced.map_err(|e| {
        Failure::of_data(format!(
            "the repaired data is in {}, because it cannot be moved to {} ({e}): serve it with \
             --dbpath, or move it yourself",
            rebuilt.display(),
            data.display()
        ))
    })
}

/// Repairs a directory whose files can be read.
fn repair_in_place(
    options: &EngineOptions<'_>,
    apart: &mut SalvageFolder<'_>,
) -> Result<RepairReport, Failure> {
    let engine = engines::open(options).map_err(Failure::of_data)?.engine;
    repair(&engine, apart)
}

/// Repairs an open engine, and closes it.
fn repair(
    engine: &Arc<dyn Engine>,
    apart: &mut SalvageFolder<'_>,
) -> Result<RepairReport, Failure> {
    let hooks = Arc::new(StoreHooks::new(Arc::new(SystemClock::default())));
    let done = store::repair(engine, hooks, apart);
    let done = done.map_err(|e| Failure::of_data(e.to_string()))?;
    engine.close()?;
    Ok(done)
}

/// Reports what was done.
fn finish(mut apart: SalvageFolder<'_>, done: &RepairReport) -> Result<(), Failure> {
    let RepairReport {
        documents_apart,
        rows_apart,
        entries_put,
        entries_removed,
        mended,
        ..
    } = done;
    if done.is_clean() {
        apart.report("the rows have no errors");
    } else {
        apart.report(&format!(
            "{documents_apart} documents and {rows_apart} damaged rows set apart, {entries_put} \
             index entries written, {entries_removed} removed, {mended} other things put right"
        ));
    }
    if let Some(folder) = apart.folder() {
        let line = format!(
            "the removed documents and files, and the reasons, are in {}",
            folder.join(REPORT).display()
        );
        apart.report(&line);
    }
    apart.end()
}
