//! Forwarded connections: with holders that come and go, and with messages answered here.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};

use super::*;
use crate::net::Config;

fn message(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len() + 4).unwrap();
    [&length.to_le_bytes(), text.as_bytes()].concat()
}

/// A holder that answers each message with itself, except those whose text is in `silent`.
struct EchoServer {
    address: SocketAddr,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
}

impl EchoServer {
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

/// Answers messages that end in `here`, and messages that end in `who` after asking the holder.
#[derive(Default)]
struct Answers {
    unseen: Arc<AtomicU64>,
}

impl LocalHandler for Answers {
    fn connect(&self, _: &PeerAddr, _: OwnedFd) -> Box<dyn LocalClient> {
        let unseen = Arc::clone(&self.unseen);
        Box::new(Answers { unseen })
    }
}

impl LocalClient for Answers {
    fn answer(
        &mut self,
        asked: &[u8],
        holder: &mut HolderQuery<'_>,
    ) -> std::io::Result<Option<Vec<u8>>> {
        if asked.ends_with(b"here") {
            return Ok(Some(message("mine")));
        }
        match asked.ends_with(b"who") {
            true => holder(&message("yours")).map(Some),
            false => Ok(None),
        }
    }

    fn forget_forwarded(&mut self) {
        self.unseen.fetch_add(1, Ordering::Relaxed);
    }
}

fn forwarder(holder: &Holder, is_stateless: bool) -> (Forwarder, SocketAddr) {
    forwarder_with(holder, is_stateless, None)
}

fn forwarder_with(
    holder: &Holder,
    is_stateless: bool,
    here: Option<LocalHandlerSlot>,
) -> (Forwarder, SocketAddr) {
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
        here,
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
    let first = EchoServer::start();
    let told = Arc::clone(&holder);
    let first_address = first.address.to_string();
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        *told.lock() = first_address;
    });
    // The client asks before any server holds the database.
    assert_eq!(ask(&mut client, "one").unwrap(), "one");
    later.join().unwrap();
    first.end();
    let second = EchoServer::start();
    *holder.lock() = second.address.to_string();
    assert_eq!(ask(&mut client, "two").unwrap(), "two");
    assert_eq!(second.sockets.lock().len(), 1);
}

#[test]
fn a_request_under_way_ends_later_than_connections_without_one() {
    for is_stateless in [true, false] {
        let echo = EchoServer::silent_to(&["wait"]);
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
    let first = EchoServer::silent_to(&["again", "n"]);
    let holder: Holder = Arc::new(Mutex::new(first.address.to_string()));
    let (_forwarder, address) = forwarder(&holder, true);
    let whole = message("again");
    // A whole message, and the beginning of one that may not be sent again when it is whole.
    for (sent, rest) in [(whole.as_slice(), [].as_slice()), (b"\x07\0\0\0on", b"e")] {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(sent).unwrap();
        while first.sockets.lock().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(100));
        first.end();
        let second = EchoServer::start();
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
    // Long enough that some of the holders disappear while it is written.
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

/// A holder that ends at its first message, after it has set the address of the next one.
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
    let healthy = EchoServer::start();
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
    // Another client is served by the remaining holder.
    let mut other = TcpStream::connect(address).unwrap();
    assert_eq!(ask(&mut other, "again").unwrap(), "again");
}

#[test]
fn a_client_moves_to_a_new_holder_while_the_old_one_keeps_its_connection_open() {
    let (first, second) = (EchoServer::start(), EchoServer::start());
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
    let echo = EchoServer::start();
    let holder: Holder = Arc::new(Mutex::new(echo.address.to_string()));
    let (forwarder, address) = forwarder(&holder, true);
    let mut before = TcpStream::connect(address).unwrap();
    assert_eq!(ask(&mut before, "one").unwrap(), "one");
    let listeners = forwarder.give_listeners().unwrap();
    let _after = TcpStream::connect(address).unwrap();
    assert_eq!(ask(&mut before, "two").unwrap(), "two");
    let stop = eventfd(1, EventfdFlags::CLOEXEC).unwrap();
    let mut accepted = 0;
    // `accept_until` checks for the stop before it accepts.
    accept_until(&stop, &listeners, |_, _| accepted += 1);
    assert_eq!((accepted, listeners.tcp_addresses().len()), (0, 1));
}

fn read_message(client: &mut TcpStream) -> std::io::Result<String> {
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    let mut text = vec![0; u32::from_le_bytes(length) as usize - 4];
    client.read_exact(&mut text)?;
    Ok(String::from_utf8(text).unwrap())
}

#[test]
fn idle_clients_are_answered_locally_and_replies_keep_their_order() {
    let holder: Holder = Arc::default();
    let (slot, unseen) = (LocalHandlerSlot::default(), Arc::default());
    let (_forwarder, address) = forwarder_with(&holder, true, Some(Arc::clone(&slot)));
    let answers = Answers {
        unseen: Arc::clone(&unseen),
    };
    assert!(slot.set(Arc::new(answers)).is_ok());
    let mut client = TcpStream::connect(address).unwrap();
    // Nobody holds the database, and the message arrives in pieces.
    for piece in message("are you here").chunks(3) {
        client.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(read_message(&mut client).unwrap(), "mine");
    let echo = EchoServer::start();
    *holder.lock() = echo.address.to_string();
    assert_eq!(ask(&mut client, "far").unwrap(), "far");
    for _ in 0..3 {
        client.write_all(&message("who")).unwrap();
        assert_eq!(read_message(&mut client).unwrap(), "yours");
        client.write_all(&message("here")).unwrap();
        assert_eq!(read_message(&mut client).unwrap(), "mine");
    }
    assert_eq!(unseen.load(Ordering::Relaxed), 0);
    // Sent before the reply to the previous message: both are answered in the holder's order.
    let both = [message("far"), message("here")].concat();
    client.write_all(&both).unwrap();
    assert_eq!(read_message(&mut client).unwrap(), "far");
    assert_eq!(read_message(&mut client).unwrap(), "here");
    assert_eq!(unseen.load(Ordering::Relaxed), 1);
    // A client that has pipelined once may do it again, so nothing is answered here any more.
    assert_eq!(ask(&mut client, "here").unwrap(), "here");
    assert_eq!(echo.sockets.lock().len(), 1);
}
