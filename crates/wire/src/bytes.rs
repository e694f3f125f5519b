//! Little-endian integers at the start of a slice.

pub(crate) fn split_i32(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<4>()?;
    Some((i32::from_le_bytes(*head), rest))
}
