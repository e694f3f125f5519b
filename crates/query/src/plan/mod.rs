//! Access paths: how the documents of a filter and an order are read, and in which order they come.
//! A plan gives a superset; documents are matched again when they are read, unless the plan is
//! complete.
//!
//! Must not know: commands, pipelines around the read. Neighbours: `operators::filter` before,
//! `store::scan` after.

mod access;
mod best;
mod bounds;
mod choose;
mod disjunction;
mod distinct;
mod explode;
mod geo;
mod id_path;
mod index_bounds;
mod index_path;
mod keys;
mod log_times;
mod min_max;
mod near;
mod open;
mod partial;
mod read;
mod request;
mod rings;
mod row_metadata;
mod scan;
mod score;
mod series;
mod text;
mod wildcard;

pub use access::{Access, NearBy, Nearness, Plan, WildcardPath};
pub use bounds::{Bound, FieldBounds, ValueRange};
pub use choose::{alternatives, plan_read};
pub use distinct::{DistinctScan, DistinctStream, distinct_plan};
pub use keys::{MatchingKeys, RecordKeys};
pub use open::{ReadOptions, open_read};
pub use read::{PlanStream, ScanCounts, count_matches, each_match, scan_counted};
pub use request::{AllowedIndexes, Hint, PlanRequest};
pub use rings::Rings;
pub(crate) use row_metadata::{INDEX_KEY, RECORD_ID};
pub use series::BucketStream;
