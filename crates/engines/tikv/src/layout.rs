//! The layout of a database in the cluster: all its keys begin with one prefix. The next byte is
//! the kind of the row.
//!
//! | byte | rest of the key | value |
//! |---|---|---|
//! | `01` | | format of the layout |
//! | `02` | | lease: who may use the database, and until when |
//! | `03` | | fence: written by every commit |
//! | `04` | | a large batch that is decided and perhaps not applied: its number of parts |
//! | `05` | number of the part, 4 bytes | a part of that batch |
//! | `06` | table, ident | this ident has had values in pieces |
//! | `07` | | holder of the lease and number of its last announcement |
//! | `08` | number of a member, 2 bytes | lease of that member: which server, until when |
//! | `09` | member, number of its slot, 1 byte | written by every commit in that slot |
//! | `0a` | | the last member that joined |
//! | `0b` | | a member that changes what others keep in memory, until when others wait |
//! | `10` + table | part, stored key | `00` value, or `01` and its length, 4 bytes |
//! | `20` + table | part, stored key, number of the piece, 4 bytes | a piece of a value |
//! | `30` | key in `Meta` with an end, member, slot | what commits in the slot added to it |
//!
//! Documents of an ident with [`SPREAD`] are spread over 16 parts by a hash of the stored key, so
//! that keys that grow are not all written to one region. The part is a byte, `80` to `8f`; all
//! other keys have none, and begin with a lower byte. Within a part the keys are in order.
//!
//! Promises: pure functions over bytes. Must not know: the cluster.

use std::ops::Range;

use storage::{IDENT_BYTES, KeyRange, SPREAD, Table};

/// Longest value that is stored in its row. A scan of [`SCAN_ROWS`] rows stays below the 10 MB that
/// a store sends in one answer.
pub(crate) const INLINE_BYTES: usize = 32 << 10;
/// Rows requested at a time.
pub(crate) const SCAN_ROWS: usize = 256;
/// Rows of the first request of a scan whose end is not known: most scans end within it, and
/// unwanted rows cost less than another request.
pub(crate) const REQUEST_ROWS: usize = 128;
/// Size of a piece; a raft entry has at most 8 MB.
pub(crate) const PIECE_BYTES: usize = 1 << 20;
const PREFIX_BYTES_MAX: usize = 64;
/// Parts over which documents are spread. Stored keys rest on it.
pub(crate) const PARTS: u8 = 16;
/// The first byte of [`SPREAD`], and of the first part.
const FIRST_PART: u8 = (SPREAD >> 24) as u8;

const INLINE: u8 = 0;
const PIECES: u8 = 1;

/// Whether a name can be the prefix of a database's keys.
pub fn is_prefix(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=PREFIX_BYTES_MAX).contains(&name.len()) && name.bytes().all(plain)
}

/// A key with an end, so that what follows does not change the order: zero bytes are doubled by
/// `FF`, and `00 01` is the end.
fn escape(key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.len() + 2);
    for byte in key {
        bytes.push(*byte);
        if *byte == 0 {
            bytes.push(0xFF);
        }
    }
    bytes.extend([0, 1]);
    bytes
}

fn unescape(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = bytes.strip_suffix(&[0, 1])?.iter();
    let mut key = Vec::with_capacity(bytes.len());
    while let Some(byte) = bytes.next() {
        key.push(*byte);
        if *byte == 0 && bytes.next() != Some(&0xFF) {
            return None;
        }
    }
    Some(key)
}

/// Bytes of a member and a slot at the end of a key.
const SLOT_BYTES: usize = 3;

/// One of the slots of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotId {
    pub(crate) member: u16,
    pub(crate) slot: u8,
}

impl SlotId {
    fn to_bytes(self) -> [u8; SLOT_BYTES] {
        let [high, low] = self.member.to_be_bytes();
        [high, low, self.slot]
    }
}

