//! A connection to a directory with a deadline. Promises: no call continues after the deadline,
//! however slowly the other side answers.

use crate::settings::{Address, Security};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A socket with a deadline.
pub(crate) struct DeadlineStream {
    socket: TcpStream,
    until: Instant,
}

fn check_deadline(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

impl Read for DeadlineStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket
            .set_read_timeout(Some(check_deadline(self.until)?))?;
        self.socket.read(into)
    }
}

impl Write for DeadlineStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket
            .set_write_timeout(Some(check_deadline(self.until)?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection, with or without TLS.
pub(crate) enum Stream {
    Plain(DeadlineStream),
    Tls(Box<StreamOwned<ClientConnection, DeadlineStream>>),
}

impl Stream {
    /// Connects to the first address of the host that answers.
    pub(crate) fn open(
        server: &Address,
        security: &Security,
        until: Instant,
    ) -> io::Result<Stream> {
        let mut last = io::Error::other("the host has no address");
        for address in addresses(&server.host, server.port, until)? {
            match TcpStream::connect_timeout(&address, check_deadline(until)?) {
                Ok(socket) => {
                    socket.set_nodelay(true)?;
                    return Stream::open_on(
                        DeadlineStream { socket, until },
                        &server.host,
                        security,
                    );
                }
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    fn open_on(timed: DeadlineStream, host: &str, security: &Security) -> io::Result<Stream> {
        let config = match security {
            Security::None => return Ok(Stream::Plain(timed)),
            Security::Tls(config) => config.clone(),
        };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(tls, timed))))
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(s) => s.read(into),
            Stream::Tls(s) => s.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(s) => s.write(bytes),
            Stream::Tls(s) => s.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(s) => s.flush(),
            Stream::Tls(s) => s.flush(),
        }
    }
}

/// The addresses of a host. The system's resolver has no deadline, so it runs on a thread of its
/// own, which is abandoned when it takes too long.
fn addresses(host: &str, port: u16, until: Instant) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let (found, wait) = mpsc::sync_channel(1);
    let host = host.to_owned();
    std::thread::Builder::new()
        .name("ldap-resolver".to_owned())
        .spawn(move || {
            let all = (host.as_str(), port).to_socket_addrs();
            // The caller may have stopped waiting.
            let _ = found.send(all.map(Iterator::collect));
        })?;
    let all = wait.recv_timeout(check_deadline(until)?);
    all.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
