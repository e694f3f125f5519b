//! A user that is logged in, as everything else sees it.

use auth::{Resolved, Restrictions, RoleName, UserName};
use sha2::{Digest, Sha256};

/// A user with all it may do.
#[derive(Debug)]
pub struct User {
    /// Its name.
    pub name: UserName,
    /// `userId`: another user of the same name has another.
    pub(crate) id: Option<[u8; 16]>,
    /// Its roles, where whoever vouched for it has named them; otherwise its document does.
    pub(crate) granted: Option<Vec<RoleName>>,
    /// What its sessions carry.
    pub digest: [u8; 32],
    /// What they come to.
    pub(crate) resolved: Resolved,
    /// From where it may log in, besides what its roles say.
    pub(crate) restrictions: Restrictions,
}

/// What the sessions of a user carry: the hash of its whole name.
pub(crate) fn digest(name: &UserName) -> [u8; 32] {
    Sha256::digest(name.to_string().as_bytes()).into()
}

/// What sessions carry in place of a user where nobody logs in: the SHA-256 of nothing.
pub(crate) const NO_USER: &[u8; 32] = &[
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];
