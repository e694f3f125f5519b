//! The log of changes in a repository: segments, each a file whose name says what it covers and
//! holds its digest (docs/adr/0072-point-in-time.md).
//!
//! Promises: a segment is there whole or not at all; two that overlap do no harm; what is read is
//! what was written, or it is refused with the file's name.
//! Must not know: what the entries are, or whether they are sealed.

use crate::digest::Digest;
use crate::error::{BackupError, Result};
use crate::folder;
use crate::manifest::Optime;
use crate::repository::Repository;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// In the repository's folder.
const FOLDER: &str = "log";
const PLACE: &str = "place.json";
/// In the folder of what is being written.
const UNFINISHED: &str = "log-segment";
const END: &str = ".log";

/// A run of the log without a hole.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// It has every entry behind this time,
    pub after: Optime,
    /// up to and with this one, which is that of an entry.
    pub to: Optime,
    sha256: Digest,
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
    fn parse(file: &str) -> Option<Segment> {
        let (span, digest) = file.strip_suffix(END)?.rsplit_once('.')?;
        let (after, to) = span.split_once('_')?;
        Some(Segment {
            after: Optime::parse(after, '-')?,
            to: Optime::parse(to, '-')?,
            sha256: Digest::parse(digest)?,
        })
    }

    /// What its file is called but for the digest; sealed contents are bound to it.
    pub fn name(after: Optime, to: Optime) -> String {
        let (from, until) = (after.increment, to.increment);
        format!("{}-{from}_{}-{until}", after.time, to.time)
    }

    fn file(&self) -> String {
        format!(
            "{}.{}{END}",
            Segment::name(self.after, self.to),
            self.sha256
        )
    }
}

impl Repository {
    /// The folder of the log.
    pub fn log_folder(&self) -> PathBuf {
        self.path().join(FOLDER)
    }

    /// Every segment, by the time it begins at.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn segments(&self) -> Result<Vec<Segment>> {
        let names = folder::names(&self.log_folder())?;
        let mut found: Vec<_> = names.iter().filter_map(|n| Segment::parse(n)).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// The file of a segment.
    pub fn segment_path(&self, segment: &Segment) -> PathBuf {
        self.log_folder().join(segment.file())
    }

    /// Adds what a run of the log has: from here on it is there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add_segment(&self, after: Optime, to: Optime, bytes: &[u8]) -> Result<Segment> {
        let sha256 = Digest::of(bytes);
        let segment = Segment { after, to, sha256 };
        let unfinished = self.incoming().join(UNFINISHED);
        folder::write(&unfinished, &self.segment_path(&segment), bytes)?;
        Ok(segment)
    }

    /// Removes a segment whose entries another one has.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_segment(&self, segment: &Segment) -> Result<()> {
        folder::remove(&self.segment_path(segment))
    }

    /// The contents of a segment, compared with its digest; `None` when it is not there (any more).
    ///
    /// # Errors
    /// It cannot be read, or is altered or truncated.
    pub fn read_segment(&self, segment: &Segment) -> Result<Option<Vec<u8>>> {
        let path = self.segment_path(segment);
        let bytes = match fs::read(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|e| BackupError::io("read", &path, &e))?,
        };
        if Digest::of(&bytes) != segment.sha256 {
            return Err(BackupError::new(format!(
                "{}, a part of the log, is altered or truncated: its contents do not have the \
                 digest in its name",
                path.display()
            )));
        }
        Ok(Some(bytes))
    }

    /// Where shipping goes on; `None` before it has begun.
    ///
    /// # Errors
    /// The note of it is damaged.
    pub fn place(&self) -> Result<Option<Place>> {
        let path = self.log_folder().join(PLACE);
        let text = match fs::read(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|e| BackupError::io("read", &path, &e))?,
        };
        let place = serde_json::from_slice::<Place>(&text);
        let mut place = place.map_err(|e| {
            let shown = path.display();
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
        let unfinished = self.incoming().join(UNFINISHED);
        folder::write(&unfinished, &self.log_folder().join(PLACE), &bytes)
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
        }
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let one = segment(17, 20);
        assert_eq!(Segment::parse(&one.file()), Some(one.clone()));
        for wrong in ["place.json", "17-1_20.x.log", &one.file().replace('_', "")] {
            assert_eq!(Segment::parse(wrong), None, "{wrong}");
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
