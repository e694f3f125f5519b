//! The engines: each is a file and a line in the list below. Must not know: what is done with data.

#[cfg(any(feature = "rocksdb", feature = "lmdb", feature = "wiredtiger"))]
mod advice;
mod kind;

use kind::EngineKind;
pub use kind::{
    Cluster, ClusterTls, EngineOptions, LockedDirectory, OpenedEngine, SalvagedSource, Source,
};
use std::path::Path;
use std::sync::Arc;
use storage::Follower;

/// Declares the files of the engines, and their table.
macro_rules! engines {
    ($($(#[$condition:meta])* $module:ident),* $(,)?) => {
        $($(#[$condition])* mod $module;)*
        /// Engines of this build, the default one first.
        static ALL: &[&EngineKind] = &[$($(#[$condition])* &$module::KIND),*];
    };
}

// A new engine is a line here.
engines! {
    #[cfg(feature = "rocksdb")] rocksdb,
    #[cfg(feature = "lmdb")] lmdb,
    #[cfg(feature = "wiredtiger")] wiredtiger,
    #[cfg(feature = "tikv")] tikv,
    memory,
}

/// The names of all engines of this build, for people.
pub fn list() -> String {
    let names: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
    names.join(" and ")
}

/// Whether this build has an engine.
pub fn is_known(name: &str) -> bool {
    ALL.iter().any(|kind| kind.name == name)
}

/// Whether an engine of this build has a journal that can be opened in spite of damage.
pub fn repairs_journal(name: &str) -> bool {
    find(name).is_ok_and(|kind| kind.repairs_journal)
}

/// Whether an engine of this build keeps data in a directory.
pub fn has_directory(name: &str) -> bool {
    find(name).is_ok_and(|kind| kind.open_source.is_some())
}

fn find(name: &str) -> Result<&'static EngineKind, String> {
    let kind = ALL.iter().copied().find(|kind| kind.name == name);
    kind.ok_or_else(|| format!("unknown storage engine {name}; this build has {}", list()))
}

/// Files that an engine keeps open, under the present limit of the process.
pub fn open_files(options: &EngineOptions<'_>) -> u64 {
    find(options.name).map_or(0, |kind| (kind.open_files)(options))
}

/// Whether an engine of this build needs a library that is not on this machine.
pub fn is_missing(name: &str) -> bool {
    find(name).is_ok_and(|kind| (kind.is_missing)())
}

/// Checks that the options of an engine are consistent, before any of its data is touched.
///
/// # Errors
/// One line that says what to do.
pub fn check(options: &EngineOptions<'_>) -> Result<(), String> {
    find(options.name)?.check(options)
}

/// Opens an engine.
///
/// # Errors
/// One line that says what to do.
pub fn open(options: &EngineOptions<'_>) -> Result<OpenedEngine, String> {
    find(options.name)?.open(options)
}

/// Opens a database that another server writes, for reading.
///
/// # Errors
/// One line that says why it cannot be opened now, or that the engine does not support this.
pub fn follow(options: &EngineOptions<'_>) -> Result<Arc<dyn Follower>, String> {
    match find(options.name)?.follow {
        Some(follow) => follow(options),
        None => Err(format!(
            "storage engine {} does not let a second process read its data",
            options.name
        )),
    }
}

/// Opens an engine for reading: nothing in its directory changes, and no server can open it
/// meanwhile. `scratch` is a directory that may be made and is removed again.
///
/// # Errors
/// One line that says what to do.
pub fn open_source(options: &EngineOptions<'_>, scratch: &Path) -> Result<Source, String> {
    match find(options.name)?.open_source {
        Some(open) => open(options, scratch),
        None => Err(format!(
            "storage engine {} has no data directory",
            options.name
        )),
    }
}

/// Opens what is left of a directory that [`open_source`] cannot open. The function may make `copy`
/// and `rest`; the caller removes them.
///
/// # Errors
/// One line; always for engines that keep all data in one file.
pub fn open_rest(
    options: &EngineOptions<'_>,
    copy: &Path,
    rest: &Path,
) -> Result<SalvagedSource, String> {
    match find(options.name)?.open_rest {
        Some(open) => open(options, copy, rest),
        None => Err(format!(
            "storage engine {} keeps all data in one file",
            options.name
        )),
    }
}

/// Opens a copy of a data directory, which is not changed and stays locked; `copy` is made, and
/// removed by the caller.
///
/// # Errors
/// One line that says what to do.
pub fn open_copy(options: &EngineOptions<'_>, copy: &Path) -> Result<Source, String> {
    find(options.name)?.open_copy(options, copy)
}

/// Makes `to` a copy of the files of a data directory that no one changes; immutable files are
/// links.
///
/// # Errors
/// One line that says what to do.
pub fn copy_files(options: &EngineOptions<'_>, to: &Path) -> Result<LockedDirectory, String> {
    find(options.name)?.copy_files(options, to)
}

/// Whether a file of a data directory is never written again once it is complete.
pub fn is_fixed(file: &Path) -> bool {
    ALL.iter().any(|kind| (kind.is_fixed)(file))
}
