//! Text search as pure functions: which terms a document has and their scores, what a
//! `$search` asks for, and whether a document answers it. Stored entries are made by this, so a
//! change of behaviour here is a change of the disk format.
//! Must not know: indexes, plans, keys.

mod fold;
mod language;
mod matcher;
mod query;
mod spec;
mod tokenizer;

pub use language::Language;
pub use matcher::TextMatcher;
pub use query::TextQuery;
pub use spec::{DEFAULT_LANGUAGE, DEFAULT_OVERRIDE, TextSpec};
pub use tokenizer::{Sensitivity, Tokenizer};
