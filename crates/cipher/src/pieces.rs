//! Reads a file of pieces from its start. Promises: it returns the plain bytes up to the first
//! truncated or changed piece, and the place of that piece.

use crate::file::{FileKey, HEADER, Kind, OVERHEAD};
use crate::secret::{DataKey, TAG};
use std::fs::File;
use std::io::{ErrorKind, Read};

/// Most plain bytes of one piece; longer appends become several pieces.
pub const PIECE_MAX: usize = 256 * 1024;

/// The plain bytes of a file of pieces.
pub struct PieceReader {
    file: File,
    /// `None` when the file has no header yet.
    key: Option<FileKey>,
    number: u64,
    /// End of the opened pieces, as an offset in the file.
    end: u64,
    piece: Vec<u8>,
    /// Number of plain bytes in `piece`, and how many of them were returned.
    plain: usize,
    given: usize,
    ended: bool,
}

impl PieceReader {
    /// Begins to read. A file that is shorter than a header, or has zeros instead of one, has no
    /// pieces yet.
    ///
    /// # Errors
    /// Those of the system; `InvalidData` for a header that does not fit.
    pub fn new(mut file: File, data: &DataKey, name: &[u8]) -> std::io::Result<PieceReader> {
        let mut header = Vec::with_capacity(HEADER);
        Read::by_ref(&mut file)
            .take(HEADER as u64)
            .read_to_end(&mut header)?;
        let empty = header.len() < HEADER || header.iter().all(|b| *b == 0);
        let key = match FileKey::resume(data, &header, name) {
            _ if empty => None,
            Some((key, Kind::Pieces)) => Some(key),
            _ => {
                let why = "the header was changed, or belongs to another key or file";
                return Err(std::io::Error::new(ErrorKind::InvalidData, why));
            }
        };
        Ok(PieceReader {
            file,
            ended: key.is_none(),
            key,
            number: 0,
            end: if empty { 0 } else { HEADER as u64 },
            piece: Vec::new(),
            plain: 0,
            given: 0,
        })
    }

    /// End of the opened pieces, as an offset in the file.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Number of bytes in the file after that end, without the zeros of space added in advance.
    ///
    /// # Errors
    /// Those of the system.
    pub fn trailing_bytes(&self) -> std::io::Result<u64> {
        use std::os::unix::fs::FileExt;
        let mut buffer = vec![0; PIECE_MAX];
        let (mut at, mut last) = (self.end, self.end);
        loop {
            let n = self.file.read_at(&mut buffer, at)?;
            if n == 0 {
                return Ok(last - self.end);
            }
            at += n as u64;
            if buffer.iter().take(n).any(|b| *b != 0) {
                last = at;
            }
        }
    }

    /// Whether the piece at that end was changed, and not only truncated: it is complete and does
    /// not open, or it opens with another length. A tag of zeros counts as truncated, because the
    /// lost rest of a page reads as zeros.
    ///
    /// # Errors
    /// Those of the system.
    pub fn is_changed(&self) -> std::io::Result<bool> {
        use std::os::unix::fs::FileExt;
        let Some(key) = &self.key else {
            return Ok(false);
        };
        let mut bytes = vec![0; 4 + PIECE_MAX + TAG];
        let mut held = 0;
        loop {
            let at = self.end + held as u64;
            let n = self.file.read_at(&mut bytes[held..], at)?;
            held += n;
            if n == 0 || held == bytes.len() {
                break;
            }
        }
        let Some((length, sealed)) = bytes[..held].split_first_chunk::<4>() else {
            return Ok(false);
        };
        let length = u32::from_le_bytes(*length);
        let piece = |plain: u32| {
            let piece = sealed.get(..plain as usize + TAG);
            piece.filter(|_| plain > 0)
        };
        // Reading ended at this piece, so it does not open.
        let is_whole = piece(length).is_some_and(|piece| {
            let tag = piece.last_chunk::<TAG>();
            tag.is_some_and(|tag| tag.iter().any(|byte| *byte != 0))
        });
        let opens = |plain: u32| {
            piece(plain).is_some_and(|piece| key.open(self.number, 0, &mut piece.to_vec()))
        };
        let mut changes =
            (0..4).flat_map(|byte| (1..=u32::from(u8::MAX)).map(move |x| x << (8 * byte)));
        Ok(is_whole || changes.any(|change| opens(length ^ change)))
    }

