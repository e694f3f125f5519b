//! The vocabulary of Quarry: BSON values as views over raw bytes, builders, the BSON order, exact
//! numbers, errors with MongoDB's codes, namespaces and paths.
//!
//! Promises: no I/O, no clock, no randomness, no allocation to read a document. Must not know:
//! storage, wire, commands.

pub mod bson;
pub mod bucket;
pub mod code;
pub mod compare;
pub mod decimal;
pub mod decimal_arith;
pub mod decimal_trig;
mod doc_macro;
pub mod error;
#[cfg(feature = "extjson")]
pub mod extjson;
pub mod namespace;
pub mod number;
pub mod path;
pub mod show;
pub mod validate;

pub use bson::{
    Array, ArrayWriter, Binary, Doc, DocBuf, DocWriter, Edit, Element, ObjectId, OwnedValue, Regex,
    Tag, Timestamp, Value,
};
pub use compare::{Collate, compare, compare_with};
pub use decimal::{Decimal128, Rounding};
pub use error::{ErrorKind, MongoError, Result};
pub use namespace::Namespace;
pub use number::Number;
pub use path::FieldPath;
pub use validate::{MAX_DEPTH, MAX_STORED_DEPTH, is_deeper_than, validate, validate_with_limit};

/// Arena in which computed values live while one document or one batch is processed.
pub use bumpalo::Bump;
