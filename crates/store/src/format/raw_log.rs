//! The rows of the log of several servers that have no time yet (ADR 0114). A raw row is one of the
//! log (see `log`) under a place of its member instead of a time; a mark says that a place has raw
//! rows. Must not know: commits, readers.
//!
//! Key of both: `ident(4) member(4) place and row(4)`, with the ident of the marks or that of the
//! raw rows, the ident of the member's log, 20 bits for the place, and 12 for the number of the row
//! in its commit, which is 0 for a mark.
//! Value of a mark: a position before that of the commit (8) and the number of raw rows (2).

/// Places of a member are below this.
pub(crate) const PLACES_END: u32 = 1 << (32 - ROW_BITS);
/// Raw rows of a commit, at most.
pub(crate) const ROWS_MAX: usize = 1 << ROW_BITS;
const ROW_BITS: u32 = 12;

/// A place of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Ident of the member's log.
    pub(crate) member: u32,
    pub(crate) number: u32,
}

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// A position before that of the commit.
    pub(crate) after: u64,
    /// Number of raw rows.
    pub(crate) rows: u16,
}

impl Place {
    /// The part of the key behind the ident.
    pub(crate) fn key_part(self, row: u16) -> [u8; 8] {
        let place = u64::from(self.number) << ROW_BITS | u64::from(row);
        (u64::from(self.member) << 32 | place).to_be_bytes()
    }

    /// A key of the place under an ident.
    pub(crate) fn key(self, ident: u32, row: u16) -> [u8; 12] {
        let mut key = [0; 12];
        key[..4].copy_from_slice(&ident.to_be_bytes());
        key[4..].copy_from_slice(&self.key_part(row));
        key
    }

    /// The place of a key. `None` when it is none (corruption).
    pub(crate) fn of(key: &[u8]) -> Option<Place> {
        let part = key.get(4..)?.try_into().ok().map(u64::from_be_bytes)?;
        Some(Place {
            member: (part >> 32) as u32,
            number: (part as u32) >> ROW_BITS,
        })
    }
}

impl Mark {
    pub(crate) fn encode(self) -> [u8; 10] {
        let mut value = [0; 10];
        value[..8].copy_from_slice(&self.after.to_be_bytes());
        value[8..].copy_from_slice(&self.rows.to_be_bytes());
        value
    }

    /// `None` when it is no mark (corruption).
    pub(crate) fn read(value: &[u8]) -> Option<Mark> {
        let value: &[u8; 10] = value.try_into().ok()?;
        Some(Mark {
            after: u64::from_be_bytes(*value.first_chunk()?),
            rows: u16::from_be_bytes(*value.last_chunk()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_marks_are_read_as_they_were_written() {
        let place = Place {
            member: 0x0102_0304,
            number: PLACES_END - 1,
        };
        assert_eq!(Place::of(&place.key(9, 7)), Some(place));
        assert!(place.key(9, 7) > place.key(9, 0) && place.key(9, 4095) < place.key(10, 0));
        let mark = Mark {
            after: u64::MAX - 5,
            rows: 4096,
        };
        assert_eq!(Mark::read(&mark.encode()), Some(mark));
        assert_eq!(Mark::read(&[0; 8]), None);
        assert_eq!(Place::of(&[0; 11]), None);
    }
}
