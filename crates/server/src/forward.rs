//! Connections of a server that does not hold the database, handed to the one that does: bytes in
//! both directions, so that logins, TLS and cursors are between the client and the holder.
//!
//! Promises: when the holder is gone and nobody has logged in through a connection, a request that
//! was under way goes to the next holder where it may be sent again, and the next request of a
//! client that waits for nothing waits for that. Otherwise the client loses its connection.
//! Must not know: commands, the engine.
//!
//! A driver tries a retryable operation once more, on any server it still believes in. By the time
//! it does, it must not meet another connection that is about to break. So requests that were
//! under way end a moment later than everything else: by then the driver has learned which servers
//! are gone.

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
use crate::net::{Listeners, accept_until};

/// How long a request may wait for a server that holds the database: a lease runs out in ten
/// seconds, and opening takes a while on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Between two attempts to reach the holder.
const PAUSE: Duration = Duration::from_millis(50);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How much later than other connections those end whose request was under way.
const LATER: Duration = Duration::from_millis(300);
/// How often a connection looks whether its holder still is the one.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};
const BUFFER_BYTES: usize = 16 << 10;
/// A request that so many servers went with is not sent again: it may be what ends them.
const LOST_MAX: usize = 3;
/// Requests up to this are kept to be sent again.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// A thread copies between two sockets and needs little more than its buffer.
const STACK_BYTES: usize = 256 << 10;

/// Where the server is that holds the database; empty for as long as nobody knows.
pub type Holder = Arc<Mutex<String>>;

/// What becomes of connections.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Connections beyond this are closed at once.
    pub connections_max: u64,
    /// Whether a connection has no state that is lost with the holder: nobody logs in, nothing is
    /// encrypted.
    pub is_stateless: bool,
    /// Whether a whole message may be sent again when it is not known whether it was done.
    pub may_repeat: fn(&[u8]) -> bool,
}

/// Hands connections on until it is told to give its sockets away; connections that it has go on.
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
    /// Accepts on `listeners` and hands each connection to `holder`.
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
            accept_until(&stopped, &listeners, |client, _| accept(&shared, client));
            listeners
        })?;
        Ok(Self { stop, acceptor })
    }

    /// Ends accepting and gives the sockets away; clients that connect meanwhile wait in them.
    pub fn give_listeners(self) -> std::thread::Result<Listeners> {
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        self.acceptor.join()
    }
}

fn accept(shared: &Arc<Shared>, client: OwnedFd) {
    let count = shared.connections.fetch_add(1, Ordering::Relaxed);
    let shared_here = Arc::clone(shared);
    let run = move || {
        // Either side may go at any time; both sockets are closed then.
        let _ = Connection::new(&shared_here, client).and_then(|mut c| c.run());
        shared_here.connections.fetch_sub(1, Ordering::Relaxed);
    };
    let thread = std::thread::Builder::new()
        .name("quarry-forward".to_owned())
        .stack_size(STACK_BYTES);
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
    /// The client sent something after the last bytes that it got.
    is_waiting: bool,
    /// What it sent since then, up to the most that is kept.
    request: Vec<u8>,
    lost: Lost,
    replies: Frames,
    buffer: Vec<u8>,
}

/// Why a connection ends.
type End = std::io::Error;

fn gone() -> End {
    std::io::ErrorKind::ConnectionAborted.into()
}

