//! The framing of RocksDB's journal and manifest: blocks of 32 KiB; each record in fragments of
//! checksum, length, kind. Encrypted files are read through `cipher`. Must not know: the content of
//! a record.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use cipher::{DataKey, PieceReader};

pub(crate) const BLOCK: usize = 32 * 1024;
pub(crate) const HEADER: usize = 7;
/// Offset of the kind in a header; the checksum covers the kind and the bytes after it, not the
/// length.
const KIND_AT: usize = HEADER - 1;

pub(crate) const FULL: u8 = 1;
pub(crate) const FIRST: u8 = 2;
pub(crate) const MIDDLE: u8 = 3;
pub(crate) const LAST: u8 = 4;
/// Kinds of records that are not part of a commit: compression, sizes of timestamps, facts about
/// the previous file.
pub(crate) const ASIDE: [u8; 3] = [9, 10, 130];

/// A file of records, read from its start.
pub(crate) enum Source {
    Plain(File),
    Sealed(Box<PieceReader>),
}

impl Source {
    /// Opens a file; its encryption also authenticates its name.
    ///
    /// # Errors
    /// Those of the system; `InvalidData` for an encryption header that does not fit.
    pub(crate) fn open(path: &Path, data: Option<&DataKey>) -> std::io::Result<Self> {
        let file = File::open(path)?;
        let Some(data) = data else {
            return Ok(Source::Plain(file));
        };
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let reader = PieceReader::new(file, data, name)?;
        Ok(Source::Sealed(Box::new(reader)))
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Source::Plain(file) => file.read(buffer),
            Source::Sealed(pieces) => pieces.read(buffer),
        }
    }
}

/// A fragment that passed its checksum.
pub(crate) struct Fragment {
    pub(crate) kind: u8,
    /// Where its bytes begin in the block.
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// The fragment at `at`, if there is one.
pub(crate) fn fragment(block: &[u8], at: usize) -> Option<Fragment> {
    let header = Header::read(block.get(at..)?)?;
    if !is_known(header.kind) {
        return None;
    }
    let (from, to) = (at + HEADER, at + HEADER + header.length);
    let sum = crc32c::crc32c(block.get(at + KIND_AT..to)?);
    (header.sum == mask_checksum(sum)).then_some(Fragment {
        kind: header.kind,
        from,
        to,
    })
}

/// Whether the header of an unreadable fragment was changed: then its checksum matches the bytes
/// after it with another length or kind. For a truncated fragment nothing matches.
///
/// # Input
/// `rest`: the block from the header on.
pub(crate) fn has_changed_header(rest: &[u8]) -> bool {
    let Some(header) = Header::read(rest) else {
        return false;
    };
    let mut sum = crc32c::crc32c(&[header.kind]);
    let bytes = &rest[HEADER..];
    let is_other_length = mask_checksum(sum) == header.sum
        || bytes.iter().any(|byte| {
            sum = crc32c::crc32c_append(sum, &[*byte]);
            mask_checksum(sum) == header.sum
        });
    let is_other_kind = |bytes: &[u8]| {
        let mut kinds = (0..=u8::MAX).filter(|kind| is_known(*kind));
        kinds.any(|kind| {
            mask_checksum(crc32c::crc32c_append(crc32c::crc32c(&[kind]), bytes)) == header.sum
        })
    };
    is_other_length || bytes.get(..header.length).is_some_and(is_other_kind)
}

struct Header {
    /// The stored checksum.
    sum: u32,
    length: usize,
    kind: u8,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..HEADER)?;
        Some(Header {
            sum: u32::from_le_bytes([header[0], header[1], header[2], header[3]]),
            length: usize::from(u16::from_le_bytes([header[4], header[5]])),
            kind: header[KIND_AT],
        })
    }
}

fn is_known(kind: u8) -> bool {
    matches!(kind, FULL..=LAST) || ASIDE.contains(&kind)
}

/// A checksum in RocksDB's stored form, which is masked so that a checksum over data with checksums
/// stays useful.
fn mask_checksum(sum: u32) -> u32 {
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}
