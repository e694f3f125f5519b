//! Master keys in HashiCorp Vault: its HTTP API for versioned secrets (KV version 2).
//!
//! Promises: a new key is in Vault before it encrypts anything; each error is one line, which holds
//! neither the token nor a key nor text of the answering server; that server may be hostile, so
//! time and length of its answers are bounded. Must not know: what keys encrypt.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cipher::MasterKey;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// How long an answer may take, connecting included.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// Most versions of a secret that are tried, the newest first: Vault keeps as many by default.
const VERSIONS_MAX: u64 = 10;
/// The field of the secret that holds the key, as in Percona Server for MongoDB.
const FIELD: &str = "value";
/// Longest token.
const TOKEN_BYTES_MAX: usize = 4096;

/// Where a key is kept in Vault.
#[derive(Clone, Debug)]
pub struct VaultSettings {
    /// Name or address.
    pub server: String,
    /// Port.
    pub port: u16,
    /// File of the token.
    pub token_file: PathBuf,
    /// `MOUNT/data/PATH`.
    pub secret: String,
    /// CA certificate that has signed Vault's certificate; `None` speaks plain HTTP.
    pub ca_file: Option<PathBuf>,
}

/// A key and its version in the secret.
struct StoredKey {
    version: u64,
    /// `None` if the secret has no key.
    key: Option<MasterKey>,
}

struct Vault<'s> {
    agent: ureq::Agent,
    settings: &'s VaultSettings,
    token: String,
}

impl VaultSettings {
    fn describe(&self) -> String {
        format!("Vault at {}:{}", self.server, self.port)
    }

    fn connect(&self) -> Result<Vault<'_>, String> {
        let token = token(&self.token_file)?;
        let mut config = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            // A redirect would send the token to another server.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None);
        if let Some(ca) = &self.ca_file {
            let shown = ca.display();
            let wrong = |e: &dyn std::fmt::Display| {
                format!("cannot read the certificates of vaultServerCAFile {shown}: {e}")
            };
            let all = CertificateDer::pem_file_iter(ca)
                .and_then(|all| all.collect::<Result<Vec<_>, _>>())
                .map_err(|e| wrong(&e))?;
            if all.is_empty() {
                return Err(wrong(&"there is none"));
            }
            let all = all.iter().map(|c| Certificate::from_der(c).to_owned());
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let tls = TlsConfig::builder()
                .unversioned_rustls_crypto_provider(provider)
                .root_certs(RootCerts::from(all.collect::<Vec<_>>()));
            config = config.https_only(true).tls_config(tls.build());
        }
        Ok(Vault {
            agent: config.build().new_agent(),
            settings: self,
            token,
        })
    }

    /// The key of a directory: the newest version of the secret that decrypts its data key. A new
    /// directory gets the newest version; a missing secret is created.
    ///
    /// # Errors
    /// One line.
    pub fn key_of(&self, directory: &Path) -> Result<MasterKey, String> {
        let vault = self.connect()?;
        let newest = vault.read(None)?;
        if !cipher::is_encrypted(directory) {
            return match newest {
                Some(found) => found.key.ok_or_else(|| self.no_key()),
                // No secret is created for data that cannot be encrypted.
                None if directory.join("CURRENT").exists() => Err(format!(
                    "the data in {} is not encrypted; encryption begins with an empty directory",
                    directory.display()
                )),
                None => vault.write(0),
            };
        }
        let newest = newest.ok_or_else(|| {
            format!(
                "{} has no secret {}, and the data in {} is encrypted",
                self.describe(),
                self.secret,
                directory.display()
            )
        })?;
        let version = newest.version;
        let mut wrong = None;
        if let Some(key) = newest.key {
            match cipher::open(directory, &key) {
                Ok(_) => return Ok(key),
                Err(e) => wrong = Some(e),
            }
        }
        // An older version fits after an interrupted rotation, or if servers share the secret.
        let oldest = version.saturating_sub(VERSIONS_MAX - 1).max(1);
        for before in (oldest..version).rev() {
            let found = vault.read(Some(before))?.and_then(|f| f.key);
            if let Some(key) = found.filter(|key| cipher::open(directory, key).is_ok()) {
                return Ok(key);
            }
        }
        Err(match wrong {
            Some(wrong) => format!(
                "{wrong}; tried versions {oldest} to {version} of the secret {}",
                self.secret
            ),
            None => self.no_key(),
        })
    }

    /// Stores a new key in Vault, as the next version of the secret.
    ///
    /// # Errors
    /// One line; the key must not be used then.
    pub fn next_key(&self) -> Result<MasterKey, String> {
        let vault = self.connect()?;
        let newest = vault.read(None)?;
        vault.write(newest.map_or(0, |found| found.version))
    }

    fn no_key(&self) -> String {
        format!(
            "the secret {} of {} holds no key: its field {FIELD:?} must be 32 bytes in base64",
            self.secret,
            self.describe()
        )
    }
}