impl<'a> Connection<'a> {
    fn new(shared: &'a Shared, client: OwnedFd) -> Result<Self, End> {
        rustix::io::ioctl_fionbio(&client, false)?;
        Ok(Self {
            shared,
            client,
            upstream: None,
            is_waiting: false,
            request: Vec::new(),
            lost: Lost::default(),
            replies: Frames::default(),
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    /// Copies until one side is gone for good.
    fn run(&mut self) -> Result<(), End> {
        loop {
            let (from_client, from_holder) = self.readable()?;
            if from_holder {
                self.pass_reply()?;
            } else if self.holds_the_wrong_one() {
                self.lose_holder()?;
            }
            if from_client {
                self.pass_request()?;
            }
        }
    }

    /// Waits; whether the client and the holder have something to say.
    fn readable(&self) -> Result<(bool, bool), End> {
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

    /// Another server holds the database now; the old one may have gone without a word.
    fn holds_the_wrong_one(&self) -> bool {
        let holder = self.shared.holder.lock();
        let other = |upstream: &Upstream| !holder.is_empty() && upstream.address != *holder;
        self.upstream.as_ref().is_some_and(other)
    }

    fn pass_request(&mut self) -> Result<(), End> {
        let bytes = read(&self.client, &mut self.buffer)?;
        if bytes == 0 {
            return Err(gone());
        }
        let mut upstream = match self.upstream.take() {
            Some(upstream) => upstream,
            None => connect_with(self.shared, &[], Instant::now() + WAIT_MAX)?,
        };
        let request = self.buffer.get(..bytes).unwrap_or_default();
        if !self.is_waiting {
            self.request.clear();
            self.request.shrink_to(BUFFER_BYTES);
            self.lost = Lost::default();
        }
        self.is_waiting = true;
        // With a state at the holder it cannot be sent again.
        if self.shared.rules.is_stateless && self.request.len() <= KEPT_BYTES_MAX {
            self.request.extend_from_slice(request);
        }
        let sent = upstream.socket.write_all(request);
        self.upstream = Some(upstream);
        sent.or_else(|_| self.lose_holder())
    }

    fn pass_reply(&mut self) -> Result<(), End> {
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

    /// The holder is gone: whether the connection can go on with the next one.
    fn lose_holder(&mut self) -> Result<(), End> {
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
        Err(gone())
    }

    /// What was sent is the beginning of a message, which nobody has acted on, or one message that
    /// may be sent again.
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

/// Servers that went while one request was under way.
#[derive(Debug, Default)]
struct Lost {
    count: usize,
    last: String,
    until: Option<Instant>,
}

impl Lost {
    /// Counts a server, once for all the connections that break while it ends.
    ///
    /// # Output
    /// How long the request may go on to be sent again.
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

/// Reaches the holder, whoever that is by then, and sends it what is to be sent again. The sockets
/// of a process that was killed take connections until it has ended, and break them then.
fn connect_with(shared: &Shared, request: &[u8], until: Instant) -> Result<Upstream, End> {
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

fn reach(address: &str) -> Result<TcpStream, End> {
    let mut last = gone();
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

fn read(socket: impl AsFd, buffer: &mut [u8]) -> Result<usize, End> {
    loop {
        match rustix::io::read(&socket, &mut *buffer) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

fn write_all(socket: impl AsFd, mut bytes: &[u8]) -> Result<(), End> {
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
mod tests {
    use std::io::Read;
    use std::net::{SocketAddr, TcpListener};

    use super::*;
    use crate::net::Config;

    fn message(text: &str) -> Vec<u8> {
        let length = u32::try_from(text.len() + 4).unwrap();
        [&length.to_le_bytes(), text.as_bytes()].concat()
    }

    /// A holder that answers each message with itself, except those whose text is in `silent`.
    struct Echo {
        address: SocketAddr,
        sockets: Arc<Mutex<Vec<TcpStream>>>,
    }

    impl Echo {
        fn start() -> Self {
            Self::silent_to(&[])
        }

        fn silent_to(silent: &'static [&'static str]) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let sockets: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
            let kept = Arc::clone(&sockets);
            std::thread::spawn(move || {
                for mut socket in listener.incoming().flatten() {
                    kept.lock().push(socket.try_clone().unwrap());
                    std::thread::spawn(move || {
                        let mut buffer = [0; 1024];
                        while let Ok(bytes @ 1..) = socket.read(&mut buffer) {
                            let asked = buffer.get(..bytes).unwrap();
                            let is_silent = silent.iter().any(|s| asked.ends_with(s.as_bytes()));
                            if !is_silent && socket.write_all(asked).is_err() {
                                return;
                            }
                        }
                    });
                }
            });
            Self { address, sockets }
        }

        fn end(&self) {
            for socket in self.sockets.lock().drain(..) {
                let _ = socket.shutdown(std::net::Shutdown::Both);
            }
        }
    }

    fn forwarder(holder: &Holder, is_stateless: bool) -> (Forwarder, SocketAddr) {
        let config = Config {
            port: 0,
            unix_socket_prefix: None,
            ..Config::default()
        };
        let listeners = Listeners::bind(&config).unwrap();
        let address = listeners.tcp_addresses().remove(0);
        let rules = Rules {
            connections_max: 10,
            is_stateless,
            may_repeat: |message| message.ends_with(b"again"),
        };
        let started = Forwarder::start(listeners, Arc::clone(holder), rules).unwrap();
        (started, address)
    }

    fn ask(client: &mut TcpStream, text: &str) -> std::io::Result<String> {
        client.write_all(&message(text))?;
        let mut reply = vec![0; text.len() + 4];
        client.read_exact(&mut reply)?;
        Ok(String::from_utf8(reply.split_off(4)).unwrap())
    }

    #[test]
    fn an_idle_client_goes_on_with_the_next_holder_and_waits_for_it() {
        let holder: Holder = Arc::default();
        let (_forwarder, address) = forwarder(&holder, true);
        let mut client = TcpStream::connect(address).unwrap();
        let first = Echo::start();
        let told = Arc::clone(&holder);
        let first_address = first.address.to_string();
        let later = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            *told.lock() = first_address;
        });
        // Asked before anybody held the database.
        assert_eq!(ask(&mut client, "one").unwrap(), "one");
        later.join().unwrap();
        first.end();
        let second = Echo::start();
        *holder.lock() = second.address.to_string();
        assert_eq!(ask(&mut client, "two").unwrap(), "two");
        assert_eq!(second.sockets.lock().len(), 1);
    }

    #[test]
    fn a_request_under_way_ends_later_than_connections_without_one() {
        for is_stateless in [true, false] {
            let echo = Echo::silent_to(&["wait"]);
            let holder: Holder = Arc::new(Mutex::new(echo.address.to_string()));
            let (_forwarder, address) = forwarder(&holder, is_stateless);
            let mut idle = TcpStream::connect(address).unwrap();
            let mut waiting = TcpStream::connect(address).unwrap();
            assert_eq!(ask(&mut idle, "a").unwrap(), "a");
            assert_eq!(ask(&mut waiting, "b").unwrap(), "b");
            waiting.write_all(&message("wait")).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            let began = Instant::now();
            echo.end();
            let mut byte = [0];
            assert_eq!(waiting.read(&mut byte).unwrap_or(0), 0);
            assert!(began.elapsed() >= LATER, "{:?}", began.elapsed());
            if is_stateless {
                assert_eq!(ask(&mut idle, "c").unwrap(), "c");
            } else {
                assert_eq!(idle.read(&mut byte).unwrap_or(0), 0);
            }
        }
    }

    #[test]
    fn a_request_that_may_be_sent_again_is_answered_by_the_next_holder() {
        let first = Echo::silent_to(&["again", "n"]);
        let holder: Holder = Arc::new(Mutex::new(first.address.to_string()));
        let (_forwarder, address) = forwarder(&holder, true);
        let whole = message("again");
        // All of it, and the beginning of something that may not be sent again as a whole.
        for (sent, rest) in [(whole.as_slice(), [].as_slice()), (b"\x07\0\0\0on", b"e")] {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(sent).unwrap();
            while first.sockets.lock().is_empty() {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(100));
            first.end();
            let second = Echo::start();
            *holder.lock() = second.address.to_string();
            std::thread::sleep(Duration::from_millis(100));
            client.write_all(rest).unwrap();
            let mut reply = vec![0; sent.len() + rest.len()];
            client.read_exact(&mut reply).unwrap();
            assert_eq!(reply, [sent, rest].concat());
            *holder.lock() = first.address.to_string();
        }
    }

    #[test]
    fn a_request_is_sent_until_a_holder_takes_all_of_it() {
        // Long enough that some of the holders are gone while it is written.
        let sent = message(&(" ".repeat(KEPT_BYTES_MAX - 100) + "again"));
        let bytes = sent.len();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4_096).unwrap();
        let holder: Holder = Arc::new(Mutex::new(listener.local_addr().unwrap().to_string()));
        let accepted = std::thread::spawn(move || {
            for _ in 0..20 {
                listener.accept().unwrap();
            }
            let (mut socket, _) = listener.accept().unwrap();
            let mut request = vec![0; bytes];
            socket.read_exact(&mut request).unwrap();
            socket.write_all(&message("done")).unwrap();
            request
        });
        let (_forwarder, address) = forwarder(&holder, true);
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(&sent).unwrap();
        let mut reply = [0; 8];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(reply.as_slice(), message("done"));
        assert_eq!(accepted.join().unwrap(), sent);
    }

    /// A holder that ends whenever it is asked anything, after telling who holds the database then.
    fn ends_when_asked(holder: &Holder, next: String) -> (SocketAddr, Arc<AtomicU64>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (holder, asked) = (Arc::clone(holder), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&asked);
        std::thread::spawn(move || {
            for mut socket in listener.incoming().flatten() {
                let mut buffer = [0; 1024];
                if socket.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {
                    count.fetch_add(1, Ordering::Relaxed);
                    holder.lock().clone_from(&next);
                }
            }
        });
        (address, asked)
    }

    #[test]
    fn a_request_that_ends_its_holders_does_not_go_round_for_ever() {
        let healthy = Echo::start();
        let holder: Holder = Arc::default();
        let (third, third_asked) = ends_when_asked(&holder, healthy.address.to_string());
        let (second, second_asked) = ends_when_asked(&holder, third.to_string());
        let (first, first_asked) = ends_when_asked(&holder, second.to_string());
        *holder.lock() = first.to_string();
        let (_forwarder, address) = forwarder(&holder, true);
        let mut client = TcpStream::connect(address).unwrap();
        assert!(ask(&mut client, "again").is_err());
        let asked = [first_asked, second_asked, third_asked].map(|a| a.load(Ordering::Relaxed));
        assert_eq!((asked, healthy.sockets.lock().len()), ([1, 1, 1], 0));
        // Another client is served by who is left.
        let mut other = TcpStream::connect(address).unwrap();
        assert_eq!(ask(&mut other, "again").unwrap(), "again");
    }

    #[test]
    fn a_holder_that_is_gone_without_a_word_is_left_when_another_holds() {
        let (first, second) = (Echo::start(), Echo::start());
        let holder: Holder = Arc::new(Mutex::new(first.address.to_string()));
        let (_forwarder, address) = forwarder(&holder, true);
        let mut client = TcpStream::connect(address).unwrap();
        assert_eq!(ask(&mut client, "one").unwrap(), "one");
        *holder.lock() = second.address.to_string();
        let until = Instant::now() + Duration::from_secs(20);
        while second.sockets.lock().is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(ask(&mut client, "two").unwrap(), "two");
        }
        assert_eq!(second.sockets.lock().len(), 1);
    }

    #[test]
    fn sockets_are_given_away_with_the_clients_that_wait_in_them() {
        let echo = Echo::start();
        let holder: Holder = Arc::new(Mutex::new(echo.address.to_string()));
        let (forwarder, address) = forwarder(&holder, true);
        let mut before = TcpStream::connect(address).unwrap();
        assert_eq!(ask(&mut before, "one").unwrap(), "one");
        let listeners = forwarder.give_listeners().unwrap();
        let _after = TcpStream::connect(address).unwrap();
        assert_eq!(ask(&mut before, "two").unwrap(), "two");
        let stop = eventfd(1, EventfdFlags::CLOEXEC).unwrap();
        let mut accepted = 0;
        // It looks for the end first.
        accept_until(&stop, &listeners, |_, _| accepted += 1);
        assert_eq!((accepted, listeners.tcp_addresses().len()), (0, 1));
    }
}
