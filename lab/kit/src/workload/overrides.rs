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
            /// Fills what is missing here from `base`.
            pub(super) fn or(self, base: &Self) -> Self {
                Self { $($name: self.$name.or_else(|| base.$name.clone()),)* }
            }
        }
    };
}

settings! {
    /// Documents in all.
    rows: u64,
    /// Instead: documents of so many times the memory limit.
    times_memory: f64,
    /// Concurrent clients.
    clients: u32,
    /// Documents per insert command.
    batch: u32,
    /// Seconds measured.
    seconds: u64,
    /// Seconds run before measuring.
    warmup_seconds: u64,
    /// Secondary indexes.
    indexes: u32,
    /// How clients share collections.
    placement: Placement,
    /// Operations per second in all; without it, as fast as replies come.
    rate: f64,
    /// How calls of an open loop arrive.
    arrivals: String,
    /// Collections.
    tables: u32,
    /// Databases that the collections lie in.
    databases: u32,
    /// Bytes of the pad or value, for rows that have one.
    payload: u32,
    /// Repetitions of the steps that a workload repeats.
    rounds: u32,
    /// Documents that a hot workload updates.
    hot_rows: u32,
    /// How clients share them.
    assign: Assign,
    /// Entries that a range returns, or documents that a scan looks at.
    limit: u32,
    /// Memory for the target and its page cache, in MiB.
    memory_mb: u64,
    /// Tables that a probe makes beside those it uses.
    extra_tables: u32,
    /// Secondary indexes, from the first on, that are unique.
    unique_indexes: u32,
    /// Who makes ids, where it differs from the workload's own.
    ids: Ids,
    /// Point reads of neighbours, one after the other.
    read_batch: u32,
    /// How the streams of clients differ.
    seed_mode: SeedMode,
    /// Calls of an inserting client of which the last waits for storage.
    sync_every: u32,
    /// Step after which the target is waited for until it is at rest.
    settle_after: String,
    /// Whether each update is preceded by a read of its document.
    prefetch: bool,
    /// Whether collections that the workload wants capped are so.
    capped: bool,
}
