//! Buckets of time-series collections as MongoDB shows them in `system.buckets.NAME`: documents
//! `{_id, control, meta, data}` of many measurements, with one column per field. Promises: builds
//! version 1, whose columns are plain documents, and reads versions 1 to 3; versions 2 and 3 have
//! columns in the format of `column`. Must not know: how measurements are stored.

mod build;
mod column;
mod options;
mod range;
mod read;
mod simple8b;

pub use build::{Bucket, bucket_id};
pub use column::{Cell, decode_column};
pub use options::SeriesOptions;
pub use read::{BucketContents, unpack};
