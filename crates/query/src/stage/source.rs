//! What a pipeline reads.

use model::Namespace;

/// What a pipeline reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PipelineSource {
    /// A collection or view.
    Collection(Namespace),
    /// A database: `{aggregate: 1}`.
    Database(String),
}

impl PipelineSource {
    /// The database.
    pub fn db(&self) -> &str {
        match self {
            PipelineSource::Collection(ns) => ns.db(),
            PipelineSource::Database(db) => db,
        }
    }
}