/// How a value is stored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StoredValue<'a> {
    /// The value is in the row itself.
    Inline(&'a [u8]),
    /// The value is in pieces; its total length.
    Pieces(usize),
}

/// Decodes a row; `None` when it is damaged.
pub(crate) fn decode_row(row: &[u8]) -> Option<StoredValue<'_>> {
    match row.split_first()? {
        (&INLINE, value) => Some(StoredValue::Inline(value)),
        (&PIECES, len) => {
            let len = u32::from_be_bytes(len.try_into().ok()?);
            Some(StoredValue::Pieces(usize::try_from(len).ok()?))
        }
        _ => None,
    }
}

/// The row of a value that is stored in it.
pub(crate) fn inline(value: &[u8]) -> Vec<u8> {
    [&[INLINE], value].concat()
}

/// The row of a value that is stored in pieces. Values are below 2^32 bytes by `Caps`.
pub(crate) fn encode_pieces_row(len: usize) -> Vec<u8> {
    [&[PIECES][..], &(len as u32).to_be_bytes()].concat()
}

/// Number of pieces of a value.
pub(crate) fn pieces(len: usize) -> u32 {
    len.div_ceil(PIECE_BYTES) as u32
}

/// The ident at the beginning of a key; 0 in `Meta`, whose keys have none.
pub(crate) fn ident(table: Table, key: &[u8]) -> u32 {
    match key.first_chunk::<IDENT_BYTES>() {
        Some(ident) if table != Table::Meta => u32::from_be_bytes(*ident),
        _ => 0,
    }
}

/// The keys of one database.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    prefix: Vec<u8>,
}

impl Layout {
    /// The layout of the database with this name.
    pub(crate) fn new(prefix: &str) -> Layout {
        // No name contains a zero byte, so the keys of different databases are never mixed.
        Layout {
            prefix: [prefix.as_bytes(), &[0]].concat(),
        }
    }

