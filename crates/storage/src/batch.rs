//! A write batch: many changes over several tables in one contiguous buffer, applied atomically and
//! in order.
//!
//! Layout of [`WriteBatch::as_bytes`]: a header of 8 zero bytes and the number of operations (u32,
//! little-endian), then per operation `code(1) table(1) varint(len) key`, and `varint(len) value`
//! if it has a value (for a range: the upper bound). The codes are those of RocksDB's batch format,
//! so that engine takes the buffer with a single copy instead of one call per key; engines with
//! another format iterate over the operations.

use crate::keys::Table;

const HEADER_BYTES: usize = 12;
const COUNT_AT: usize = 8;

const CODE_DELETE: u8 = 4;
const CODE_PUT: u8 = 5;
const CODE_ADD: u8 = 6;
const CODE_DELETE_RANGE: u8 = 14;

/// Bytes of a counter pair as stored.
pub const COUNTER_BYTES: usize = 16;

/// A counter pair as stored: two little-endian i64.
pub fn counter_encode(pair: [i64; 2]) -> [u8; COUNTER_BYTES] {
    let mut bytes = [0; COUNTER_BYTES];
    let (first, second) = bytes.split_at_mut(8);
    first.copy_from_slice(&pair[0].to_le_bytes());
    second.copy_from_slice(&pair[1].to_le_bytes());
    bytes
}

/// Reads a counter pair; anything that is not exactly sixteen bytes counts as zero, so that merging
/// is total.
pub fn counter_decode(bytes: &[u8]) -> [i64; 2] {
    match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(second)) if bytes.len() == COUNTER_BYTES => {
            [i64::from_le_bytes(*first), i64::from_le_bytes(*second)]
        }
        _ => [0, 0],
    }
}

/// Adds two pairs, wrapping: associative and total.
pub fn counter_add(left: [i64; 2], right: [i64; 2]) -> [i64; 2] {
    [
        left[0].wrapping_add(right[0]),
        left[1].wrapping_add(right[1]),
    ]
}

/// Changes to be applied together. Reuse one per worker: `clear` keeps the memory.
#[derive(Clone)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    count: u32,
    longest_key: usize,
    shrinks: bool,
    positions: u32,
}

/// A position in a batch to roll back to, for undoing one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Savepoint {
    len: usize,
    count: u32,
    longest_key: usize,
}

/// Where the key and the value of a put lie in the buffer of its batch. Valid until operations
/// before it are rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PutOffsets {
    /// First byte of the key.
    pub key: usize,
    /// First byte of the value.
    pub value: usize,
}

/// One operation of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchOp<'a> {
    /// Sets a key.
    Put {
        /// Table of the row.
        table: Table,
        /// Key of the row.
        key: &'a [u8],
        /// New value.
        value: &'a [u8],
    },
    /// Removes a key; an absent key is fine.
    Delete {
        /// Table of the row.
        table: Table,
        /// Key of the row.
        key: &'a [u8],
    },
    /// Removes all keys from `lower` up to but not including `upper`.
    DeleteRange {
        /// Table of the range.
        table: Table,
        /// First key that is removed.
        lower: &'a [u8],
        /// First key that is not removed.
        upper: &'a [u8],
    },
    /// Adds to a counter pair; an absent key counts as zero.
    Add {
        /// Table of the row.
        table: Table,
        /// Key of the row.
        key: &'a [u8],
        /// The pair to add.
        delta: [i64; 2],
    },
}

impl BatchOp<'_> {
    /// Whether it changes a row that other processes keep in memory, see
    /// [`crate::Engine::announce`].
    pub fn changes_kept(&self, kept: fn(Table, &[u8]) -> bool) -> bool {
        match *self {
            BatchOp::Put { table, key, .. } | BatchOp::Delete { table, key } => kept(table, key),
            // Counters are read again when they are needed.
            BatchOp::Add { .. } => false,
            BatchOp::DeleteRange { table, .. } => table == Table::Meta,
        }
    }
}

