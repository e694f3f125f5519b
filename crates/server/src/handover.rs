//! A server that shares its database with other servers, before it holds the database: clients
//! reach it at once, and it forwards their connections to the server that holds the database.
//!
//! Promises: the sockets stay open from the beginning to the end. Must not know: the engine.

use std::sync::Arc;

use commands::registry;
use logs::{Log, Release};
use model::Doc;

use crate::command_handler::CommandHandler;
use crate::config::Settings;
use crate::forward::{Forwarder, Holder, Rules};
use crate::net::{Config, Listeners, Server, Watermark};
use crate::output::print_line;
use crate::reads::LocalReads;

pub(crate) struct ForwardingState {
    forwarder: Forwarder,
    holder: Holder,
    reads: Option<LocalReads>,
}

/// Whether a message is a command that may be executed twice.
fn may_be_sent_again(message: &[u8]) -> bool {
    let mut scratch = Vec::new();
    let options = wire::DecodeOptions::default();
    let Ok(request) = wire::decode(message, &options, &mut scratch) else {
        return false;
    };
    registry::may_be_sent_again(request.command_name(), Doc::from_prefix(request.body))
}

impl ForwardingState {
    /// `None` for a server without others, or without clients before it holds the database.
    ///
    /// # Errors
    /// An address cannot be bound.
    pub(crate) fn start(
        settings: &Settings,
        network: &Config,
        release: &Release,
        log: &Arc<Log>,
    ) -> std::io::Result<Option<Self>> {
        if settings.tikv.address.is_none() {
            return Ok(None);
        }
        let listeners = Listeners::bind(network)?;
        let addresses = listeners.tcp_addresses();
        let addresses: Vec<String> = addresses.iter().map(|a| format!("mongodb://{a}")).collect();
        let holder = Holder::default();
        // TLS between a client and the holder cannot be decrypted here.
        let reads_here = settings.tikv.reads_here && settings.tls.is_none();
        let reads = match reads_here {
            true => Some(LocalReads::start(settings, log)?),
            false => None,
        };
        let rules = Rules {
            // Each forwarded connection has two sockets.
            connections_max: network.max_connections / 2,
            is_stateless: !settings.auth && settings.tls.is_none(),
            may_repeat: may_be_sent_again,
            here: reads.as_ref().map(LocalReads::slot),
        };
        let forwarder = Forwarder::start(listeners, Arc::clone(&holder), rules)?;
        release.release();
        print_line(format_args!(
            "quarry {}: handing connections on {} to the server that holds {} until this one does",
            env!("CARGO_PKG_VERSION"),
            addresses.join(" "),
            settings.tikv.prefix,
        ));
        Ok(Some(Self {
            forwarder,
            holder,
            reads,
        }))
    }

    /// The address of the server that holds the database.
    pub(crate) fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Serves on the same sockets; connections that were forwarded come to this server, too.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn serve(
        self,
        settings: &Settings,
        network: &Config,
        handler: CommandHandler,
        watermark: Arc<Watermark>,
    ) -> std::io::Result<Server<CommandHandler>> {
        let listeners = self.forwarder.give_listeners();
        let listeners = listeners.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let server = Server::start_on(listeners, network, handler, watermark)?;
        if let Some(reads) = &self.reads {
            reads.end_waiting();
        }
        let address = settings.tikv.address.clone();
        *self.holder.lock() = address.unwrap_or_default();
        Ok(server)
    }
}
