//! Random identifiers for new users, collections and backups.

/// A random UUID, of version 4.
pub fn new_uuid() -> [u8; 16] {
    let mut id: [u8; 16] = rand::random();
    id[6] = (id[6] & 0x0f) | 0x40;
    id[8] = (id[8] & 0x3f) | 0x80;
    id
}
