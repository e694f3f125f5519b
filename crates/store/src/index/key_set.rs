//! The keys of one document in one index.

/// Encoded keys of one document in one index, in one buffer.
#[derive(Default, Clone)]
pub struct KeySet {
    pub(super) bytes: Vec<u8>,
    ranges: Vec<Range>,
    /// Bits of fields that went through an array.
    pub multikey: u32,
}

/// Where a key lies in the buffer, followed by its marks.
#[derive(Clone, Copy)]
struct Range {
    start: u32,
    marks: u32,
    end: u32,
}

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key<'k> {
    /// Components of the key.
    pub components: &'k [u8],
    /// The information about its values that the components lack (`marks.rs`); empty when nothing
    /// is missing, and in indexes without marks.
    pub marks: &'k [u8],
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
        self.end_marked(start, self.begin());
    }
    /// Ends a key whose marks begin at `marks`.
    pub(super) fn end_marked(&mut self, start: u32, marks: u32) {
        let end = self.begin();
        self.ranges.push(Range { start, marks, end });
    }
    pub(super) fn sort(&mut self) {
        if self.ranges.len() > 1 {
            let bytes = &self.bytes;
            self.ranges
                .sort_unstable_by(|a, b| key(bytes, a).cmp(&key(bytes, b)));
            let same = |a: &Range, b: &Range| key(bytes, a).components == key(bytes, b).components;
            self.ranges.dedup_by(|a, b| same(a, b));
        }
    }
    /// Frees the buffers when a large document has grown them beyond `bytes_max`; the keys are
    /// removed.
    pub(crate) fn shrink(&mut self, bytes_max: usize) {
        self.bytes.clear();
        self.ranges.clear();
        self.bytes.shrink_to(bytes_max);
        self.ranges.shrink_to(bytes_max / size_of::<Range>());
    }
    /// The components of the keys, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        self.keys().map(|k| k.components)
    }
    /// The keys, ascending.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = Key<'_>> + ExactSizeIterator {
        self.ranges.iter().map(|r| key(&self.bytes, r))
    }
    /// Bytes of all keys, or slightly more.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }
    /// Whether it has no keys.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
    /// Whether it has a key with these components.
    pub fn contains(&self, components: &[u8]) -> bool {
        self.get(components).is_some()
    }
    /// The key with these components.
    pub fn get(&self, components: &[u8]) -> Option<Key<'_>> {
        let compare = |r: &Range| key(&self.bytes, r).components.cmp(components);
        let at = self.ranges.binary_search_by(compare).ok()?;
        self.ranges.get(at).map(|r| key(&self.bytes, r))
    }
}

fn key<'k>(bytes: &'k [u8], r: &Range) -> Key<'k> {
    Key {
        components: &bytes[r.start as usize..r.marks as usize],
        marks: &bytes[r.marks as usize..r.end as usize],
    }
}
