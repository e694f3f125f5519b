//! Results of many days: series of a metric of one step under the same conditions, and the points
//! at which they changed.
//!
//! Promises: only runs that agree in workload, settings, machine, build and kind of target are one
//! series; versions may differ, since they are what a history is about. Must not know: files.

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
