//! Listening sockets. Promises: the permissions of a unix socket are never wider than its final
//! ones.

use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::config::Config;
use super::handler::PeerAddr;

const BACKLOG: i32 = 4096;

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    fn tcp(address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        // std has already called listen with a short backlog; calling it again only raises that.
        rustix::net::listen(&listener, BACKLOG)?;
        listener.set_nonblocking(true)?;
        Ok(Self::Tcp(listener))
    }

    /// `PREFIX/mongodb-PORT.sock`, mode 0700. Replaces the socket of an earlier process: the caller
    /// has bound the port, so no other process serves it.
    fn unix(prefix: &Path, port: u16) -> std::io::Result<Self> {
        let path = prefix.join(format!("mongodb-{port}.sock"));
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(&path)?)?;
        // Between bind and listen nobody can connect yet.
        rustix::fs::chmod(&path, Mode::RWXU)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(Self::Unix(socket.into(), path))
    }

    fn tcp_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(..) => None,
        }
    }

    /// The path of a unix socket.
    fn path(&self) -> Option<&Path> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(_, path) => Some(path),
        }
    }

    /// The next client, with a socket that fits a poll set.
    fn accept(&self) -> std::io::Result<(OwnedFd, PeerAddr)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
                Ok((stream.into(), PeerAddr::Tcp(address)))
            }
            Self::Unix(listener, path) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok((stream.into(), PeerAddr::Unix(path.clone())))
            }
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}

/// The addresses a `--bind_ip` entry stands for.
fn resolve(host: &str, ipv6: bool) -> std::io::Result<Vec<IpAddr>> {
    let all: Vec<IpAddr> = (host, 0)
        .to_socket_addrs()?
        .map(|a| a.ip())
        .filter(|a| ipv6 || a.is_ipv4())
        .collect();
    if all.is_empty() {
        let message =
            format!("bind_ip {host:?} has no address that is allowed (IPv6 needs ipv6: true)");
        return Err(std::io::Error::new(
            std::io::ErrorKind::AddrNotAvailable,
            message,
        ));
    }
    Ok(all)
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Sockets that clients can connect to. Dropping them closes them.
pub struct Listeners(Vec<Listener>);

impl Listeners {
    /// Binds all addresses of a configuration.
    ///
    /// # Errors
    /// An address cannot be bound.
    pub fn bind(config: &Config) -> std::io::Result<Self> {
        let mut all = Vec::new();
        let mut port = config.port;
        for host in &config.bind_ip {
            for address in resolve(host, config.ipv6)? {
                let listener = Listener::tcp(SocketAddr::new(address, port))?;
                // With port 0 the first bind chooses the port for the others.
                port = listener.tcp_address().map_or(port, |a| a.port());
                all.push(listener);
            }
        }
        if let Some(prefix) = &config.unix_socket_prefix {
            all.push(Listener::unix(prefix, port)?);
        }
        Ok(Self(all))
    }

    /// The TCP addresses really bound.
    pub fn tcp_addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().filter_map(Listener::tcp_address).collect()
    }

    /// The path of the unix socket, if there is one.
    pub(super) fn unix_path(&self) -> Option<PathBuf> {
        let path = self.0.iter().find_map(Listener::path);
        path.map(Path::to_path_buf)
    }
}

/// Hands every new client to `accepted` until `stop` becomes readable.
pub fn accept_until(
    stop: &OwnedFd,
    listeners: &Listeners,
    mut accepted: impl FnMut(OwnedFd, PeerAddr),
) {
    let listeners = &listeners.0;
    loop {
        let fds = listeners.iter().map(Listener::fd).chain([stop.as_fd()]);
        let mut waiting: Vec<PollFd<'_>> = fds
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let _ = poll(&mut waiting, None);
        if waiting
            .last()
            .is_some_and(|stop| !stop.revents().is_empty())
        {
            return;
        }
        for listener in listeners {
            loop {
                match listener.accept() {
                    Ok((stream, peer)) => accepted(stream, peer),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(error) => {
                        // Out of file descriptors: wait for the server to close some instead of
                        // spinning.
                        if matches!(error.raw_os_error(), Some(23 | 24)) {
                            std::thread::sleep(std::time::Duration::from_millis(50));
                        }
                        break;
                    }
                }
            }
        }
    }
}
