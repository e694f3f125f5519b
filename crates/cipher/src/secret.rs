//! Keys as bytes, and random bytes for them. Must not know: where keys are stored, what they seal.

use ring::rand::{SecureRandom, SystemRandom};
use std::io::Write;

/// Bytes of a key.
pub(crate) const KEY: usize = 32;
/// Bytes of a tag.
pub const TAG: usize = 16;

/// The key from which the keys of files are derived.
pub struct DataKey([u8; KEY]);

impl DataKey {
    /// A new random key.
    pub fn random() -> DataKey {
        let mut key = [0; KEY];
        fill_random(&mut key);
        DataKey(key)
    }

    pub(crate) fn of(bytes: [u8; KEY]) -> DataKey {
        DataKey(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for DataKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DataKey")
    }
}

/// Random bytes from the system. Without them the process ends.
pub(crate) fn fill_random(bytes: &mut [u8]) {
    if SystemRandom::new().fill(bytes).is_err() {
        // A key that can be guessed is worse than no server.
        let _ = std::io::stderr().write_all(b"quarry: the system gives no random bytes\n");
        std::process::abort();
    }
}
