//! The kinds of failures that mean a wrong answer, and not merely a failed call.

/// The kinds of failures that no target may have: its answer differs from the stored data.
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

/// The kind of a failure in which a row has other contents than were stored.
pub const WRONG_CONTENTS: &str = "wrong contents";
/// The kind of a failure in which rows came in another order than requested.
pub const WRONG_ORDER: &str = "wrong order";
