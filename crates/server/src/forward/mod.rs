//! Forwards the connections of a server that does not hold the database to the server that does,
//! the holder: bytes in both directions, so that logins, TLS and cursors are between the client and
//! the holder. A client that waits for no reply may be answered here instead ([`LocalHandler`]).
//!
//! Promises, when the holder is gone: a connection without a login goes on with the next holder. A
//! request in progress is sent there once more if that is allowed; a client without one waits with
//! its next request. Every other client loses its connection. Must not know: commands, the engine.
//!
//! A driver repeats a retryable operation once, on any server it still trusts. When it does, it
//! must not meet another connection that is about to break. So a connection with a request in
//! progress is closed a moment later than the others: by then the driver has learned which servers
//! are gone.

mod here;

pub use here::{HolderQuery, LocalClient, LocalHandler, LocalHandlerSlot};

use std::io::Write;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::frames::Frames;
use crate::net::{Listeners, PeerAddr, accept_until};

/// Longest time that a request waits for a server that holds the database: a lease expires after
/// ten seconds, and opening the database takes a while on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Pause between two attempts to reach the holder.
const PAUSE: Duration = Duration::from_millis(50);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How much later than the others a connection with a request in progress is closed.
const LATER: Duration = Duration::from_millis(300);
/// How often a connection checks that its server is still the holder.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};
const BUFFER_BYTES: usize = 16 << 10;
/// A request during which this many holders were lost is not sent again: the request may be what
/// kills them.
const LOST_MAX: usize = 3;
/// Longest request that is kept to be sent again.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// A thread copies between two sockets and needs little more than its buffer ...
const STACK_BYTES: usize = 256 << 10;
/// ... unless it also answers clients.
const STACK_BYTES_HERE: usize = 2 << 20;

/// The address of the server that holds the database; empty while it is not known.
pub type Holder = Arc<Mutex<String>>;

/// How connections are treated.
#[derive(Clone)]
pub struct Rules {
    /// Connections beyond this are closed at once.
    pub connections_max: u64,
    /// Connections have no state that is lost with the holder: nobody logs in, nothing is
    /// encrypted.
    pub is_stateless: bool,
    /// Whether a whole message may be sent again when it is not known whether it was executed.
    pub may_repeat: fn(&[u8]) -> bool,
    /// Who answers clients on this server; `None` if nothing is ever answered here.
    pub here: Option<LocalHandlerSlot>,
}

/// Forwards connections until it is told to give its sockets away; open connections go on
/// afterwards.
pub struct Forwarder {
    stop: OwnedFd,
    acceptor: JoinHandle<Listeners>,
}

struct Shared {
    holder: Holder,
    rules: Rules,
    connections: AtomicU64,
}

impl Forwarder {
    /// Accepts on `listeners` and forwards each connection to `holder`.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(listeners: Listeners, holder: Holder, rules: Rules) -> std::io::Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let stopped = stop.try_clone()?;
        let shared = Arc::new(Shared {
            holder,
            rules,
            connections: AtomicU64::new(0),
        });
        let acceptor = std::thread::Builder::new().name("quarry-forward".to_owned());
        let acceptor = acceptor.spawn(move || {
            accept_until(&stopped, &listeners, |client, peer| {
                accept(&shared, client, peer)
            });
            listeners
        })?;
        Ok(Self { stop, acceptor })
    }

    /// Stops accepting and returns the sockets; clients that connect meanwhile wait in their
    /// backlog.
    pub fn give_listeners(self) -> std::thread::Result<Listeners> {
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        self.acceptor.join()
    }
}

