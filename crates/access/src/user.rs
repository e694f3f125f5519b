//! A logged-in user.

use auth::{ResolvedRoles, Restrictions, RoleName, UserName};
use sha2::{Digest, Sha256};

/// A user with its resolved rights.
#[derive(Debug)]
pub struct User {
    /// The user's name.
    pub name: UserName,
    /// `userId`: another user of the same name has a different one.
    pub(crate) id: Option<[u8; 16]>,
    /// The roles that a directory or identity provider has granted; `None` when its document has
    /// the roles.
    pub(crate) granted: Option<Vec<RoleName>>,
    /// The user digest in the ids of its sessions.
    pub digest: [u8; 32],
    /// The resolved rights of its roles.
    pub resolved: ResolvedRoles,
    /// The addresses from which it may log in, in addition to the restrictions of its roles.
    pub(crate) restrictions: Restrictions,
}

/// The user digest in session ids: the hash of the user's full name.
pub fn digest(name: &UserName) -> [u8; 32] {
    Sha256::digest(name.to_string().as_bytes()).into()
}

/// The user digest in session ids without a user: the SHA-256 of an empty input.
pub const NO_USER: &[u8; 32] = &[
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];
