//! `quarry convert`: copies a database into a directory of another storage engine, reads the copy
//! back and compares (docs/adr/0046-convert.md). Promises: the source is not changed; no server
//! opens the target before the copy is complete; a conversion that was interrupted at any moment
//! can continue.

mod place;
mod rows;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use storage::{Engine, StorageError, Table};

use crate::config::{KeySource, VaultArgs, VaultSection, WiredTigerArgs};
use crate::engines::{self, EngineOptions};
use place::{ConversionTarget, Phase};
use rows::{Position, Progress};

/// Options of `quarry convert`.
#[derive(Args, Clone, Debug)]
pub struct ConvertArgs {
    /// Data directory to copy; no server may run on it, and it is not changed
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// Directory for the copy: an empty one, or that of the same interrupted conversion, which then
    /// continues
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Storage engine of the copy, one that keeps its data in a directory: rocksdb, lmdb or
    /// wiredTiger
    #[arg(long = "storageEngine", value_name = "NAME")]
    pub storage_engine: String,
    /// File with the master key: it decrypts an encrypted source and encrypts a copy by rocksdb;
    /// other engines do not encrypt
    #[arg(long = "encryptionKeyFile", value_name = "FILE")]
    pub encryption_key_file: Option<PathBuf>,
    /// Master key in Vault: the same.
    #[command(flatten)]
    pub vault: VaultArgs,
    /// Limit of resident memory, such as 512M or 4G, at least 128M [default: half of the memory
    /// that this process may use]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// The location of WiredTiger.
    #[command(flatten)]
    pub wiredtiger: WiredTigerArgs,
}

/// Why a conversion failed.
#[derive(Debug)]
pub struct ConvertError {
    /// One line.
    pub message: String,
    /// Exit code.
    pub code: u8,
}

impl From<StorageError> for ConvertError {
    fn from(e: StorageError) -> Self {
        let cause = std::error::Error::source(&e).map(|c| format!(" ({c})"));
        ConvertError::data(format!("{e}{}", cause.unwrap_or_default()))
    }
}

impl ConvertError {
    fn options(message: String) -> ConvertError {
        ConvertError { message, code: 2 }
    }

    fn data(message: String) -> ConvertError {
        ConvertError { message, code: 100 }
    }
}

/// Time between two progress lines.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Converts; `tell` is given lines about the progress.
///
/// # Errors
/// One line and an exit code.
pub fn run(args: &ConvertArgs, print_message: &mut dyn FnMut(&str)) -> Result<(), ConvertError> {
    let name = args.storage_engine.as_str();
    if !engines::has_directory(name) {
        return Err(ConvertError::options(format!(
            "storageEngine must be one that keeps data in a directory, given {name}; this build \
             has {}",
            engines::list()
        )));
    }
    let bytes = match &args.memory {
        Some(text) => crate::memory::parse(text).map_err(ConvertError::options)?,
        None => crate::memory::available_bytes() / 2,
    };
    // Two engines are open at a time.
    let bytes = crate::memory::MemoryShares::of(bytes).engine / 2;
    let (from, of) = source_of(&args.from)?;
    let is_encrypted = cipher::is_encrypted(&from);
    let key = args.encryption_key_file.clone();
    let key = KeySource::of(key, &args.vault, &VaultSection::default());
    let key = key.map_err(ConvertError::options)?;
    if key.is_some() && name != "rocksdb" {
        return Err(ConvertError::options(format!(
            "only --storageEngine rocksdb encrypts data, given {name}: the copy would not be \
             encrypted"
        )));
    }
    std::fs::create_dir_all(&args.to)
        .map_err(|e| ConvertError::data(format!("cannot make {}: {e}", args.to.display())))?;
    let to = absolute(&args.to)?;
    if to.starts_with(&from) || from.starts_with(&to) {
        return Err(ConvertError::options(format!(
            "one of {} and {} contains the other; choose another directory for --to",
            from.display(),
            to.display()
        )));
    }
    let job = format!("of {} ({of}) into {name}", from.display());
    let place = ConversionTarget::take(&to, &job).map_err(ConvertError::data)?;
    let key = key.as_ref();
    let options = |name, key| EngineOptions {
        name,
        path: &from,
        bytes,
        journal_commit_interval_ms: 100,
        repair: false,
        key,
        wiredtiger_library: args.wiredtiger.wiredtiger_library.as_deref(),
        wiredtiger_include: args.wiredtiger.wiredtiger_include.as_deref(),
        tikv: None,
        awaited: None,
        linked: false,
    };
    let source_options = options(&of, key.filter(|_| is_encrypted));
    let target_options = options(name, key);
    convert(place, &source_options, &target_options, print_message)?;
    print_message(&format!(
        "conversion {job} is done; serve it with --dbpath {} --storageEngine {name}",
        to.display()
    ));
    Ok(())
}

