//! TLS within the network layer: what is received is opened before it is framed, what is sent is
//! sealed after it was built; everything else is one path with plain connections.
//!
//! Promises: a plain connection pays one comparison; nothing of a handshake is kept beyond what the
//! library bounds. Must not know: certificates as files, who the client is to the server.

use std::io::{Read, Write};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::pki_types::UnixTime;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ServerConfig, ServerConnection};

/// Bytes sealed at a time, so that a large reply is not held twice.
const SEAL_LEN: usize = 64 * 1024;
/// One record and its overhead.
pub(super) const RECORD_LEN: usize = 18 * 1024;

/// Which connections may, and must, use TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    /// Both kinds are served.
    Optional,
    /// Plain ones are closed.
    Required,
}

/// What a connection begins with.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// Of the library.
    pub library: Arc<ServerConfig>,
    /// Where the library takes any certificate of a client: who says whether it proves anything.
    pub proof: Option<Arc<dyn ClientCertVerifier>>,
}

/// TLS as connections begin it. The configuration may be replaced; connections that are open keep
/// theirs.
#[derive(Debug)]
pub struct Tls {
    /// Which connections.
    pub mode: TlsMode,
    config: RwLock<TlsConfig>,
}

impl Tls {
    /// With this configuration.
    pub fn new(mode: TlsMode, config: TlsConfig) -> Tls {
        Tls {
            mode,
            config: RwLock::new(config),
        }
    }

    /// Has connections that begin from now on use another configuration.
    pub fn replace(&self, config: TlsConfig) {
        *self.config.write() = config;
    }

    fn begin(&self) -> Option<Box<Session>> {
        let TlsConfig { library, proof } = self.config.read().clone();
        Some(Box::new(Session {
            connection: ServerConnection::new(library).ok()?,
            proof,
            told: false,
        }))
    }
}

/// How the bytes of a connection are carried.
pub(super) enum Channel {
    /// As they are.
    Plain,
    /// The first bytes decide.
    Undecided(Arc<Tls>),
    /// In records.
    Sealed(Box<Session>),
}

/// One TLS connection.
pub(super) struct Session {
    connection: ServerConnection,
    proof: Option<Arc<dyn ClientCertVerifier>>,
    /// The handler was told that the handshake is over.
    told: bool,
}

/// Why a connection ends that should have been TLS.
#[derive(Debug)]
pub(super) struct Broken;

impl Channel {
    /// Of a new connection.
    pub(super) fn new(tls: Option<&Arc<Tls>>) -> Channel {
        tls.map_or(Channel::Plain, |tls| Channel::Undecided(Arc::clone(tls)))
    }

    /// Whether bytes are to be read by [`Session::opened`].
    pub(super) fn session(&mut self) -> Option<&mut Session> {
        match self {
            Channel::Sealed(session) => Some(session),
            _ => None,
        }
    }

    /// Decides by the first bytes. True when they are of a handshake, and must be given to
    /// [`Session::open`].
    pub(super) fn decide(&mut self, first: &[u8]) -> Result<bool, Broken> {
        let Channel::Undecided(tls) = self else {
            return Ok(matches!(self, Channel::Sealed(_)));
        };
        // A message that began so would be longer than any first message is.
        let handshake = first.first() == Some(&0x16) && first.get(1).is_none_or(|b| *b == 3);
        *self = match (handshake, tls.mode) {
            (true, _) => Channel::Sealed(tls.begin().ok_or(Broken)?),
            (false, TlsMode::Optional) => Channel::Plain,
            (false, TlsMode::Required) => return Err(Broken),
        };
        Ok(handshake)
    }

    /// The bytes as they go to the socket.
    pub(super) fn seal(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, Broken> {
        let Channel::Sealed(session) = self else {
            return Ok(bytes);
        };
        let mut sealed = Vec::with_capacity(bytes.len() + bytes.len() / 64 + 64);
        for part in bytes.chunks(SEAL_LEN) {
            let writer = &mut session.connection.writer();
            writer.write_all(part).map_err(|_| Broken)?;
            session.drain(&mut sealed)?;
        }
        Ok(sealed)
    }
}

impl Session {
    /// Takes bytes of the socket.
    pub(super) fn open(&mut self, mut bytes: &[u8]) -> Result<(), Broken> {
        while !bytes.is_empty() {
            match self.connection.read_tls(&mut bytes) {
                Ok(n) if n > 0 => {}
                _ => return Err(Broken),
            }
            self.connection.process_new_packets().map_err(|_| Broken)?;
        }
        Ok(())
    }

    /// Copies what was opened into `into`: how many bytes. `None` when there is nothing, yet;
    /// `Some(0)` at the end.
    pub(super) fn opened(&mut self, into: &mut [u8]) -> Option<usize> {
        match self.connection.reader().read(into) {
            Ok(n) => Some(n),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => None,
            Err(_) => Some(0),
        }
    }

    /// Whether the handshake has just ended: the certificate of the client, if it showed one that
    /// proves who it is. Once.
    pub(super) fn entered(&mut self) -> Option<Option<Vec<u8>>> {
        if self.told || self.connection.is_handshaking() {
            return None;
        }
        self.told = true;
        let shown = self.connection.peer_certificates();
        Some(shown.and_then(|all| {
            let (own, between) = all.split_first()?;
            if let Some(proof) = &self.proof {
                let now = UnixTime::now();
                proof.verify_client_cert(own, between, now).ok()?;
            }
            Some(own.to_vec())
        }))
    }

    /// Appends the records that want to leave.
    pub(super) fn drain(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        while self.connection.wants_write() {
            self.connection.write_tls(out).map_err(|_| Broken)?;
        }
        Ok(())
    }
}
