//! Parts of data definition that several commands share: names, views, time series, index
//! specifications.

pub(crate) mod collection;
pub(crate) mod describe;
pub(crate) mod encrypted;
pub(crate) mod engine_options;
pub(crate) mod identity;
pub(crate) mod index_spec;
pub(crate) mod names;
pub(crate) mod session_records;
pub(crate) mod system_views;
pub(crate) mod temporary;
mod text_index;
pub(crate) mod timeseries;
pub(crate) mod view;
