//! Reads the journal files before RocksDB does, to distinguish a tail that was never flushed from
//! damage. It only reads the first twelve bytes of a record (position and number of changes), not
//! the changes.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cipher::{DataKey, PieceReader};
use storage::{Result, StorageError};

use crate::frame::{ASIDE, BLOCK, FIRST, FULL, Fragment, HEADER, LAST, MIDDLE, Source, fragment};
use crate::mark::Claim;
use crate::space::Space;

/// Position (8 bytes) and count of changes (4 bytes) at the start of a record.
const RECORD_HEADER: usize = 12;

/// The result of reading the journal files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct JournalFiles {
    /// Last position of the consecutive readable records from the start; 0 when there is none.
    pub(crate) end: u64,
    /// The newest file begins with a readable record.
    pub(crate) newest_holds: bool,
    /// Where reading stopped before the end of the files.
    pub(crate) broken: Option<JournalPosition>,
    /// Lowest position of a readable record after that place.
    pub(crate) behind: Option<u64>,
    /// Bytes after that place, in all files.
    pub(crate) behind_bytes: u64,
    /// After this place its file has only zeros: the space that was added in advance and is removed
    /// when the file is closed. The next file with a record decides whether the journal continues
    /// after it.
    zeros: Option<JournalPosition>,
}

/// A place in a journal file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JournalPosition {
    pub(crate) file: PathBuf,
    pub(crate) offset: u64,
}

/// Flushed commits are missing from the journal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) place: Option<JournalPosition>,
    pub(crate) end: u64,
    pub(crate) durable: u64,
    pub(crate) behind_bytes: u64,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.place {
            Some(place) => {
                let name = place.file.file_name().unwrap_or_default().to_string_lossy();
                write!(
                    f,
                    "journal file {name} is damaged at byte {}, {} bytes of journal follow",
                    place.offset, self.behind_bytes
                )?;
            }
            None => write!(f, "the journal ends too early")?,
        }
        write!(
            f,
            "; it was flushed up to commit {}, readable is commit {}",
            self.durable, self.end
        )
    }
}

/// Journal files of a data directory, oldest first.
pub(crate) fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let fail = |error| StorageError::io(format!("cannot read {}", directory.display()), error);
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let number = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .and_then(|stem| stem.parse::<u64>().ok());
        if let (Some(number), true) = (
            number,
            path.extension().is_some_and(|extension| extension == "log"),
        ) {
            files.push((number, path));
        }
    }
    files.sort_unstable();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// Extends the newest journal file before it is written, so that a flush writes data and no inode:
