//! A bucket that speaks S3's protocol, as the place of a repository.
//!
//! Promises: an object exists whole or not at all; each error is one line without keys; a request
//! that failed for a passing reason is sent again. Must not know: what is stored.

use super::sign::{Keys, SignedRequest};
use ::backup::{BackupError, Digest, Item, ObjectStore, Piece, TransferCallback, digest_of};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use ureq::http::Response;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Body, SendBody};

/// Longest time for connecting, and for the answer to a request that was sent completely.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a request is sent, and the pause after the first failure; each pause is twice the one
/// before.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(200);
/// Longest list or error text that is read.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// Younger objects may belong to a backup that is being made, and are not removed.
const FRESH: Duration = Duration::from_secs(24 * 3600);
/// An older object that no backup needs may be removed at any moment, so a backup that needs it
/// stores it again.
const STAYS: Duration = Duration::from_secs(12 * 3600);
/// Files of CA certificates on the common Linux distributions.
const AUTHORITIES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

type Result<T> = std::result::Result<T, BackupError>;

/// A bucket, or the objects of a bucket whose names begin with a prefix.
#[derive(Debug)]
pub(super) struct Bucket {
    agent: ureq::Agent,
    keys: Keys,
    endpoint: String,
    host: String,
    name: String,
    /// With a `/` at its end, or empty.
    prefix: String,
}

/// The body of a request.
#[derive(Clone, Copy)]
enum RequestBody<'a> {
    Nothing,
    Bytes(&'a [u8]),
    File(&'a Path, &'a Piece),
}

/// Why a request failed.
struct RequestError {
    why: String,
    may_pass: bool,
}

impl Bucket {
    /// From `BUCKET/PREFIX` and the variables that tools for S3 know.
    ///
    /// # Errors
    /// One line.
    pub(super) fn of(
        name: &str,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> std::result::Result<Bucket, String> {
        let (bucket, prefix) = name.split_once('/').unwrap_or((name, ""));
        let prefix = prefix.trim_matches('/');
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let fits = !bucket.is_empty() && bucket.chars().all(is_plain);
        if !fits || !prefix.chars().all(|c| is_plain(c) || c == '/') {
            return Err(format!(
                "a bucket must be s3://BUCKET or s3://BUCKET/PREFIX with letters, digits, - . _ \
                 and /, given s3://{name}"
            ));
        }
        let needed = |name: &str| {
            variable(name).ok_or_else(|| format!("a bucket needs the environment variable {name}"))
        };
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let given = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        let endpoint = given.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        let authority = endpoint.split_once("://");
        let secure = match authority {
            Some(("https", _)) => true,
            Some(("http", _)) => false,
            _ => {
                return Err(format!(
                    "AWS_ENDPOINT_URL must begin with http:// or https://, given {endpoint}"
                ));
            }
        };
        let host = authority.map_or("", |(_, host)| host).to_owned();
        let mut config = ureq::Agent::config_builder()
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("quarry/", env!("CARGO_PKG_VERSION")));
        if secure {
            config = config.https_only(true).tls_config(authorities(variable)?);
        }
        Ok(Bucket {
            agent: config.build().new_agent(),
            keys: Keys {
                id: needed("AWS_ACCESS_KEY_ID")?,
                secret: needed("AWS_SECRET_ACCESS_KEY")?,
                token: variable("AWS_SESSION_TOKEN"),
                region,
            },
            endpoint,
            host,
            name: bucket.to_owned(),
            prefix: match prefix {
                "" => String::new(),
                prefix => format!("{prefix}/"),
            },
        })
    }

    /// The name that tells this bucket and prefix from others.
    pub(super) fn identity(&self) -> String {
        format!("{}/{}/{}", self.endpoint, self.name, self.prefix)
    }

    /// Sends a request until it is answered. `None` where no object has the name.
    fn ask(
        &self,
        method: &str,
        name: &str,
        query: &str,
        sent: RequestBody<'_>,
    ) -> Result<Option<Response<Body>>> {
        let key = match name {
            "" => String::new(),
            name => format!("{}{name}", self.prefix),
        };
        let path = format!("/{}/{key}", self.name);
        let mut tries = 0;
        loop {
            tries += 1;
            match self.ask_once(method, &path, query, sent) {
                Ok(answer) => return Ok(answer),
                Err(trouble) if trouble.may_pass && tries < TRIES => {
                    std::thread::sleep(PAUSE * 2u32.pow(tries - 1));
                }
                Err(trouble) => {
                    let step = match method {
                        "GET" | "HEAD" => "read",
                        "PUT" => "write",
                        _ => "remove",
                    };
                    let (shown, why) = (self.full_name(name), trouble.why);
                    return Err(BackupError::new(format!("cannot {step} {shown}: {why}")));
                }
            }
        }
    }

