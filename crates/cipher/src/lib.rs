//! Encryption at rest: the keys of a data directory, files of sealed pages and pieces, temporary
//! files. AES-256-GCM throughout, by `ring`.
//!
//! Promises: opening succeeds only for data that was sealed at the same place of a file of the same
//! name; no nonce is used twice with one key. Must not know: engines, documents, options. The
//! design is explained in docs/adr/0041-encryption-at-rest.md.

mod file;
mod keys;
mod pieces;
mod scratch;
mod secret;

pub use file::{FileKey, HEADER, Kind, OVERHEAD, PAGE, PAGE_STRIDE};
pub use keys::{KEYS_FILE, KeyError, MasterKey, create, is_encrypted, open, reseal};
pub use pieces::{PIECE_MAX, PieceReader};
pub use scratch::Scratch;
pub use secret::{DataKey, TAG};
