//! Parts of data definition that several commands share: names, views, time series, index
//! specifications.

pub mod collection;
pub mod describe;
pub mod encrypted;
pub mod engine_options;
pub mod identity;
pub mod index_spec;
pub mod names;
pub(crate) mod session_records;
pub mod system_views;
pub mod temporary;
mod text_index;
pub mod timeseries;
pub mod view;