    fn key(&self, kind: u8, parts: &[&[u8]]) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.prefix.len() + 1 + 16);
        key.extend_from_slice(&self.prefix);
        key.push(kind);
        parts.iter().for_each(|part| key.extend_from_slice(part));
        key
    }

    pub(crate) fn format(&self) -> Vec<u8> {
        self.key(1, &[])
    }

    pub(crate) fn lease(&self) -> Vec<u8> {
        self.key(2, &[])
    }

    pub(crate) fn fence(&self) -> Vec<u8> {
        self.key(3, &[])
    }

    pub(crate) fn announcement_key(&self) -> Vec<u8> {
        self.key(7, &[])
    }

    pub(crate) fn member(&self, number: u16) -> Vec<u8> {
        self.key(8, &[&number.to_be_bytes()])
    }

    /// Every row of [`Layout::member`].
    pub(crate) fn members(&self) -> Range<Vec<u8>> {
        self.key(8, &[])..self.key(9, &[])
    }

    /// The number from which [`Layout::member`] made a key.
    pub(crate) fn parse_member(&self, key: &[u8]) -> Option<u16> {
        let number = key.get(self.prefix.len() + 1..)?;
        Some(u16::from_be_bytes(number.try_into().ok()?))
    }

    pub(crate) fn slot(&self, id: SlotId) -> Vec<u8> {
        self.key(9, &[&id.to_bytes()])
    }

    /// Every row of [`Layout::slot`].
    pub(crate) fn slots(&self) -> Range<Vec<u8>> {
        self.key(9, &[])..self.key(10, &[])
    }

    pub(crate) fn roster(&self) -> Vec<u8> {
        self.key(10, &[])
    }

    pub(crate) fn turn(&self) -> Vec<u8> {
        self.key(11, &[])
    }

    /// Up to which millisecond a member with this number may have numbered rows.
    pub(crate) fn numbered(&self, number: u16) -> Vec<u8> {
        self.key(12, &[&number.to_be_bytes()])
    }

    /// The part of a counter that belongs to a slot. Parts are in the order of their counters.
    pub(crate) fn counter_part(&self, stored: &[u8], id: SlotId) -> Vec<u8> {
        self.key(0x30, &[&escape(stored), &id.to_bytes()])
    }

    /// The parts of counters from one key on and before another.
    pub(crate) fn counter_parts(&self, lower: &[u8], upper: &[u8]) -> Range<Vec<u8>> {
        self.key(0x30, &[&escape(lower)])..self.key(0x30, &[&escape(upper)])
    }

    /// The counter's key from which [`Layout::counter_part`] made a key; `None` when it is damaged.
    pub(crate) fn parse_counter_part(&self, key: &[u8]) -> Option<Vec<u8>> {
        let end = key.len().checked_sub(SLOT_BYTES)?;
        unescape(key.get(self.prefix.len() + 1..end)?)
    }

    pub(crate) fn decision_key(&self) -> Vec<u8> {
        self.key(4, &[])
    }

    pub(crate) fn part(&self, number: u32) -> Vec<u8> {
        self.key(5, &[&number.to_be_bytes()])
    }

    pub(crate) fn with_pieces(&self, table: Table, ident: u32) -> Vec<u8> {
        self.key(6, &[&[table as u8], &ident.to_be_bytes()])
    }

    /// Every row of [`Layout::with_pieces`].
    pub(crate) fn piece_marker_range(&self) -> Range<Vec<u8>> {
        self.key(6, &[])..self.key(7, &[])
    }

    /// The table and ident from which [`Layout::with_pieces`] made a key.
    pub(crate) fn parse_with_pieces(&self, key: &[u8]) -> Option<(Table, u32)> {
        let (table, ident) = key.get(self.prefix.len() + 1..)?.split_first()?;
        let ident = u32::from_be_bytes(ident.try_into().ok()?);
        Some((Table::from_number(*table)?, ident))
    }

    pub(crate) fn row(&self, table: Table, stored: &[u8]) -> Vec<u8> {
        self.key(
            0x10 + table as u8,
            &[part_of(table, stored).as_slice(), stored],
        )
    }

    /// The stored key of a row.
    pub(crate) fn stored_key<'k>(&self, row: &'k [u8]) -> &'k [u8] {
        let is_document = row.get(self.prefix.len()) == Some(&(0x10 + Table::Doc as u8));
        let stored = row.get(self.prefix.len() + 1..).unwrap_or_default();
        match stored.split_first() {
            Some((part, stored)) if is_document && *part >= FIRST_PART => stored,
            _ => stored,
        }
    }

    /// The row that a stored key of a document would have in the part with this number.
    pub(crate) fn row_in_part(&self, part: u8, stored: &[u8]) -> Vec<u8> {
        self.key(0x10 + Table::Doc as u8, &[&[FIRST_PART + part], stored])
    }

    pub(crate) fn piece(&self, table: Table, stored: &[u8], number: u32) -> Vec<u8> {
        let (part, number) = (part_of(table, stored), number.to_be_bytes());
        self.key(0x20 + table as u8, &[part.as_slice(), stored, &number])
    }

    /// All pieces of the values of a table.
    pub(crate) fn pieces(&self, table: Table) -> Range<Vec<u8>> {
        self.key(0x20 + table as u8, &[])..self.key(0x21 + table as u8, &[])
    }

    /// The rows that may hold keys of a range.
    pub(crate) fn rows(&self, table: Table, range: KeyRange<'_>) -> RowRanges {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let (from, to) = storage::emulate::long_keys::stored_range(range.lower, range.upper);
        let from = match from {
            Included(key) | Excluded(key) => key,
            Unbounded => &[],
        };
        let to = match to {
            Included(key) => Some([key, &[0]].concat()),
            Excluded(key) => Some(key.to_vec()),
            Unbounded => None,
        };
        let kind = 0x10 + table as u8;
        let end = || self.key(kind + 1, &[]);
        let has_spread = |key: &[u8]| table == Table::Doc && is_spread(key);
        let reaches_spread =
            table == Table::Doc && to.as_deref().is_none_or(|to| to > [FIRST_PART].as_slice());
        let unspread = (!has_spread(from)).then(|| {
            let upper = match &to {
                _ if reaches_spread => self.key(kind, &[&[FIRST_PART]]),
                Some(to) => self.key(kind, &[to]),
                None => end(),
            };
            self.key(kind, &[from])..upper
        });
        let parts = if reaches_spread { 0..PARTS } else { 0..0 };
        let of_part = |part: u8| {
            let from = if has_spread(from) { from } else { &[] };
            let upper = match &to {
                Some(to) => self.row_in_part(part, to),
                None => self.row_in_part(part + 1, &[]),
            };
            self.row_in_part(part, from)..upper
        };
        RowRanges {
            unspread,
            parts: parts.map(of_part).collect(),
        }
    }
}

