//! The hash by which groups and joins look up equal values.

use std::hash::Hasher;

/// Hash of an equality key.
pub(super) fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut h = rustc_hash::FxHasher::default();
    h.write(bytes);
    h.finish()
}
