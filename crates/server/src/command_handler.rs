//! The adapter between the network layer and the dispatcher: implements [`Handler`] by
//! [`Dispatcher`].

use crate::naming::Naming;
use crate::net::{
    Class, ConnHandle, FlushOutcome, Handler, HandshakeResult, NextAction, PeerAddr, PeerInfo,
};
use commands::{Connection, Dispatcher, Link, Outcome, Request, Sequence, WaitFor};
use logs::{Entry, REDACTED, Severity, component, id};
use model::{Doc, DocBuf};
use request::spec::{Spec, flag};
use std::sync::Arc;
use std::time::{Duration, Instant};
use storage::{CommitPos, Engine};

/// Longest message of a client that must log in and has not yet. Greetings and logins are far
/// shorter. It fits the buffer of a thread, so such clients make no buffer grow.
const UNKNOWN_MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// Runs the requests of all connections.
pub struct CommandHandler {
    dispatcher: Arc<Dispatcher>,
    engine: Arc<dyn Engine>,
    naming: Naming,
}

/// State of one connection.
pub struct Client {
    connection: Connection,
    /// The local port of the connection.
    local_port: Option<u16>,
    /// The request that goes on after a wait or produces the next reply of a stream.
    again: Option<StoredRequest>,
}

/// A request that outlives its receive buffer.
struct StoredRequest {
    body: DocBuf,
    sequences: Vec<(String, Vec<u8>)>,
    more_to_come: bool,
    legacy_db: Option<String>,
    exhaust_allowed: bool,
    waited: bool,
    streamed: bool,
    class: Class,
}

/// A connection's socket, as [`Link`].
struct Socket(ConnHandle);

impl Link for Socket {
    fn wake(&self) {
        self.0.wake();
    }
    fn is_gone(&self) -> bool {
        self.0.is_hung_up()
    }
}

impl CommandHandler {
    /// A handler that runs requests with a dispatcher over the engine.
    pub fn new(dispatcher: Arc<Dispatcher>, engine: Arc<dyn Engine>) -> CommandHandler {
        CommandHandler {
            dispatcher,
            engine,
            naming: Naming::of_machine(),
        }
    }

    fn run(&self, client: &mut Client, request: &Request<'_>, reply: &mut Vec<u8>) -> NextAction {
        let store = |waited: bool, streamed: bool, class: Class| StoredRequest {
            body: request.body.to_buf(),
            sequences: request
                .sequences
                .iter()
                .map(|s| (s.name.to_owned(), s.documents.to_vec()))
                .collect(),
            more_to_come: request.more_to_come,
            legacy_db: request.legacy_db.map(str::to_owned),
            exhaust_allowed: request.exhaust_allowed,
            waited,
            streamed,
            class,
        };
        match self
            .dispatcher
            .handle(&mut client.connection, request, reply)
        {
            Outcome::Reply | Outcome::NoReply => NextAction::Reply,
            Outcome::Close => NextAction::Close,
            Outcome::Durable(pos) => {
                let pos = CommitPos(pos);
                if self.engine.durable_pos() >= pos {
                    self.dispatcher.release_reply(&mut client.connection);
                    return NextAction::Reply;
                }
                // A driver thread flushes the journal when it has no other request.
                NextAction::Durable(pos.0)
            }
            Outcome::Exhaust => {
                client.again = Some(store(false, true, Class::Short));
                NextAction::Stream
            }
            Outcome::Wait { until_us, on } => {
                let class = match on {
                    WaitFor::Release => self.class_of(request),
                    WaitFor::Time if Self::asks_directory(request.body) => Class::Long,
                    _ => Class::Short,
                };
                client.again = Some(store(true, request.streamed, class));
                let now = self.dispatcher.service().clock.monotonic_us();
                NextAction::Wait {
                    until: Instant::now() + Duration::from_micros(until_us.saturating_sub(now)),
                }
            }
        }
    }
}

impl CommandHandler {
    /// The class of a request that waited and now goes on.
    fn class_of(&self, request: &Request<'_>) -> Class {
        let name = request.body.first().map_or("", |(name, _)| name);
        let row = self.dispatcher.commands().find(name);
        let scripts = || {
            commands::names_script(request.body.as_bytes())
                || request
                    .sequences
                    .iter()
                    .any(|s| commands::names_script(s.documents))
        };
        if row.is_some_and(|row| row.command.is(flag::LONG)) || scripts() {
            Class::Long
        } else {
            Class::Short
        }
    }

    /// Whether the request is a login that an LDAP directory checks, which may take long.
    fn asks_directory(body: Doc<'_>) -> bool {
        let begins = body.first().is_some_and(|(name, _)| name == "saslStart");
        begins && body.field("mechanism").as_str() == Some("PLAIN")
    }

    /// Whether a request may run JavaScript; it then gets a thread of its own.
    fn runs_scripts(&self, command: &Spec, request: &wire::Request<'_>) -> bool {
        if command.is(flag::OF_CURSOR) {
            let id = Doc::from_prefix(request.body)
                .field(command.name)
                .as_i64_exact();
            return id.is_some_and(|id| self.dispatcher.service().cursors.runs_scripts(id));
        }
        let names_script = || {
            commands::names_script(request.body)
                || request
                    .sequences
                    .iter()
                    .any(|s| commands::names_script(s.documents))
        };
        command.is(flag::MAY_NAME_SCRIPT) && names_script()
    }
}

