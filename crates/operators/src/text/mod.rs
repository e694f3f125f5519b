//! Text search as pure functions: which terms a document has and their scores, the query of a
//! `$search`, and whether a document matches it. Stored index entries are made here, so a change of
//! behavior here changes the disk format. Must not know: indexes, plans, keys.

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
