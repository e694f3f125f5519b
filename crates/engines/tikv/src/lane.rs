//! Runs one transaction after another, each checked by the fence. A write that is too large for one
//! transaction is first stored in parts, then decided by one row, then applied in several
//! transactions: a reader at an earlier timestamp sees nothing of it, and after a crash the next
//! holder completes it.
//!
//! Promises: a write is applied completely or not at all, and its outcome is known or the lease is
//! lost. Must not know: batches, tables.

use std::sync::Arc;
use std::time::{Duration, Instant};

use storage::{Result, StorageError};
use tikv_client::Transaction;

use crate::cluster::{Change, Cluster, RETRY_FOR};
use crate::error::corrupt;
use crate::layout::{Layout, PIECE_BYTES, SCAN_ROWS};
use crate::lease::{FenceOwner, Lease};

/// Size of the client's requests, each of which has a copy of all keys.
const REQUEST_BYTES: usize = 16 << 10;
/// Limit of requests times keys for a write in one transaction.
const COPIES_MAX: usize = 100_000;
/// Limit of bytes for a write in one transaction: its locks may be removed in one raft entry, which
/// has at most 8 MB.
const DIRECT_BYTES_MAX: usize = 4 << 20;
/// Number of changes of a large write that one transaction applies.
const PART_CHANGES: usize = 1_000;
const PART_BYTES: usize = 512 << 10;
const PAUSE: Duration = Duration::from_millis(50);

/// Executes commits, one at a time.
pub(crate) struct CommitExecutor {
    cluster: Arc<Cluster>,
    layout: Layout,
    lease: Arc<Lease>,
    number: u64,
}

impl CommitExecutor {
    pub(crate) fn new(
        cluster: &Arc<Cluster>,
        layout: &Layout,
        lease: &Arc<Lease>,
    ) -> CommitExecutor {
        CommitExecutor {
            cluster: Arc::clone(cluster),
            layout: layout.clone(),
            lease: Arc::clone(lease),
            number: 0,
        }
    }

    /// Completes a write that an earlier holder has decided. The output is the time from which all
    /// of it is visible.
    ///
    /// # Errors
    /// Those of the cluster; [`StorageError::Corrupt`]
    pub(crate) fn recover(&mut self, ts: u64) -> Result<u64> {
        let Some(count) = self.cluster.get(ts, &self.layout.decision_key())? else {
            return Ok(ts);
        };
        let count = count
            .try_into()
            .map_err(|_| corrupt("the row of a large write"))?;
        let mut changes = Vec::new();
        let parts = u32::from_be_bytes(count);
        for number in 0..parts {
            let part = self.cluster.get(ts, &self.layout.part(number))?;
            let part = part.as_deref().and_then(decode);
            changes.extend(part.ok_or_else(|| corrupt("a part of a large write"))?);
        }
        self.apply(changes, parts)
    }

    /// Applies all changes or none. The output is the time from which they are visible.
    ///
    /// # Errors
    /// [`StorageError::ReadOnly`] when another server has taken over, [`StorageError::Unreachable`]
    /// when nothing was changed, [`StorageError::Undetermined`]
    pub(crate) fn write(&mut self, changes: Vec<Change>) -> Result<u64> {
        let bytes: usize = changes.iter().map(size).sum();
        let requests = changes.iter().filter(|c| size(c) > REQUEST_BYTES).count()
            + bytes.min(changes.len() * REQUEST_BYTES) / REQUEST_BYTES;
        if requests.saturating_mul(changes.len()) <= COPIES_MAX && bytes <= DIRECT_BYTES_MAX {
            return self.commit(&changes);
        }
        let mut parts = 0;
        for some in split(&changes, usize::MAX, PIECE_BYTES) {
            let part = (self.layout.part(parts), Some(encode(some)));
            self.commit(&[part])?;
            parts += 1;
        }
        let decided = (
            self.layout.decision_key(),
            Some(parts.to_be_bytes().to_vec()),
        );
        self.commit(&[decided])?;
        // The write is decided from here on: if this server cannot complete it, the next holder
        // must.
        self.apply(changes, parts)
            .map_err(|_| StorageError::Undetermined)
    }

    fn apply(&mut self, changes: Vec<Change>, parts: u32) -> Result<u64> {
        for some in split(&changes, PART_CHANGES, PART_BYTES) {
            self.commit(some)?;
        }
        let gone = (0..parts).map(|number| (self.layout.part(number), None));
        let gone: Vec<Change> = gone.chain([(self.layout.decision_key(), None)]).collect();
        let mut last = 0;
        for some in gone.chunks(SCAN_ROWS).rev() {
            last = self.commit(some)?;
        }
        Ok(last)
    }

