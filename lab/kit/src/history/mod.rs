//! Results over many days: series of a metric of one step under the same conditions, and the points
//! at which they changed.
//!
//! Promises: a series has only runs with the same workload, settings, machine, build of the lab and
//! kind of target; versions of the target may differ, because a history compares them. Must not
//! know: files.

mod builds;
mod change_points;
mod export;
mod import;
mod series;

pub use builds::{Build, builds};
pub use change_points::change_points;
pub use export::{csv, prometheus};
pub use import::read;
pub use series::{Change, Entry, Series, Value, series, series_of, values};
