//! Search indexes: their definitions, index entries and queries.
//!
//! Promises: documents come in and encoded `_id`s go out, with scores, the best first; every text
//! is analyzed and every argument checked here; an index is in memory or in a folder of its own,
//! and a commit stores its log position. Must not know: collections, the storage engine, the log,
//! commands, stages.

mod analysis;
mod args;
mod definition;
mod document;
mod error;
mod facet;
mod graph;
mod graphs;
mod highlight;
mod hits;
mod index;
mod marked;
mod matching;
mod operator;
mod order;
mod place;
mod schema;
mod search;
mod stored;
mod synonyms;
mod vector;
mod vector_search;

pub use definition::Definition;
pub use hits::{Check, Hits, SearchHit};
pub use index::{Index, IndexLocation, WRITER_BYTES, Writer};
pub use search::Search;
pub use vector_search::VectorSearch;
