//! The transaction of a client.

use lab_kit::records::Mode;
use mongodb::ClientSession;

/// The transaction of a client.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// The session of transactions that write; it is reused.
    pub(super) session: Option<ClientSession>,
    /// The session of a snapshot transaction; each has a new one.
    pub(super) snapshot: Option<ClientSession>,
    /// The mode of the transaction under way.
    pub(super) mode: Option<Mode>,
}
