//! What a pipeline reads: a collection or a database.

use model::Namespace;

/// What a pipeline reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PipelineSource {
    /// A collection or view.
    Collection(Namespace),
    /// A database: `{aggregate: 1}`.
    Database(String),
}

impl std::fmt::Display for PipelineSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PipelineSource::Collection(ns) => write!(f, "{ns}"),
            PipelineSource::Database(db) => f.write_str(db),
        }
    }
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
