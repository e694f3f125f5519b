//! The contract between the network layer and whoever runs the commands.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::inbox::{Inbox, Token, bits};

/// Runs requests. Called from many threads, but for one connection never from two at once.
pub trait Handler: Send + Sync + 'static {
    /// What the handler keeps per connection.
    type Conn: Send + 'static;

    /// A client has connected.
    fn connect(&self, peer: &PeerInfo) -> Self::Conn;

    /// Says before running whether the request may run inline. Cheap: called for every request.
    fn class(&self, conn: &Self::Conn, request: &wire::Request<'_>) -> Class {
        let _ = (conn, request);
        Class::Short
    }

    /// The handshake of TLS is over.
    fn secured(&self, conn: &mut Self::Conn, entered: &Entered) {
        let _ = (conn, entered);
    }

    /// Whether the client has to log in and has not: then its first byte and the rest of a message
    /// must come in time. Cheap: called whenever there is nothing more to receive.
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
    /// `reply` already holds other bytes: append only, and append nothing before [`Next::Wait`].
    fn handle(
        &self,
        conn: &mut Self::Conn,
        request: &wire::Request<'_>,
        reply: &mut Vec<u8>,
    ) -> Next;

    /// Says before [`Handler::resume`] whether that may run inline after a wait.
    fn class_of_waiting(&self, conn: &Self::Conn) -> Class {
        let _ = conn;
        Class::Short
    }

    /// Goes on after [`Next::Wait`] (woken or at the deadline) or [`Next::Stream`]; appends the
    /// reply document.
    fn resume(&self, conn: &mut Self::Conn, reply: &mut Vec<u8>) -> Next;

    /// Makes durable what replies are held back for, up to `position`, on the calling thread,
    /// unless another thread is at it. Called by threads with nothing else at hand; the thread may
    /// block for one flush, never for another thread's. Success and failure come by the
    /// [`Watermark`](super::Watermark). The default leaves it to somebody else.
    fn try_flush(&self, position: u64) -> FlushTurn {
        let _ = position;
        FlushTurn::Idle
    }

    /// The wait of [`Next::Durable`] is over: the reply may leave. May be called more than once for
    /// one wait, and is not when the connection ends before.
    fn released(&self, conn: &mut Self::Conn) {
        let _ = conn;
    }

    /// The connection is gone. Called exactly once per [`Handler::connect`].
    fn disconnect(&self, conn: Self::Conn);

    /// The connection ends because its TLS failed, or because it should have been TLS.
    fn broken(&self, conn: &Self::Conn, why: &str) {
        let _ = (conn, why);
    }

    /// A client was not let in, because there are too many; it is answered by the network layer.
    fn refused(&self, peer: &PeerAddr) {
        let _ = peer;
    }

    /// A command panicked; its client has been sent error 1. The default writes to standard error.
    fn panicked(&self, command: &str, panic: &str) {
        crate::output::print_error(format_args!("command {command} panicked: {panic}"));
    }
}

/// What [`Handler::try_flush`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushTurn {
    /// There was nothing to do, or another thread is at it and its announcement will come.
    Idle,
    /// This thread has flushed and announced. With `more`, it must take another turn before it
    /// sleeps.
    Flushed {
        /// Somebody asked for more meanwhile.
        more: bool,
    },
}

/// How long a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Runs at once on the thread that received it.
    Short,
    /// Gets a thread of its own, for two context switches more.
    Long,
}

/// What happens after [`Handler::handle`] or [`Handler::resume`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
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

/// Where a client comes from.
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

/// What the handshake of TLS has shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entered {
    /// The certificate of the client (DER), where it showed one that proves who it is.
    pub certificate: Option<Vec<u8>>,
    /// The name by which the client asked for this server; none when it has an address only.
    pub server_name: Option<String>,
}

/// What is known of a client when it connects.
#[derive(Debug, Clone)]
pub struct PeerInfo {
    /// Counts from 1; `connectionId` of `hello`.
    pub connection_id: u64,
    /// The other end.
    pub address: PeerAddr,
    /// At which of our addresses it came in; `None` for a unix socket.
    pub local: Option<SocketAddr>,
    /// Reaches the connection from any thread.
    pub handle: ConnHandle,
}

/// Reaches a connection from any thread; harmless after the connection is gone.
#[derive(Debug, Clone)]
pub struct ConnHandle {
    pub(super) inbox: Arc<Inbox>,
    pub(super) token: Token,
    pub(super) hung_up: Arc<AtomicBool>,
}

impl ConnHandle {
    /// Ends a [`Next::Wait`]. A wake that comes while the connection runs is kept for its next
    /// wait.
    pub fn wake(&self) {
        self.inbox.push(self.token, bits::WOKEN);
    }

    /// Closes the connection, after the request it is running.
    pub fn close(&self) {
        self.inbox.push(self.token, bits::CLOSE);
    }

    /// Whether the client is known to have gone; long operations ask now and then.
    pub fn is_hung_up(&self) -> bool {
        self.hung_up.load(Ordering::Relaxed)
    }
}