    /// The length of an object, and how long ago it was stored.
    fn head(&self, name: &str) -> Result<Option<(u64, Duration)>> {
        let Some(answer) = self.ask("HEAD", name, "", RequestBody::Nothing)? else {
            return Ok(None);
        };
        let header = |name: &str| answer.headers().get(name).and_then(|v| v.to_str().ok());
        let bytes = header("content-length").and_then(|text| text.parse().ok());
        let then = header("last-modified")
            .and_then(|text| jiff::fmt::rfc2822::parse(text).ok())
            .map(|at| at.timestamp());
        Ok(bytes.map(|bytes| (bytes, age(then))))
    }

    fn ask_once(
        &self,
        method: &str,
        path: &str,
        query: &str,
        sent: RequestBody<'_>,
    ) -> std::result::Result<Option<Response<Body>>, RequestError> {
        let body = match sent {
            RequestBody::Nothing => Digest::of(b""),
            RequestBody::Bytes(bytes) => Digest::of(bytes),
            RequestBody::File(_, piece) => piece.sha256,
        };
        let now = jiff::Timestamp::now()
            .strftime("%Y%m%dT%H%M%SZ")
            .to_string();
        let headers = self.keys.headers(&SignedRequest {
            method,
            host: &self.host,
            path,
            query,
            body: &body.to_string(),
            time: &now,
        });
        let sign = if query.is_empty() { "" } else { "?" };
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}{sign}{query}", self.endpoint));
        for (name, value) in &headers {
            request = request.header(*name, value);
        }
        let wrong = |why: String| RequestError {
            why,
            may_pass: false,
        };
        let answer = match sent {
            RequestBody::Nothing => {
                let request = request.body(()).map_err(|e| wrong(e.to_string()))?;
                self.agent.run(request)
            }
            RequestBody::Bytes(bytes) => {
                let request = request.body(bytes).map_err(|e| wrong(e.to_string()))?;
                self.agent.run(request)
            }
            RequestBody::File(from, piece) => {
                let file = File::open(from).map_err(|e| wrong(e.to_string()))?;
                let request = request
                    .header("content-length", piece.bytes.to_string())
                    .body(SendBody::from_owned_reader(file));
                self.agent.run(request.map_err(|e| wrong(e.to_string()))?)
            }
        };
        let answer = answer.map_err(|e| RequestError {
            why: e.to_string(),
            may_pass: true,
        })?;
        judge(answer)
    }
}

/// The response of a success, `None` if the object does not exist, otherwise the error that the
/// response describes.
fn judge(mut answer: Response<Body>) -> std::result::Result<Option<Response<Body>>, RequestError> {
    let status = answer.status().as_u16();
    match status {
        200..300 => return Ok(Some(answer)),
        404 => {
            let text = text_of(&mut answer).unwrap_or_default();
            return match field(&text, "Code") {
                Some("NoSuchBucket") => Err(RequestError {
                    why: "there is no such bucket".to_owned(),
                    may_pass: false,
                }),
                _ => Ok(None),
            };
        }
        _ => {}
    }
    let text = text_of(&mut answer).unwrap_or_default();
    let reason = field(&text, "Code").unwrap_or("no reason given");
    Err(RequestError {
        why: format!("status {status}, {reason}"),
        may_pass: status >= 500 || status == 429,
    })
}

fn text_of(answer: &mut Response<Body>) -> std::result::Result<String, ureq::Error> {
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
    body.read_to_string()
}

/// The contents of the first XML element of this name.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

