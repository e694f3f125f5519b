//! The log of changes in a repository: segments, each a file whose name has the range of the log
//! that it covers, and its digest (docs/adr/0072-point-in-time.md).
//!
//! Promises: a segment exists completely or not at all; overlapping segments do no harm; a segment
//! is returned as it was written, or refused with the file's name. Must not know: what the entries
//! are, or whether they are sealed.

use crate::digest::Digest;
use crate::error::{BackupError, Result};
use crate::manifest::Optime;
use crate::repository::Repository;
use serde::{Deserialize, Serialize};

/// Folder in the repository.
const FOLDER: &str = "log";
const PLACE: &str = "log/place.json";
const KEY: &str = "log/ENCRYPTION-KEYS";
const END: &str = ".log";

/// A part of the log without gaps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// It has every entry after this time,
    pub after: Optime,
    /// up to and including this one, which is the time of an entry.
    pub to: Optime,
    sha256: Digest,
    /// Length of its file.
    pub bytes: u64,
}

/// How far the log was shipped, and when that was determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShipPosition {
    /// Everything up to this time was shipped, or is before the first segment.
    pub at: Optime,
    /// The source's clock at that moment, milliseconds since the epoch.
    pub seen_ms: i64,
}

impl Segment {
    fn parse(file: &str, bytes: u64) -> Option<Segment> {
        let (span, digest) = file.strip_suffix(END)?.rsplit_once('.')?;
        let (after, to) = span.split_once('_')?;
        Some(Segment {
            after: Optime::parse(after, '-')?,
            to: Optime::parse(to, '-')?,
            sha256: Digest::parse(digest)?,
            bytes,
        })
    }

    /// Its file name without the digest; sealed contents are bound to it.
    pub fn name(after: Optime, to: Optime) -> String {
        let (from, until) = (after.increment, to.increment);
        format!("{}-{from}_{}-{until}", after.time, to.time)
    }

    /// Its name in the repository.
    pub fn path(&self) -> String {
        let name = Segment::name(self.after, self.to);
        format!("{FOLDER}/{name}.{}{END}", self.sha256)
    }
}

impl Repository {
    /// All segments, by the time at which they begin.
    ///
    /// # Errors
    /// The segments cannot be listed.
    pub fn segments(&self) -> Result<Vec<Segment>> {
        let mut found: Vec<_> = (self.shelf().all(FOLDER)?.iter())
            .filter_map(|item| {
                let file = item.name.strip_prefix(FOLDER)?.get(1..)?;
                Segment::parse(file, item.bytes)
            })
            .collect();
        found.sort_unstable();
        Ok(found)
    }

    /// Adds a segment with these bytes: from here on it exists.
    ///
    /// # Errors
    /// The segment cannot be written.
    pub fn add_segment(&self, after: Optime, to: Optime, bytes: &[u8]) -> Result<Segment> {
        let segment = Segment {
            after,
            to,
            sha256: Digest::of(bytes),
            bytes: bytes.len() as u64,
        };
        self.shelf().write(&segment.path(), bytes)?;
        Ok(segment)
    }

    /// Removes a segment whose entries another segment has.
    ///
    /// # Errors
    /// The segment cannot be removed.
    pub fn remove_segment(&self, segment: &Segment) -> Result<()> {
        self.shelf().remove(&segment.path())
    }

    /// The contents of a segment, after checking its digest; `None` when it does not exist (any
    /// more).
    ///
    /// # Errors
    /// The segment cannot be read, or is altered or truncated.
    pub fn read_segment(&self, segment: &Segment) -> Result<Option<Vec<u8>>> {
        let Some(bytes) = self.get(&segment.path())? else {
            return Ok(None);
        };
        if Digest::of(&bytes) != segment.sha256 {
            return Err(BackupError::new(format!(
                "{}, a part of the log, is altered or truncated: its contents do not have the \
                 digest in its name",
                self.shelf().full_name(&segment.path())
            )));
        }
        Ok(Some(bytes))
    }

    /// Where shipping continues; `None` before it has begun.
    ///
    /// # Errors
    /// The record of it is damaged.
    pub fn place(&self) -> Result<Option<ShipPosition>> {
        let Some(text) = self.get(PLACE)? else {
            return Ok(None);
        };
        let place = serde_json::from_slice::<ShipPosition>(&text);
        let mut place = place.map_err(|e| {
            let shown = self.shelf().full_name(PLACE);
            BackupError::new(format!("{shown} is damaged ({e}); remove it to go on"))
        })?;
        // The last segment may have been added before an interruption.
        if let Some(last) = self.segments()?.iter().map(|s| s.to).max() {
            place.at = place.at.max(last);
        }
        Ok(Some(place))
    }

    /// Records where shipping continues.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn set_place(&self, place: ShipPosition) -> Result<()> {
        let bytes = serde_json::to_vec(&place);
        let bytes = bytes.map_err(|e| BackupError::new(format!("no place: {e}")))?;
        self.shelf().write(PLACE, &bytes)
    }

    /// The key that seals the log, in its stored form.
    ///
    /// # Errors
    /// The key cannot be read.
    pub fn log_key(&self) -> Result<Option<Vec<u8>>> {
        self.get(KEY)
    }

    /// Stores the key that seals the log.
    ///
    /// # Errors
    /// The key cannot be written.
    pub fn set_log_key(&self, sealed: &[u8]) -> Result<()> {
        self.shelf().write(KEY, sealed)
    }
}

/// The segment to read next after everything up to `at`: of the segments that have the next
/// entries, the one that ends last.
pub fn next_segment(segments: &[Segment], at: Optime) -> Option<&Segment> {
    let fit = segments.iter().filter(|s| s.after <= at && at < s.to);
    fit.max_by_key(|s| s.to)
}

/// The end of the log that follows `at` without a gap.
pub fn reach(segments: &[Segment], at: Optime) -> Optime {
    let mut end = at;
    while let Some(next) = next_segment(segments, end) {
        end = next.to;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u32) -> Optime {
        Optime { time, increment: 1 }
    }

    fn segment(after: u32, to: u32) -> Segment {
        Segment {
            after: at(after),
            to: at(to),
            sha256: Digest::of(b""),
            bytes: 0,
        }
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let one = segment(17, 20);
        let path = one.path();
        let file = path.strip_prefix("log/").unwrap();
        assert_eq!(Segment::parse(file, 0), Some(one.clone()));
        for wrong in ["place.json", "17-1_20.x.log", &file.replace('_', "")] {
            assert_eq!(Segment::parse(wrong, 0), None, "{wrong}");
        }
    }

    #[test]
    fn the_log_is_followed_up_to_its_first_hole() {
        let all = [
            segment(1, 3),
            segment(1, 9),
            segment(3, 5),
            segment(9, 12),
            segment(13, 20),
        ];
        assert_eq!(reach(&all, at(0)), at(0));
        assert_eq!(reach(&all, at(1)), at(12));
        assert_eq!(reach(&all, at(4)), at(12));
        assert_eq!(reach(&all, at(12)), at(12));
        assert_eq!(reach(&all, at(15)), at(20));
        assert_eq!(next_segment(&all, at(2)), Some(&segment(1, 9)));
    }
}
