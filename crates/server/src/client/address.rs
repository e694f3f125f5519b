//! The address of a server and the credentials: a connection string
//! `mongodb://USER:PASSWORD@HOST:PORT/?OPTIONS` of one server. Unknown options are refused by name.

use auth::scram::Mechanism;
use std::path::PathBuf;

/// A server and how to log in.
#[derive(Clone)]
pub struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    /// A unix socket in place of host and port.
    pub(super) socket: Option<PathBuf>,
    pub(super) login: Option<Login>,
    /// File of the CA certificates that may have signed the server's certificate; `None` without
    /// TLS.
    pub(super) ca_file: Option<PathBuf>,
}

#[derive(Clone)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: String,
    pub(super) source: String,
    pub(super) mechanism: Mechanism,
}

impl Address {
    /// Parses a connection string; `password` is used if the string has a user and no password.
    ///
    /// # Errors
    /// One line that says what is wrong, without the password.
    pub fn parse(uri: &str, password: Option<&str>) -> Result<Address, String> {
        let rest = uri.strip_prefix("mongodb://").ok_or_else(|| {
            let scheme = uri.split("://").next().unwrap_or_default();
            format!("a connection string must begin with mongodb://, given {scheme:?}")
        })?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (rest, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = match rest.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, rest),
        };
        let mut address = Address {
            host: String::new(),
            port: 27017,
            socket: None,
            login: None,
            ca_file: None,
        };
        address.set_host(host)?;
        let given = Options::parse(options)?;
        address.ca_file = given.ca_file()?;
        if address.ca_file.is_some() && address.socket.is_some() {
            return Err("a unix socket has no TLS".to_owned());
        }
        if let Some(user) = user {
            let (user, own) = match user.split_once(':') {
                Some((user, own)) => (user, Some(decode(own)?)),
                None => (user, None),
            };
            let password = own.or_else(|| password.map(str::to_owned));
            let of_path = Some(database).filter(|db| !db.is_empty()).map(decode);
            address.login = Some(Login {
                user: decode(user)?,
                password: password.ok_or("a user needs a password: give --passwordFile")?,
                source: match (given.source, of_path) {
                    (Some(source), _) => source,
                    (None, Some(source)) => source?,
                    (None, None) => "admin".to_owned(),
                },
                mechanism: given.mechanism.unwrap_or(Mechanism::Sha256),
            });
        }
        Ok(address)
    }

    fn set_host(&mut self, text: &str) -> Result<(), String> {
        if text.contains(',') {
            return Err(format!(
                "the connection string must name one server, given {text}"
            ));
        }
        let host = decode(text)?;
        if host.starts_with('/') {
            self.socket = Some(PathBuf::from(&host));
            self.host = host;
            return Ok(());
        }
        let wrong = || format!("a server must be HOST or HOST:PORT, given {text:?}");
        let (name, port) = match host.strip_prefix('[') {
            Some(inner) => {
                let (name, rest) = inner.split_once(']').ok_or_else(wrong)?;
                (name, rest.strip_prefix(':'))
            }
            None => match host.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (host.as_str(), None),
            },
        };
        if name.is_empty() {
            return Err(wrong());
        }
        if let Some(port) = port {
            self.port = port.parse().map_err(|_| wrong())?;
        }
        self.host = name.to_owned();
        Ok(())
    }

    /// The address for people, without a password.
    pub fn describe(&self) -> String {
        match &self.socket {
            Some(path) => path.display().to_string(),
            None => format!("{}:{}", self.host, self.port),
        }
    }
}

#[derive(Default)]
struct Options {
    source: Option<String>,
    mechanism: Option<Mechanism>,
    tls: Option<bool>,
    ca_file: Option<PathBuf>,
}

impl Options {
    fn parse(text: &str) -> Result<Options, String> {
        let mut options = Options::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value)?;
            match name {
                "authSource" => options.source = Some(value),
                "authMechanism" => {
                    let known = Mechanism::parse(&value);
                    options.mechanism = Some(known.ok_or_else(|| {
                        format!(
                            "authMechanism must be SCRAM-SHA-256 or SCRAM-SHA-1, given {value:?}"
                        )
                    })?);
                }
                "tls" | "ssl" => options.tls = Some(parse_bool(name, &value)?),
                "tlsCAFile" => options.ca_file = Some(PathBuf::from(value)),
                // One server is asked, and directly.
                "directConnection" if parse_bool(name, &value)? => {}
                _ => {
                    return Err(format!(
                        "option {name} of the connection string is not supported; allowed are \
                         authSource, authMechanism, tls, tlsCAFile and directConnection=true"
                    ));
                }
            }
        }
        Ok(options)
    }

    fn ca_file(&self) -> Result<Option<PathBuf>, String> {
        match (self.tls, &self.ca_file) {
            (Some(true), None) => Err("tls=true needs tlsCAFile".to_owned()),
            (Some(false), Some(_)) => Err("tlsCAFile contradicts tls=false".to_owned()),
            (_, file) => Ok(file.clone()),
        }
    }
}

fn parse_bool(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!(
            "{name} of the connection string must be true or false, given {value:?}"
        )),
    }
}

/// Decodes `%2F` and its like.
fn decode(text: &str) -> Result<String, String> {
    let wrong =
        || "a % in the connection string must be followed by two hexadecimal digits".to_owned();
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
        match (digit(rest.next()), digit(rest.next())) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err(wrong()),
        }
    }
    String::from_utf8(bytes).map_err(|_| "the connection string is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_is_understood() {
        let parse = |uri| Address::parse(uri, None).unwrap();
        let plain = parse("mongodb://localhost");
        assert_eq!(
            (plain.describe(), plain.login.is_none()),
            ("localhost:27017".to_owned(), true)
        );
        assert_eq!(parse("mongodb://[::1]:5/").describe(), "::1:5");
        assert_eq!(parse("mongodb://%2Ftmp%2Fm.sock").describe(), "/tmp/m.sock");
        let login = parse("mongodb://a%40b:p%3Aq@h:1/db?authMechanism=SCRAM-SHA-1").login;
        let login = login.unwrap();
        assert_eq!(
            [login.user, login.password, login.source],
            ["a@b", "p:q", "db"]
        );
        assert_eq!(login.mechanism, Mechanism::Sha1);
        let login = Address::parse("mongodb://u@h/?authSource=x", Some("p"))
            .unwrap()
            .login;
        let login = login.unwrap();
        assert_eq!((login.password.as_str(), login.source.as_str()), ("p", "x"));
        let secured = parse("mongodb://h/?tls=true&tlsCAFile=%2Fca.pem");
        assert_eq!(secured.ca_file, Some(PathBuf::from("/ca.pem")));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for (uri, said) in [
            ("http://h", "begin with mongodb://"),
            ("mongodb://", "HOST or HOST:PORT"),
            ("mongodb://h:99999", "HOST or HOST:PORT"),
            ("mongodb://a,b", "one server"),
            ("mongodb://u@h", "--passwordFile"),
            ("mongodb://u:secret@h/?w=1", "option w "),
            ("mongodb://u:secret@h/?tls=true", "needs tlsCAFile"),
            ("mongodb://u:secret@h/?tls=yes", "true or false"),
            ("mongodb://u:secret@h/?authMechanism=PLAIN", "SCRAM"),
            ("mongodb://u:secret%4@h", "two hexadecimal digits"),
        ] {
            let line = Address::parse(uri, None).err().unwrap();
            assert!(
                line.contains(said) && !line.contains("secret"),
                "{uri}: {line}"
            );
        }
    }
}
