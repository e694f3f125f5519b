//! The kinds of failures by which a target is wrong and not merely unable.

/// The kinds of failures that no target may show: what it answered is not what it was given.
pub const WRONG_ANSWERS: &[&str] = &[
    "document not found",
    "wrong document",
    "damaged document",
    "damaged row",
    "wrong contents",
    "wrong order",
    "too many documents",
    "wrong update count",
    "record not found",
];

/// The kind of a failure by which a row has other contents than it was given.
pub const WRONG_CONTENTS: &str = "wrong contents";
/// The kind of a failure by which rows came in another order than was asked for.
pub const WRONG_ORDER: &str = "wrong order";