/// Runs the remaining phases.
fn convert(
    mut place: ConversionTarget,
    source: &EngineOptions<'_>,
    target: &EngineOptions<'_>,
    print_message: &mut dyn FnMut(&str),
) -> Result<(), ConvertError> {
    if place.phase != Phase::Move {
        let scratch = place.source();
        let source = engines::open_source(source, &scratch).map_err(ConvertError::data)?;
        let data = place.data();
        let target = EngineOptions {
            path: &data,
            ..*target
        };
        let target = engines::open(&target).map_err(ConvertError::data)?.engine;
        if let Phase::Copy(from) = place.phase.clone() {
            let mut teller = CopyContext {
                place: &mut place,
                told: ProgressReport::new("copied", print_message),
            };
            rows::copy(source.engine.as_ref(), target.as_ref(), &from, &mut teller)?;
            place.enter(Phase::Verify).map_err(ConvertError::data)?;
        }
        verify(source.engine.as_ref(), &target, print_message)?;
        target.close()?;
        source.engine.close()?;
        place.enter(Phase::Move).map_err(ConvertError::data)?;
    }
    place.finish().map_err(ConvertError::data)
}

/// Reads back and compares both sides. The comparison also finds a change of the source that was
/// made after a part of it had been copied.
fn verify(
    source: &dyn Engine,
    target: &Arc<dyn Engine>,
    print_message: &mut dyn FnMut(&str),
) -> Result<(), ConvertError> {
    let mut told = ProgressReport::new("read back", print_message);
    let wanted = rows::digests(source, &mut |table, rows, bytes| {
        told.add_progress(table, rows, bytes);
    })?;
    let found = rows::digests(target.as_ref(), &mut |table, rows, bytes| {
        told.add_progress(table, rows, bytes);
    })?;
    if let Some(difference) = rows::difference(&wanted, &found) {
        return Err(ConvertError::data(format!(
            "the copy differs from the source: {difference}; remove the directory of the copy \
             and start again"
        )));
    }
    for table in rows::TABLES {
        let of = wanted.iter().filter(|d| d.table == table);
        let (spaces, rows, bytes) = of.fold((0, 0, 0), |(n, rows, bytes), d| {
            (n + 1, rows + d.rows, bytes + d.bytes)
        });
        let name = table.name();
        print_message(&format!(
            "verified {name}: {spaces} key spaces, {rows} rows, {bytes} bytes, all checksums equal"
        ));
    }
    Ok(())
}

/// Shows now and then how much was done.
struct ProgressReport<'a> {
    what: &'static str,
    print_message: &'a mut dyn FnMut(&str),
    rows: u64,
    bytes: u64,
    last: Instant,
}

impl<'a> ProgressReport<'a> {
    fn new(what: &'static str, print_message: &'a mut dyn FnMut(&str)) -> ProgressReport<'a> {
        ProgressReport {
            what,
            print_message,
            rows: 0,
            bytes: 0,
            last: Instant::now(),
        }
    }

    fn add_progress(&mut self, table: Table, rows: u64, bytes: u64) {
        self.rows += rows;
        self.bytes += bytes;
        if self.last.elapsed() >= TELL_EVERY {
            self.last = Instant::now();
            let (what, rows, mib) = (self.what, self.rows, self.bytes >> 20);
            (self.print_message)(&format!(
                "{what} {rows} rows, {mib} MiB, in {}",
                table.name()
            ));
        }
    }
}

struct CopyContext<'a, 'b> {
    place: &'a mut ConversionTarget,
    told: ProgressReport<'b>,
}

impl Progress for CopyContext<'_, '_> {
    type Stop = ConvertError;

    fn add_progress(&mut self, table: Table, rows: u64, bytes: u64) {
        self.told.add_progress(table, rows, bytes);
    }

    fn durable(&mut self, at: &Position) -> Result<(), ConvertError> {
        let phase = Phase::Copy(at.clone());
        self.place.enter(phase).map_err(ConvertError::data)
    }
}

/// The directory to read, and the name of its engine.
fn source_of(from: &Path) -> Result<(PathBuf, String), ConvertError> {
    let path = absolute(from)?;
    match storage::engine_of(&path)? {
        Some(name) if engines::is_known(&name) => Ok((path, name)),
        Some(name) => Err(ConvertError::data(format!(
            "{} belongs to storage engine {name}; this build has {}",
            from.display(),
            engines::list()
        ))),
        None => Err(ConvertError::data(format!(
            "{} is not a data directory of Quarry",
            from.display()
        ))),
    }
}

fn absolute(path: &Path) -> Result<PathBuf, ConvertError> {
    path.canonicalize()
        .map_err(|e| ConvertError::data(format!("cannot read {}: {e}", path.display())))
}