/// two waits for the device instead of three. It only makes the file longer, so it may run while
/// RocksDB writes; RocksDB truncates a file to its content when it closes it. The added space reads
/// as zeros.
///
/// Does nothing on a system that cannot do it, and on a device without four times as much free
/// space: a flush is then as slow as before.
pub(crate) fn extend(directory: &Path, bytes: u64) -> std::io::Result<()> {
    let newest = files(directory).ok().and_then(|mut files| files.pop());
    let Some(path) = newest else { return Ok(()) };
    if !Space::of(directory)?.allows_extent(bytes) {
        return Ok(());
    }
    let file = File::options().write(true).open(path)?;
    // SAFETY: a plain system call on an open descriptor; mode 0 changes no byte that was written.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, i64::try_from(bytes).unwrap_or(0)) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// Truncates the newest file after its consecutive records, so that RocksDB reads to the same end:
/// it would continue after zeros, which a loss of power may leave where a page was not written. To
/// be called when no flushed commit is after that end.
pub(crate) fn cut(files: &[PathBuf], journal: &JournalFiles) -> Result<()> {
    let (Some(newest), Some(broken)) = (files.last(), &journal.broken) else {
        return Ok(());
    };
    if *newest != broken.file {
        return Ok(());
    }
    let cut = || {
        let file = File::options().write(true).open(newest)?;
        file.set_len(broken.offset)?;
        file.sync_all()
    };
    cut().map_err(|error| StorageError::io(format!("cannot cut {}", newest.display()), error))
}

/// Reads all files.
pub(crate) fn read(files: &[PathBuf], data: Option<&DataKey>) -> Result<JournalFiles> {
    let mut journal = JournalFiles::default();
    for path in files {
        let fail = |error| StorageError::io(format!("cannot read {}", path.display()), error);
        let source = match Source::open(path, data) {
            Ok(source) => source,
            Err(e) if e.kind() == ErrorKind::InvalidData => {
                note_unreadable(&mut journal, path).map_err(fail)?;
                continue;
            }
            Err(e) => return Err(fail(e)),
        };
        journal.newest_holds = false;
        if let Source::Plain(_) = source
            && !pass_zeros(&mut journal, path).map_err(fail)?
        {
            continue;
        }
        let mut reader = RecordReader::new(path, source);
        if journal.broken.is_none() {
            reader.follow(&mut journal).map_err(fail)?;
        }
        match &reader.source {
            Source::Sealed(sealed) => note_end(&mut journal, path, sealed).map_err(fail)?,
            Source::Plain(_) if journal.broken.is_some() => {
                reader.search(&mut journal).map_err(fail)?;
            }
            Source::Plain(_) => {}
        }
    }
    if let Some(place) = journal.zeros.take() {
        journal.broken.get_or_insert(place);
    }
    Ok(journal)
}

/// Decides from the first record of this file what the zeros at the end of an earlier file are. If
/// the record follows the last one of that file, nothing is missing: a loss of power has undone the
/// truncation of a complete file. Otherwise the tail of that file is missing.
///
/// # Output
/// False when this file has no record either, so that it need not be read.
fn pass_zeros(journal: &mut JournalFiles, path: &Path) -> std::io::Result<bool> {
    if journal.zeros.is_none() {
        return Ok(true);
    }
    let mut reader = RecordReader::new(path, Source::Plain(File::open(path)?));
    let first = reader.first_position()?;
    if first.is_none() && is_zero_from(path, 0)? {
        return Ok(false);
    }
    let zeros = journal.zeros.take();
    if first.is_none_or(|first| first > journal.end.saturating_add(1)) {
        journal.broken = zeros;
    }
    Ok(true)
}

/// Whether a file holds nothing but zeros from `offset` on.
fn is_zero_from(path: &Path, offset: u64) -> std::io::Result<bool> {
    let file = File::open(path)?;
    let (mut block, zeros, mut at) = (vec![0; BLOCK], vec![0; BLOCK], offset);
    loop {
        let n = file.read_at(&mut block, at)?;
        if n == 0 {
            return Ok(true);
        }
        // Compared as a block: byte by byte it would take most of the time of a start after a kill.
        if block.get(..n) != zeros.get(..n) {
            return Ok(false);
        }
        at += n as u64;
    }
}

/// Records a file whose header was changed: nothing in it can be read.
fn note_unreadable(journal: &mut JournalFiles, path: &Path) -> std::io::Result<()> {
    journal.newest_holds = false;
    journal.behind_bytes += fs::metadata(path)?.len();
    journal.broken.get_or_insert(JournalPosition {
        file: path.to_owned(),
        offset: 0,
    });
    Ok(())
}

/// Records the end of an encrypted file. After the first piece that cannot be opened nothing is
/// readable, so nothing is searched there, and the file may be truncated only at that piece.
fn note_end(journal: &mut JournalFiles, path: &Path, sealed: &PieceReader) -> std::io::Result<()> {
    let behind = sealed.trailing_bytes()?;
    let ends_here = journal.broken.as_ref().is_none_or(|b| b.file == path);
    if !ends_here {
        journal.behind_bytes += behind;
    } else if behind > 0 || journal.broken.is_some() {
        journal.behind_bytes = behind;
        journal.broken = Some(JournalPosition {
            file: path.to_owned(),
            offset: sealed.end(),
        });
    }
    Ok(())
}

/// Whether commits are missing that were flushed according to the mark.
pub(crate) fn damage(journal: &JournalFiles, claim: Claim) -> Option<Damage> {
    let durable = claim.durable;
    // A record after the damage was flushed, so the damage is not an unflushed tail.
    let hole = journal.behind.is_some_and(|behind| behind <= durable);
    // Commits flushed since the newest file was begun must be in it. A mark of an earlier run of
    // the system may be older than the files; then an empty newest file proves nothing.
    let in_newest = claim.same_boot && durable > claim.sealed;
    let short = durable > journal.end
        && (in_newest || (journal.end > 0 && (journal.broken.is_some() || journal.newest_holds)));
    (durable > 0 && (hole || short)).then(|| Damage {
        place: journal.broken.clone(),
        end: journal.end,
        durable,
        behind_bytes: journal.behind_bytes,
    })
}

struct RecordReader<'a> {
    path: &'a Path,
    source: Source,
    block: Vec<u8>,
    /// Offset of the block in the file.
    at: u64,
    /// Offset of the next byte in the block.
    next: usize,
}

impl<'a> RecordReader<'a> {
    fn new(path: &'a Path, source: Source) -> Self {
        Self {
            path,
            source,
            block: Vec::with_capacity(BLOCK),
            at: 0,
            next: 0,
        }
    }

    /// Loads the next block; false at the end of the file.
    fn advance(&mut self) -> std::io::Result<bool> {
        self.at += self.block.len() as u64;
        self.block.clear();
        self.next = 0;
        Read::by_ref(&mut self.source)
            .take(BLOCK as u64)
            .read_to_end(&mut self.block)?;
        Ok(!self.block.is_empty())
    }

