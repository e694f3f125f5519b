//! TLS to the cluster: the files for it, and the reason why PD and this server do not trust each
//! other, which the client library does not tell.
//!
//! Promises: files are refused here that the library would take for a wish to do without TLS. Must
//! not know: requests, leases.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Error, RootCertStore, Stream};

/// Timeout of each step of an attempt.
const STEP: Duration = Duration::from_secs(4);
/// How long a server may take to refuse a certificate when it need not be spoken to.
const OBJECTION: Duration = Duration::from_millis(500);
/// The protocol that PD and the stores speak.
const HTTP2: &[u8] = b"h2";
/// How a client begins HTTP/2: the preface, and settings without content.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Files for TLS to PD and to the stores, in PEM. One file may be both certificate and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the authorities that sign those of PD and the stores.
    pub ca: PathBuf,
    /// Certificate that this server shows, and then those between it and its authority.
    pub certificate: PathBuf,
    /// Private key of that certificate, not encrypted.
    pub key: PathBuf,
}

/// The bytes of the files, to notice when they are replaced.
#[derive(PartialEq, Eq)]
pub(crate) struct TlsContents {
    ca: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl TlsFiles {
    /// Checks that the files can be read and belong together.
    ///
    /// # Errors
    /// One line that names the file.
    pub fn check(&self) -> Result<(), String> {
        self.read().map(|_| ())
    }

    /// The bytes of the files, which can be used, and the configuration made of them.
    ///
    /// # Errors
    /// One line that names the file.
    pub(crate) fn read(&self) -> Result<(TlsContents, Arc<ClientConfig>), String> {
        let contents = TlsContents {
            ca: bytes(&self.ca)?,
            certificate: bytes(&self.certificate)?,
            key: bytes(&self.key)?,
        };
        let config = self.config(&contents)?;
        Ok((contents, config))
    }

    fn config(&self, contents: &TlsContents) -> Result<Arc<ClientConfig>, String> {
        let mut roots = RootCertStore::empty();
        for root in items::<CertificateDer<'static>>(&self.ca, &contents.ca, "certificate")? {
            let added = roots.add(root);
            added.map_err(|e| format!("a certificate in {} is wrong: {e}", self.ca.display()))?;
        }
        let chain = items(&self.certificate, &contents.certificate, "certificate")?;
        let keys: Vec<PrivateKeyDer<'static>> = items(&self.key, &contents.key, "private key")?;
        let Some(key) = keys.into_iter().next() else {
            return Err(format!("{} holds no private key", self.key.display()));
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| format!("TLS cannot be used: {e}"))?;
        let config = builder
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key);
        let mut config = config.map_err(|e| {
            let (certificate, key) = (self.certificate.display(), self.key.display());
            format!("the certificate in {certificate} and the key in {key} cannot be used: {e}")
        })?;
        config.alpn_protocols.push(HTTP2.to_vec());
        Ok(Arc::new(config))
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

/// Everything of one kind in a file, at least one.
fn items<T: PemObject>(path: &Path, pem: &[u8], what: &str) -> Result<Vec<T>, String> {
    let shown = path.display();
    match T::pem_slice_iter(pem).collect::<Result<Vec<T>, _>>() {
        Ok(all) if all.is_empty() => Err(format!("{shown} holds no {what} in PEM")),
        Ok(all) => Ok(all),
        Err(e) => Err(format!("cannot read the {what} in {shown}: {e}")),
    }
}

/// What came of attempts to speak TLS with PD.
pub(crate) struct HandshakeReport {
    /// One line for each address that did not answer, or not as it should.
    pub(crate) failures: Vec<String>,
    /// No address is left that may answer later without a change of certificates.
    pub(crate) all_refused: bool,
}

enum HandshakeFailure {
    /// One side does not trust the other, or they speak different protocols.
    Refused(String),
    /// Nothing is known: the server may be starting, or the network fails.
    Silent(String),
}

impl From<std::io::Error> for HandshakeFailure {
    fn from(e: std::io::Error) -> HandshakeFailure {
        let inner = e.get_ref();
        match inner.and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(Error::InvalidCertificate(_)) => {
                HandshakeFailure::Refused(format!("its certificate is not accepted: {e}"))
            }
            Some(Error::AlertReceived(_)) => {
                HandshakeFailure::Refused(format!("it refuses this server's certificate: {e}"))
            }
            Some(_) => {
                HandshakeFailure::Refused(format!("it does not speak TLS as it should: {e}"))
            }
            None => HandshakeFailure::Silent(e.to_string()),
        }
    }
}

