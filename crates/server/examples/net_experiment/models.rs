//! The models: a thread per connection, tokio, an epoll set per worker, one epoll set for all
//! workers.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::work::{Sample, answer};

const WORKERS: usize = 2;
const BUFFER_LEN: usize = 16 * 1024;

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn accept(&self) -> OwnedFd {
        match self {
            Self::Tcp(l) => {
                let stream = l.accept().unwrap().0;
                stream.set_nodelay(true).unwrap();
                stream.into()
            }
            Self::Unix(l) => l.accept().unwrap().0.into(),
        }
    }
}

/// Serves until standard input closes; every line on it is answered with a [`Sample`].
pub(crate) fn serve(model: &str, transport: &str) {
    if model == "product" {
        return product(transport);
    }
    let listener = if transport == "tcp" {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        println!("tcp {}", listener.local_addr().unwrap());
        Listener::Tcp(listener)
    } else {
        let path = std::env::temp_dir().join(format!("net-experiment-{}.sock", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        println!("unix {}", path.display());
        Listener::Unix(listener)
    };
    let model = model.to_owned();
    std::thread::spawn(move || match model.as_str() {
        "threads" => threads(&listener),
        "tokio" => tokio_inline(listener),
        "epoll-own" => epoll_model(&listener, WORKERS, false),
        "epoll-own-try" => epoll_model(&listener, WORKERS, true),
        _ => epoll_model(&listener, 1, false),
    });
    for _ in std::io::stdin().lines() {
        Sample::take().print();
    }
    std::process::exit(0);
}

/// The network layer built after the decision, to compare it with the bare model.
fn product(transport: &str) {
    use server::net::{Config, Handler, NextAction, PeerInfo, Server, Watermark};
    struct Burn;
    impl Handler for Burn {
        type Conn = ();
        fn connect(&self, _: &PeerInfo) {}
        fn handle(
            &self,
            (): &mut (),
            request: &wire::Request<'_>,
            reply: &mut Vec<u8>,
        ) -> NextAction {
            crate::work::append_reply(request.body, reply);
            NextAction::Reply
        }
        fn resume(&self, (): &mut (), _: &mut Vec<u8>) -> NextAction {
            NextAction::Close
        }
        fn disconnect(&self, (): ()) {}
    }
    let config = Config {
        port: 0,
        drivers: WORKERS,
        ..Config::default()
    };
    let server = Server::start(&config, Burn, Watermark::new()).unwrap();
    if transport == "tcp" {
        println!("tcp {}", server.tcp_addresses()[0]);
    } else {
        println!("unix {}", server.unix_path().unwrap().display());
    }
    for _ in std::io::stdin().lines() {
        Sample::take().print();
    }
}

fn threads(listener: &Listener) {
    loop {
        let fd = listener.accept();
        std::thread::Builder::new()
            .stack_size(256 * 1024)
            .spawn(move || {
                let (mut input, mut out) = (vec![0; BUFFER_LEN], Vec::new());
                let mut held = 0;
                // recv and send work on any kind of stream socket.
                while let Ok((received, _)) =
                    rustix::net::recv(&fd, &mut input[held..], RecvFlags::empty())
                {
                    if received == 0 {
                        break;
                    }
                    held += received;
                    out.clear();
                    let used = answer(&input[..held], &mut out);
                    input.copy_within(used..held, 0);
                    held -= used;
                    rustix::net::send(&fd, &out, SendFlags::NOSIGNAL).unwrap();
                }
            })
            .unwrap();
    }
}

fn tokio_inline(listener: Listener) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    async fn connection(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin) {
        let (mut input, mut out) = (Vec::with_capacity(4096), Vec::new());
        while let Ok(1..) = stream.read_buf(&mut input).await {
            out.clear();
            let used = answer(&input, &mut out);
            input.drain(..used);
            if stream.write_all(&out).await.is_err() {
                break;
            }
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_io()
        .build()
        .unwrap();
    runtime.block_on(async move {
        match listener {
            Listener::Tcp(l) => {
                l.set_nonblocking(true).unwrap();
                let l = tokio::net::TcpListener::from_std(l).unwrap();
                loop {
                    let (stream, _) = l.accept().await.unwrap();
                    stream.set_nodelay(true).unwrap();
                    tokio::spawn(connection(stream));
                }
            }
            Listener::Unix(l) => {
                l.set_nonblocking(true).unwrap();
                let l = tokio::net::UnixListener::from_std(l).unwrap();
                loop {
                    let (stream, _) = l.accept().await.unwrap();
                    tokio::spawn(connection(stream));
                }
            }
        }
    });
}

/// A connection of the epoll models; locked because with a shared set two workers may see it at
/// once.
struct Conn {
    fd: OwnedFd,
    held: Mutex<Vec<u8>>,
}

struct Set {
    epoll: OwnedFd,
    conns: Mutex<Vec<Arc<Conn>>>,
    /// Read the connections just served once more before asking the kernel which are ready.
    read_before_poll: bool,
}

/// `sets` == [`WORKERS`]: a set per worker. `sets` == 1: all workers wait on the same
/// edge-triggered set.
fn epoll_model(listener: &Listener, sets: usize, read_before_poll: bool) {
    let sets: Vec<Arc<Set>> = (0..sets)
        .map(|_| {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
            Arc::new(Set {
                epoll,
                conns: Mutex::new(Vec::new()),
                read_before_poll,
            })
        })
        .collect();
    for worker in 0..WORKERS {
        let set = Arc::clone(&sets[worker % sets.len()]);
        std::thread::spawn(move || epoll_worker(&set));
    }
    for set in sets.iter().cycle() {
        let fd = listener.accept();
        rustix::io::ioctl_fionbio(&fd, true).unwrap();
        let conn = Arc::new(Conn {
            fd,
            held: Mutex::new(Vec::new()),
        });
        let mut conns = set.conns.lock();
        let data = EventData::new_u64(conns.len() as u64);
        conns.push(Arc::clone(&conn));
        epoll::add(
            &set.epoll,
            &conn.fd,
            data,
            EventFlags::IN | EventFlags::RDHUP | EventFlags::ET,
        )
        .unwrap();
    }
}

fn epoll_worker(set: &Set) {
    let mut events = Vec::with_capacity(64);
    let mut input = vec![0u8; BUFFER_LEN];
    let mut out = Vec::new();
    let mut served = Vec::new();
    loop {
        events.clear();
        match epoll::wait(
            &set.epoll,
            rustix::buffer::spare_capacity(&mut events),
            None,
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("{error}"),
        }
        for event in &events {
            let conn = Arc::clone(&set.conns.lock()[event.data.u64() as usize]);
            epoll_ready(&conn, &mut input, &mut out);
            if set.read_before_poll {
                served.push(conn);
            }
        }
        while !served.is_empty() {
            served.retain(|conn| epoll_ready(conn, &mut input, &mut out));
        }
    }
}

/// One recv and one send. A short read shows that the socket is empty, so no second recv is needed.
/// Returns whether anything was received.
fn epoll_ready(conn: &Conn, input: &mut [u8], out: &mut Vec<u8>) -> bool {
    let mut held = conn.held.lock();
    loop {
        input[..held.len()].copy_from_slice(&held);
        let room = &mut input[held.len()..];
        let room_len = room.len();
        let received = match rustix::net::recv(&conn.fd, room, RecvFlags::empty()) {
            Ok((received, _)) if received > 0 => received,
            _ => return false,
        };
        let filled = held.len() + received;
        out.clear();
        let used = answer(&input[..filled], out);
        held.clear();
        held.extend_from_slice(&input[used..filled]);
        if !out.is_empty() {
            rustix::net::send(&conn.fd, out, SendFlags::NOSIGNAL).unwrap();
        }
        if received < room_len {
            return true;
        }
    }
}

/// Blocking helpers for the client side.
pub(crate) fn exchange(stream: &mut (impl Read + Write), request: &[u8], reply: &mut [u8]) {
    stream.write_all(request).unwrap();
    stream.read_exact(reply).unwrap();
}
