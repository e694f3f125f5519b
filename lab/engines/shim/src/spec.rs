//! The differences between engines: the adapter's source, settings in words, statistics.

use std::collections::BTreeMap;

use lab_kit::engine::{Counters, Durability, EngineOptions};

/// The engine's statistics, by its own names.
pub type Statistics = BTreeMap<String, f64>;

/// The source of an adapter.
#[derive(Clone, Debug)]
pub struct AdapterSpec {
    /// The engine in words, for messages.
    pub engine: &'static str,
    /// The adapter's text in C.
    pub source: &'static str,
    /// The directory of the header; without it the compiler searches its default directories.
    pub include: Option<String>,
    /// The shared library: a path, or a name that the linker finds.
    pub library: String,
    /// Advice for the user if the adapter cannot be compiled.
    pub advice: &'static str,
}

impl AdapterSpec {
    /// A specification with the header and library that an address names by `include` and
    /// `library`.
    pub fn of(
        options: &mut EngineOptions,
        engine: &'static str,
        source: &'static str,
        library: &str,
        advice: &'static str,
    ) -> Self {
        let include = options.take("include");
        let library = options
            .take("library")
            .unwrap_or_else(|| library.to_owned());
        Self {
            engine,
            source,
            include,
            library,
            advice,
        }
    }
}

/// The differences between engines apart from their adapters.
#[derive(Clone, Debug)]
pub struct EngineSpec {
    /// The settings that matter, in words.
    pub about: String,
    /// When commits are durable.
    pub durability: Durability,
    /// Whether there is a log; without one a synced commit is a checkpoint.
    pub has_log: bool,
    /// Whether background work is under way, from earlier and current statistics.
    pub is_compacting: fn(&Statistics, &Statistics) -> bool,
    /// The counters that all engines share.
    pub counters: fn(&Statistics) -> Counters,
}

/// A statistic as a count, if it is there and not negative.
pub fn count(statistics: &Statistics, name: &str) -> Option<u64> {
    statistics
        .get(name)
        .filter(|value| **value >= 0.0)
        .map(|value| *value as u64)
}