fn accept(shared: &Arc<Shared>, client: OwnedFd, peer: PeerAddr) {
    let count = shared.connections.fetch_add(1, Ordering::Relaxed);
    let shared_here = Arc::clone(shared);
    let run = move || {
        // Either side may disconnect at any time; then both sockets are closed.
        let _ = Connection::new(&shared_here, client, peer).and_then(|mut c| c.run());
        shared_here.connections.fetch_sub(1, Ordering::Relaxed);
    };
    let stack_bytes = match shared.rules.here {
        Some(_) => STACK_BYTES_HERE,
        None => STACK_BYTES,
    };
    let thread = std::thread::Builder::new()
        .name("quarry-forward".to_owned())
        .stack_size(stack_bytes);
    if count >= shared.rules.connections_max || thread.spawn(run).is_err() {
        shared.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection to the holder.
struct Upstream {
    socket: TcpStream,
    address: String,
}

struct Connection<'a> {
    shared: &'a Shared,
    client: OwnedFd,
    upstream: Option<Upstream>,
    /// The client has sent something and has received no reply since.
    is_waiting: bool,
    /// The bytes it has sent since its last reply, as long as they are few enough to be kept.
    request: Vec<u8>,
    lost: LostHolders,
    replies: Frames,
    /// Boundaries of the forwarded messages.
    requests: Frames,
    /// Bytes of the client that are neither answered nor forwarded yet.
    pending: Vec<u8>,
    peer: PeerAddr,
    here: Option<Box<dyn LocalClient>>,
    /// The client has sent a request before it had the reply to the previous one.
    is_pipelined: bool,
    buffer: Vec<u8>,
}

/// Why a connection ends.
type ConnectionError = std::io::Error;

fn make_abort_error() -> ConnectionError {
    std::io::ErrorKind::ConnectionAborted.into()
}

impl<'a> Connection<'a> {
    fn new(shared: &'a Shared, client: OwnedFd, peer: PeerAddr) -> Result<Self, ConnectionError> {
        rustix::io::ioctl_fionbio(&client, false)?;
        Ok(Self {
            shared,
            client,
            upstream: None,
            is_waiting: false,
            request: Vec::new(),
            lost: LostHolders::default(),
            replies: Frames::default(),
            requests: Frames::default(),
            pending: Vec::new(),
            peer,
            here: None,
            is_pipelined: false,
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    /// Forwards until one side has disconnected for good.
    fn run(&mut self) -> Result<(), ConnectionError> {
        loop {
            let (from_client, from_holder) = self.readable()?;
            if from_holder {
                self.pass_reply()?;
            } else if self.holds_the_wrong_one() {
                self.lose_holder()?;
            }
            if from_client {
                self.take_requests()?;
            }
        }
    }

    /// Waits; says whether the client and the holder have sent something.
    fn readable(&self) -> Result<(bool, bool), ConnectionError> {
        let mut watched = vec![PollFd::new(&self.client, PollFlags::IN)];
        if let Some(upstream) = &self.upstream {
            watched.push(PollFd::new(&upstream.socket, PollFlags::IN));
        }
        match poll(&mut watched, Some(&LOOK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |at: usize| watched.get(at).is_some_and(|w| !w.revents().is_empty());
        Ok((is_ready(0), is_ready(1)))
    }

    /// Another server holds the database now; the old one may have disappeared without closing the
    /// connection.
    fn holds_the_wrong_one(&self) -> bool {
        let holder = self.shared.holder.lock();
        let other = |upstream: &Upstream| !holder.is_empty() && upstream.address != *holder;
        self.upstream.as_ref().is_some_and(other)
    }

    /// Reads what the client has sent, and answers or forwards it.
    fn take_requests(&mut self) -> Result<(), ConnectionError> {
        let bytes = read(&self.client, &mut self.buffer)?;
        if bytes == 0 {
            return Err(make_abort_error());
        }
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend_from_slice(self.buffer.get(..bytes).unwrap_or_default());
        let mut rest = pending.as_slice();
        while let taken @ 1.. = self.take_request(rest)? {
            rest = rest.get(taken..).unwrap_or_default();
        }
        let taken = pending.len() - rest.len();
        pending.drain(..taken);
        self.pending = pending;
        Ok(())
    }

    /// Handles the next message, or forwards a part of it.
    ///
    /// # Output
    /// The number of bytes handled; 0 when more bytes have to arrive first.
    fn take_request(&mut self, bytes: &[u8]) -> Result<usize, ConnectionError> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let begins = self.requests.is_between();
        let here = if begins { self.local_client() } else { None };
        let Some(here) = here else {
            // From now on all messages are forwarded: replies given here could overtake the
            // holder's.
            self.is_pipelined |= begins && self.is_waiting;
            let taken = self.requests.missing_bytes().unwrap_or(bytes.len());
            return self.hand_on(bytes, taken.min(bytes.len()), true);
        };
        match here::length_of(bytes) {
            None => {
                self.here = Some(here);
                Ok(0)
            }
            Some(length) if length > here::MESSAGE_BYTES_MAX => {
                self.here = Some(here);
                self.hand_on(bytes, length.min(bytes.len()), true)
            }
            Some(length) => match bytes.get(..length) {
                None => {
                    self.here = Some(here);
                    Ok(0)
                }
                Some(message) => self.answer_or_hand_on(here, message),
            },
        }
    }

    fn answer_or_hand_on(
        &mut self,
        mut here: Box<dyn LocalClient>,
        message: &[u8],
    ) -> Result<usize, ConnectionError> {
        let upstream = &mut self.upstream;
        let mut holder = |question: &[u8]| match upstream {
            Some(upstream) => here::ask(&mut upstream.socket, question),
            None => Err(make_abort_error()),
        };
        let reply = here.answer(message, &mut holder)?;
        self.here = Some(here);
        match reply {
            Some(reply) => write_all(&self.client, &reply).map(|()| message.len()),
            None => self.hand_on(message, message.len(), false),
        }
    }

    /// Who may answer the next message here. `None` while the client waits for the holder, whose
    /// replies come in the order of its requests.
    fn local_client(&mut self) -> Option<Box<dyn LocalClient>> {
        let slot = self.shared.rules.here.as_ref()?.get()?;
        if self.is_waiting || self.is_pipelined || !self.replies.is_between() {
            return None;
        }
        match self.here.take() {
            Some(here) => Some(here),
            None => {
                let socket = self.client.try_clone().ok()?;
                Some(slot.connect(&self.peer, socket))
            }
        }
    }

    /// Forwards the first `count` bytes; `unseen` if they were not examined here.
    fn hand_on(
        &mut self,
        bytes: &[u8],
        count: usize,
        unseen: bool,
    ) -> Result<usize, ConnectionError> {
        let some = bytes.get(..count).unwrap_or_default();
        if some.is_empty() {
            return Ok(0);
        }
        if let Some(here) = self.here.as_mut().filter(|_| unseen) {
            here.forget_forwarded();
        }
        self.requests.see(some);
        self.pass_request(some).map(|()| some.len())
    }

    fn pass_request(&mut self, request: &[u8]) -> Result<(), ConnectionError> {
        let mut upstream = match self.upstream.take() {
            Some(upstream) => upstream,
            None => connect_with(self.shared, &[], Instant::now() + WAIT_MAX)?,
        };
        if !self.is_waiting {
            self.request.clear();
            self.request.shrink_to(BUFFER_BYTES);
            self.lost = LostHolders::default();
        }
        self.is_waiting = true;
        // If the connection has a state at the holder the request cannot be sent again.
        if self.shared.rules.is_stateless && self.request.len() <= KEPT_BYTES_MAX {
            self.request.extend_from_slice(request);
        }
        let sent = upstream.socket.write_all(request);
        self.upstream = Some(upstream);
        sent.or_else(|_| self.lose_holder())
    }

    fn pass_reply(&mut self) -> Result<(), ConnectionError> {
        let Some(upstream) = &self.upstream else {
            return Ok(());
        };
        let bytes = match read(&upstream.socket, &mut self.buffer) {
            Ok(0) | Err(_) => return self.lose_holder(),
            Ok(bytes) => bytes,
        };
        let reply = self.buffer.get(..bytes).unwrap_or_default();
        self.replies.see(reply);
        self.is_waiting = false;
        write_all(&self.client, reply)
    }

    /// The holder is gone: succeeds if the connection can go on with the next one.
    fn lose_holder(&mut self) -> Result<(), ConnectionError> {
        let lost = self.upstream.take();
        let is_between = self.replies.is_between();
        if self.shared.rules.is_stateless && is_between && !self.is_waiting {
            return Ok(());
        }
        let until = self.lost.count(lost);
        if self.shared.rules.is_stateless
            && is_between
            && let Some(until) = until
            && self.may_repeat()
        {
            self.upstream = Some(connect_with(self.shared, &self.request, until)?);
            return Ok(());
        }
        if self.is_waiting || !is_between {
            std::thread::sleep(LATER);
        }
        Err(make_abort_error())
    }

    /// Whether the bytes sent are the beginning of a message, which no server has executed, or one
    /// message that may be sent again.
    fn may_repeat(&self) -> bool {
        let length = self
            .request
            .first_chunk()
            .map(|l| u32::from_le_bytes(*l) as usize);
        let is_kept = self.request.len() <= KEPT_BYTES_MAX;
        is_kept
            && match length {
                Some(length) if length == self.request.len() => {
                    (self.shared.rules.may_repeat)(&self.request)
                }
                Some(length) => length > self.request.len(),
                None => true,
            }
    }
}

/// Holders that were lost while one request was in progress.
#[derive(Debug, Default)]
struct LostHolders {
    count: usize,
    last: String,
    until: Option<Instant>,
}

impl LostHolders {
    /// Counts the loss of a server; losses of the same server in a row count once.
    ///
    /// # Output
    /// Until when the request may be sent again; `None` if not at all.
    fn count(&mut self, lost: Option<Upstream>) -> Option<Instant> {
        if let Some(Upstream { address, .. }) = lost
            && address != self.last
        {
            self.count += 1;
            self.last = address;
        }
        let until = *self.until.get_or_insert_with(|| Instant::now() + WAIT_MAX);
        (self.count < LOST_MAX && Instant::now() < until).then_some(until)
    }
}

/// Connects to the present holder and sends it the request in progress. The kernel accepts
/// connections for a killed process until it has exited, and then breaks them; so this may succeed
/// for a dead server.
fn connect_with(
    shared: &Shared,
    request: &[u8],
    until: Instant,
) -> Result<Upstream, ConnectionError> {
    loop {
        let address = shared.holder.lock().clone();
        if let Ok(mut socket) = reach(&address)
            && socket.write_all(request).is_ok()
        {
            return Ok(Upstream { socket, address });
        }
        if Instant::now() >= until {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(PAUSE);
    }
}

fn reach(address: &str) -> Result<TcpStream, ConnectionError> {
    let mut last = make_abort_error();
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                rustix::net::sockopt::set_socket_keepalive(&socket, true)?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn read(socket: impl AsFd, buffer: &mut [u8]) -> Result<usize, ConnectionError> {
    loop {
        match rustix::io::read(&socket, &mut *buffer) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

fn write_all(socket: impl AsFd, mut bytes: &[u8]) -> Result<(), ConnectionError> {
    while !bytes.is_empty() {
        match rustix::net::send(&socket, bytes, rustix::net::SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