impl Default for WriteBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl WriteBatch {
    /// An empty batch; allocates the header only.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty batch with room for `bytes` of operations.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut buffer = Vec::with_capacity(HEADER_BYTES + bytes);
        buffer.resize(HEADER_BYTES, 0);
        Self {
            bytes: buffer,
            count: 0,
            longest_key: 0,
            shrinks: false,
            positions: 1,
        }
    }

    /// Removes all operations and declarations, keeps the memory.
    pub fn clear(&mut self) {
        self.shrinks = false;
        self.positions = 1;
        self.rollback_to(Savepoint {
            len: HEADER_BYTES,
            count: 0,
            longest_key: 0,
        });
    }

    /// Frees the memory of the buffer when it is larger than `bytes_max`; the operations are
    /// removed then.
    pub fn shrink(&mut self, bytes_max: usize) {
        if self.bytes.capacity() > bytes_max {
            self.clear();
            self.bytes.shrink_to(bytes_max);
        }
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.push(CODE_PUT, table, key, Some(value));
    }

    /// Sets `key` to the concatenation of the parts, each of which is copied once.
    ///
    /// # Output
    /// Where key and value lie, for [`WriteBatch::patch`].
    pub fn put_parts<'p>(
        &mut self,
        table: Table,
        key: &[u8],
        parts: impl Iterator<Item = &'p [u8]> + Clone,
    ) -> PutOffsets {
        let len = parts.clone().map(<[u8]>::len).sum::<usize>();
        self.bytes.reserve(20 + key.len() + len);
        self.longest_key = self.longest_key.max(key.len());
        self.bytes.extend_from_slice(&[CODE_PUT, table as u8]);
        push_sized(&mut self.bytes, key);
        let key_at = self.bytes.len() - key.len();
        push_len(&mut self.bytes, len);
        let value_at = self.bytes.len();
        parts.for_each(|part| self.bytes.extend_from_slice(part));
        self.set_count(self.count.saturating_add(1));
        PutOffsets {
            key: key_at,
            value: value_at,
        }
    }

    /// Overwrites bytes of an operation in the batch without changing its lengths. A place beyond
    /// the end changes nothing.
    pub fn patch(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at.saturating_add(bytes.len())) {
            place.copy_from_slice(bytes);
        }
    }

    /// Removes `key` if it exists.
    pub fn delete(&mut self, table: Table, key: &[u8]) {
        self.push(CODE_DELETE, table, key, None);
    }

    /// Removes every key in `lower..upper`. Only where `Caps::delete_range` says so; costly for
    /// later readers on some engines, so use it for ranges that are large or of unknown size. An
    /// empty or inverted range adds nothing: RocksDB would treat it as a failed insertion and turn
    /// read-only.
    pub fn delete_range(&mut self, table: Table, lower: &[u8], upper: &[u8]) {
        if lower >= upper {
            return;
        }
        self.push(CODE_DELETE_RANGE, table, lower, Some(upper));
    }

    /// Adds `delta` to the counter pair at `key` without reading it.
    pub fn add(&mut self, table: Table, key: &[u8], delta: [i64; 2]) {
        self.push(CODE_ADD, table, key, Some(&counter_encode(delta)));
    }

    /// Declares that the whole batch leaves no more data than before: each value it puts replaces
    /// one that is at least as long. An engine that refuses growth when space is short accepts such
    /// a batch, as it accepts one without puts. Only the caller knows the replaced values, so a
    /// batch counts as growing without this call. Applies to operations added later, too, until
    /// [`WriteBatch::clear`].
    pub fn set_shrinks(&mut self) {
        self.shrinks = true;
    }

    /// Whether [`WriteBatch::set_shrinks`] was called.
    pub fn shrinks(&self) -> bool {
        self.shrinks
    }

    /// Declares that the commit takes so many positions in a row, of which its own is the last; no
    /// other commit has one of them. For units of engines with several writing processes; others
    /// give one. Until [`WriteBatch::clear`].
    pub fn take_positions(&mut self, count: u32) {
        self.positions = count.max(1);
    }

    /// Number of positions that the commit takes.
    pub fn positions(&self) -> u32 {
        self.positions
    }

    /// Appends all operations of `other`; the result shrinks only if both batches do.
    pub fn append(&mut self, other: &Self) {
        self.shrinks = other.shrinks && (self.shrinks || self.is_empty());
        self.bytes
            .extend_from_slice(other.bytes.get(HEADER_BYTES..).unwrap_or_default());
        self.longest_key = self.longest_key.max(other.longest_key);
        self.set_count(self.count.saturating_add(other.count));
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether it has no operations.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Length of its longest key, for engines to compare with `Caps::key_bytes_max` without a walk.
    pub fn longest_key_bytes(&self) -> usize {
        self.longest_key
    }

    /// Bytes of the whole buffer: what a journal would have to write.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The buffer in the layout described above.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The current end, for [`WriteBatch::rollback_to`].
    pub fn mark(&self) -> Savepoint {
        Savepoint {
            len: self.bytes.len(),
            count: self.count,
            longest_key: self.longest_key,
        }
    }

    /// Undoes everything after `mark`; a mark beyond the end changes nothing.
    pub fn rollback_to(&mut self, mark: Savepoint) {
        if mark.len <= self.bytes.len() {
            self.bytes.truncate(mark.len);
            self.longest_key = mark.longest_key;
            self.set_count(mark.count);
        }
    }

    /// The operations in the order they were added.
    pub fn iter(&self) -> BatchIter<'_> {
        BatchIter {
            rest: self.bytes.get(HEADER_BYTES..).unwrap_or_default(),
        }
    }

    fn push(&mut self, code: u8, table: Table, key: &[u8], value: Option<&[u8]>) {
        // Twenty bytes cover the two codes and both lengths; one reservation instead of up to six.
        self.bytes
            .reserve(20 + key.len() + value.map_or(0, <[u8]>::len));
        self.longest_key = self.longest_key.max(key.len());
        self.bytes.extend_from_slice(&[code, table as u8]);
        push_sized(&mut self.bytes, key);
        if let Some(value) = value {
            push_sized(&mut self.bytes, value);
        }
        self.set_count(self.count.saturating_add(1));
    }

    fn set_count(&mut self, count: u32) {
        self.count = count;
        if let Some(field) = self.bytes.get_mut(COUNT_AT..HEADER_BYTES) {
            field.copy_from_slice(&count.to_le_bytes());
        }
    }
}

