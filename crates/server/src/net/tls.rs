//! TLS within the network layer: received bytes are decrypted before they are framed, replies are
//! encrypted after they are built; everything else is shared with plain connections.
//!
//! Promises: a plain connection costs one comparison more; memory of a handshake is bounded by the
//! library; the end of a refused connection has a reason in words. Must not know: certificate
//! files, who the client is to the server, the log.

use std::io::{Read, Write};
use std::sync::Arc;

use super::handler::HandshakeResult;
use parking_lot::RwLock;
use rustls::pki_types::UnixTime;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, Error, PeerIncompatible, ServerConfig, ServerConnection};

/// Bytes encrypted at a time, so that a large reply does not exist twice.
const SEAL_LEN: usize = 64 * 1024;
/// One record and its overhead.
pub(super) const RECORD_LEN: usize = 18 * 1024;

/// Which connections may, and must, use TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    /// Plain and TLS connections are served.
    Optional,
    /// Plain connections are closed.
    Required,
}

/// What new TLS connections use.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// The configuration of the TLS library.
    pub library: Arc<ServerConfig>,
    /// If the library accepts any client certificate: the verifier that decides whether a
    /// certificate proves the client's identity.
    pub proof: Option<Arc<dyn ClientCertVerifier>>,
}

/// TLS for new connections. The configuration may be replaced; open connections keep theirs.
#[derive(Debug)]
pub struct Tls {
    /// Which connections.
    pub mode: TlsMode,
    config: RwLock<TlsConfig>,
}

impl Tls {
    /// With an initial configuration.
    pub fn new(mode: TlsMode, config: TlsConfig) -> Tls {
        Tls {
            mode,
            config: RwLock::new(config),
        }
    }

    /// Sets the configuration of connections that begin from now on.
    pub fn replace(&self, config: TlsConfig) {
        *self.config.write() = config;
    }

    fn begin(&self, first: &[u8]) -> Result<Box<Session>, TlsError> {
        let TlsConfig { library, proof } = self.config.read().clone();
        Ok(Box::new(Session {
            connection: ServerConnection::new(library)
                .map_err(|e| TlsError::of_library(&e, false))?,
            proof,
            is_old: is_old(first),
            told: false,
        }))
    }
}

/// How the bytes of a connection are transferred.
pub(super) enum Channel {
    /// As they are.
    Plain,
    /// The first bytes decide between plain and TLS. `None`: TLS is off, and a handshake ends the
    /// connection.
    Undecided(Option<Arc<Tls>>),
    /// In TLS records.
    Sealed(Box<Session>),
}

/// One TLS connection.
pub(super) struct Session {
    connection: ServerConnection,
    proof: Option<Arc<dyn ClientCertVerifier>>,
    /// The client's first record is of a TLS version before 1.2.
    is_old: bool,
    /// The handler was told that the handshake is complete.
    told: bool,
}

const TOO_OLD: &str = "the client offers no version of TLS that is allowed: 1.2 and 1.3";

/// Whether the first record shows a client that knows no version from TLS 1.2 on.
fn is_old(first: &[u8]) -> bool {
    matches!(first.get(9..11), Some([3, minor]) if *minor < 3)
}

/// Why a connection that uses TLS, or should use it, ends.
#[derive(Debug)]
pub(super) struct TlsError(pub(super) String);

impl TlsError {
    fn of_io(e: &std::io::Error) -> TlsError {
        TlsError(format!("TLS failed: {e}"))
    }

    /// The reason in mongod's words where mongod has any; it contains no text of the client.
    fn of_library(e: &Error, is_old: bool) -> TlsError {
        let words = match e {
            // The library may first complain about other features of later versions.
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
        TlsError(words)
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

/// Whether the first bytes of a connection begin a TLS handshake. A message of 790 bytes begins
/// with the same two bytes; its later bytes tell it apart.
fn is_handshake(first: &[u8]) -> bool {
    let begins = first.first() == Some(&0x16) && first.get(1).is_none_or(|b| *b == 3);
    let operation = first.get(12..16).and_then(|b| b.try_into().ok());
    let is_message = |b| wire::OpCode::from_i32(i32::from_le_bytes(b)).is_some();
    begins && !operation.is_some_and(is_message)
}

impl Channel {
    /// The state of a new connection.
    pub(super) fn new(tls: Option<&Arc<Tls>>) -> Channel {
        Channel::Undecided(tls.map(Arc::clone))
    }

    /// The session, if received bytes must be read with [`Session::read_decrypted`].
    pub(super) fn session(&mut self) -> Option<&mut Session> {
        match self {
            Channel::Sealed(session) => Some(session),
            _ => None,
        }
    }

    /// Decides by the first bytes. True if they begin a handshake and must be given to
    /// [`Session::open`].
    pub(super) fn decide(&mut self, first: &[u8]) -> Result<bool, TlsError> {
        let Channel::Undecided(tls) = self else {
            return Ok(matches!(self, Channel::Sealed(_)));
        };
        let handshake = is_handshake(first);
        *self = match (handshake, tls) {
            (true, Some(tls)) => Channel::Sealed(tls.begin(first)?),
            (true, None) => {
                let why = "SSL handshake received but server is started without SSL support";
                return Err(TlsError(why.to_owned()));
            }
            (false, Some(tls)) if tls.mode == TlsMode::Required => {
                let why = "The server is configured to only allow SSL connections";
                return Err(TlsError(why.to_owned()));
            }
            (false, _) => Channel::Plain,
        };
        Ok(handshake)
    }

    /// Encrypts bytes for the socket.
    pub(super) fn seal(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, TlsError> {
        let Channel::Sealed(session) = self else {
            return Ok(bytes);
        };
        let mut sealed = Vec::with_capacity(bytes.len() + bytes.len() / 64 + 64);
        for part in bytes.chunks(SEAL_LEN) {
            let writer = &mut session.connection.writer();
            writer.write_all(part).map_err(|e| TlsError::of_io(&e))?;
            session.drain(&mut sealed)?;
        }
        Ok(sealed)
    }
}

impl Session {
    /// Decrypts bytes from the socket.
    pub(super) fn open(&mut self, mut bytes: &[u8]) -> Result<(), TlsError> {
        while !bytes.is_empty() {
            match self.connection.read_tls(&mut bytes) {
                Ok(n) if n > 0 => {}
                Ok(_) => return Err(TlsError("bytes came after the end of TLS".to_owned())),
                Err(e) => return Err(TlsError::of_io(&e)),
            }
            let taken = self.connection.process_new_packets();
            taken.map_err(|e| TlsError::of_library(&e, self.is_old))?;
        }
        Ok(())
    }

    /// Copies decrypted bytes into `into` and returns their number. `None` if there are none yet;
    /// `Some(0)` at the end of the stream.
    pub(super) fn read_decrypted(&mut self, into: &mut [u8]) -> Option<usize> {
        match self.connection.reader().read(into) {
            Ok(n) => Some(n),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => None,
            Err(_) => Some(0),
        }
    }

    /// Whether the handshake has begun and is not complete.
    pub(super) fn is_in_handshake(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// The result of the handshake. `Some` only once, after it was completed.
    pub(super) fn take_handshake_result(&mut self) -> Option<HandshakeResult> {
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
        Some(HandshakeResult {
            certificate,
            server_name: self.connection.server_name().map(str::to_owned),
        })
    }

    /// Appends the records that are to be sent.
    pub(super) fn drain(&mut self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        while self.connection.wants_write() {
            let written = self.connection.write_tls(out);
            written.map_err(|e| TlsError::of_io(&e))?;
        }
        Ok(())
    }
}
