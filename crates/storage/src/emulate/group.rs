//! Commits batches of several callers in one transaction of the engine.

use crate::{CommitPos, Result};

/// The result of each batch of a group, or the failure of the whole group. A refused batch does not
/// fail the others: they are committed one by one then.
///
/// # Errors
/// Every error that is not a clean refusal.
pub fn commit_group<W>(
    group: &[W],
    transaction: impl Fn(&[W]) -> Result<CommitPos>,
) -> Result<Vec<Result<CommitPos>>> {
    match transaction(group) {
        Ok(pos) => Ok(group.iter().map(|_| Ok(pos)).collect()),
        Err(e) if !e.is_clean_refusal() => Err(e),
        Err(e) if group.len() == 1 => Ok(vec![Err(e)]),
        Err(_) => {
            let mut results = Vec::with_capacity(group.len());
            for one in group {
                match transaction(std::slice::from_ref(one)) {
                    Err(e) if !e.is_clean_refusal() => return Err(e),
                    result => results.push(result),
                }
            }
            Ok(results)
        }
    }
}
