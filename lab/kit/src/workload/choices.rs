//! Settings that are one of a few words.

use serde::{Deserialize, Serialize};

/// Who makes the ids.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Ids {
    /// The lab: the key of the row's number.
    #[default]
    Lab,
    /// The target or its driver. Such rows cannot be read back by id.
    Target,
    /// The lab: numbers without order, so that each insert lands elsewhere.
    Random,
}

/// How clients share collections.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Each client uses all.
    #[default]
    Shared,
    /// One each.
    PerClient,
}

/// How clients share hot rows.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Assign {
    /// Each client keeps to one.
    #[default]
    Pinned,
    /// Each operation picks one.
    Any,
}

/// Which documents the target removes by itself, and when.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ExpiryRule {
    /// The date from which they age; documents without it stay.
    pub field: String,
    /// The age at which they may go, as the index says.
    pub after_seconds: u32,
}

/// What ends a step.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The rows of the setting are stored (or, if `seconds` is set, that time is over).
    Rows,
    /// As many calls as the setting has rows, by all clients together.
    Calls,
    /// The time of the setting is over.
    Seconds,
    /// It is done: for actions.
    #[default]
    Done,
}
