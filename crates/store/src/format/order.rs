//! The row that every change of the number, the sizes or the order of the documents of a capped
//! collection writes where several processes write: five numbers of eight bytes, big-endian. Must
//! not know: who reads it.

/// Where the order of a capped collection ends, and what is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OrderEnd {
    /// The last number that a document has got.
    pub(crate) last: u64,
    /// No document has a lower number.
    pub(crate) first: u64,
    /// Number of documents.
    pub(crate) docs: u64,
    /// Bytes of their BSON.
    pub(crate) bytes: u64,
    /// Grows with each change.
    pub(crate) changes: u64,
}

impl OrderEnd {
    pub(crate) fn encode(&self) -> [u8; 40] {
        let numbers = [self.last, self.first, self.docs, self.bytes, self.changes];
        let mut row = [0; 40];
        for (to, number) in row.chunks_exact_mut(8).zip(numbers) {
            to.copy_from_slice(&number.to_be_bytes());
        }
        row
    }

    /// `None` for a damaged row.
    pub(crate) fn decode(row: &[u8]) -> Option<OrderEnd> {
        let row: &[u8; 40] = row.try_into().ok()?;
        let mut numbers = row.chunks_exact(8).filter_map(|eight| {
            let eight = eight.try_into().ok()?;
            Some(u64::from_be_bytes(eight))
        });
        Some(OrderEnd {
            last: numbers.next()?,
            first: numbers.next()?,
            docs: numbers.next()?,
            bytes: numbers.next()?,
            changes: numbers.next()?,
        })
    }

    /// The row after a change.
    pub(crate) fn changed(self, docs: i64, bytes: i64) -> OrderEnd {
        OrderEnd {
            docs: self.docs.saturating_add_signed(docs),
            bytes: self.bytes.saturating_add_signed(bytes),
            changes: self.changes.wrapping_add(1),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let end = OrderEnd {
            last: 1 << 60,
            first: 7,
            docs: 3,
            bytes: 1000,
            changes: 5,
        };
        assert_eq!(OrderEnd::decode(&end.encode()), Some(end));
        assert_eq!(OrderEnd::decode(&end.encode()[1..]), None);
        let after = end.changed(-1, 24);
        assert_eq!((after.docs, after.bytes, after.changes), (2, 1024, 6));
    }
}
