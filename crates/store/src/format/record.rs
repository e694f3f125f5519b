//! A stored document: `format(1) flags(1) [time(8)] insert_seq(varint) version(varint) BSON`.
//!
//! With flag 01 there is a time: that of the entry of the log which refers to the record
//! (ADR 0051).
//! insert_seq gives natural order and the reported record id; version is drawn under the document's
//! lock at each write and lets a transaction see whether the document changed since its snapshot.

use model::Doc;

const FORMAT: u8 = 1;
/// The header has a time.
const HAS_TIME: u8 = 1;
/// Where the time lies in a record that has one.
pub(crate) const TIME_AT: usize = 2;
/// Stands in a new record until the commit knows the time.
pub(crate) const TIME_LATER: u64 = u64::MAX;

/// No insert_seq reaches this; one that does is damaged.
pub(crate) const SEQ_END: u64 = 1 << 62;

/// The header of a record, before the BSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Place in the order of insertion within the collection.
    pub insert_seq: u64,
    /// Changes with every write of the document.
    pub version: u64,
    /// Time of the entry of the log which refers to this record, so that nothing has changed it
    /// since; 0 when none does.
    pub time: u64,
}

/// Appends a record.
pub fn write(out: &mut Vec<u8>, header: Header, doc: &[u8]) {
    if header.time == 0 {
        out.extend_from_slice(&[FORMAT, 0]);
    } else {
        out.extend_from_slice(&[FORMAT, HAS_TIME]);
        out.extend_from_slice(&header.time.to_be_bytes());
    }
    varint(out, header.insert_seq);
    varint(out, header.version);
    out.extend_from_slice(doc);
}

/// The insert_seq of a record. `None` when it is no record or has an impossible one (corruption).
pub(crate) fn read_seq(bytes: &[u8]) -> Option<u64> {
    let seq = read(bytes)?.0.insert_seq;
    (seq < SEQ_END).then_some(seq)
}

/// Splits a record. `None` when it is not one (corruption).
pub fn read(bytes: &[u8]) -> Option<(Header, Doc<'_>)> {
    let (time, rest) = match bytes {
        [FORMAT, 0, rest @ ..] => (0, rest),
        [FORMAT, HAS_TIME, rest @ ..] => {
            let (time, rest) = rest.split_first_chunk::<8>()?;
            (u64::from_be_bytes(*time), rest)
        }
        _ => return None,
    };
    let (insert_seq, rest) = read_varint(rest)?;
    let (version, rest) = read_varint(rest)?;
    Some((
        Header {
            insert_seq,
            version,
            time,
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
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        for (n, time) in numbers
            .iter()
            .flat_map(|n| [(*n, 0), (*n, 7 << 32), (*n, u64::MAX)])
        {
            let mut out = vec![];
            let h = Header {
                insert_seq: n,
                version: u64::MAX - n,
                time,
            };
            write(&mut out, h, d.as_bytes());
            assert_eq!(read(&out), Some((h, d.doc())));
            for cut in 0..out.len() {
                assert_eq!(read(&out[..cut]), None);
            }
        }
    }
}
