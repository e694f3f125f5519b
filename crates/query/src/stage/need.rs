//! The privileges that a pipeline needs: the collections it reads and writes, and the server
//! information it shows. Must not know: users, roles, which stages there are.

use super::source::PipelineSource;
use model::Namespace;

/// One privilege that a pipeline needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequiredPrivilege {
    /// The documents of a collection or view.
    Read(Namespace),
    /// Documents found by a search index of the pipeline's collection. The right to read the
    /// collection is enough.
    Search,
    /// To write to a collection.
    Write {
        /// The collection.
        ns: Namespace,
        /// It inserts documents.
        inserts: bool,
        /// It updates documents.
        updates: bool,
        /// It removes documents.
        removes: bool,
    },
    /// The changes of a collection or database; `None` means of everything.
    Changes(Option<PipelineSource>),
    /// Information about the collection or database on which the stage runs.
    Told(Subject, PipelineSource),
    /// Information about the server.
    Server(Report),
}

/// Kinds of information about a collection or database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Subject {
    CollectionStatistics,
    IndexStatistics,
    CachedPlans,
    SearchIndexes,
    /// The collections of the database; on `admin`, of all databases.
    Collections,
}

/// Kinds of information about the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Report {
    /// Running operations, of all users or of this user.
    Operations {
        of_all: bool,
    },
    /// Sessions of all users, or of these users (name and database); an empty list means the user's
    /// own.
    Sessions {
        of_all: bool,
        users: Vec<SessionUser>,
    },
    /// The data files.
    Files,
    SampledQueries,
    QuerySettings,
    QueryStatistics,
}

/// A user whose sessions are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionUser {
    /// Its name.
    pub name: String,
    /// Its database.
    pub db: String,
}
