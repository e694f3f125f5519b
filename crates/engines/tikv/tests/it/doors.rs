//! TLS in front of the cluster of the tests, which speaks none: a door for PD and one for each
//! store. In the answers of PD the addresses behind the doors are replaced by those of the doors.
//!
//! Promises: nothing passes a door without TLS and without a certificate signed by the authority of
//! the tests. Must not know: what is said.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;

/// A file of the certificates that the tests of the server have. `ca.pem` has signed `server.pem`
/// and `client.pem`; `other-ca.pem` has signed `revoked.pem`. Those four but the authorities hold
/// the key, too.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new("../../server/tests/it/certificates").join(name)
}

/// The certificate in a file.
pub(crate) fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file(name)).expect("a certificate")
}

/// A certificate authority of the tests.
pub(crate) fn authority(name: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(certificate(name)).expect("an authority");
    roots
}

/// TLS proxies in front of a cluster, open until this is dropped.
pub(crate) struct TlsProxies {
    /// Addresses of the door of PD, and of those of the stores.
    pub(crate) pd: String,
    pub(crate) stores: Vec<String>,
    /// Who has passed: the address of the door, and the certificate that was shown.
    passed: Arc<Mutex<Vec<(String, CertificateDer<'static>)>>>,
    _runtime: Runtime,
}

/// The address of a server and that of the proxy which clients get in its place. Both have the same
/// length.
type AddressMap = Vec<(Vec<u8>, Vec<u8>)>;

impl TlsProxies {
    /// Opens doors that show these certificates, in front of a PD and its stores. The reason why
    /// that cannot be is printed.
    pub(crate) fn open(pd: &str, of_pd: &str, of_stores: &str) -> Option<TlsProxies> {
        let behind: Vec<String> = std::iter::once(pd.to_owned()).chain(stores(pd)).collect();
        let listen = |_: &String| TcpListener::bind("127.0.0.1:0").expect("a port");
        let listeners: Vec<TcpListener> = behind.iter().map(listen).collect();
        let shown = |l: &TcpListener| l.local_addr().expect("an address").to_string();
        let doors: Vec<String> = listeners.iter().map(shown).collect();
        if behind.iter().zip(&doors).any(|(b, d)| b.len() != d.len()) {
            eprintln!("skipped: addresses of {behind:?} cannot be replaced by those of {doors:?}");
            return None;
        }
        let bytes = |name: &String| name.clone().into_bytes();
        let names: AddressMap = behind
            .iter()
            .map(bytes)
            .zip(doors.iter().map(bytes))
            .collect();
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let passed = Arc::new(Mutex::new(Vec::new()));
        for (number, listener) in listeners.into_iter().enumerate() {
            let shown = if number == 0 { of_pd } else { of_stores };
            let door = TlsProxy {
                own: doors[number].clone(),
                behind: behind[number].clone(),
                acceptor: acceptor(shown),
                // Only PD tells addresses.
                names: if number == 0 {
                    names.clone()
                } else {
                    Vec::new()
                },
                passed: Arc::clone(&passed),
            };
            runtime.spawn(Arc::new(door).attend(listener));
        }
        let [pd, stores @ ..] = &doors[..] else {
            return None;
        };
        Some(TlsProxies {
            pd: pd.clone(),
            stores: stores.to_vec(),
            passed,
            _runtime: runtime,
        })
    }

    /// The certificates that were shown at a door, in order.
    pub(crate) fn certificates_at(&self, door: &str) -> Vec<CertificateDer<'static>> {
        let passed = self.passed.lock();
        let here = passed.iter().filter(|(at, _)| at == door);
        here.map(|(_, certificate)| certificate.clone()).collect()
    }
}

/// The addresses of the stores, from PD.
fn stores(pd: &str) -> Vec<String> {
    let mut stream = TcpStream::connect(pd).expect("PD answers");
    let request = format!("GET /pd/api/v1/stores HTTP/1.0\r\nHost: {pd}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("PD reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("PD answers");
    let found = answer.split("\"address\": \"").skip(1);
    let found = found.filter_map(|rest| rest.split('"').next());
    found.map(str::to_owned).collect()
}

fn acceptor(shown: &str) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = Arc::new(authority("ca.pem"));
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
        .build()
        .expect("a verifier");
    let key = PrivateKeyDer::from_pem_file(file(shown)).expect("a key");
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate(shown)], key)
        .expect("a certificate and its key");
    config.alpn_protocols.push(b"h2".to_vec());
    TlsAcceptor::from(Arc::new(config))
}

struct TlsProxy {
    own: String,
    behind: String,
    acceptor: TlsAcceptor,
    names: AddressMap,
    passed: Arc<Mutex<Vec<(String, CertificateDer<'static>)>>>,
}

impl TlsProxy {
    async fn attend(self: Arc<TlsProxy>, listener: TcpListener) {
        listener.set_nonblocking(true).expect("a socket");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
        while let Ok((socket, _)) = listener.accept().await {
            let door = Arc::clone(&self);
            // TLS itself tells a client that it is refused.
            tokio::spawn(async move { door.pass(socket).await });
        }
    }

    async fn pass(&self, socket: tokio::net::TcpStream) -> std::io::Result<()> {
        socket.set_nodelay(true)?;
        let sealed = self.acceptor.accept(socket).await?;
        let shown = sealed.get_ref().1.peer_certificates();
        let shown = shown.and_then(|chain| chain.first()).cloned();
        let shown = shown.expect("a certificate is demanded");
        self.passed.lock().push((self.own.clone(), shown));
        let behind = tokio::net::TcpStream::connect(&self.behind).await?;
        behind.set_nodelay(true)?;
        let (mut from_client, mut to_client) = tokio::io::split(sealed);
        let (mut from_server, mut to_server) = behind.into_split();
        let down = async {
            let mut buffer = vec![0; 64 << 10];
            loop {
                let len = from_server.read(&mut buffer).await?;
                if len == 0 {
                    return std::io::Result::Ok(());
                }
                // An answer with an address is small, and comes as a whole.
                rename(&mut buffer[..len], &self.names);
                to_client.write_all(&buffer[..len]).await?;
                to_client.flush().await?;
            }
        };
        tokio::select! {
            ended = tokio::io::copy(&mut from_client, &mut to_server) => ended.map(|_| ()),
            ended = down => ended,
        }
    }
}

fn rename(bytes: &mut [u8], names: &AddressMap) {
    for (from, to) in names {
        let mut at = 0;
        while let Some(found) = bytes[at..].windows(from.len()).position(|w| w == &from[..]) {
            let start = at + found;
            at = start + from.len();
            bytes[start..at].copy_from_slice(to);
        }
    }
}
