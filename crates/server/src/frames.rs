//! Finds the boundaries of wire protocol messages in a stream of bytes that arrives in pieces. Must
//! not know: what a message says.

/// The boundaries of messages in a stream: each message begins with its length, a 32-bit
/// little-endian number.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    length: [u8; 4],
    /// Bytes of the length that have arrived.
    seen: usize,
    /// Bytes of the message that have not arrived.
    rest: usize,
}

impl Frames {
    /// The stream is at the boundary of two messages.
    pub(crate) fn is_between(&self) -> bool {
        self.seen == 0 && self.rest == 0
    }

    /// The number of missing bytes of the current message; `None` until its length has arrived.
    pub(crate) fn missing_bytes(&self) -> Option<usize> {
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
