//! `OP_COMPRESSED`. Promises: memory grows with the decompressed bytes, never with the size that a
//! client declares.

use std::io::Read;

use crate::bytes::split_i32;
use crate::code;
use crate::context::Compressor;
use crate::error::WireError;
use crate::header::{Header, OpCode};
use crate::limits::{HEADER_LEN, MAX_MESSAGE_LEN};

/// `originalOpcode`, `uncompressedSize`, `compressorId`.
const PREFIX_LEN: usize = 4 + 4 + 1;
/// First size of a decompression buffer; it doubles as output appears.
const FIRST_STEP_LEN: usize = 64 * 1024;
/// Snappy's densest element expands 3 bytes to 64, so a larger declared size is wrong.
const SNAPPY_MAX_RATIO: usize = 32;
const ZSTD_LEVEL: i32 = 3;
const ZLIB_LEVEL: u32 = 6;

/// A small set of compressors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressorSet(u8);

impl Default for CompressorSet {
    /// MongoDB's default: snappy, zstd, zlib.
    fn default() -> Self {
        Self::NONE
            .with(Compressor::Snappy)
            .with(Compressor::Zstd)
            .with(Compressor::Zlib)
    }
}

impl CompressorSet {
    /// Compression switched off.
    pub const NONE: Self = Self(0);

    /// This set and `compressor`.
    #[must_use]
    pub const fn with(self, compressor: Compressor) -> Self {
        Self(self.0 | 1 << compressor as u8)
    }

    /// Whether `compressor` is in the set.
    pub const fn contains(self, compressor: Compressor) -> bool {
        self.0 & 1 << compressor as u8 != 0
    }

    /// The compressors for the reply to `hello`: those of the client's names that are in this set,
    /// in the client's order.
    pub fn negotiate<'a>(self, offered: impl IntoIterator<Item = &'a str>) -> Vec<Compressor> {
        let mut chosen = Vec::new();
        for compressor in offered.into_iter().filter_map(Compressor::from_name) {
            if self.contains(compressor) && !chosen.contains(&compressor) {
                chosen.push(compressor);
            }
        }
        chosen
    }
}

/// Rebuilds in `out` the message that an `OP_COMPRESSED` payload wraps, header included.
pub(crate) fn decompress(
    header: Header,
    payload: &[u8],
    allowed: CompressorSet,
    out: &mut Vec<u8>,
) -> Result<Compressor, WireError> {
    let refuse = |message: String| WireError::close(code::BAD_VALUE, message);
    let split = split_i32(payload).and_then(|(op, rest)| {
        let (size, rest) = split_i32(rest)?;
        let (&id, data) = rest.split_first()?;
        Some((op, size, id, data))
    });
    let Some((op_code, declared, id, data)) = split else {
        return Err(refuse(format!(
            "OP_COMPRESSED of {} bytes is too short",
            payload.len()
        )));
    };
    let limit = MAX_MESSAGE_LEN - HEADER_LEN;
    let size = match usize::try_from(declared) {
        Ok(size) if size <= limit => size,
        _ => {
            return Err(refuse(format!(
                "uncompressed size {declared} is invalid, allowed are 0 to {limit}"
            )));
        }
    };
    let compressor = match Compressor::from_id(id) {
        Some(c) if allowed.contains(c) => c,
        _ => {
            return Err(refuse(format!(
                "compressor {id} is not enabled on this server"
            )));
        }
    };
    if op_code == OpCode::Compressed as i32 {
        return Err(refuse(
            "OP_COMPRESSED inside OP_COMPRESSED is not allowed".into(),
        ));
    }
    let inner = Header {
        message_len: i32::try_from(size + HEADER_LEN).unwrap_or(i32::MAX),
        op_code,
        ..header
    };
    out.clear();
    out.extend_from_slice(&inner.to_bytes());
    match inflate(compressor, data, size, out) {
        Ok(()) if out.len() == size + HEADER_LEN => Ok(compressor),
        Ok(()) => Err(refuse(format!(
            "compressed message declares {size} bytes but holds {}",
            out.len().saturating_sub(HEADER_LEN)
        ))),
        Err(error) => Err(refuse(format!(
            "message cannot be decompressed with {}: {error}",
            compressor.name()
        ))),
    }
}

