//! A batch of rows in one buffer that the caller owns and reuses: no allocation per row once it has
//! grown.

/// Rows delivered by a cursor: keys and values side by side in one buffer.
#[derive(Debug, Clone, Default)]
pub struct RowBatch {
    bytes: Vec<u8>,
    // End of the key and end of the value of each row; a row begins where the one before it ends.
    ends: Vec<(usize, usize)>,
}

impl RowBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes the rows, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Removes the rows after the one that reaches this many bytes. True when there were any.
    pub fn cut_at(&mut self, bytes_max: usize) -> bool {
        let reaching = self.ends.partition_point(|(_, end)| *end < bytes_max);
        let kept = (reaching + 1).min(self.ends.len());
        let was_cut = kept < self.ends.len();
        self.ends.truncate(kept);
        self.bytes
            .truncate(self.ends.last().map_or(0, |(_, end)| *end));
        was_cut
    }

    /// Appends one row.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.reserve(key.len() + value.len());
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all keys and values.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory held.
    pub fn capacity_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<(usize, usize)>()
    }

    /// Frees the memory when a large row has grown the buffer beyond `bytes_max`.
    pub fn shrink(&mut self, bytes_max: usize) {
        if self.bytes.capacity() > bytes_max {
            self.bytes.shrink_to(bytes_max);
        }
    }

    /// Key and value of row `index`.
    pub fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let (key_end, value_end) = *self.ends.get(index)?;
        let start = match index.checked_sub(1) {
            Some(before) => self.ends.get(before)?.1,
            None => 0,
        };
        Some((
            self.bytes.get(start..key_end)?,
            self.bytes.get(key_end..value_end)?,
        ))
    }

    /// The last row; the next batch continues after it.
    pub fn last(&self) -> Option<(&[u8], &[u8])> {
        self.get(self.len().checked_sub(1)?)
    }

    /// All rows in delivery order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + '_ {
        let mut start = 0;
        self.ends.iter().map(move |&(key_end, value_end)| {
            let row = (&self.bytes[start..key_end], &self.bytes[key_end..value_end]);
            start = value_end;
            row
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_pushed() {
        let mut rows = RowBatch::new();
        rows.push(b"a", b"1");
        rows.push(b"bb", b"");
        rows.push(b"", b"333");
        let listed: Vec<_> = rows.iter().collect();
        assert_eq!(
            listed,
            [(&b"a"[..], &b"1"[..]), (b"bb", b""), (b"", b"333")]
        );
        for (index, row) in listed.iter().enumerate() {
            assert_eq!(rows.get(index), Some(*row));
        }
        assert_eq!(rows.get(3), None);
        assert_eq!(rows.last(), Some((&b""[..], &b"333"[..])));
        rows.clear();
        assert!(rows.is_empty() && rows.last().is_none());
    }
}
