//! Where a stage is allowed.

/// The placement rules of a stage.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// It makes documents itself and must be first (40602).
    pub first: bool,
    /// It writes and must be last (40601).
    pub last: bool,
    /// It stores its input documents.
    pub writes: bool,
    /// It may be inside `$facet` (40600).
    pub in_facet: bool,
    /// It may be inside `$lookup` (51047).
    pub in_lookup: bool,
    /// It may be inside `$unionWith` (31441).
    pub in_union: bool,
    /// It runs on a database, `{aggregate: 1}` (73 otherwise).
    pub needs_database: bool,
    /// It may run on a database.
    pub on_database: bool,
    /// It is a change stream.
    pub changes: bool,
    /// It may follow a change stream (20).
    pub behind_changes: bool,
}

impl Placement {
    /// An ordinary stage: anywhere.
    pub const ANYWHERE: Placement = Placement {
        first: false,
        last: false,
        writes: false,
        in_facet: true,
        in_lookup: true,
        in_union: true,
        needs_database: false,
        on_database: false,
        changes: false,
        behind_changes: false,
    };
    /// An ordinary stage that processes one document at a time.
    pub const EACH: Placement = Placement {
        behind_changes: true,
        ..Placement::ANYWHERE
    };
    /// A source that reads no collection.
    pub const FIRST: Placement = Placement {
        first: true,
        in_facet: false,
        ..Placement::ANYWHERE
    };
    /// A source that runs on a database.
    pub const DATABASE: Placement = Placement {
        needs_database: true,
        on_database: true,
        ..Placement::FIRST
    };
    /// A writer.
    pub const LAST: Placement = Placement {
        last: true,
        writes: true,
        in_facet: false,
        in_lookup: false,
        in_union: false,
        ..Placement::ANYWHERE
    };
}
