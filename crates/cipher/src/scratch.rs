//! A temporary file, either plain or sealed by a key that exists only in memory. Written from start
//! to end, read at any place, also by several readers at once.

use crate::file::{FileKey, Kind};
use crate::secret::{DataKey, TAG};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;

/// Plain bytes of a sealed part.
const PART: usize = 16 * 1024;

/// A temporary file.
pub struct Scratch {
    file: File,
    sealed: Option<EncryptionState>,
    /// Plain bytes written.
    length: u64,
    /// Where [`Read`] continues.
    at: u64,
}

struct EncryptionState {
    key: FileKey,
    /// Bytes after the last complete part; they stay in memory, so that no part is sealed twice.
    rest: Vec<u8>,
}

impl Scratch {
    /// A file that other processes may read while it exists.
    pub fn unencrypted(file: File) -> Scratch {
        Scratch {
            file,
            sealed: None,
            length: 0,
            at: 0,
        }
    }

    /// A file that only this process can read. It must be empty.
    pub fn new_sealed(file: File) -> Scratch {
        let (key, _) = FileKey::begin(&DataKey::random(), Kind::Pages, b"");
        Scratch {
            sealed: Some(EncryptionState {
                key,
                rest: Vec::with_capacity(PART),
            }),
            ..Scratch::unencrypted(file)
        }
    }

    /// Reads at an offset, as [`FileExt::read_at`].
    ///
    /// # Errors
    /// Those of the system; `InvalidData` when the file was changed.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let Some(sealed) = &self.sealed else {
            return self.file.read_at(buffer, offset);
        };
        let mut done = 0;
        let mut part = vec![0; PART + TAG];
        while done < buffer.len() {
            let at = offset + done as u64;
            let (number, skip) = (at / PART as u64, (at % PART as u64) as usize);
            let text = if number == self.length / PART as u64 {
                &sealed.rest[..]
            } else if number < self.length / PART as u64 {
                self.file
                    .read_exact_at(&mut part, number * (PART + TAG) as u64)?;
                if !sealed.key.open(number, 0, &mut part) {
                    let why = "a temporary file was changed";
                    return Err(std::io::Error::new(ErrorKind::InvalidData, why));
                }
                &part[..PART]
            } else {
                break;
            };
            let rest = text.get(skip..).unwrap_or_default();
            let n = rest.len().min(buffer.len() - done);
            if n == 0 {
                break;
            }
            buffer[done..done + n].copy_from_slice(&rest[..n]);
            done += n;
        }
        Ok(done)
    }
}

impl Write for Scratch {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let Some(sealed) = &mut self.sealed else {
            let n = self.file.write(bytes)?;
            self.length += n as u64;
            return Ok(n);
        };
        let n = bytes.len().min(PART - sealed.rest.len());
        sealed.rest.extend_from_slice(&bytes[..n]);
        self.length += n as u64;
        if sealed.rest.len() == PART {
            let number = self.length / PART as u64 - 1;
            let tag = sealed.key.seal(number, 0, &mut sealed.rest);
            sealed.rest.extend_from_slice(&tag);
            self.file
                .write_all_at(&sealed.rest, number * (PART + TAG) as u64)?;
            sealed.rest.clear();
        }
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Read for Scratch {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.read_at(buffer, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_scratch(file: File, bytes: &[u8], seals: bool) -> Scratch {
        let mut scratch = match seals {
            true => Scratch::new_sealed(file),
            false => Scratch::unencrypted(file),
        };
        for chunk in bytes.chunks(1000) {
            scratch.write_all(chunk).unwrap();
        }
        scratch
    }

    #[test]
    fn what_was_written_is_read_from_everywhere_and_lies_sealed() {
        let bytes: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        for seals in [false, true] {
            for length in [0, 1, PART - 1, PART, PART + 1, 3 * PART, bytes.len()] {
                let file = tempfile::tempfile().unwrap();
                let copy = file.try_clone().unwrap();
                let bytes = &bytes[..length];
                let mut scratch = write_scratch(file, bytes, seals);
                for (at, n) in [(0, length), (1, 5000), (PART - 3, 7), (length, 1)] {
                    let mut buffer = vec![0; n];
                    let got = scratch.read_at(&mut buffer, at as u64).unwrap();
                    let want = bytes.get(at..).unwrap_or_default();
                    assert_eq!(buffer[..got], want[..want.len().min(n)], "{length} {at}");
                }
                let mut all = Vec::new();
                scratch.read_to_end(&mut all).unwrap();
                assert_eq!(all, bytes);
                if seals && length > PART {
                    let mut raw = vec![0; PART];
                    copy.read_exact_at(&mut raw, 0).unwrap();
                    assert!(!raw.windows(12).any(|w| w == &bytes[400..412]));
                    raw[77] ^= 1;
                    copy.write_all_at(&raw[77..78], 77).unwrap();
                    let changed = scratch.read_at(&mut [0; 10], 0).unwrap_err();
                    assert_eq!(changed.kind(), ErrorKind::InvalidData);
                }
            }
        }
    }
}
