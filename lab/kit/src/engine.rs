//! The seam to an ordered key-value engine in this process, and what all such engines share.
//!
//! An engine stores bytes in key order. Rows, tables and secondary indexes over it are
//! [`crate::kv`]'s business.
//! Must not know: rows, workloads, any engine.

pub mod contract;
mod counters;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::target::Rest;
use crate::workload::Need;

pub use counters::Counters;

/// An engine's own words for a failure.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct EngineError(pub String);

impl EngineError {
    /// From any error.
    pub fn of(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// How durable a commit is before it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// No log: what was not flushed is lost with the process.
    None,
    /// Logged, not awaited: a crash of the machine loses the last moments.
    #[default]
    Lazy,
    /// On storage.
    Sync,
}

/// One change of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// Store.
    Put(Vec<u8>, Vec<u8>),
    /// Remove.
    Delete(Vec<u8>),
    /// Add to the counter of the row without reading it ([`crate::kv::add_to_row`]).
    Merge(Vec<u8>, i64),
}

/// What an engine is opened with.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Directory or file.
    pub path: PathBuf,
    /// Memory for its cache.
    pub cache_bytes: u64,
    /// Everything after `?` in the address, as pairs.
    pub parameters: Vec<(String, String)>,
    /// What unsynced writes do.
    pub durability: Durability,
}

impl EngineOptions {
    /// Reads `PATH?name=value&...`. The cache is `cache` (bytes, or with K, M, G), 64 MiB without
    /// it.
    ///
    /// # Errors
    /// No path, or a value that cannot be read.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() {
            return Err("a path must follow the colon".to_owned());
        }
        let mut out = Self {
            path: Path::new(path).to_owned(),
            cache_bytes: 64 << 20,
            parameters: Vec::new(),
            durability: Durability::Lazy,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("'{pair}' is not name=value"))?;
            match name {
                "cache" => out.cache_bytes = parse_bytes(value)?,
                "durability" => {
                    out.durability = match value {
                        "none" => Durability::None,
                        "lazy" => Durability::Lazy,
                        "sync" => Durability::Sync,
                        _ => {
                            return Err(format!(
                                "durability is '{value}'; allowed is none, lazy or sync"
                            ));
                        }
                    }
                }
                _ => out.parameters.push((name.to_owned(), value.to_owned())),
            }
        }
        Ok(out)
    }

    /// The value of a parameter of the engine's own, removed from the list.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let at = self
            .parameters
            .iter()
            .position(|(known, _)| known == name)?;
        Some(self.parameters.remove(at).1)
    }

    /// Complains about parameters that nobody took.
    ///
    /// # Errors
    /// There is one.
    pub fn nothing_left(&self, allowed: &str) -> Result<(), EngineError> {
        match self.parameters.first() {
            None => Ok(()),
            Some((name, _)) => Err(EngineError(format!(
                "unknown parameter '{name}'; allowed is cache, durability{}{allowed}",
                if allowed.is_empty() { "" } else { ", " }
            ))),
        }
    }
}

/// A number of bytes such as `512M`.
///
/// # Errors
/// Not a number, or an unknown unit.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default();
    let factor: u64 = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        _ => {
            return Err(format!(
                "'{text}' has the unknown unit '{unit}'; allowed is K, M or G"
            ));
        }
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| format!("'{text}' is not a number of bytes"))
}

/// An engine that is open.
pub trait Engine: Send + Sync + 'static {
    /// What it is, with its version and the settings that matter.
    fn name(&self) -> String;

    /// What it cannot do, beyond what every ordered engine can.
    fn lacks(&self) -> &'static [Need];

    /// A session for one thread.
    ///
    /// # Errors
    /// The engine refuses.
    fn session(&self) -> Result<Box<dyn EngineSession>, EngineError>;

    /// Brings everything to storage and waits, as long as patience lasts, until nothing is left to
    /// do.
    fn settle(&self, patience: Duration) -> Rest;

    /// Raw statistics.
    fn statistics(&self) -> serde_json::Value;

    /// What it counts itself, as far as it does.
    fn counters(&self) -> Counters {
        Counters::default()
    }

    /// Bytes that wait for compaction or a flush, if the engine says so.
    fn debt_bytes(&self) -> Option<u64> {
        None
    }
}

/// What a scan calls for each key and value; false ends it.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> bool;

/// One thread's use of an engine.
pub trait EngineSession: Send {
    /// Commits a batch, all or nothing.
    ///
    /// # Errors
    /// The engine refuses; nothing was stored.
    fn write(&mut self, batch: &[KeyChange], sync: bool) -> Result<(), EngineError>;

    /// Copies the value of `key` into `out`; whether there is one.
    ///
    /// # Errors
    /// The engine fails.
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, EngineError>;

    /// Visits keys in `from..end` in order, or downwards from the last one. An empty `from` is the
    /// beginning.
    ///
    /// # Errors
    /// The engine fails.
    fn scan(
        &mut self,
        from: &[u8],
        end: &[u8],
        reverse: bool,
        visit: Visit<'_>,
    ) -> Result<(), EngineError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_engines() {
        let mut options =
            EngineOptions::parse("/data/x?cache=2M&style=universal&durability=none").unwrap();
        assert_eq!(
            (
                options.path.to_str(),
                options.cache_bytes,
                options.durability
            ),
            (Some("/data/x"), 2 << 20, Durability::None)
        );
        assert!(
            options
                .nothing_left("")
                .unwrap_err()
                .to_string()
                .contains("'style'")
        );
        assert_eq!(options.take("style").as_deref(), Some("universal"));
        assert!(options.nothing_left("").is_ok());
        for wrong in [
            "",
            "?cache=1",
            "x?cache=1X",
            "x?cache",
            "x?durability=much",
            "x?cache=99999999999G",
        ] {
            assert!(EngineOptions::parse(wrong).is_err(), "{wrong}");
        }
    }
}