/// The CA certificates to trust.
fn authorities(
    variable: &dyn Fn(&str) -> Option<String>,
) -> std::result::Result<TlsConfig, String> {
    let given = variable("AWS_CA_BUNDLE").or_else(|| variable("SSL_CERT_FILE"));
    let usual = || {
        AUTHORITIES
            .into_iter()
            .find(|file| Path::new(file).exists())
    };
    let file = given.or_else(|| usual().map(str::to_owned));
    let file = file.ok_or("this machine has no certificates of authorities: set AWS_CA_BUNDLE")?;
    let all = CertificateDer::pem_file_iter(&file)
        .and_then(|all| all.collect::<std::result::Result<Vec<_>, _>>())
        .map_err(|e| format!("cannot read the certificates in {file}: {e}"))?;
    let all = all.iter().map(|c| Certificate::from_der(c).to_owned());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(RootCerts::from(all.collect::<Vec<_>>()))
        .build())
}

/// How long ago something was.
fn age(then: Option<jiff::Timestamp>) -> Duration {
    let then = then.unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let age = jiff::Timestamp::now().duration_since(then);
    Duration::try_from(age).unwrap_or_default()
}

impl ObjectStore for Bucket {
    fn full_name(&self, name: &str) -> String {
        format!("s3://{}/{}{name}", self.name, self.prefix)
    }

    fn all(&self, folder: &str) -> Result<Vec<Item>> {
        let begin = match folder {
            "" => self.prefix.clone(),
            folder => format!("{}{folder}/", self.prefix),
        };
        let (mut items, mut token) = (Vec::new(), None);
        loop {
            let after = token.map(|t: String| format!("continuation-token={}&", encode(&t)));
            let after = after.unwrap_or_default();
            let query = format!("{after}list-type=2&prefix={}", encode(&begin));
            let answer = self.ask("GET", "", &query, RequestBody::Nothing)?;
            let shown = self.full_name(folder);
            let wrong = |why: &str| BackupError::new(format!("cannot list {shown}: {why}"));
            let mut answer = answer.ok_or_else(|| wrong("there is no such bucket"))?;
            let text = text_of(&mut answer).map_err(|e| wrong(&e.to_string()))?;
            for part in text.split("<Contents>").skip(1) {
                let key = field(part, "Key").and_then(|key| key.strip_prefix(&self.prefix));
                let bytes = field(part, "Size").and_then(|size| size.parse().ok());
                let (Some(key), Some(bytes)) = (key, bytes) else {
                    return Err(wrong(
                        "an object in its answer has no valid name, size or time",
                    ));
                };
                let then = field(part, "LastModified").and_then(|text| text.parse().ok());
                items.push(Item {
                    name: key.to_owned(),
                    bytes,
                    is_fresh: age(then) < FRESH,
                });
            }
            token = field(&text, "NextContinuationToken").map(str::to_owned);
            if field(&text, "IsTruncated") != Some("true") || token.is_none() {
                return Ok(items);
            }
        }
    }

    fn bytes(&self, name: &str) -> Result<Option<u64>> {
        let stays = |age: Duration| !name.starts_with("objects/") || age < STAYS;
        let found = self.head(name)?;
        Ok(found.and_then(|(bytes, age)| stays(age).then_some(bytes)))
    }

    fn read(&self, name: &str) -> Result<Option<(u64, Box<dyn Read>)>> {
        let Some(answer) = self.ask("GET", name, "", RequestBody::Nothing)? else {
            return Ok(None);
        };
        let body = answer.into_body();
        // A body in chunks does not tell how long it is.
        let bytes = match body.content_length() {
            Some(bytes) => bytes,
            None => self.head(name)?.map_or(0, |(bytes, _)| bytes),
        };
        Ok(Some((bytes, Box::new(body.into_reader()))))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.ask("PUT", name, "", RequestBody::Bytes(bytes))
            .map(|_| ())
    }

    fn take(
        &self,
        from: &Path,
        name_of: &dyn Fn(&Digest) -> String,
        moved: &mut TransferCallback<'_>,
    ) -> Result<(Piece, bool)> {
        let piece = digest_of(from, &mut |_| Ok(()))?;
        let name = name_of(&piece.sha256);
        let is_there = self.bytes(&name)? == Some(piece.bytes);
        if !is_there {
            self.ask("PUT", &name, "", RequestBody::File(from, &piece))?;
        }
        moved(piece.bytes)?;
        Ok((piece, !is_there))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.ask("DELETE", name, "", RequestBody::Nothing)
            .map(|_| ())
    }
}

/// As a part of a query.
fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