/// Speaks TLS with each address of PD, one after the other.
///
/// # Cost
/// Up to a few seconds for each address that does not answer.
pub(crate) fn attempt(pd: &[String], config: &Arc<ClientConfig>) -> HandshakeReport {
    let (mut failures, mut refused) = (Vec::new(), 0);
    for address in pd {
        let why = match greet(address, config) {
            Ok(()) => continue,
            Err(HandshakeFailure::Silent(why)) => why,
            Err(HandshakeFailure::Refused(why)) => {
                refused += 1;
                why
            }
        };
        failures.push(format!("{address}: {why}"));
    }
    let all_refused = refused > 0 && refused == pd.len();
    HandshakeReport {
        failures,
        all_refused,
    }
}

/// Speaks with a server until it has answered over TLS, so that it has accepted the certificate.
fn greet(address: &str, config: &Arc<ClientConfig>) -> Result<(), HandshakeFailure> {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|e| HandshakeFailure::Silent(e.to_string()))?;
    let mut socket = connect(address)?;
    socket.set_read_timeout(Some(STEP))?;
    socket.set_write_timeout(Some(STEP))?;
    let connection = ClientConnection::new(Arc::clone(config), name);
    let mut connection = connection.map_err(|e| HandshakeFailure::Refused(e.to_string()))?;
    while connection.is_handshaking() {
        connection.complete_io(&mut socket)?;
    }
    if connection.alpn_protocol() != Some(HTTP2) {
        let why = "it does not speak HTTP/2 over TLS, as PD does";
        return Err(HandshakeFailure::Refused(why.to_owned()));
    }
    // A server that refuses the certificate says so now. If it were written to, its refusal could
    // be lost with the connection.
    socket.set_read_timeout(Some(OBJECTION))?;
    let mut answer = [0];
    match Stream::new(&mut connection, &mut socket).read(&mut answer) {
        Err(e) if is_timeout(&e) => {}
        answered => return is_answer(answered),
    }
    socket.set_read_timeout(Some(STEP))?;
    let mut stream = Stream::new(&mut connection, &mut socket);
    stream.write_all(GREETING)?;
    stream.flush()?;
    is_answer(stream.read(&mut answer))
}

fn is_timeout(e: &std::io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn is_answer(read: std::io::Result<usize>) -> Result<(), HandshakeFailure> {
    match read {
        Ok(0) => Err(HandshakeFailure::Silent(
            "it ends the connection".to_owned(),
        )),
        Ok(_) => Ok(()),
        Err(e) if is_timeout(&e) => Err(HandshakeFailure::Silent("it does not answer".to_owned())),
        Err(e) => Err(e.into()),
    }
}

fn connect(address: &str) -> std::io::Result<TcpStream> {
    let mut last = None;
    for resolved in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&resolved, STEP) {
            Ok(socket) => return Ok(socket),
            Err(e) => last = Some(e),
        }
    }
    Err(last.unwrap_or_else(|| ErrorKind::AddrNotAvailable.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDER: &str = "../../server/tests/it/certificates";

    fn files(ca: &Path, certificate: &Path, key: &Path) -> TlsFiles {
        TlsFiles {
            ca: ca.to_owned(),
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        }
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let at = |name: &str| Path::new(FOLDER).join(name);
        let (ca, own, other) = (at("ca.pem"), at("client.pem"), at("server.pem"));
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        fs::write(&empty, "").unwrap();
        let text = folder.path().join("text.pem");
        fs::write(&text, "no certificate\n").unwrap();
        let half = folder.path().join("half.pem");
        let whole = fs::read_to_string(&own).unwrap();
        fs::write(&half, &whole[..whole.len() / 5]).unwrap();
        let gone = folder.path().join("gone.pem");
        assert_eq!(files(&ca, &own, &own).check(), Ok(()));
        for (ca, certificate, key, why) in [
            (&gone, &own, &own, "cannot read"),
            (&ca, &gone, &own, "cannot read"),
            (&ca, &own, &gone, "cannot read"),
            (&empty, &own, &own, "empty.pem holds no certificate"),
            (&text, &own, &own, "text.pem holds no certificate"),
            (&ca, &text, &own, "text.pem holds no certificate"),
            (&ca, &half, &own, "certificate in"),
            (&ca, &own, &empty, "empty.pem holds no private key"),
            (&ca, &own, &ca, "ca.pem holds no private key"),
            (&ca, &own, &other, "server.pem cannot be used"),
        ] {
            let line = files(ca, certificate, key).check().unwrap_err();
            assert!(line.contains(why) && !line.contains('\n'), "{line}");
            assert!(line.contains(".pem"), "{line}");
        }
    }

    #[test]
    fn an_address_where_nobody_listens_may_answer_later() {
        let at = |name: &str| Path::new(FOLDER).join(name);
        let own = at("client.pem");
        let (_, config) = files(&at("ca.pem"), &own, &own).read().unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let attempts = attempt(std::slice::from_ref(&address), &config);
        assert!(!attempts.all_refused);
        assert!(attempts.failures[0].starts_with(&address));
    }
}