impl std::fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

fn push_sized(bytes: &mut Vec<u8>, part: &[u8]) {
    push_len(bytes, part.len());
    bytes.extend_from_slice(part);
}

fn push_len(bytes: &mut Vec<u8>, mut len: usize) {
    while len >= 0x80 {
        bytes.push((len & 0x7F) as u8 | 0x80);
        len >>= 7;
    }
    bytes.push(len as u8);
}

/// Walks the operations of a [`WriteBatch`].
#[derive(Debug, Clone)]
pub struct BatchIter<'a> {
    rest: &'a [u8],
}

impl<'a> BatchIter<'a> {
    fn take_sized(&mut self) -> Option<&'a [u8]> {
        let mut len = 0usize;
        let mut shift = 0;
        loop {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            len |= usize::from(byte & 0x7F).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
        }
        let (part, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(part)
    }
}

impl<'a> Iterator for BatchIter<'a> {
    type Item = BatchOp<'a>;

    fn next(&mut self) -> Option<BatchOp<'a>> {
        let (&[code, table], rest) = self.rest.split_first_chunk::<2>()?;
        self.rest = rest;
        let table = Table::from_number(table)?;
        let key = self.take_sized()?;
        Some(match code {
            CODE_PUT => BatchOp::Put {
                table,
                key,
                value: self.take_sized()?,
            },
            CODE_DELETE => BatchOp::Delete { table, key },
            CODE_DELETE_RANGE => BatchOp::DeleteRange {
                table,
                lower: key,
                upper: self.take_sized()?,
            },
            CODE_ADD => BatchOp::Add {
                table,
                key,
                delta: counter_decode(self.take_sized()?),
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_batch_gives_its_memory_back_although_it_is_full() {
        let mut batch = WriteBatch::new();
        batch.put(Table::Doc, b"key", &[7; 100_000]);
        batch.shrink(200_000);
        assert!(batch.byte_len() > 100_000, "small enough to be kept");
        batch.shrink(10_000);
        assert!(batch.bytes.capacity() <= 10_000 && batch.is_empty());
    }

    #[test]
    fn operations_come_back_in_order() {
        let mut batch = WriteBatch::new();
        let long = vec![7u8; 70_000];
        batch.put(Table::Doc, b"k", &long);
        batch.delete(Table::Idx, b"");
        batch.delete_range(Table::Cap, b"a", b"b");
        batch.delete_range(Table::Cap, b"b", b"a");
        batch.add(Table::Meta, b"n", [-1, i64::MAX]);
        let ops: Vec<_> = batch.iter().collect();
        assert_eq!(
            ops,
            [
                BatchOp::Put {
                    table: Table::Doc,
                    key: b"k",
                    value: &long
                },
                BatchOp::Delete {
                    table: Table::Idx,
                    key: b""
                },
                BatchOp::DeleteRange {
                    table: Table::Cap,
                    lower: b"a",
                    upper: b"b"
                },
                BatchOp::Add {
                    table: Table::Meta,
                    key: b"n",
                    delta: [-1, i64::MAX]
                },
            ]
        );
        assert_eq!(batch.as_bytes().get(8..12), Some(&[4u8, 0, 0, 0][..]));
    }

    #[test]
    fn a_put_of_parts_can_be_patched() {
        let mut batch = WriteBatch::new();
        batch.delete(Table::Doc, b"before");
        let long = vec![7u8; 300];
        let at = batch.put_parts(Table::Log, b"key", [&b"12"[..], &long].into_iter());
        batch.put(Table::Doc, b"behind", b"");
        batch.patch(at.key, b"abc");
        batch.patch(at.value, b"34");
        batch.patch(usize::MAX, b"nowhere");
        let value = [&b"34"[..], &long].concat();
        let put = BatchOp::Put {
            table: Table::Log,
            key: b"abc",
            value: &value,
        };
        assert_eq!((batch.len(), batch.iter().nth(1)), (3, Some(put)));
    }

    #[test]
    fn rollback_and_append_keep_the_count() {
        let mut batch = WriteBatch::new();
        batch.put(Table::Doc, b"a", b"1");
        let mark = batch.mark();
        batch.put(Table::Doc, b"b", b"2");
        batch.rollback_to(mark);
        let mut whole = batch.clone();
        whole.append(&batch);
        assert_eq!(
            (
                batch.len(),
                batch.iter().count(),
                whole.len(),
                whole.iter().count()
            ),
            (1, 1, 2, 2)
        );
        batch.clear();
        assert!(batch.is_empty() && batch.iter().next().is_none());
    }

    #[test]
    fn a_sum_of_batches_shrinks_only_if_each_was_declared_to_shrink() {
        let mut shrinking = WriteBatch::new();
        shrinking.put(Table::Doc, b"a", b"1");
        assert!(!shrinking.shrinks());
        shrinking.set_shrinks();
        let mut sum = WriteBatch::new();
        sum.append(&shrinking);
        assert!(sum.shrinks(), "an empty batch adds nothing");
        let mut growing = WriteBatch::new();
        growing.put(Table::Doc, b"b", b"2");
        sum.append(&growing);
        assert!(!sum.shrinks());
        growing.append(&shrinking);
        assert!(!growing.shrinks());
        shrinking.clear();
        assert!(!shrinking.shrinks());
    }

    #[test]
    fn counters_are_total() {
        assert_eq!(
            counter_decode(&counter_encode([-5, i64::MIN])),
            [-5, i64::MIN]
        );
        assert_eq!(counter_decode(b"short"), [0, 0]);
        assert_eq!(counter_decode(&[1; 17]), [0, 0]);
        assert_eq!(counter_add([i64::MAX, 1], [1, -1]), [i64::MIN, 0]);
    }
}
