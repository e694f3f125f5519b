//! A stored document: `format(1) flags(1) insert_seq(varint) version(varint) BSON`.
//!
//! insert_seq gives natural order and the reported record id; version is drawn under the document's
//! lock at each write and lets a transaction see whether the document changed since its snapshot.

use model::Doc;

const FORMAT: u8 = 1;

/// The header of a record, before the BSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Place in the order of insertion within the collection.
    pub insert_seq: u64,
    /// Changes with every write of the document.
    pub version: u64,
}

/// Appends a record.
pub fn write(out: &mut Vec<u8>, header: Header, doc: &[u8]) {
    out.extend_from_slice(&[FORMAT, 0]);
    varint(out, header.insert_seq);
    varint(out, header.version);
    out.extend_from_slice(doc);
}

/// Splits a record. `None` when it is not one (corruption).
pub fn read(bytes: &[u8]) -> Option<(Header, Doc<'_>)> {
    let [FORMAT, 0, rest @ ..] = bytes else {
        return None;
    };
    let (insert_seq, rest) = read_varint(rest)?;
    let (version, rest) = read_varint(rest)?;
    Some((
        Header {
            insert_seq,
            version,
        },
        Doc::new(rest)?,
    ))
}

pub(crate) fn varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

pub(crate) fn read_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut n = 0u64;
    for (i, &b) in bytes.iter().enumerate().take(10) {
        n |= u64::from(b & 0x7F) << (7 * i);
        if b < 0x80 {
            return Some((n, &bytes[i + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn round_trip_and_corruption() {
        let d = doc! { "_id": 1i32 };
        for n in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = vec![];
            let h = Header {
                insert_seq: n,
                version: u64::MAX - n,
            };
            write(&mut out, h, d.as_bytes());
            assert_eq!(read(&out), Some((h, d.doc())));
            for cut in 0..out.len() {
                assert_eq!(read(&out[..cut]), None);
            }
        }
    }
}
