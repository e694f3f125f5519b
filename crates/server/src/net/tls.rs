//! TLS within the network layer: what is received is opened before it is framed, what is sent is
//! sealed after it was built; everything else is one path with plain connections.
//!
//! Promises: a plain connection pays one comparison; nothing of a handshake is kept beyond what the
//! library bounds; a connection that is refused has a reason in words. Must not know: certificates
//! as files, who the client is to the server, the log.

use std::io::{Read, Write};
use std::sync::Arc;

use super::handler::Entered;
use parking_lot::RwLock;
use rustls::pki_types::UnixTime;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, Error, PeerIncompatible, ServerConfig, ServerConnection};

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

    fn begin(&self, first: &[u8]) -> Result<Box<Session>, Broken> {
        let TlsConfig { library, proof } = self.config.read().clone();
        Ok(Box::new(Session {
            connection: ServerConnection::new(library)
                .map_err(|e| Broken::of_library(&e, false))?,
            proof,
            is_old: is_old(first),
            told: false,
        }))
    }
}

/// How the bytes of a connection are carried.
pub(super) enum Channel {
    /// As they are.
    Plain,
    /// The first bytes decide; without TLS there is one answer to a handshake.
    Undecided(Option<Arc<Tls>>),
    /// In records.
    Sealed(Box<Session>),
}

/// One TLS connection.
pub(super) struct Session {
    connection: ServerConnection,
    proof: Option<Arc<dyn ClientCertVerifier>>,
    /// What it began with is of an old version.
    is_old: bool,
    /// The handler was told that the handshake is over.
    told: bool,
}

const TOO_OLD: &str = "the client offers no version of TLS that is allowed: 1.2 and 1.3";

/// Whether the first record says that its client knows no version from 1.2 on.
fn is_old(first: &[u8]) -> bool {
    matches!(first.get(9..11), Some([3, minor]) if *minor < 3)
}

/// Why a connection ends that is, or should have been, TLS.
#[derive(Debug)]
pub(super) struct Broken(pub(super) String);

impl Broken {
    fn of_io(e: &std::io::Error) -> Broken {
        Broken(format!("TLS failed: {e}"))
    }

    /// In words that mongod has, too, where it has any; nothing of them is the client's text.
    fn of_library(e: &Error, is_old: bool) -> Broken {
        let words = match e {
            // The library looks for other things of later versions first.
            Error::PeerIncompatible(_) if is_old => TOO_OLD.to_owned(),
            Error::NoCertificatesPresented => {
                "no SSL certificate provided by peer; connection rejected".to_owned()
            }
            Error::InvalidCertificate(why) => {
                format!(
                    "SSL peer certificate validation failed: {}",
                    of_certificate(why)
                )
            }
            Error::PeerIncompatible(
                PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::SupportedVersionsExtensionRequired,
            ) => TOO_OLD.to_owned(),
            Error::AlertReceived(alert) => {
                format!("the client ended the handshake with the alert {alert:?}")
            }
            Error::InvalidMessage(_) => "what the client sent is no record of TLS".to_owned(),
            other => other.to_string(),
        };
        Broken(words)
    }
}

fn of_certificate(e: &CertificateError) -> String {
    match e {
        CertificateError::Expired => "certificate has expired".to_owned(),
        CertificateError::ExpiredContext { time, not_after } => {
            let days = time.as_secs().saturating_sub(not_after.as_secs()) / 86_400;
            format!("certificate has expired, {days} days ago")
        }
        CertificateError::UnknownIssuer => "no known authority has signed it".to_owned(),
        CertificateError::Revoked => "certificate revoked".to_owned(),
        CertificateError::BadSignature => "its signature is wrong".to_owned(),
        CertificateError::BadEncoding => "it cannot be read".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is not for clients".to_owned()
        }
        other => other.to_string(),
    }
}

/// Whether the first bytes of a connection are those of a handshake. A message may begin with the
/// same two bytes, when it is 790 bytes long; then it says what it is further on.
fn is_handshake(first: &[u8]) -> bool {
    let begins = first.first() == Some(&0x16) && first.get(1).is_none_or(|b| *b == 3);
    let operation = first.get(12..16).and_then(|b| b.try_into().ok());
    let is_message = |b| wire::OpCode::from_i32(i32::from_le_bytes(b)).is_some();
    begins && !operation.is_some_and(is_message)
}

impl Channel {
    /// Of a new connection.
    pub(super) fn new(tls: Option<&Arc<Tls>>) -> Channel {
        Channel::Undecided(tls.map(Arc::clone))
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
        let handshake = is_handshake(first);
        *self = match (handshake, tls) {
            (true, Some(tls)) => Channel::Sealed(tls.begin(first)?),
            (true, None) => {
                let why = "SSL handshake received but server is started without SSL support";
                return Err(Broken(why.to_owned()));
            }
            (false, Some(tls)) if tls.mode == TlsMode::Required => {
                let why = "The server is configured to only allow SSL connections";
                return Err(Broken(why.to_owned()));
            }
            (false, _) => Channel::Plain,
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
            writer.write_all(part).map_err(|e| Broken::of_io(&e))?;
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
                Ok(_) => return Err(Broken("bytes came after the end of TLS".to_owned())),
                Err(e) => return Err(Broken::of_io(&e)),
            }
            let taken = self.connection.process_new_packets();
            taken.map_err(|e| Broken::of_library(&e, self.is_old))?;
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

    /// Whether the handshake has begun and not ended.
    pub(super) fn is_in_handshake(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// What the handshake has shown, when it has just ended. Once.
    pub(super) fn entered(&mut self) -> Option<Entered> {
        if self.told || self.connection.is_handshaking() {
            return None;
        }
        self.told = true;
        let shown = self.connection.peer_certificates();
        let certificate = shown.and_then(|all| {
            let (own, between) = all.split_first()?;
            if let Some(proof) = &self.proof {
                let now = UnixTime::now();
                proof.verify_client_cert(own, between, now).ok()?;
            }
            Some(own.to_vec())
        });
        Some(Entered {
            certificate,
            server_name: self.connection.server_name().map(str::to_owned),
        })
    }

    /// Appends the records that want to leave.
    pub(super) fn drain(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        while self.connection.wants_write() {
            let written = self.connection.write_tls(out);
            written.map_err(|e| Broken::of_io(&e))?;
        }
        Ok(())
    }
}
