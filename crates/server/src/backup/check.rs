//! `quarry validate`: reads and compares everything in a data directory that no server runs on: the
//! engine's checksums, documents with their index entries in both directions, counters. The
//! directory is not changed: what an engine writes when it opens goes into a copy of links beside
//! it.

use super::seal::key_source;
use super::source::Scratch;
use crate::config::{KeySource, VaultArgs, WiredTigerArgs};
use crate::engines::{self, EngineOptions};
use crate::failure::Failure;
use clap::Args;
use commands::{StoreHooks, SystemClock};
use model::Namespace;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::Store;

/// In a data directory: the copy that is read.
const COPY: &str = ".validate";

/// Options of `quarry validate`.
#[derive(Args, Clone, Debug)]
pub struct ValidateArgs {
    /// Data directory to check; no server may run on it, and its data is not changed
    #[arg(long, value_name = "DIR")]
    pub dbpath: PathBuf,
    /// Options for opening the data directory.
    #[command(flatten)]
    pub open: OpenArgs,
}

/// Options for opening a data directory.
#[derive(Args, Clone, Debug, Default)]
pub struct OpenArgs {
    /// File with the master key of encrypted data: 32 bytes in base64, readable by its owner only
    #[arg(long = "encryptionKeyFile", value_name = "FILE")]
    pub encryption_key_file: Option<PathBuf>,
    /// Master key in Vault.
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

impl OpenArgs {
    /// Options of an engine; the caller fills in name and path.
    pub(super) fn engine_options<'a>(
        &'a self,
        key: Option<&'a KeySource>,
    ) -> Result<EngineOptions<'a>, Failure> {
        let bytes = match &self.memory {
            Some(text) => crate::memory::parse(text).map_err(Failure::of_options)?,
            None => crate::memory::available_bytes() / 2,
        };
        Ok(EngineOptions {
            name: "",
            path: Path::new(""),
            bytes: crate::memory::MemoryShares::of(bytes).engine,
            journal_commit_interval_ms: 100,
            repair: false,
            key,
            wiredtiger_library: self.wiredtiger.wiredtiger_library.as_deref(),
            wiredtiger_include: self.wiredtiger.wiredtiger_include.as_deref(),
            tikv: None,
            awaited: None,
            linked: false,
        })
    }
}

/// How much was read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CheckCounts {
    pub(super) collections: u64,
    pub(super) documents: u64,
    pub(super) index_entries: u64,
}

pub(super) fn run(args: &ValidateArgs, print_message: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let checked = check(&args.dbpath, &args.open, print_message)?;
    print_message(&format!(
        "{} is valid: {} collections, {} documents, {} index entries",
        args.dbpath.display(),
        checked.collections,
        checked.documents,
        checked.index_entries
    ));
    Ok(())
}

/// A directory of an engine of this build.
pub(super) struct DataDirectory {
    /// Absolute.
    pub(super) path: PathBuf,
    /// The name of its engine.
    pub(super) engine: String,
}

impl DataDirectory {
    /// The data directory at `path`.
    ///
    /// # Errors
    /// One line when it is not the data directory of an engine of this build.
    pub(super) fn find(path: &Path) -> Result<DataDirectory, Failure> {
        let path = path
            .canonicalize()
            .map_err(|e| Failure::of_data(format!("cannot read {}: {e}", path.display())))?;
        let engine = storage::engine_of(&path)?.filter(|name| engines::is_known(name));
        let engine = engine.ok_or_else(|| {
            let (shown, names) = (path.display(), engines::list());
            Failure::of_data(format!(
                "{shown} is not a data directory of an engine of this build, which has {names}"
            ))
        })?;
        Ok(DataDirectory { path, engine })
    }
}

/// Reads everything; `tell` is given a line for each collection and each finding.
pub(super) fn check(
    data: &Path,
    args: &OpenArgs,
    print_message: &mut dyn FnMut(&str),
) -> Result<CheckCounts, Failure> {
    let data = DataDirectory::find(data)?;
    let key = key_source(args.encryption_key_file.as_ref(), &args.vault)?;
    let options = EngineOptions {
        name: &data.engine,
        path: &data.path,
        ..args.engine_options(key.as_ref())?
    };
    let scratch = Scratch::make(data.path.join(COPY))?;
    let copy = scratch.path().join("files");
    let source = engines::open_copy(&options, &copy).map_err(Failure::of_data)?;
    let result = check_engine(&source, print_message);
    // The engine must be closed before its files are removed.
    drop(source);
    drop(scratch);
    result
}

/// Findings that belong to no collection.
#[derive(Default)]
struct Findings(Vec<String>);

/// A check only collects the lines; it sets no data apart.
impl store::SalvageSink for Findings {
    fn document(&mut self, _: &Namespace, _: model::Doc<'_>, _: &str) -> model::Result<()> {
        Ok(())
    }
    fn row(&mut self, _: &store::DamagedRow<'_>) -> model::Result<()> {
        Ok(())
    }
    fn keep(&mut self) -> model::Result<()> {
        Ok(())
    }
    fn report_defect(&mut self, line: &str) {
        self.0.push(line.to_owned());
    }
    fn new_uuid(&mut self) -> [u8; 16] {
        [0; 16]
    }
}

fn check_engine(
    source: &engines::Source,
    print_message: &mut dyn FnMut(&str),
) -> Result<CheckCounts, Failure> {
    let verified = source.engine.verify()?;
    let mut findings = verified.findings;
    findings.iter().for_each(|line| print_message(line));
    let hooks = Arc::new(StoreHooks::new(Arc::new(SystemClock::default())));
    let fail = |e: model::MongoError| Failure::of_data(e.to_string());
    let mut catalog = Findings::default();
    let checked = store::check_catalog(source.engine.as_ref(), hooks.as_ref(), &mut catalog);
    checked.map_err(fail)?;
    catalog.0.iter().for_each(|line| print_message(line));
    findings.append(&mut catalog.0);
    // The log is checked before the store, which has none, ends it. Its rows refer to records, so
    // the cause of its findings comes first.
    let mut log = Findings::default();
    store::check_log(source.engine.as_ref(), &mut log).map_err(fail)?;
    let store = Store::open(Arc::clone(&source.engine), hooks).map_err(fail)?;
    let mut checked = CheckCounts::default();
    for db in store.list_databases().map_err(fail)? {
        for entry in store.list_collections(&db).map_err(fail)? {
            let ns = Namespace::new(&db, &entry.name).map_err(fail)?;
            let found = store.collection(&ns).map_err(fail)?;
            let Some(collection) = found.filter(|c| !c.is_view()) else {
                continue;
            };
            let v = collection.validate().map_err(fail)?;
            let entries: u64 = v.index_entries.iter().map(|(_, n)| n).sum();
            print_message(&format!(
                "{ns}: {} documents, {entries} index entries, {} findings",
                v.documents,
                v.errors.len()
            ));
            let of_ns = v.errors.iter().map(|line| format!("{ns}: {line}"));
            of_ns.for_each(|line| {
                print_message(&line);
                findings.push(line);
            });
            checked.collections += 1;
            checked.documents += v.documents;
            checked.index_entries += entries;
        }
    }
    log.0.iter().for_each(|line| print_message(line));
    findings.append(&mut log.0);
    match findings.as_slice() {
        [] => Ok(checked),
        [one] => Err(Failure::of_data(one.clone())),
        [first, ..] => Err(Failure::of_data(format!(
            "{} findings, the first is: {first}",
            findings.len()
        ))),
    }
}
