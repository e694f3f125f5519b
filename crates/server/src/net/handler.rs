//! The contract between the network layer and whoever runs the commands.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::inbox::{Inbox, Token, bits};

/// Runs requests. Called from many threads, but for one connection never from two at once.
pub trait Handler: Send + Sync + 'static {
    /// The handler's state for each connection.
    type Conn: Send + 'static;

    /// A client has connected: returns the state of its connection.
    fn connect(&self, peer: &PeerInfo) -> Self::Conn;

    /// Says before a request runs whether it may run inline. Cheap: called for every request.
    fn class(&self, conn: &Self::Conn, request: &wire::Request<'_>) -> Class {
        let _ = (conn, request);
        Class::Short
    }

    /// The TLS handshake is complete.
    fn complete_handshake(&self, conn: &mut Self::Conn, entered: &HandshakeResult) {
        let _ = (conn, entered);
    }

    /// Whether the client must still log in. Such a client must send its first byte, and the rest
    /// of a message it has begun, in time. Cheap: called whenever there is nothing more to receive.
    fn must_log_in(&self, conn: &Self::Conn) -> bool {
        let _ = conn;
        false
    }

    /// The longest message the client may send now, compressed or not; a longer one ends the
    /// connection before any of it is kept. Cheap: called for every message.
    fn message_limit(&self, conn: &Self::Conn) -> usize {
        let _ = conn;
        wire::MAX_MESSAGE_LEN
    }

    /// Runs one request on the calling thread and appends exactly one reply document to `reply`.
    ///
    /// `reply` already holds other bytes: append only, and append nothing before
    /// [`NextAction::Wait`].
    fn handle(
        &self,
        conn: &mut Self::Conn,
        request: &wire::Request<'_>,
        reply: &mut Vec<u8>,
    ) -> NextAction;

    /// Says before [`Handler::resume`] whether that may run inline after a wait.
    fn class_of_waiting(&self, conn: &Self::Conn) -> Class {
        let _ = conn;
        Class::Short
    }

    /// Continues after [`NextAction::Wait`] (woken or at the deadline) or [`NextAction::Stream`]
    /// and appends the reply document.
    fn resume(&self, conn: &mut Self::Conn, reply: &mut Vec<u8>) -> NextAction;

    /// Makes the journal durable up to `position`, for which replies are held back, on the calling
    /// thread, unless another thread is flushing. Called by threads with nothing else to do; the
    /// thread may block for one flush, never for another thread's. Success and failure are
    /// announced by the [`Watermark`](super::Watermark). The default does nothing: somebody else
    /// flushes.
    fn try_flush(&self, position: u64) -> FlushOutcome {
        let _ = position;
        FlushOutcome::Idle
    }

    /// The wait of [`NextAction::Durable`] is over: the reply may leave. May be called more than
    /// once for one wait; not called if the connection ends before.
    fn release_reply(&self, conn: &mut Self::Conn) {
        let _ = conn;
    }

    /// The connection is gone. Called exactly once per [`Handler::connect`].
    fn disconnect(&self, conn: Self::Conn);

    /// The connection ends because TLS failed, or because the client did not use TLS and must.
    fn report_tls_failure(&self, conn: &Self::Conn, why: &str) {
        let _ = (conn, why);
    }

    /// A client was refused because there are too many connections; the network layer answers it.
    fn report_refusal(&self, peer: &PeerAddr) {
        let _ = peer;
    }

    /// A command panicked; its client has been sent error 1. The default writes to standard error.
    fn report_panic(&self, command: &str, panic: &str) {
        crate::output::print_error(format_args!("command {command} panicked: {panic}"));
    }
}

/// The outcome of [`Handler::try_flush`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushOutcome {
    /// There was nothing to flush, or another thread is flushing and will announce it.
    Idle,
    /// This thread has flushed and announced it. With `more`, it must call again before it sleeps.
    Flushed {
        /// Another position was requested meanwhile.
        more: bool,
    },
}

/// How long a request may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Runs at once on the thread that received it.
    Short,
    /// Runs on a thread of its own, at the cost of two context switches.
    Long,
}

/// What happens after [`Handler::handle`] or [`Handler::resume`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextAction {
    /// Send the reply.
    Reply,
    /// Send the reply when [`Watermark::advance`](super::Watermark::advance) has reached this
    /// position.
    Durable(u64),
    /// No reply yet: resume when [`ConnHandle::wake`] is called, at the latest at `until`.
    Wait {
        /// The deadline.
        until: Instant,
    },
    /// Send the reply with `moreToCome` and resume for the next one. Without `exhaustAllowed` the
    /// same as `Reply`.
    Stream,
    /// Send the reply, if one was appended, and close.
    Close,
}

/// The address of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerAddr {
    /// TCP.
    Tcp(SocketAddr),
    /// The path of the listening unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for PeerAddr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// The results of the TLS handshake.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandshakeResult {
    /// The client's certificate (DER), if it showed one that proves who it is.
    pub certificate: Option<Vec<u8>>,
    /// The server name (SNI) for which the client asked; `None` if it used an IP address.
    pub server_name: Option<String>,
}

/// The data of a client at the time it connects.
#[derive(Debug, Clone)]
pub struct PeerInfo {
    /// Counts from 1; `connectionId` of `hello`.
    pub connection_id: u64,
    /// The other end.
    pub address: PeerAddr,
    /// The local address of the connection; `None` for a unix socket.
    pub local: Option<SocketAddr>,
    /// Reaches the connection from any thread.
    pub handle: ConnHandle,
}

/// Controls a connection from any thread; does nothing after the connection has ended.
#[derive(Debug, Clone)]
pub struct ConnHandle {
    pub(super) inbox: Arc<Inbox>,
    pub(super) token: Token,
    pub(super) hung_up: Arc<AtomicBool>,
}

impl ConnHandle {
    /// Ends a [`NextAction::Wait`]. A wake that comes while the connection runs counts for its next
    /// wait.
    pub fn wake(&self) {
        self.inbox.push(self.token, bits::WOKEN);
    }

    /// Closes the connection after its running request.
    pub fn close(&self) {
        self.inbox.push(self.token, bits::CLOSE);
    }

    /// Whether the client is known to have disconnected; long operations check this now and then.
    pub fn is_hung_up(&self) -> bool {
        self.hung_up.load(Ordering::Relaxed)
    }
}
