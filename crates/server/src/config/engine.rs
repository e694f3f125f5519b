//! Which storage engine serves a directory: the one that is named, otherwise the one whose data
//! lies there. mongod decides the same way. Must not know: how engines are opened.

use std::path::Path;

use crate::engines::{is_known, is_missing, list};

/// The engine of new data.
const DEFAULT: &str = "rocksdb";
/// mongod's names of an engine that keeps its data in memory only.
const IN_MEMORY: [&str; 2] = ["inMemory", "ephemeralForTest"];

/// The name of the engine to open `path` with.
///
/// If WiredTiger is asked for, its library is not on this machine and `path` has no data of it, the
/// answer is the default engine and `left_out` gets a line that says so. If the user names the
/// library, WiredTiger is never replaced.
///
/// # Errors
/// One line: the engine is not known, or not in this build.
pub(super) fn choose_engine(
    given: Option<String>,
    path: &Path,
    is_library_named: bool,
    left_out: &mut Vec<String>,
) -> Result<String, String> {
    let found = storage::engine_of(path).ok().flatten();
    let engine = match given {
        None => found.unwrap_or_else(|| DEFAULT.to_owned()),
        Some(name) if IN_MEMORY.contains(&name.as_str()) => "memory".to_owned(),
        Some(name) if name == "wiredTiger" && !is_library_named => {
            let is_free = found.as_deref().is_none_or(|found| found == DEFAULT);
            if is_free && is_empty_or(DEFAULT, path) && is_missing(&name) {
                left_out.push(format!(
                    "--storageEngine wiredTiger (its library is not on this machine: {DEFAULT} \
                     keeps the data)"
                ));
                DEFAULT.to_owned()
            } else {
                name
            }
        }
        Some(name) => name,
    };
    if !is_known(&engine) {
        let advice = match engine.as_str() {
            "tikv" => "; build it with --features tikv",
            _ => "",
        };
        return Err(format!(
            "unknown storage engine {engine}; this build has {}{advice}",
            list()
        ));
    }
    Ok(engine)
}

/// Whether a directory has no data or data of `engine`.
fn is_empty_or(engine: &str, path: &Path) -> bool {
    let is_of_engine = storage::engine_of(path).is_ok_and(|found| found.as_deref() == Some(engine));
    let entries = std::fs::read_dir(path);
    is_of_engine || entries.map_or(true, |mut entries| entries.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(given: Option<&str>, path: &Path) -> (Result<String, String>, usize) {
        let mut left_out = Vec::new();
        let given = given.map(str::to_owned);
        let chosen = choose_engine(given, path, false, &mut left_out);
        (chosen, left_out.len())
    }

    #[test]
    fn the_data_says_which_engine_it_needs() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("none");
        assert_eq!(choose(None, &missing), (Ok("rocksdb".to_owned()), 0));
        let marker = dir.path().join(storage::MARKER);
        std::fs::write(&marker, "engine lmdb\nformat 1\n").unwrap();
        assert_eq!(choose(None, dir.path()).0.as_deref(), Ok("lmdb"));
        assert_eq!(
            choose(Some("rocksdb"), dir.path()).0.as_deref(),
            Ok("rocksdb")
        );
        // A directory with data of another engine is never treated as empty.
        assert_eq!(
            choose(Some("wiredTiger"), dir.path()),
            (Ok("wiredTiger".to_owned()), 0)
        );
        assert_eq!(
            choose(Some("ephemeralForTest"), &missing).0.as_deref(),
            Ok("memory")
        );
        std::fs::write(&marker, "engine other\n").unwrap();
        assert!(choose(None, dir.path()).0.unwrap_err().contains("other"));
    }
}
