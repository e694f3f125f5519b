//! Settings that a workload file, a preset or the command line may give, each optional.

use serde::Deserialize;

use super::choices::{Assign, Ids, Placement};
use crate::seed::SeedMode;

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// Settings that a file, a preset or a command line may give.
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Overrides { $($(#[$doc])* pub $name: Option<$type>,)* }

        impl Overrides {
            /// Fills missing settings from `base`.
            pub(super) fn fill_from(self, base: &Self) -> Self {
                Self { $($name: self.$name.or_else(|| base.$name.clone()),)* }
            }
        }
    };
}

settings! {
    /// Documents in all.
    rows: u64,
    /// Instead of `rows`: the size of all documents as a multiple of the memory limit.
    times_memory: f64,
    /// Concurrent clients.
    clients: u32,
    /// Documents per insert command.
    batch: u32,
    /// Seconds measured.
    seconds: u64,
    /// Seconds of warm-up before measuring.
    warmup_seconds: u64,
    /// Secondary indexes.
    indexes: u32,
    /// How clients share collections.
    placement: Placement,
    /// Operations per second in all; without it, each client sends its next call when the reply has
    /// come.
    rate: f64,
    /// How calls of an open loop arrive.
    arrivals: String,
    /// Collections.
    tables: u32,
    /// Number of databases that the collections are spread over.
    databases: u32,
    /// Bytes of the pad or value, for rows that have one.
    payload: u32,
    /// Repetitions of the steps that a workload repeats.
    rounds: u32,
    /// Documents that a hot workload updates.
    hot_rows: u32,
    /// How clients share the hot documents.
    assign: Assign,
    /// Entries that a range returns, or documents that a scan reads.
    limit: u32,
    /// Memory for the target and its page cache, in MiB.
    memory_mb: u64,
    /// Tables that a probe makes in addition to those it uses.
    extra_tables: u32,
    /// Number of secondary indexes, from the first on, that are unique.
    unique_indexes: u32,
    /// Who makes ids, if it differs from the workload's own setting.
    ids: Ids,
    /// Number of neighbours that a batch of point reads reads, one after the other.
    read_batch: u32,
    /// How the streams of clients differ.
    seed_mode: SeedMode,
    /// N: of every N calls of an inserting client the last waits for storage.
    sync_every: u32,
    /// The step after which the run waits until the target is idle.
    settle_after: String,
    /// Whether each update is preceded by a read of its document.
    prefetch: bool,
    /// Whether collections that the workload wants capped are capped.
    capped: bool,
}