    /// Commits one transaction. After a lost answer the next attempt reads the fence first, at a
    /// time that conflicts with a late arrival of the previous attempt: so at most one of them is
    /// committed.
    fn commit(&mut self, changes: &[Change]) -> Result<u64> {
        self.number += 1;
        let number = self.number;
        let mut all = vec![self.lease.fence(number)];
        all.extend_from_slice(changes);
        let until = Instant::now() + RETRY_FOR;
        let one_phase = changes.iter().map(size).sum::<usize>() < REQUEST_BYTES;
        let mut doubt = false;
        loop {
            let given_up = Instant::now() >= until;
            let Some((mut txn, ts)) = self.begin(one_phase, doubt, given_up)? else {
                continue;
            };
            if doubt || self.lease.must_read_fence() {
                match self.resolve_outcome(&mut txn, number, given_up)? {
                    CommitOutcome::Committed => return Ok(ts),
                    CommitOutcome::NotCommitted => {}
                    CommitOutcome::Unknown => continue,
                }
            }
            match self.cluster.commit(&mut txn, &all) {
                Ok(at) => return Ok(at),
                Err(_) if given_up => return Err(StorageError::Undetermined),
                Err(_) => std::thread::sleep(PAUSE),
            }
            doubt = true;
        }
    }

    /// Begins at a time that the lease covers; `None` when the caller has to try again.
    fn begin(
        &self,
        one_phase: bool,
        doubt: bool,
        last: bool,
    ) -> Result<Option<(Transaction, u64)>> {
        let unfinished = |context: String| {
            if doubt {
                StorageError::Undetermined
            } else {
                StorageError::Unreachable(context)
            }
        };
        let begun = self.cluster.begin(one_phase);
        let (txn, ts) = begun.map_err(|e| unfinished(e.to_string()))?;
        if self.lease.covers(ts) {
            return Ok(Some((txn, ts)));
        }
        let renewed = self.lease.renew();
        match self.lease.lost_reason() {
            // An earlier attempt may have been committed.
            Some(_) if doubt => return Err(StorageError::Undetermined),
            Some(context) => return Err(StorageError::ReadOnly { context }),
            None => {}
        }
        if last {
            let why = renewed.err().map_or_else(String::new, |e| format!(": {e}"));
            return Err(unfinished(format!("the lease could not be renewed{why}")));
        }
        std::thread::sleep(PAUSE);
        Ok(None)
    }

    /// The outcome of an attempt whose answer was lost.
    fn resolve_outcome(
        &self,
        txn: &mut Transaction,
        number: u64,
        last: bool,
    ) -> Result<CommitOutcome> {
        match self.cluster.get_in(txn, &self.layout.fence()) {
            Ok(row) => match self.lease.read_fence(row.as_deref())? {
                FenceOwner::Own(newest) if newest == number => Ok(CommitOutcome::Committed),
                FenceOwner::Own(_) => Ok(CommitOutcome::NotCommitted),
                FenceOwner::Foreign => {
                    // The attempt was committed before the other server took over, or never will
                    // be.
                    self.lease.lose("another server has taken over");
                    Err(StorageError::Undetermined)
                }
            },
            Err(_) if last => Err(StorageError::Undetermined),
            Err(_) => {
                std::thread::sleep(PAUSE);
                Ok(CommitOutcome::Unknown)
            }
        }
    }
}

enum CommitOutcome {
    Committed,
    NotCommitted,
    Unknown,
}

fn size(change: &Change) -> usize {
    change.0.len() + change.1.as_ref().map_or(0, Vec::len)
}

/// Splits changes into consecutive groups of limited number and bytes, each with at least one
/// change.
fn split(
    changes: &[Change],
    count_max: usize,
    bytes_max: usize,
) -> impl Iterator<Item = &[Change]> {
    let mut rest = changes;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take(count_max).take_while(|change| {
            let first = bytes == 0;
            bytes += size(change);
            first || bytes <= bytes_max
        });
        let (some, behind) = rest.split_at(fits.count());
        rest = behind;
        Some(some).filter(|some| !some.is_empty())
    })
}

/// Changes in sequence: length of the key, and 0 or the length of the value plus 1, both 4 bytes;
/// key; value.
fn encode(changes: &[Change]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(changes.iter().map(|c| size(c) + 8).sum());
    for (key, value) in changes {
        let len = value.as_ref().map_or(0, |value| value.len() + 1);
        bytes.extend_from_slice(&(key.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&(len as u32).to_be_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value.as_deref().unwrap_or_default());
    }
    bytes
}

fn decode(mut bytes: &[u8]) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    while !bytes.is_empty() {
        let (key_len, rest) = bytes.split_first_chunk::<4>()?;
        let (value_len, rest) = rest.split_first_chunk::<4>()?;
        let (key, rest) = rest.split_at_checked(u32::from_be_bytes(*key_len) as usize)?;
        let (value, rest) = match (u32::from_be_bytes(*value_len) as usize).checked_sub(1) {
            None => (None, rest),
            Some(len) => {
                let (value, rest) = rest.split_at_checked(len)?;
                (Some(value.to_vec()), rest)
            }
        };
        changes.push((key.to_vec(), value));
        bytes = rest;
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_in_parts() {
        let changes: Vec<Change> = (0..100u8)
            .map(|n| (vec![n; 3], (n % 3 > 0).then(|| vec![n; usize::from(n % 7)])))
            .collect();
        assert_eq!(decode(&encode(&changes)), Some(changes.clone()));
        assert_eq!(decode(&encode(&changes)[..50]), None);
        for (count, bytes) in [(1, 1), (7, usize::MAX), (usize::MAX, 40), (1000, 1000)] {
            let parts: Vec<_> = split(&changes, count, bytes).collect();
            assert!(parts.iter().all(|part| (1..=count).contains(&part.len())));
            assert_eq!(parts.concat(), changes);
        }
    }
}
