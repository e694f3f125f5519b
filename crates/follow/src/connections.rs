//! The servers that this process is connected to. Promises: all connections are closed before the
//! runtime's threads end, because a client that works after that panics. Must not know: whether a
//! server is source or target.

use crate::address::{self, Address};
use crate::error::Result;
use crate::server::{Server, prefix_hosts};
use mongodb::Client;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// Longest time for closing a connection; an unreachable server does not answer.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);

/// The clients of this process: a few, each of which lives until the command ends.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    open: Mutex<Vec<Client>>,
}

impl Connections {
    /// # Errors
    /// One line.
    pub(crate) async fn connect(&self, address: &Address) -> Result<Server> {
        let options = address.options().await?;
        let shown = address::describe_hosts(&options);
        let client = Client::with_options(options).map_err(|e| prefix_hosts(&shown, e.into()))?;
        self.open().push(client.clone());
        Server::greet(client, &shown).await
    }

    fn open(&self) -> MutexGuard<'_, Vec<Client>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the sessions, pools and monitors of all servers.
    pub(crate) async fn close(&self) {
        let clients = std::mem::take(&mut *self.open());
        for client in clients {
            let _ = timeout(CLOSED_WITHIN, client.shutdown().immediate(true)).await;
        }
    }
}