/// Where the rows of a range of keys lie.
pub(crate) struct RowRanges {
    /// The rows of keys that are not spread, which are before all others.
    pub(crate) unspread: Option<Range<Vec<u8>>>,
    /// The rows in each part; empty when no key of the range is spread.
    pub(crate) parts: Vec<Range<Vec<u8>>>,
}

fn is_spread(stored: &[u8]) -> bool {
    stored.first().is_some_and(|first| *first >= FIRST_PART)
}

/// The byte of the part to which a stored key belongs, if it is spread.
fn part_of(table: Table, stored: &[u8]) -> Option<u8> {
    let is_spread = table == Table::Doc && is_spread(stored);
    is_spread.then(|| FIRST_PART + hash(stored) % PARTS)
}

/// FNV-1a, folded to a byte. Stored keys rest on it.
fn hash(stored: &[u8]) -> u8 {
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let hash = stored.iter().fold(0xcbf2_9ce4_8422_2325, add);
    hash.to_le_bytes()
        .iter()
        .fold(0, |folded, byte| folded ^ byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_rows() {
        for (name, good) in [
            ("quarry", true),
            ("a-B_9", true),
            ("", false),
            ("a/b", false),
        ] {
            assert_eq!(is_prefix(name), good, "{name}");
        }
        assert!(!is_prefix(&"x".repeat(65)));
        for value in [&b""[..], b"value"] {
            assert_eq!(decode_row(&inline(value)), Some(StoredValue::Inline(value)));
        }
        assert_eq!(
            decode_row(&encode_pieces_row(70_000)),
            Some(StoredValue::Pieces(70_000))
        );
        for damaged in [&b""[..], b"\x01\0\0", b"\x02"] {
            assert_eq!(decode_row(damaged), None);
        }
        assert_eq!(
            (pieces(1), pieces(PIECE_BYTES), pieces(PIECE_BYTES + 1)),
            (1, 1, 2)
        );
    }

    #[test]
    fn tables_and_databases_lie_apart() {
        let (one, two) = (Layout::new("a"), Layout::new("a-"));
        let all = one.rows(Table::Doc, KeyRange::ALL);
        assert!(all.contains(&one.row(Table::Doc, &[0xFF, 0xFE])));
        assert!(!all.contains(&one.row(Table::Idx, b"")));
        assert!(!all.contains(&one.row(Table::Idx, &[0xFF])));
        assert!(!all.contains(&two.row(Table::Doc, b"k")));
        assert_eq!(one.stored_key(&one.row(Table::Doc, b"key")), b"key");
        let listed = one.with_pieces(Table::Cap, 7);
        assert!(one.piece_marker_range().contains(&listed));
        assert_eq!(one.parse_with_pieces(&listed), Some((Table::Cap, 7)));
    }

    impl RowRanges {
        fn contains(&self, row: &[u8]) -> bool {
            let mut all = self.unspread.iter().chain(&self.parts);
            all.any(|range| range.start.as_slice() <= row && row < range.end.as_slice())
        }
    }

    #[test]
    fn growing_keys_are_spread_evenly() {
        let layout = Layout::new("a");
        let mut counts = [0; PARTS as usize];
        for n in 0..16_000u32 {
            // As ObjectId grows: seconds, then a number.
            let id = [&(n / 100).to_be_bytes()[..], &[9; 5], &n.to_be_bytes()].concat();
            let stored = [&(SPREAD | 7).to_be_bytes()[..], &id].concat();
            let row = layout.row(Table::Doc, &stored);
            assert_eq!(layout.stored_key(&row), stored);
            counts[usize::from(row[layout.prefix.len() + 1] - FIRST_PART)] += 1;
        }
        assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
        // Stored rows rest on it.
        let part = |key: &[u8]| part_of(Table::Doc, key).map(|part| part - FIRST_PART);
        assert_eq!(part(&[0x80, 0, 0, 7]), Some(12));
        assert_eq!(part(&[0x80, 0, 0, 7, b'a']), Some(10));
        assert_eq!(part(&[0x7f, 0, 0, 7]), None);
    }

    #[test]
    fn a_range_has_the_rows_of_its_spread_keys() {
        let layout = Layout::new("a");
        let keys: Vec<Vec<u8>> = [7, SPREAD | 1, SPREAD | 2]
            .iter()
            .flat_map(|ident: &u32| (0..40u8).map(|n| [&ident.to_be_bytes()[..], &[n]].concat()))
            .collect();
        for (from, lower) in keys.iter().enumerate() {
            for (to, upper) in keys.iter().enumerate().skip(from) {
                let ranges = layout.rows(Table::Doc, KeyRange::new(lower, upper));
                for (n, key) in keys.iter().enumerate() {
                    let row = layout.row(Table::Doc, key);
                    assert_eq!(
                        ranges.contains(&row),
                        (from..to).contains(&n),
                        "{from} {to} {n}"
                    );
                }
            }
        }
        let plain = layout.rows(Table::Doc, KeyRange::new(&keys[0], &keys[1]));
        assert!(plain.parts.is_empty() && plain.unspread.is_some());
        let spread = layout.rows(Table::Doc, KeyRange::new(&keys[40], &keys[41]));
        assert!(spread.unspread.is_none() && spread.parts.len() == usize::from(PARTS));
    }

    #[test]
    fn parts_of_counters_are_in_the_order_of_their_keys() {
        let layout = Layout::new("a");
        let mut keys: Vec<Vec<u8>> = vec![vec![]];
        for _ in 0..4 {
            let longer = |key: &Vec<u8>| [0, 1, 7, 0xFF].map(|byte| [&key[..], &[byte]].concat());
            keys.extend(keys.clone().iter().flat_map(longer));
        }
        keys.sort();
        keys.dedup();
        let id = |slot| SlotId { member: 1, slot };
        for pair in keys.windows(2) {
            let parts = layout.counter_parts(&pair[0], &pair[1]);
            for slot in [0, 15, 255] {
                let row = layout.counter_part(&pair[0], id(slot));
                assert!(parts.contains(&row), "{pair:02x?} {slot}");
                assert!(!parts.contains(&layout.counter_part(&pair[1], id(slot))));
                assert_eq!(layout.parse_counter_part(&row).as_ref(), Some(&pair[0]));
            }
        }
    }

    #[test]
    fn a_range_that_ends_in_a_bucket_includes_it() {
        let layout = Layout::new("a");
        let long = vec![7u8; 600];
        let range = layout.rows(Table::Doc, KeyRange::new(b"", &long));
        assert!(range.contains(&layout.row(Table::Doc, &long[..480])));
        assert!(!range.contains(&layout.row(Table::Doc, &[8])));
    }
}
