//! Pieces of files, each named by its digest: `objects/ab/abcd...`. An existing piece is complete
//! and durable.

use crate::ProgressCallback;
use crate::ProgressEvent;
use crate::digest::{Digest, Hasher};
use crate::error::{BackupError, Result};
use crate::manifest::Piece;
use crate::pace::Pace;
use crate::reading::{CHUNK_BYTES, fill};
use crate::repository::Repository;
use std::path::Path;

/// The object name of a piece.
pub(crate) fn object(sha256: &Digest) -> String {
    let name = sha256.to_string();
    let (folder, _) = name.split_at(2);
    format!("{}/{folder}/{name}", crate::repository::OBJECTS)
}

impl Repository {
    /// Whether a piece exists with its full length and will not be removed.
    pub(crate) fn has(&self, piece: &Piece) -> bool {
        // If the query fails, the piece is stored again, which reports the error.
        let found = self.shelf().bytes(&object(&piece.sha256));
        self.is_needed(&piece.sha256) || found.is_ok_and(|found| found == Some(piece.bytes))
    }

    /// Stores a piece. False when it exists already.
    pub(crate) fn put(&self, piece: &Piece, bytes: &[u8]) -> Result<bool> {
        if self.has(piece) {
            return Ok(false);
        }
        self.shelf().write(&object(&piece.sha256), bytes)?;
        Ok(true)
    }

    /// Stores a file as one piece. True when it did not exist yet.
    pub(crate) fn put_whole(
        &self,
        from: &Path,
        pace: &mut Pace,
        watch: &mut ProgressCallback<'_>,
    ) -> Result<(Piece, bool)> {
        self.shelf().take(from, &object, &mut |bytes| {
            pace.spend(bytes);
            watch(ProgressEvent::Moved(bytes))
        })
    }

    /// Reads a piece and checks its digest. `each` gets its bytes, which must not be used before
    /// this call has succeeded.
    pub(crate) fn read_piece(
        &self,
        piece: &Piece,
        of: &str,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let name = object(&piece.sha256);
        let shown = self.shelf().full_name(&name);
        let altered =
            |what: &str| BackupError::new(format!("{shown}, a piece of file {of}, {what}"));
        let Some((bytes, mut contents)) = self.shelf().read(&name)? else {
            return Err(altered("is missing"));
        };
        if bytes != piece.bytes {
            let what = if bytes < piece.bytes {
                "truncated"
            } else {
                "altered"
            };
            let of = piece.bytes;
            return Err(altered(&format!(
                "is {what}: it has {bytes} bytes, not {of}"
            )));
        }
        let mut hasher = Hasher::default();
        let mut chunk = vec![0; CHUNK_BYTES.min(usize::try_from(bytes).unwrap_or(0).max(1))];
        loop {
            let read = fill(&mut *contents, &mut chunk);
            let read = read.map_err(|e| BackupError::new(format!("cannot read {shown}: {e}")))?;
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
