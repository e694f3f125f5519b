//! Writes a file without delaying the flushes of other files on the same device. Past the system's
//! page cache a written chunk is on the device when the call returns; where the file system does
//! not offer that, each chunk is flushed by itself, because flushing a large file in one step
//! delays every other flush.
//!
//! Must not know: what is written.

use crate::manners;
use crate::reading::CHUNK_BYTES;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::File;
use std::io::{Result, Write};
use std::path::Path;

/// Direct writes begin in memory at a multiple of this, and have a length that is one. It is a
/// multiple of the block size of every common device.
const ALIGNMENT: usize = 4096;

/// Memory for one chunk; the chunk begins at a multiple of [`ALIGNMENT`].
#[derive(Debug)]
pub(crate) struct AlignedBuffer(Vec<u8>);

impl Default for AlignedBuffer {
    fn default() -> AlignedBuffer {
        AlignedBuffer(vec![0; CHUNK_BYTES + ALIGNMENT])
    }
}

impl AlignedBuffer {
    /// Memory for one chunk.
    pub(crate) fn chunk(&mut self) -> &mut [u8] {
        let skipped = self.0.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        self.0
            .get_mut(skipped..skipped + CHUNK_BYTES)
            .unwrap_or_default()
    }
}

/// A file that is written once from its start to its end.
#[derive(Debug)]
pub(crate) struct QuietFile {
    file: File,
    bytes: u64,
    is_direct: bool,
}

impl QuietFile {
    /// An empty file; an older one is emptied.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn create(path: &Path) -> Result<QuietFile> {
        let file = File::create(path)?;
        let is_direct = set_direct(&file, true).is_ok();
        Ok(QuietFile {
            file,
            bytes: 0,
            is_direct,
        })
    }

    /// Writes a chunk of an [`AlignedBuffer`] behind the others. Only the last may be shorter.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn append(&mut self, chunk: &[u8]) -> Result<()> {
        let aligned = match self.is_direct {
            true => chunk.len() / ALIGNMENT * ALIGNMENT,
            false => 0,
        };
        let (direct, rest) = chunk.split_at_checked(aligned).unwrap_or((&[], chunk));
        let mut written = 0;
        while let Some(part) = direct.get(written..).filter(|part| !part.is_empty()) {
            match self.file.write(part) {
                Ok(n) if n > 0 && n % ALIGNMENT == 0 => written += n,
                // The file system accepted the flag and refuses the write, or wrote a part.
                Ok(n) => {
                    written += n;
                    break;
                }
                Err(e) if e.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
                    break;
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let unaligned = direct.get(written..).unwrap_or_default();
        if !unaligned.is_empty() || !rest.is_empty() {
            self.append_flushed(unaligned, rest)?;
        }
        self.bytes += chunk.len() as u64;
        Ok(())
    }

    /// Writes through the page cache and flushes.
    fn append_flushed(&mut self, first: &[u8], rest: &[u8]) -> Result<()> {
        if std::mem::take(&mut self.is_direct) {
            set_direct(&self.file, false)?;
        }
        self.file.write_all(first)?;
        self.file.write_all(rest)?;
        self.file.sync_data()?;
        manners::let_go(&self.file, self.bytes, (first.len() + rest.len()) as u64);
        Ok(())
    }

    /// Makes the whole file durable.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn finish(self) -> Result<()> {
        self.file.sync_all()
    }
}

/// Switches writing past the page cache on or off.
fn set_direct(file: &File, is_on: bool) -> rustix::io::Result<()> {
    let mut flags = fcntl_getfl(file)?;
    flags.set(OFlags::DIRECT, is_on);
    fcntl_setfl(file, flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appended_bytes_are_in_the_file_on_every_file_system() {
        for folder in [
            tempfile::tempdir().unwrap(),
            tempfile::tempdir_in(".").unwrap(),
        ] {
            for bytes in [0, 1, 4095, 4096, 5000, CHUNK_BYTES, 2 * CHUNK_BYTES + 4097] {
                let expected: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
                let path = folder.path().join("file");
                let mut file = QuietFile::create(&path).unwrap();
                let mut buffer = AlignedBuffer::default();
                for part in expected.chunks(CHUNK_BYTES) {
                    let chunk = buffer.chunk();
                    chunk[..part.len()].copy_from_slice(part);
                    file.append(&chunk[..part.len()]).unwrap();
                }
                file.finish().unwrap();
                assert_eq!(std::fs::read(&path).unwrap(), expected, "{bytes}");
            }
        }
    }
}
