//! Access paths: how the documents for a filter and an order are read, and in which order they
//! come. A plan may give more documents than match; they are tested again when they are read,
//! unless the plan is complete.
//!
//! Must not know: commands, pipelines around the read, how plans run. Neighbours:
//! `operators::filter` before, `physical` after.

mod access;
mod best;
mod bounds;
mod cache;
mod choose;
mod column_choice;
mod column_plan;
mod cost;
mod cover;
mod disjunction;
mod distinct;
mod estimate;
mod explode;
mod geo;
mod group_end;
mod id_path;
mod index_bounds;
mod index_path;
mod log_times;
mod min_max;
mod near;
mod partial;
mod request;
mod rings;
mod rivals;
mod sample;
mod score;
mod series;
mod skip;
mod text;
mod unit_cost;
mod wildcard;

pub use crate::exec::AllowedIndexes;
pub use access::CachedPlan;
pub(crate) use access::Run;
pub use access::{Access, NearMethod, NearPlan, Plan, WildcardPath};
pub use bounds::{Bound, FieldBounds, ValueRange};
pub use cache::PlanCache;
pub(crate) use choose::check_may_scan;
pub use choose::{alternatives, plan_read};
pub(crate) use column_choice::is_named;
pub(crate) use column_plan::{ColumnLens, SegmentUse};
pub use column_plan::{ColumnPlan, RequiredOutput};
pub use distinct::distinct_plan;
pub use estimate::{Estimate, EstimateSource};
pub(crate) use group_end::{GroupedPlan, group_end_plan};
pub(crate) use log_times::of as log_times;
pub use request::{Hint, PlanRequest};
pub(crate) use rings::Ring;
pub use rings::Rings;
pub use rivals::RejectedPlans;
pub(crate) use series::columns;
pub(crate) use wildcard::shown_path;
