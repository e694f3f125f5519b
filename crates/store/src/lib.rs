//! Documents and indexes over a storage engine.
pub mod format;
