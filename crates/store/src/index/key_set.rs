//! The keys of one document in one index.

/// Encoded keys of one document in one index, in one buffer.
#[derive(Default, Clone)]
pub struct KeySet {
    pub(super) bytes: Vec<u8>,
    ranges: Vec<(u32, u32)>,
    /// Bits of fields that went through an array.
    pub multikey: u32,
}

impl KeySet {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ranges.clear();
        self.multikey = 0;
    }
    pub(super) fn begin(&self) -> u32 {
        self.bytes.len() as u32
    }
    pub(super) fn end(&mut self, start: u32) {
        self.ranges.push((start, self.bytes.len() as u32));
    }
    pub(super) fn sort(&mut self) {
        if self.ranges.len() > 1 {
            let bytes = &self.bytes;
            let key = |r: &(u32, u32)| &bytes[r.0 as usize..r.1 as usize];
            self.ranges.sort_unstable_by(|a, b| key(a).cmp(key(b)));
            self.ranges.dedup_by(|a, b| key(a) == key(b));
        }
    }
    /// Gives memory back when a large document has blown the buffers up beyond `bytes_max`; forgets
    /// the keys.
    pub(crate) fn shrink(&mut self, bytes_max: usize) {
        self.bytes.clear();
        self.ranges.clear();
        self.bytes.shrink_to(bytes_max);
        self.ranges.shrink_to(bytes_max / size_of::<(u32, u32)>());
    }
    /// The keys, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        self.ranges
            .iter()
            .map(|r| &self.bytes[r.0 as usize..r.1 as usize])
    }
    /// Bytes of all keys.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }
    /// No keys.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
    /// True when `key` is among them.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.ranges
            .binary_search_by(|r| self.bytes[r.0 as usize..r.1 as usize].cmp(key))
            .is_ok()
    }
}
