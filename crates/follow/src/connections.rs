//! The servers that a command of this process reached. Promises: they are left before the threads
//! end; a client that is still at work when its threads end panics. Must not know: which end of a
//! migration a server is.

use crate::address::{self, Address};
use crate::error::Result;
use crate::server::{Server, within};
use mongodb::Client;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// How long the goodbye to a server may take; one that is away does not answer it.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);

/// The clients of a process: a handful, each of which lives until the command ends.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    open: Mutex<Vec<Client>>,
}

impl Connections {
    /// # Errors
    /// One line.
    pub(crate) async fn connect(&self, address: &Address) -> Result<Server> {
        let options = address.options().await?;
        let shown = address::shown(&options);
        let client = Client::with_options(options).map_err(|e| within(&shown, e.into()))?;
        self.open().push(client.clone());
        Server::greet(client, &shown).await
    }

    fn open(&self) -> MutexGuard<'_, Vec<Client>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the sessions, the pools and the watchers of all servers.
    pub(crate) async fn close(&self) {
        let clients = std::mem::take(&mut *self.open());
        for client in clients {
            let _ = timeout(CLOSED_WITHIN, client.shutdown().immediate(true)).await;
        }
    }
}
