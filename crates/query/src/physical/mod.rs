//! Physical operators: they run a plan, and explain prints them. Each file is one operator: how it
//! processes batches, what it counts, and the stage it is shown as. All documents come from one
//! loop, [`Reader`]; ADR 0067 describes the design.
//!
//! Must not know: commands, how plans are chosen, stages of pipelines.

mod buckets;
mod column_read;
mod count;
mod count_all;
mod distinct;
mod distinct_values;
mod entries;
mod fold;
mod keys;
mod limit;
mod loose;
mod narrow;
mod near;
mod nothing;
mod open;
mod open_segment;
mod operator;
mod parts;
mod project;
mod read;
mod reader;
mod row_filter;
mod row_metadata;
mod scan;
mod segments;
mod skip;
mod sort;
mod steps;
mod taker;
mod union;
mod whole_columns;
mod write;

pub use buckets::BucketStream;
pub(crate) use column_read::ColumnRead;
pub use count::Count;
pub use distinct::Distinct;
pub(crate) use fold::FoldRead;
pub use keys::{MatchingKeys, RecordKeys};
pub(crate) use limit::Limit;
pub(crate) use loose::LooseScan;
pub(crate) use narrow::FieldProjection;
pub(crate) use nothing::EmptyScan;
pub use open::{ReadOptions, open_read};
pub(crate) use open::{count_by_counter, first_of_groups};
pub use operator::{Operator, run_to_end};
pub use project::ProjectionSpec;
pub(crate) use project::{Project, Shape};
pub use read::CollectionRead;
pub use reader::{Criteria, Reader, each_match};
pub(crate) use skip::Skip;
pub(crate) use sort::Sort;
pub use write::{Change, ChangeTest, Write};
