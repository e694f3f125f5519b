//! Pieces of files, each in a file named by its digest: `objects/ab/abcd...`. A piece that is there
//! is complete and flushed.

use crate::Step;
use crate::Watch;
use crate::digest::{Digest, Hasher};
use crate::error::{BackupError, Result};
use crate::folder;
use crate::manifest::Piece;
use crate::pace::Pace;
use crate::repository::{Repository, UNFINISHED_PIECE};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Read and written at a time.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

impl Repository {
    pub(crate) fn object(&self, sha256: &Digest) -> PathBuf {
        let name = sha256.to_string();
        let (folder, _) = name.split_at(2);
        self.objects().join(folder).join(&name)
    }

    /// Whether a piece is there, at its full length.
    pub(crate) fn has(&self, piece: &Piece) -> bool {
        let found = fs::metadata(self.object(&piece.sha256));
        found.is_ok_and(|m| m.len() == piece.bytes)
    }

    /// Stores some bytes. False when they are there already.
    pub(crate) fn put(&self, piece: &Piece, bytes: &[u8]) -> Result<bool> {
        if self.has(piece) {
            return Ok(false);
        }
        let name = self.object(&piece.sha256);
        name.parent().map_or(Ok(()), folder::make)?;
        folder::write(&self.incoming().join(UNFINISHED_PIECE), &name, bytes)?;
        Ok(true)
    }

    /// Stores all that is left of a file as one piece. True when it was not there yet.
    pub(crate) fn put_whole(
        &self,
        from: &Path,
        pace: &mut Pace,
        watch: &mut Watch<'_>,
    ) -> Result<(Piece, bool)> {
        let unfinished = self.incoming().join(UNFINISHED_PIECE);
        let mut source = File::open(from).map_err(|e| BackupError::io("read", from, &e))?;
        let fail = |e: &std::io::Error| BackupError::io("write", &unfinished, e);
        let mut copy = File::create(&unfinished).map_err(|e| fail(&e))?;
        let (mut hasher, mut bytes) = (Hasher::default(), 0);
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = fill(&mut source, &mut chunk);
            let read = read.map_err(|e| BackupError::io("read", from, &e))?;
            let part = chunk.get(..read).unwrap_or_default();
            if part.is_empty() {
                break;
            }
            hasher.add(part);
            copy.write_all(part).map_err(|e| fail(&e))?;
            bytes += read as u64;
            pace.spend(read as u64);
            watch(Step::Moved(read as u64))?;
        }
        let sha256 = hasher.finish();
        let piece = Piece { sha256, bytes };
        if self.has(&piece) {
            folder::remove(&unfinished)?;
            return Ok((piece, false));
        }
        copy.sync_all().map_err(|e| fail(&e))?;
        let name = self.object(&sha256);
        name.parent().map_or(Ok(()), folder::make)?;
        folder::publish(&unfinished, &name)?;
        Ok((piece, true))
    }

    /// Reads a piece, and compares it with its name. `each` is given its bytes, which are to be
    /// used only once this call has ended well.
    pub(crate) fn read_piece(
        &self,
        piece: &Piece,
        of: &str,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let path = self.object(&piece.sha256);
        let altered = |what: &str| {
            let shown = path.display();
            BackupError::new(format!("{shown}, a piece of file {of}, {what}"))
        };
        let mut file = match File::open(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(altered("is missing"));
            }
            opened => opened.map_err(|e| BackupError::io("read", &path, &e))?,
        };
        let found = file.metadata();
        let found = found.map_err(|e| BackupError::io("read", &path, &e))?;
        if found.len() != piece.bytes {
            let (has, of) = (found.len(), piece.bytes);
            let what = if has < of { "truncated" } else { "altered" };
            return Err(altered(&format!("is {what}: it has {has} bytes, not {of}")));
        }
        let mut hasher = Hasher::default();
        let mut chunk = vec![0; CHUNK_BYTES.min(usize::try_from(found.len()).unwrap_or(0).max(1))];
        loop {
            let read = fill(&mut file, &mut chunk);
            let read = read.map_err(|e| BackupError::io("read", &path, &e))?;
            let part = chunk.get(..read).unwrap_or_default();
            if part.is_empty() {
                break;
            }
            hasher.add(part);
            each(part)?;
        }
        if hasher.finish() != piece.sha256 {
            return Err(altered(
                "is altered: its contents do not have the digest in its name",
            ));
        }
        Ok(())
    }
}

/// Reads until the buffer is full or the file ends.
pub(crate) fn fill(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) {
        match file.read(room) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
