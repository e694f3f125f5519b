//! Where messages of the wire protocol end in a stream of bytes that comes in pieces. Must not
//! know: what a message says.

/// Where messages end in a stream of them: each begins with its length, four bytes, the least
/// significant first.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    length: [u8; 4],
    /// Bytes of the length that were seen.
    seen: usize,
    /// Bytes of the message that are still to come.
    rest: usize,
}

impl Frames {
    /// All that began has ended.
    pub(crate) fn is_between(&self) -> bool {
        self.seen == 0 && self.rest == 0
    }

    /// How many bytes are left of the message that has begun; `None` when that is not known.
    pub(crate) fn left(&self) -> Option<usize> {
        (self.rest > 0).then_some(self.rest)
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn see(&mut self, mut bytes: &[u8]) {
        while let Some((first, tail)) = bytes.split_first() {
            if self.rest > 0 {
                let taken = self.rest.min(bytes.len());
                self.rest -= taken;
                bytes = bytes.get(taken..).unwrap_or_default();
                continue;
            }
            if let Some(place) = self.length.get_mut(self.seen) {
                *place = *first;
            }
            self.seen += 1;
            bytes = tail;
            if self.seen == self.length.len() {
                let length = u32::from_le_bytes(self.length) as usize;
                self.rest = length.saturating_sub(self.length.len());
                self.seen = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Vec<u8> {
        let length = u32::try_from(text.len() + 4).unwrap();
        [&length.to_le_bytes(), text.as_bytes()].concat()
    }

    #[test]
    fn ends_of_messages_are_found_in_pieces_of_any_size() {
        let stream = [message("one"), message(""), message("three")].concat();
        let ends = [7, 11, 20];
        for size in 1..=stream.len() {
            let (mut frames, mut at) = (Frames::default(), 0);
            for piece in stream.chunks(size) {
                frames.see(piece);
                at += piece.len();
                assert_eq!(frames.is_between(), ends.contains(&at), "{size}, {at}");
            }
        }
    }
}
