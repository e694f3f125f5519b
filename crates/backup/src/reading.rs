//! Reads in chunks. Must not know: what is read.

use std::io::Read;

/// Bytes read and written at a time.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// Reads until the buffer is full or the input ends.
pub(crate) fn fill(from: &mut dyn Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) {
        match from.read(room) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