    /// Reads consecutive records; records the first place where none follows.
    fn follow(&mut self, journal: &mut JournalFiles) -> std::io::Result<()> {
        // The first bytes of an incomplete record, and where it began.
        let mut head: Option<(Vec<u8>, u64)> = None;
        while self.advance()? {
            loop {
                let rest = self.block.len() - self.next;
                // The writer fills the end of a block that is too short for a header.
                if rest < HEADER && (self.block.len() == BLOCK || rest == 0) {
                    break;
                }
                let offset = self.at + self.next as u64;
                let Some(fragment) = fragment(&self.block, self.next) else {
                    if head.is_none() && self.zeros_follow()? {
                        journal.zeros = Some(JournalPosition {
                            file: self.path.to_owned(),
                            offset,
                        });
                        return Ok(());
                    }
                    self.stop(journal, head.map_or(offset, |(_, offset)| offset));
                    return Ok(());
                };
                let bytes = &self.block[fragment.from..fragment.to];
                self.next = fragment.to;
                let fits = match (fragment.kind, &mut head) {
                    (FULL, None) => note(bytes, journal),
                    (FIRST, None) => {
                        head = Some((bytes[..bytes.len().min(RECORD_HEADER)].to_vec(), offset));
                        true
                    }
                    (MIDDLE | LAST, Some((head, _))) => {
                        let missing = RECORD_HEADER - head.len();
                        head.extend_from_slice(&bytes[..bytes.len().min(missing)]);
                        true
                    }
                    (kind, None) => ASIDE.contains(&kind),
                    _ => false,
                };
                if fragment.kind == LAST && fits {
                    let (whole, from) = head.take().unwrap_or_default();
                    if !note(&whole, journal) {
                        self.stop(journal, from);
                        return Ok(());
                    }
                }
                if !fits {
                    self.stop(journal, head.map_or(offset, |(_, offset)| offset));
                    return Ok(());
                }
            }
        }
        if let Some((_, offset)) = head {
            self.stop(journal, offset);
        }
        Ok(())
    }

    /// First position of the record at the beginning of the file; `None` when there is none.
    fn first_position(&mut self) -> std::io::Result<Option<u64>> {
        let mut head = Vec::new();
        while head.len() < RECORD_HEADER && (self.next < self.block.len() || self.advance()?) {
            let Some(fragment) = fragment(&self.block, self.next) else {
                break;
            };
            self.next = fragment.to;
            if !ASIDE.contains(&fragment.kind) {
                head.extend_from_slice(&self.block[fragment.from..fragment.to]);
            }
        }
        Ok(positions(&head).map(|(first, _)| first))
    }

    /// Whether the rest of the file has only zeros.
    fn zeros_follow(&self) -> std::io::Result<bool> {
        let rest = self.block.get(self.next..).unwrap_or_default();
        // The pieces of an encrypted file mark their own ends.
        if matches!(self.source, Source::Sealed(_)) || rest.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        is_zero_from(self.path, self.at + self.block.len() as u64)
    }

    fn stop(&mut self, journal: &mut JournalFiles, offset: u64) {
        journal.broken = Some(JournalPosition {
            file: self.path.to_owned(),
            offset,
        });
        // The search does not begin before the unreadable record; if that began in an earlier
        // block, nothing else is in between.
        let from = usize::try_from(offset.saturating_sub(self.at)).unwrap_or(0);
        self.next = from + 1;
        journal.behind_bytes += self.block.len().saturating_sub(self.next) as u64;
    }

    /// Searches for readable records after the first gap: at every byte of the current block, then
    /// from block to block, because each block begins with a fragment.
    fn search(&mut self, journal: &mut JournalFiles) -> std::io::Result<()> {
        loop {
            // The space that was added to the file in advance.
            if self
                .block
                .get(self.next..)
                .is_none_or(|rest| rest.iter().all(|byte| *byte == 0))
            {
                self.next = self.block.len();
            }
            while self.next + HEADER + RECORD_HEADER <= self.block.len() {
                match fragment(&self.block, self.next) {
                    Some(Fragment { kind, from, to }) => {
                        if matches!(kind, FULL | FIRST)
                            && let Some((first, _)) = positions(&self.block[from..to])
                        {
                            journal.behind =
                                Some(journal.behind.map_or(first, |least| least.min(first)));
                            journal.newest_holds = true;
                        }
                        self.next = to;
                    }
                    None => self.next += 1,
                }
            }
            if !self.advance()? {
                return Ok(());
            }
            if self.block.iter().any(|byte| *byte != 0) {
                journal.behind_bytes += self.block.len() as u64;
            }
        }
    }
}

/// First and last position of a record.
fn positions(record: &[u8]) -> Option<(u64, u64)> {
    let first = u64::from_le_bytes(record.get(..8)?.try_into().ok()?);
    let count = u32::from_le_bytes(record.get(8..RECORD_HEADER)?.try_into().ok()?);
    // A record without changes says that everything before it is in the journal.
    Some((
        first,
        first.saturating_add(u64::from(count)).saturating_sub(1),
    ))
}

fn note(record: &[u8], journal: &mut JournalFiles) -> bool {
    let Some((_, last)) = positions(record) else {
        return false;
    };
    journal.end = journal.end.max(last);
    journal.newest_holds = true;
    true
}
