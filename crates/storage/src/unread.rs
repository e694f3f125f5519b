//! The part of a range that a cursor has not read yet, for engines whose cursors keep their
//! position as a key. Promises: it never leaves the range as opened. Must not know: rows, engines.

use crate::keys::KeyRange;

/// The unread part of a range.
pub struct UnreadRange {
    lower: Vec<u8>,
    upper: Vec<u8>,
    from: Vec<u8>,
    to: Vec<u8>,
    reverse: bool,
}

impl UnreadRange {
    /// The whole range; with `reverse` it is read from its largest key.
    #[must_use]
    pub fn new(range: KeyRange<'_>, reverse: bool) -> UnreadRange {
        UnreadRange {
            lower: range.lower.to_vec(),
            upper: range.upper.to_vec(),
            from: range.lower.to_vec(),
            to: range.upper.to_vec(),
            reverse,
        }
    }

    /// The keys that were not read yet.
    #[must_use]
    pub fn range(&self) -> KeyRange<'_> {
        KeyRange::new(&self.from, &self.to)
    }

    /// Moves to a key, in either direction; a forward walk reads `key` itself, a reverse walk does
    /// not.
    pub fn seek(&mut self, key: &[u8]) {
        if self.reverse {
            self.to.clear();
            self.to.extend_from_slice(key.min(&self.upper));
        } else {
            self.from.clear();
            self.from.extend_from_slice(key.max(&self.lower));
        }
    }

    /// Continues after a key that was read.
    pub fn go_on_behind(&mut self, last: &[u8]) {
        let end = if self.reverse {
            &mut self.to
        } else {
            &mut self.from
        };
        end.clear();
        end.extend_from_slice(last);
        if !self.reverse {
            end.push(0);
        }
    }
}
