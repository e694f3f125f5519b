//! Settings whose value is one of a few words.

use serde::{Deserialize, Serialize};

/// Who makes the ids.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Ids {
    /// The lab makes the id from the row's number.
    #[default]
    Lab,
    /// The target or its driver makes the id. Such rows cannot be read back by id.
    Target,
    /// The lab makes numbers in random order, so that inserts are spread over the whole key space.
    Random,
}

/// How clients share collections.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Each client uses all collections.
    #[default]
    Shared,
    /// Each client uses one collection.
    PerClient,
}

/// How clients share hot rows.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Assign {
    /// Each client always updates the same row.
    #[default]
    Pinned,
    /// Each operation picks a row.
    Any,
}

/// Which documents the target removes by itself, and when.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ExpiryRule {
    /// The date field from which the age counts; documents without it never expire.
    pub field: String,
    /// The age at which documents expire, as in the index.
    pub after_seconds: u32,
}

/// The condition that ends a step.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The number of rows of the setting is stored, or, if `seconds` is set, that time is over.
    Rows,
    /// All clients together have made as many calls as the setting has rows.
    Calls,
    /// The time of the setting is over.
    Seconds,
    /// The action is done.
    #[default]
    Done,
}
