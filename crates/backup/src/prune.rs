//! Retention: which backups are kept, and the removal of everything else.

use crate::digest::Digest;
use crate::error::Result;
use crate::manifest::Optime;
use crate::repository::{OBJECTS, Repository};
use crate::{ProgressCallback, ProgressEvent};
use std::collections::HashSet;

/// Which backups are kept: those that either rule keeps, or all without a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Keep this many of the newest.
    pub last: Option<u32>,
    /// Keep the newest of each day (UTC), for this many of the newest days with a backup.
    pub daily: Option<u32>,
}

/// What a call of [`prune`] has removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneResult {
    /// Names of the backups.
    pub backups: Vec<String>,
    /// Pieces that no remaining backup has.
    pub pieces: u64,
    /// Segments of the log that are older than every backup.
    pub segments: u64,
    /// Bytes of the pieces and segments.
    pub bytes: u64,
}

impl Retention {
    /// Whether any rule is set.
    pub fn is_set(self) -> bool {
        self.last.is_some() || self.daily.is_some()
    }

    /// The names of the backups to remove; `ids` has the oldest first.
    fn removes(self, ids: &[String]) -> Vec<String> {
        let mut kept = HashSet::new();
        if !self.is_set() {
            return Vec::new();
        }
        let newest = || ids.iter().rev();
        kept.extend(newest().take(self.last.unwrap_or(0) as usize));
        let mut days: Vec<&str> = Vec::new();
        for id in newest() {
            let day = id.split('T').next().unwrap_or(id);
            if days.last() != Some(&day) {
                days.push(day);
                if days.len() > self.daily.unwrap_or(0) as usize {
                    break;
                }
                kept.insert(id);
            }
        }
        // The newest backup is kept whatever the rules say.
        kept.extend(ids.last());
        let goes = ids.iter().filter(|id| !kept.contains(id));
        goes.cloned().collect()
    }
}

/// Removes backups by the rules, then the pieces that no backup has, except for pieces of a bucket
/// that are so recent that they may belong to a backup in progress. The next call removes what an
/// interrupted call has left.
///
/// # Errors
/// A backup is being read, or a manifest is altered: then nothing is removed, because the pieces of
/// that backup are not known.
pub fn prune(
    repository: &Repository,
    retention: Retention,
    watch: &mut ProgressCallback<'_>,
) -> Result<PruneResult> {
    let _locked = repository.lock_readers_out()?;
    let ids = repository.ids()?;
    let goes = retention.removes(&ids);
    let mut needed: HashSet<Digest> = HashSet::new();
    let mut oldest: Option<Optime> = None;
    for id in ids.iter().filter(|id| !goes.contains(id)) {
        let manifest = repository.manifest(Some(id))?;
        needed.extend(manifest.pieces().map(|p| p.sha256));
        oldest = match (oldest, manifest.optime) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
    let mut pruned = PruneResult::default();
    for id in goes {
        repository.forget(&id)?;
        watch(ProgressEvent::Removed)?;
        pruned.backups.push(id);
    }
    for item in repository.shelf().all(OBJECTS)? {
        let name = item.name.rsplit('/').next().unwrap_or_default();
        let is_needed = Digest::parse(name).is_none_or(|sha256| needed.contains(&sha256));
        if is_needed || item.is_fresh {
            continue;
        }
        pruned.bytes += item.bytes;
        pruned.pieces += 1;
        repository.shelf().remove(&item.name)?;
        watch(ProgressEvent::Removed)?;
    }
    if let Some(oldest) = oldest {
        remove_log(repository, oldest, &mut pruned, watch)?;
    }
    Ok(pruned)
}

/// Removes the segments of the log that only backups before `oldest` could need.
fn remove_log(
    repository: &Repository,
    oldest: Optime,
    pruned: &mut PruneResult,
    watch: &mut ProgressCallback<'_>,
) -> Result<()> {
    for segment in repository.segments()? {
        if segment.to <= oldest {
            pruned.bytes += segment.bytes;
            pruned.segments += 1;
            repository.remove_segment(&segment)?;
            watch(ProgressEvent::Removed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_removed(last: Option<u32>, daily: Option<u32>) -> Vec<String> {
        let ids = [
            "20261120T010000Z",
            "20261121T010000Z",
            "20261121T130000Z",
            "20261124T010000Z",
            "20261125T010000Z",
            "20261125T010001Z",
        ];
        Retention { last, daily }.removes(&ids.map(str::to_owned))
    }

    #[test]
    fn the_newest_and_the_newest_of_each_day_stay() {
        assert_eq!(list_removed(None, None), [""; 0]);
        assert_eq!(
            list_removed(Some(2), None),
            [
                "20261120T010000Z",
                "20261121T010000Z",
                "20261121T130000Z",
                "20261124T010000Z"
            ]
        );
        assert_eq!(
            list_removed(None, Some(3)),
            ["20261120T010000Z", "20261121T010000Z", "20261125T010000Z"]
        );
        assert_eq!(
            list_removed(Some(2), Some(3)),
            ["20261120T010000Z", "20261121T010000Z"]
        );
        assert_eq!(list_removed(Some(0), Some(0)).len(), 5, "the newest stays");
    }
}
