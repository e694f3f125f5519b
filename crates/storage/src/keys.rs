//! Tables, key ranges and ident sets. Keys are opaque here except for one rule: outside `Meta` the
//! first four bytes are a big-endian ident that names a collection or an index, so that a drop can
//! be expressed by idents.

use crate::error::{Result, StorageError};

/// Bytes of the ident every key outside [`Table::Meta`] begins with.
pub const IDENT_BYTES: usize = 4;

/// Every key is below this one, so a range may always name an upper bound. The ident `0xFFFF_FFFF`
/// is thereby reserved.
pub const MAX_KEY: &[u8] = &[0xFF; IDENT_BYTES];

/// An ident with this bit asks for its documents to be spread over the machines of an engine that
/// has several ([`crate::Caps::spreads`]), at the cost of slower scans. Keys keep their order.
pub const SPREAD: u32 = 1 << 31;

/// The few tables of an engine. One engine file set each, never one per collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Table {
    /// Catalog, counters, drop records, transaction results, format version: tiny and hot.
    Meta = 0,
    /// Documents.
    Doc = 1,
    /// Secondary index entries.
    Idx = 2,
    /// Oplog.
    Log = 3,
    /// Capped collections and change-stream pre-images.
    Cap = 4,
    /// Scratch space (sort spill, index builds); emptied at open.
    Tmp = 5,
}

impl Table {
    /// All tables, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Meta,
        Self::Doc,
        Self::Idx,
        Self::Log,
        Self::Cap,
        Self::Tmp,
    ];

    /// Lower-case name, also the name of the engine's column family or file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Doc => "doc",
            Self::Idx => "idx",
            Self::Log => "log",
            Self::Cap => "cap",
            Self::Tmp => "tmp",
        }
    }

    /// The table with this number, if there is one.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Position in [`Table::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Keys from `lower` (included) up to `upper` (excluded). Both bounds are always given: an engine
/// that knows the end can stop inside a run of deleted neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRange<'a> {
    /// First key that belongs to the range.
    pub lower: &'a [u8],
    /// First key that no longer belongs to the range.
    pub upper: &'a [u8],
}

impl<'a> KeyRange<'a> {
    /// Every key of a table.
    pub const ALL: KeyRange<'static> = KeyRange {
        lower: &[],
        upper: MAX_KEY,
    };

    /// A range from its bounds; an inverted one is merely empty.
    pub fn new(lower: &'a [u8], upper: &'a [u8]) -> Self {
        Self { lower, upper }
    }

    /// Whether no key can be inside.
    pub fn is_empty(&self) -> bool {
        self.lower >= self.upper
    }

    /// Whether `key` lies inside.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.lower <= key && key < self.upper
    }

    /// Refuses an upper bound beyond [`MAX_KEY`]; an empty or inverted range is legal and empty.
    ///
    /// # Errors
    /// [`StorageError::Contract`]
    pub fn check(&self) -> Result<()> {
        if self.upper > MAX_KEY {
            return Err(StorageError::Contract(format!(
                "upper bound {:02x?} is beyond the largest key",
                self.upper
            )));
        }
        Ok(())
    }
}

/// Writes into `end` the first key after all keys that begin with `prefix`, for use as an exclusive
/// upper bound. A prefix of nothing but `0xFF` (or an empty one) ends at [`MAX_KEY`].
pub fn prefix_end(prefix: &[u8], end: &mut Vec<u8>) {
    end.clear();
    end.extend_from_slice(prefix);
    while let Some(last) = end.pop() {
        if last != 0xFF {
            end.push(last + 1);
            return;
        }
    }
    end.extend_from_slice(MAX_KEY);
}

/// A sorted set of idents whose keys nobody reads any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdentSet {
    sorted: Vec<u32>,
}

impl IdentSet {
    /// Number of idents.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether it has no idents.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Whether the ident itself is in the set.
    pub fn contains(&self, ident: u32) -> bool {
        self.sorted.binary_search(&ident).is_ok()
    }

    /// Whether the ident at the beginning of a key is in the set; false for keys shorter than an
    /// ident.
    pub fn contains_key(&self, key: &[u8]) -> bool {
        key.first_chunk::<IDENT_BYTES>()
            .is_some_and(|ident| self.contains(u32::from_be_bytes(*ident)))
    }

    /// The idents, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.sorted.iter().copied()
    }
}

impl FromIterator<u32> for IdentSet {
    fn from_iter<I: IntoIterator<Item = u32>>(idents: I) -> Self {
        let mut sorted: Vec<u32> = idents.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        Self { sorted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_end_is_the_first_key_after_the_prefix() {
        let mut end = Vec::new();
        for (prefix, expected) in [
            (&b"ab"[..], &b"ac"[..]),
            (b"a\xff", b"b"),
            (b"\xff\xff", MAX_KEY),
            (b"", MAX_KEY),
            (b"\0\0\0\x07", b"\0\0\0\x08"),
        ] {
            prefix_end(prefix, &mut end);
            assert_eq!(end, expected, "{prefix:02x?}");
        }
    }

    #[test]
    fn ident_set_answers_for_keys() {
        let set: IdentSet = [7, 3, 7].into_iter().collect();
        assert_eq!(set.len(), 2);
        assert!(set.contains_key(b"\0\0\0\x07rest"));
        assert!(!set.contains_key(b"\0\0\0\x08rest"));
        assert!(!set.contains_key(b"\0\0\x07"));
    }
}