impl Handler for CommandHandler {
    type Conn = Client;

    fn connect(&self, peer: &PeerInfo) -> Client {
        let link: Arc<dyn Link> = Arc::new(Socket(peer.handle.clone()));
        let address = peer.address.to_string();
        let mut connection = self.dispatcher.connect_linked(&address, Some(link));
        connection.set_server_address(peer.local.map(|local| local.ip()));
        if let Some(name) = self.naming.name_by_address(peer) {
            connection.set_server_name(name);
        }
        self.dispatcher.service().log_connected(&connection.info);
        Client {
            connection,
            local_port: peer.local.map(|local| local.port()),
            again: None,
        }
    }

    fn class(&self, _: &Client, request: &wire::Request<'_>) -> Class {
        match self.dispatcher.commands().find(request.command_name()) {
            Some(row) if row.command.is(flag::LONG) => Class::Long,
            Some(row) if self.runs_scripts(row.command, request) => Class::Long,
            Some(row)
                if row.command.name == "saslStart"
                    && Self::asks_directory(Doc::from_prefix(request.body)) =>
            {
                Class::Long
            }
            _ => Class::Short,
        }
    }

    fn complete_handshake(&self, client: &mut Client, entered: &HandshakeResult) {
        let subject = entered.certificate.as_deref().and_then(crate::tls::subject);
        client.connection.identity.set_verified(subject);
        // The client checks the certificate for every address of this server that it is told, so
        // it is told the name by which it asked for this connection.
        if let (Some(name), Some(port)) = (&entered.server_name, client.local_port) {
            client.connection.set_server_name(format!("{name}:{port}"));
        }
    }

    fn must_log_in(&self, client: &Client) -> bool {
        let service = self.dispatcher.service();
        service.access.is_enabled() && client.connection.identity.is_unknown()
    }

    fn message_limit(&self, client: &Client) -> usize {
        if self.must_log_in(client) {
            UNKNOWN_MESSAGE_BYTES_MAX
        } else {
            wire::MAX_MESSAGE_LEN
        }
    }

    fn handle(
        &self,
        client: &mut Client,
        request: &wire::Request<'_>,
        reply: &mut Vec<u8>,
    ) -> NextAction {
        let mut sequences = [Sequence {
            name: "",
            documents: &[],
        }; 2];
        let count = request.sequences.len().min(2);
        for (to, from) in sequences.iter_mut().zip(&request.sequences) {
            *to = Sequence {
                name: from.name,
                documents: from.documents,
            };
        }
        let request = Request {
            body: Doc::from_prefix(request.body),
            sequences: sequences.get(..count).unwrap_or(&[]),
            legacy_db: request.legacy_database(),
            exhaust_allowed: request.exhaust_allowed,
            more_to_come: request.reply.suppressed,
            validated: true,
            waited: false,
            streamed: false,
        };
        self.run(client, &request, reply)
    }

    fn class_of_waiting(&self, client: &Client) -> Class {
        client.again.as_ref().map_or(Class::Short, |r| r.class)
    }

    fn resume(&self, client: &mut Client, reply: &mut Vec<u8>) -> NextAction {
        let Some(stored) = client.again.take() else {
            return NextAction::Close;
        };
        let sequences: Vec<Sequence<'_>> = stored
            .sequences
            .iter()
            .map(|(name, documents)| Sequence { name, documents })
            .collect();
        let request = Request {
            sequences: &sequences,
            more_to_come: stored.more_to_come,
            legacy_db: stored.legacy_db.as_deref(),
            exhaust_allowed: stored.exhaust_allowed,
            validated: true,
            waited: stored.waited,
            streamed: stored.streamed,
            ..Request::new(stored.body.doc())
        };
        self.run(client, &request, reply)
    }

    fn try_flush(&self, position: u64) -> FlushOutcome {
        match self.engine.try_flush(CommitPos(position)) {
            storage::FlushOutcome::Idle => FlushOutcome::Idle,
            storage::FlushOutcome::Flushed { more } => FlushOutcome::Flushed { more },
        }
    }

    fn release_reply(&self, client: &mut Client) {
        self.dispatcher.release_reply(&mut client.connection);
    }

    fn disconnect(&self, mut client: Client) {
        // Its last operation may still wait for the journal; it ends here without a reply.
        self.dispatcher.release_reply(&mut client.connection);
        let info = Arc::clone(&client.connection.info);
        drop(client);
        self.dispatcher.service().log_disconnected(&info);
    }

    fn report_tls_failure(&self, client: &Client, why: &str) {
        let service = self.dispatcher.service();
        service.connection_broken(&client.connection.info, why);
    }

    fn report_refusal(&self, peer: &PeerAddr) {
        self.dispatcher.service().log_refused(&peer.to_string());
    }

    fn report_panic(&self, command: &str, panic: &str) {
        let message = format!("command {command:?} panicked");
        let entry = Entry::info(id::PANIC, component::COMMAND, "-", &message);
        let service = self.dispatcher.service();
        // The panic message may contain a value of the client.
        let text = if service.config.log.redacts() {
            REDACTED
        } else {
            panic
        };
        service.write_log(&entry.severity(Severity::Fatal).attr(|w| {
            w.put("panic", text);
        }));
    }
}
