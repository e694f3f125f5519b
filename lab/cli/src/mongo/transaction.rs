//! The transaction of a client.

use lab_kit::records::Mode;
use mongodb::ClientSession;

/// The transaction of a client.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// For transactions that write; kept for the next one.
    pub(super) session: Option<ClientSession>,
    /// For one state: each has its own.
    pub(super) snapshot: Option<ClientSession>,
    /// The mode of the transaction under way.
    pub(super) mode: Option<Mode>,
}
