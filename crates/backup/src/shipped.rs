//! The log of changes in a repository: segments, each a file whose name says what it covers and
//! holds its digest (docs/adr/0072-point-in-time.md).
//!
//! Promises: a segment is there whole or not at all; two that overlap do no harm; what is read is
//! what was written, or it is refused with the file's name.
//! Must not know: what the entries are, or whether they are sealed.

use crate::digest::Digest;
use crate::error::{BackupError, Result};
use crate::manifest::Optime;
use crate::repository::Repository;
use serde::{Deserialize, Serialize};

/// In the repository's folder.
const FOLDER: &str = "log";
const PLACE: &str = "log/place.json";
const KEY: &str = "log/ENCRYPTION-KEYS";
const END: &str = ".log";

/// A run of the log without a hole.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// It has every entry behind this time,
    pub after: Optime,
    /// up to and with this one, which is that of an entry.
    pub to: Optime,
    sha256: Digest,
    /// Length of its file.
    pub bytes: u64,
}

/// How far shipping has come, and when that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Everything up to this time was shipped, or lies before the first segment.
    pub at: Optime,
    /// The source's clock when it was asked, milliseconds since the epoch.
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

    /// What its file is called but for the digest; sealed contents are bound to it.
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
    /// Every segment, by the time it begins at.
    ///
    /// # Errors
    /// They cannot be listed.
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

    /// Adds what a run of the log has: from here on it is there.
    ///
    /// # Errors
    /// It cannot be written.
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

    /// Removes a segment; another segment holds its entries.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_segment(&self, segment: &Segment) -> Result<()> {
        self.shelf().remove(&segment.path())
    }

    /// The contents of a segment, compared with its digest; `None` when it is not there (any more).
    ///
    /// # Errors
    /// It cannot be read, or is altered or truncated.
    pub fn read_segment(&self, segment: &Segment) -> Result<Option<Vec<u8>>> {
        let Some(bytes) = self.get(&segment.path())? else {
            return Ok(None);
        };
        if Digest::of(&bytes) != segment.sha256 {
            return Err(BackupError::new(format!(
                "{}, a part of the log, is altered or truncated: its contents do not have the \
                 digest in its name",
                self.shelf().shown(&segment.path())
            )));
        }
        Ok(Some(bytes))
    }

    /// Where shipping goes on; `None` before it has begun.
    ///
    /// # Errors
    /// The note of it is damaged.
    pub fn place(&self) -> Result<Option<Place>> {
        let Some(text) = self.get(PLACE)? else {
            return Ok(None);
        };
        let place = serde_json::from_slice::<Place>(&text);
        let mut place = place.map_err(|e| {
            let shown = self.shelf().shown(PLACE);
            BackupError::new(format!("{shown} is damaged ({e}); remove it to go on"))
        })?;
        // The last segment may have come before an end.
        if let Some(last) = self.segments()?.iter().map(|s| s.to).max() {
            place.at = place.at.max(last);
        }
        Ok(Some(place))
    }

    /// Notes where shipping goes on.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set_place(&self, place: Place) -> Result<()> {
        let bytes = serde_json::to_vec(&place);
        let bytes = bytes.map_err(|e| BackupError::new(format!("no place: {e}")))?;
        self.shelf().write(PLACE, &bytes)
    }

    /// The key that the log is sealed with, as it lies there.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn log_key(&self) -> Result<Option<Vec<u8>>> {
        self.get(KEY)
    }

    /// Keeps the key that the log is sealed with.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set_log_key(&self, sealed: &[u8]) -> Result<()> {
        self.shelf().write(KEY, sealed)
    }
}

/// The segment to read next, when everything up to `at` was read: of those that have what comes
/// then, the one that goes furthest.
pub fn next_segment(segments: &[Segment], at: Optime) -> Option<&Segment> {
    let fit = segments.iter().filter(|s| s.after <= at && at < s.to);
    fit.max_by_key(|s| s.to)
}

/// How far the log goes on from `at` without a hole.
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
