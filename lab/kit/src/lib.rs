//! Everything of the lab that does not talk to a server: workloads as data, seeds, documents,
//! recording, results, reports.
//!
//! Promises: memory stays constant however long a run lasts, the same seed gives the same
//! operations, and a later program can read the result (docs/lab/results.md describes it, with a
//! version). Must not know: drivers, engines, Quarry's own code.

pub mod answers;
pub mod claims;
pub mod compare;
pub mod debt;
pub mod documents;
mod draw;
pub mod engine;
pub mod environment;
pub mod folder;
pub mod format;
pub mod history;
pub mod idle;
pub mod kv;
pub mod metric;
pub mod nearest;
pub mod overload;
pub mod pacing;
pub mod profile;
pub mod program;
pub mod published;
pub mod rate_search;
pub mod recorder;
pub mod records;
pub mod report;
pub mod result;
pub mod row;
pub mod seed;
pub mod series;
pub mod share;
pub mod stalls;
pub mod statistics;
pub mod target;
pub mod template;
mod text;
pub mod usage;
pub mod warnings;
pub mod watch;
pub mod work;
pub mod workload;
