//! Integration tests of the commands crate, in process.

mod access;
mod access_matrix;
mod admission;
mod aggregation;
mod apply_ops;
mod audit;
mod behaviour;
mod builds;
mod changes;
mod codes;
mod coll_mod;
mod compat;
mod directory;
mod durability;
mod expected;
mod explain;
mod figures;
mod find_options;
mod first_statement;
mod geo;
mod golden;
mod greeting;
mod index_filters;
mod interrupts;
mod locked;
mod member;
mod memory;
mod metamorphic;
mod metrics_reference;
mod nulls;
mod observability;
mod out;
mod places;
mod plans;
mod profiles;
mod protocol;
mod query_settings;
#[path = "../../../../tests/recorded/mod.rs"]
mod recorded;
mod restart;
mod retries;
mod rights;
mod rights_walk;
mod scripts;
mod search;
mod series;
mod snapshot_ddl;
mod snapshots;
mod system_views;
mod tail_races;
mod tails;
mod text;
mod tokens;
mod transaction_ddl;
mod transactions;
mod truths;
mod ttl;
mod user_writes;
mod waiting;
mod waiting_long;
mod walk;
mod wildcard;
mod writes;

/// As in the server, so that what operations hold is counted.
#[global_allocator]
static ALLOCATOR: ::memory::Counting<std::alloc::System> = ::memory::Counting(std::alloc::System);
