//! TLS as an operator configures it: reads files and builds a configuration of the TLS library.
//!
//! Promises: a file that cannot be used is reported at the start or by `rotateCertificates`, with
//! its name. Must not know: sockets, commands.

mod subject;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
};

use crate::net::TlsConfig;

pub use subject::subject;

/// The files and options.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Certificate, the ones it is signed by, and its key (`--tlsCertificateKeyFile`).
    pub certificate_key: PathBuf,
    /// CA certificates for client certificates (`--tlsCAFile`).
    pub ca: Option<PathBuf>,
    /// Revoked certificates (`--tlsCRLFile`).
    pub crl: Option<PathBuf>,
    /// A client need not show a certificate (`--tlsAllowConnectionsWithoutCertificates`).
    pub allow_without: bool,
    /// Any client certificate is accepted for the connection, but not for logging in
    /// (`--tlsAllowInvalidCertificates`).
    pub allow_invalid: bool,
}

fn items<T: PemObject>(path: &Path, what: &str) -> Result<Vec<T>, String> {
    let shown = path.display();
    let read = || T::pem_file_iter(path)?.collect::<Result<Vec<T>, _>>();
    match read() {
        Ok(all) if all.is_empty() => Err(format!("{shown} holds no {what}")),
        Ok(all) => Ok(all),
        Err(e) => Err(format!("cannot read the {what} in {shown}: {e}")),
    }
}

/// The configuration for connecting to a server whose certificate is signed by one of these.
///
/// # Errors
/// One line that names the file.
pub fn client(ca: &Path) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    for root in items::<CertificateDer<'static>>(ca, "certificate")? {
        roots
            .add(root)
            .map_err(|e| format!("a certificate in {} is wrong: {e}", ca.display()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| format!("TLS cannot be used: {e}"))?;
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config))
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// One line that names the file.
    pub fn load(&self) -> Result<TlsConfig, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain: Vec<CertificateDer<'static>> = items(&self.certificate_key, "certificate")?;
        let keys: Vec<PrivateKeyDer<'static>> = items(&self.certificate_key, "private key")?;
        let shown = self.certificate_key.display();
        let Some(key) = keys.into_iter().next() else {
            return Err(format!("{shown} holds no private key"));
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| format!("TLS cannot be used: {e}"))?;
        let strict = self.verifier(&provider)?;
        let builder = match &strict {
            Some(strict) if self.allow_invalid => {
                builder.with_client_cert_verifier(Arc::new(PermissiveVerifier(Arc::clone(strict))))
            }
            Some(strict) => builder.with_client_cert_verifier(Arc::clone(strict)),
            None => builder.with_no_client_auth(),
        };
        let config = builder
            .with_single_cert(chain, key)
            .map_err(|e| format!("the certificate and key in {shown} cannot be used: {e}"))?;
        Ok(TlsConfig {
            library: Arc::new(config),
            proof: strict.filter(|_| self.allow_invalid),
        })
    }

    /// The verifier of client certificates; `None` without a CA file, and then clients are not
    /// asked for one.
    fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
        let Some(ca) = &self.ca else {
            return Ok(None);
        };
        let mut roots = RootCertStore::empty();
        for root in items::<CertificateDer<'static>>(ca, "certificate")? {
            roots
                .add(root)
                .map_err(|e| format!("a certificate in {} is wrong: {e}", ca.display()))?;
        }
        let mut builder =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        if let Some(crl) = &self.crl {
            builder = builder
                .with_crls(items::<CertificateRevocationListDer<'static>>(crl, "CRL")?)
                .allow_unknown_revocation_status();
        }
        if self.allow_without {
            builder = builder.allow_unauthenticated();
        }
        let strict = builder
            .build()
            .map_err(|e| format!("the certificates in {} cannot be used: {e}", ca.display()))?;
        Ok(Some(strict))
    }
}

/// Accepts any certificate whose owner has its key. Such a certificate opens a connection but logs
/// no user in ([`TlsConfig::proof`]): anybody can make a certificate with the name of any user.
#[derive(Debug)]
struct PermissiveVerifier(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for PermissiveVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
