//! The time of an earlier commit. TiKV does not tell it, so the key is read at earlier times, and
//! their range is halved. Promises: the exact time, also after older versions were removed, because
//! the newest version of a key stays. Must not know: what is stored.

use storage::Result;

use crate::cluster::Cluster;

/// The time of the commit that wrote the value that a row has at `until`; `None` when there is no
/// row. The commit was after `after`.
///
/// # Cost
/// A read for each halving: about thirty for a second.
pub(crate) fn find_commit(
    cluster: &Cluster,
    row: &[u8],
    after: u64,
    until: u64,
) -> Result<Option<u64>> {
    let Some(value) = cluster.get(until, row)? else {
        return Ok(None);
    };
    let (mut before, mut at) = (after.min(until), until);
    while at - before > 1 {
        let middle = before + (at - before) / 2;
        match cluster.get(middle, row)? {
            Some(earlier) if earlier == value => at = middle,
            _ => before = middle,
        }
    }
    Ok(Some(at))
}