    /// Opens the next piece; false when there is none.
    fn advance(&mut self) -> std::io::Result<bool> {
        let Some(key) = self.key.as_ref().filter(|_| !self.ended) else {
            return Ok(false);
        };
        self.ended = true;
        let mut length = [0; 4];
        if !fill(&mut self.file, &mut length)? {
            return Ok(false);
        }
        let plain = u32::from_le_bytes(length) as usize;
        if plain == 0 || plain > PIECE_MAX {
            return Ok(false);
        }
        self.piece.resize(plain + TAG, 0);
        if !fill(&mut self.file, &mut self.piece)? || !key.open(self.number, 0, &mut self.piece) {
            return Ok(false);
        }
        (self.plain, self.given) = (plain, 0);
        self.number += 1;
        self.end += (plain + OVERHEAD) as u64;
        self.ended = false;
        Ok(true)
    }
}

impl Read for PieceReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.given == self.plain && !self.advance()? {
            return Ok(0);
        }
        let rest = self.piece.get(self.given..self.plain).unwrap_or_default();
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        self.given += n;
        Ok(n)
    }
}

/// Fills the buffer; false when the file ends first.
fn fill(file: &mut File, buffer: &mut [u8]) -> std::io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};

    fn seal_pieces(data: &DataKey, pieces: &[&[u8]]) -> Vec<u8> {
        let (key, header) = FileKey::begin(data, Kind::Pieces, b"000001.log");
        let mut bytes = header.to_vec();
        for (number, piece) in (0..).zip(pieces) {
            bytes.extend_from_slice(&u32::try_from(piece.len()).unwrap().to_le_bytes());
            let mut text = piece.to_vec();
            let tag = key.seal(number, 0, &mut text);
            bytes.extend_from_slice(&text);
            bytes.extend_from_slice(&tag);
        }
        bytes
    }

    fn read(data: &DataKey, bytes: &[u8]) -> (Vec<u8>, u64, u64) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut reader = PieceReader::new(file, data, b"000001.log").unwrap();
        let mut plain = Vec::new();
        reader.read_to_end(&mut plain).unwrap();
        (plain, reader.end(), reader.trailing_bytes().unwrap())
    }

    #[test]
    fn reading_ends_at_the_first_piece_that_is_not_whole() {
        let data = DataKey::random();
        let bytes = seal_pieces(&data, &[b"one,", b"two,", b"three"]);
        let all = bytes.len() as u64;
        assert_eq!(read(&data, &bytes), (b"one,two,three".to_vec(), all, 0));
        let two = (HEADER + 2 * (4 + OVERHEAD)) as u64;
        for cut in 1..=(5 + OVERHEAD) {
            let short = &bytes[..bytes.len() - cut];
            let behind = (5 + OVERHEAD - cut) as u64;
            assert_eq!(read(&data, short), (b"one,two,".to_vec(), two, behind));
        }
        // Space added in advance is no damage.
        let with_room = [&bytes[..], &[0; 1000]].concat();
        assert_eq!(read(&data, &with_room), (b"one,two,three".to_vec(), all, 0));
        let mut changed = bytes.clone();
        changed[HEADER + 4 + OVERHEAD + 5] ^= 1;
        let (plain, end, behind) = read(&data, &changed);
        assert_eq!(plain, b"one,");
        assert_eq!(end, (HEADER + 4 + OVERHEAD) as u64);
        assert_eq!(behind, all - end);
        // Two pieces are exchanged.
        let mut swapped = bytes.clone();
        let size = 4 + OVERHEAD;
        let (a, b) = (HEADER, HEADER + size);
        swapped[a..b].copy_from_slice(&bytes[b..b + size]);
        swapped[b..b + size].copy_from_slice(&bytes[a..b]);
        assert_eq!(read(&data, &swapped).0, b"");
        assert_eq!(read(&data, &[]), (Vec::new(), 0, 0));
        assert_eq!(read(&data, &[0; 200]), (Vec::new(), 0, 0));
    }
}
