//! The load: closed loops over one epoll set (cheap, so that the server gets the CPU) or blocking
//! threads (as in drivers).

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::{RecvFlags, SendFlags};

use crate::models::exchange;
use crate::work::{REPLY_LEN, request};

pub(crate) enum Addr {
    Tcp(String),
    Unix(String),
}

impl Addr {
    pub(crate) fn parse(line: &str) -> Self {
        match line.split_once(' ') {
            Some(("tcp", addr)) => Self::Tcp(addr.to_owned()),
            Some((_, path)) => Self::Unix(path.to_owned()),
            None => panic!("server did not start: {line:?}"),
        }
    }

    fn connect(&self) -> OwnedFd {
        match self {
            Self::Tcp(addr) => {
                let stream = TcpStream::connect(addr).unwrap();
                stream.set_nodelay(true).unwrap();
                stream.into()
            }
            Self::Unix(path) => UnixStream::connect(path).unwrap().into(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Poll,
    Threads,
}

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) connections: usize,
    pub(crate) active: usize,
    pub(crate) in_flight: usize,
    pub(crate) style: Style,
}

pub(crate) struct Load {
    epoll: OwnedFd,
    conns: Vec<OwnedFd>,
    /// Next connection of the round.
    next: usize,
}

impl Load {
    /// Opens all connections and exchanges one request on each, so that no server is still
    /// accepting afterwards.
    pub(crate) fn connect(addr: &Addr, case: &Case) -> Self {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let mut conns = Vec::new();
        for at in 0..case.connections {
            let fd = addr.connect();
            let mut stream = TcpStream::from(fd);
            exchange(&mut stream, &request(), &mut [0; REPLY_LEN]);
            let fd = OwnedFd::from(stream);
            if case.style == Style::Poll {
                epoll::add(&epoll, &fd, EventData::new_u64(at as u64), EventFlags::IN).unwrap();
            }
            conns.push(fd);
        }
        Self {
            epoll,
            conns,
            next: 0,
        }
    }

    /// Runs the case; returns operations and seconds.
    pub(crate) fn run(&mut self, case: &Case, seconds: f64) -> (u64, f64) {
        let start = Instant::now();
        let until = start + Duration::from_secs_f64(seconds);
        let operations = match case.style {
            Style::Poll => self.run_poll(case, until),
            Style::Threads => self.run_threads(until),
        };
        (operations, start.elapsed().as_secs_f64())
    }

    fn run_threads(&self, until: Instant) -> u64 {
        let request = request();
        std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .conns
                .iter()
                .map(|fd| {
                    let mut stream = TcpStream::from(fd.try_clone().unwrap());
                    let request = &request;
                    scope.spawn(move || {
                        let mut operations = 0;
                        while Instant::now() < until {
                            exchange(&mut stream, request, &mut [0; REPLY_LEN]);
                            operations += 1;
                        }
                        operations
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        })
    }

    fn send_next(&mut self, case: &Case, request: &[u8]) {
        let at = self.next % case.active;
        self.next = at + 1;
        rustix::net::send(&self.conns[at], request, SendFlags::NOSIGNAL).unwrap();
    }

    fn run_poll(&mut self, case: &Case, until: Instant) -> u64 {
        let request = request();
        let mut reply = [0u8; REPLY_LEN];
        let mut events = Vec::with_capacity(64);
        let (mut operations, mut in_flight) = (0, 0);
        for _ in 0..case.in_flight {
            self.send_next(case, &request);
            in_flight += 1;
        }
        while in_flight > 0 {
            events.clear();
            epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                None,
            )
            .unwrap();
            let go_on = Instant::now() < until;
            for event in &events {
                let at = event.data.u64() as usize;
                let mut got = 0;
                while got < REPLY_LEN {
                    got +=
                        rustix::net::recv(&self.conns[at], &mut reply[got..], RecvFlags::empty())
                            .unwrap()
                            .0;
                }
                operations += 1;
                if !go_on {
                    in_flight -= 1;
                } else if case.active == case.in_flight {
                    // A closed loop for each connection: an answered connection sends the next
                    // request.
                    rustix::net::send(&self.conns[at], &request, SendFlags::NOSIGNAL).unwrap();
                } else {
                    self.send_next(case, &request);
                }
            }
        }
        operations
    }
}