/// Appends at most `size + 1` bytes; the extra one shows that there was more than declared.
fn inflate(
    compressor: Compressor,
    data: &[u8],
    size: usize,
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    match compressor {
        Compressor::Noop => {
            out.extend_from_slice(data);
            Ok(())
        }
        Compressor::Snappy => {
            let stated = snap::raw::decompress_len(data)?;
            if stated != size || size / SNAPPY_MAX_RATIO > data.len() {
                return Err(std::io::Error::other("stated size does not fit the data"));
            }
            let start = out.len();
            out.resize(start + size, 0);
            let room = out.get_mut(start..).unwrap_or_default();
            let written = snap::raw::Decoder::new().decompress(data, room)?;
            out.truncate(start + written);
            Ok(())
        }
        Compressor::Zlib => read_growing(flate2::read::ZlibDecoder::new(data), size, out),
        Compressor::Zstd => {
            read_growing(zstd::stream::read::Decoder::with_buffer(data)?, size, out)
        }
    }
}

/// Once a message has this many bytes, its declared size is trusted.
pub const BELIEVED_LEN: usize = 1 << 20;

/// Reads up to `size + 1` bytes. The buffer doubles only after it was filled; once it has
/// [`BELIEVED_LEN`] bytes it gets its whole size, so that a large buffer is never copied.
fn read_growing(mut source: impl Read, size: usize, out: &mut Vec<u8>) -> std::io::Result<()> {
    let start = out.len();
    let end = start + size + 1;
    let mut filled = start;
    let mut step = FIRST_STEP_LEN;
    loop {
        if filled == out.len() {
            let target = end.min(filled + step);
            if target == filled {
                return Ok(());
            }
            if filled - start >= BELIEVED_LEN {
                out.reserve_exact(end - out.len());
            }
            out.resize(target, 0);
            step *= 2;
        }
        let read = source.read(out.get_mut(filled..).unwrap_or_default())?;
        filled += read;
        if read == 0 {
            out.truncate(filled);
            return Ok(());
        }
    }
}

/// Replaces the message at `out[start..]` by its compressed form, unless that would be longer.
pub(crate) fn compress_in_place(
    out: &mut Vec<u8>,
    start: usize,
    header: Header,
    compressor: Compressor,
    scratch: &mut Vec<u8>,
) {
    let payload_start = start + HEADER_LEN;
    let payload = out.get(payload_start..).unwrap_or_default();
    let size = payload.len();
    scratch.clear();
    if deflate(compressor, payload, scratch).is_err() {
        return;
    }
    let compressed_len = HEADER_LEN + PREFIX_LEN + scratch.len();
    if compressor != Compressor::Noop && compressed_len >= HEADER_LEN + size {
        return;
    }
    let (Ok(message_len), Ok(uncompressed)) = (i32::try_from(compressed_len), i32::try_from(size))
    else {
        return;
    };
    let wrapper = Header {
        message_len,
        op_code: OpCode::Compressed as i32,
        ..header
    };
    out.truncate(start);
    out.extend_from_slice(&wrapper.to_bytes());
    out.extend_from_slice(&header.op_code.to_le_bytes());
    out.extend_from_slice(&uncompressed.to_le_bytes());
    out.push(compressor as u8);
    out.extend_from_slice(scratch);
}

fn deflate(compressor: Compressor, data: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
    match compressor {
        Compressor::Noop => out.extend_from_slice(data),
        Compressor::Snappy => {
            out.resize(snap::raw::max_compress_len(data.len()), 0);
            let written = snap::raw::Encoder::new().compress(data, out)?;
            out.truncate(written);
        }
        Compressor::Zlib => {
            let mut encoder =
                flate2::read::ZlibEncoder::new(data, flate2::Compression::new(ZLIB_LEVEL));
            encoder.read_to_end(out)?;
        }
        Compressor::Zstd => zstd::stream::copy_encode(data, out, ZSTD_LEVEL)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_message_is_never_there_twice() {
        let size = 20 << 20;
        let mut out = Vec::new();
        read_growing(std::io::repeat(7).take(size as u64), size, &mut out).unwrap();
        assert_eq!(out.len(), size);
        assert!(out.capacity() <= size + 1024, "{}", out.capacity());
    }
}