impl Vault<'_> {
    fn url(&self, version: Option<u64>) -> String {
        let VaultSettings {
            server,
            port,
            secret,
            ca_file,
            ..
        } = self.settings;
        let scheme = if ca_file.is_some() { "https" } else { "http" };
        let host = match server.contains(':') {
            true => format!("[{server}]"),
            false => server.clone(),
        };
        let version = version.map_or_else(String::new, |v| format!("?version={v}"));
        format!("{scheme}://{host}:{port}/v1/{secret}{version}")
    }

    /// A version of the secret, by default the newest; `None` if it does not exist.
    fn read(&self, version: Option<u64>) -> Result<Option<StoredKey>, String> {
        let url = self.url(version);
        let asked = self.agent.get(&url).header("X-Vault-Token", &self.token);
        let (status, answer) = self.answer(asked.call())?;
        let metadata = |a: &Value| a.pointer("/data/metadata/version").and_then(Value::as_u64);
        match status {
            // If the newest version was deleted, Vault still tells its number.
            404 if version.is_none() && metadata(&answer).is_some() => Ok(Some(StoredKey {
                version: metadata(&answer).unwrap_or(1),
                key: None,
            })),
            404 => Ok(None),
            200 => {
                let version = metadata(&answer).filter(|v| *v > 0).ok_or_else(|| {
                    format!(
                        "{} does not answer as KV version 2 does for {}",
                        self.settings.describe(),
                        self.settings.secret
                    )
                })?;
                let text = answer.pointer(&format!("/data/data/{FIELD}"));
                let key = text.and_then(Value::as_str).and_then(MasterKey::parse);
                Ok(Some(StoredKey { version, key }))
            }
            other => Err(self.refusal_message(other)),
        }
    }

    /// Stores a key as the version after `after`, and returns the key that Vault then holds.
    fn write(&self, after: u64) -> Result<MasterKey, String> {
        let (made, text) = MasterKey::make();
        let body = json!({ "options": { "cas": after }, "data": { FIELD: text } });
        let sent = self
            .agent
            .post(self.url(None))
            .header("X-Vault-Token", &self.token)
            .content_type("application/json")
            .send(body.to_string());
        let (status, answer) = self.answer(sent)?;
        if status == 400 {
            return Err(format!(
                "{} refused a new version of {}: it is not a secret of KV version 2, or another \
                 client has changed it meanwhile",
                self.settings.describe(),
                self.settings.secret
            ));
        }
        if !matches!(status, 200 | 204) {
            return Err(self.refusal_message(status));
        }
        let version = answer.pointer("/data/version").and_then(Value::as_u64);
        let there = match version {
            Some(version) => self.read(Some(version))?.and_then(|found| found.key),
            None => None,
        };
        there.filter(|key| key.is(&made)).ok_or_else(|| {
            format!(
                "{} accepted a new version of {} but does not return it",
                self.settings.describe(),
                self.settings.secret
            )
        })
    }

    /// Status and body. A body that is not JSON is ignored.
    fn answer(
        &self,
        result: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<(u16, Value), String> {
        let shown = self.settings.describe();
        let mut response =
            result.map_err(|e| format!("cannot reach {shown}: {}", describe_error(&e)))?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let body = body
            .read_to_vec()
            .map_err(|e| format!("cannot read what {shown} answers: {}", describe_error(&e)))?;
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    fn refusal_message(&self, status: u16) -> String {
        let (shown, secret) = (self.settings.describe(), &self.settings.secret);
        match status {
            401 | 403 => format!(
                "{shown} does not allow the token in {} to use {secret} (status {status})",
                self.settings.token_file.display()
            ),
            429 | 472 | 473 | 307 => {
                format!("{shown} is a standby (status {status}); name the active server")
            }
            503 => format!("{shown} is sealed or in maintenance (status 503)"),
            other => format!("{shown} answered with status {other} for {secret}"),
        }
    }
}

fn describe_error(e: &ureq::Error) -> String {
    match e {
        ureq::Error::Timeout(_) => format!("no answer within {} s", PATIENCE.as_secs()),
        ureq::Error::Io(e) => e.to_string(),
        ureq::Error::HostNotFound => "its name is not known".to_owned(),
        ureq::Error::ConnectionFailed => "there is no connection".to_owned(),
        ureq::Error::BodyExceedsLimit(most) => format!("more than {most} bytes"),
        ureq::Error::Rustls(e) => format!("TLS failed: {e}"),
        _ => "it does not speak HTTP as Vault does".to_owned(),
    }
}

/// The token, from a file that only its owner may read.
fn token(path: &Path) -> Result<String, String> {
    use std::os::unix::fs::PermissionsExt;
    let shown = path.display();
    let read = || {
        Ok((
            std::fs::read_to_string(path)?,
            std::fs::metadata(path)?.permissions().mode(),
        ))
    };
    let (text, mode) =
        read().map_err(|e: std::io::Error| format!("cannot read vaultTokenFile {shown}: {e}"))?;
    if mode & 0o077 != 0 {
        return Err(format!(
            "vaultTokenFile {shown} may be read by others than its owner; chmod 600 it"
        ));
    }
    let token = text.trim();
    let is_one =
        (1..=TOKEN_BYTES_MAX).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic());
    if !is_one {
        return Err(format!(
            "vaultTokenFile {shown} must hold a token and nothing else"
        ));
    }
    Ok(token.to_owned())
}
