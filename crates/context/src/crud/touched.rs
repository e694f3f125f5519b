//! Collects, for the log, the paths that an update by operators may change. Must not know: how
//! operators change documents, the log.

use model::{Doc, Value};
use store::{Paths, Set};

/// The operator that changes nothing when it updates a document.
const INSERT_ONLY: &str = "$setOnInsert";

/// The paths that an update document may change.
pub(super) fn paths(update: Doc<'_>) -> Paths {
    let mut paths = Paths::default();
    for (operator, argument) in update.iter().filter(|(name, _)| *name != INSERT_ONLY) {
        let fields = argument.as_doc().unwrap_or(Doc::EMPTY);
        for (path, value) in fields.iter() {
            paths.add(path, set(operator, &value));
            if let ("$rename", Some(to)) = (operator, value.as_str()) {
                paths.add(to, Set::Whole);
            }
        }
    }
    paths
}

fn set(operator: &str, value: &Value<'_>) -> Set {
    let plain = |d: Doc<'_>| {
        !["$position", "$slice", "$sort"]
            .iter()
            .any(|m| d.contains(m))
    };
    match operator {
        "$addToSet" => Set::Appended,
        "$push" | "$pushAll" if value.as_doc().is_none_or(plain) => Set::Appended,
        _ => Set::Whole,
    }
}
