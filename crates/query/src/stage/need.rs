//! What a pipeline needs of whoever asks: the collections that it reads and writes, and the lists
//! of the server that it shows. Must not know: users, roles, which stages there are.

use super::source::PipelineSource;
use model::Namespace;

/// One thing that a pipeline needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// The documents of a collection or view.
    Read(Namespace),
    /// Documents by a search index of the collection that the pipeline runs on. Who may read the
    /// collection may search it.
    Search,
    /// To write to a collection.
    Write {
        /// The collection.
        ns: Namespace,
        /// Adds documents.
        inserts: bool,
        /// Changes documents.
        updates: bool,
        /// Takes documents away.
        removes: bool,
    },
    /// The changes of a collection or database; of everything where none is named.
    Changes(Option<PipelineSource>),
    /// What the server tells of the collection or database that the stage runs on.
    Told(Subject, PipelineSource),
    /// What the server tells of itself.
    Server(Report),
}

/// What the server tells of a collection or database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Subject {
    CollectionStatistics,
    IndexStatistics,
    CachedPlans,
    SearchIndexes,
    /// The collections of the database; on `admin` those of all.
    Collections,
}

/// What the server tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Report {
    /// Running operations, of everybody or of the user.
    Operations {
        of_all: bool,
    },
    /// Sessions of everybody, or of these users (name and database); of the user where none is
    /// named.
    Sessions {
        of_all: bool,
        users: Vec<SessionUser>,
    },
    /// The files of the data.
    Files,
    SampledQueries,
    QuerySettings,
    QueryStatistics,
}

/// A user whose sessions are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionUser {
    /// Its name.
    pub name: String,
    /// Its database.
    pub db: String,
}
