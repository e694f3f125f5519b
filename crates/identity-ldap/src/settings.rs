//! The settings of a directory, as in `security.ldap`. Promises: an invalid setting is refused by
//! name.

use crate::mapping::Mapping;
use crate::query::Query;
use crate::template::Placeholders;
use rustls::ClientConfig;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How messages to the directory are protected.
#[derive(Clone)]
pub enum Security {
    /// TLS from the first byte, with this configuration.
    Tls(Arc<ClientConfig>),
    /// None.
    None,
}

/// The settings as written.
pub struct Settings {
    /// `HOST` or `HOST:PORT`, in the order in which they are tried.
    pub servers: Vec<String>,
    /// How messages are protected.
    pub security: Security,
    /// Name and password of the user that searches.
    pub searcher: Option<(String, String)>,
    /// `userToDNMapping`, JSON; without it the client's name is used unchanged.
    pub mapping: Option<String>,
    /// `authz.queryTemplate`: finds the groups of a user.
    pub groups: Option<String>,
    /// Longest time of one login.
    pub timeout: Duration,
}

/// The parsed settings.
pub(crate) struct ParsedSettings {
    pub(crate) servers: Vec<Address>,
    pub(crate) security: Security,
    pub(crate) searcher: Option<(String, String)>,
    pub(crate) mapping: Mapping,
    pub(crate) groups: Option<Query>,
    pub(crate) timeout: Duration,
}

impl Settings {
    pub(crate) fn read(self) -> Result<ParsedSettings, String> {
        let port = match self.security {
            Security::Tls(_) => 636,
            Security::None => 389,
        };
        let servers: Vec<Address> = self
            .servers
            .iter()
            .map(|s| read_address(s, port))
            .collect::<Result<_, _>>()?;
        if servers.is_empty() {
            return Err("security.ldap.servers names no server".to_owned());
        }
        let mapping = self.mapping.as_deref();
        let mapping = mapping.unwrap_or(r#"[{"match": "(.+)", "substitution": "{0}"}]"#);
        let mapping = Mapping::parse(mapping)
            .map_err(|e| format!("security.ldap.userToDNMapping is wrong: {e}"))?;
        let groups = self.groups.map(|q| {
            Query::parse(&q, Placeholders::Users)
                .map_err(|e| format!("security.ldap.authz.queryTemplate is wrong: {e}"))
        });
        let groups = groups.transpose()?;
        if let Some((name, password)) = &self.searcher {
            if name.is_empty() || password.is_empty() {
                return Err(
                    "security.ldap.bind needs queryUser and queryPassword, neither of them empty"
                        .to_owned(),
                );
            }
        } else if mapping.asks() || groups.is_some() {
            return Err(
                "ldapQuery in security.ldap.userToDNMapping and security.ldap.authz.queryTemplate \
                 need security.ldap.bind.queryUser and queryPassword"
                    .to_owned(),
            );
        }
        Ok(ParsedSettings {
            servers,
            security: self.security,
            searcher: self.searcher,
            mapping,
            groups,
            timeout: self.timeout,
        })
    }
}

/// The address of a server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Parses `HOST`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`.
fn read_address(text: &str, port: u16) -> Result<Address, String> {
    let wrong = || format!("security.ldap.servers must be HOST or HOST:PORT, given '{text}'");
    let (host, rest) = match text.strip_prefix('[') {
        Some(v6) => v6.split_once(']').ok_or_else(wrong)?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) => port.parse().map_err(|_| wrong())?,
        None if rest.is_empty() => port,
        None => return Err(wrong()),
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    match !host.is_empty() && host.chars().all(allowed) {
        true => Ok(Address {
            host: host.to_owned(),
            port,
        }),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_hosts_with_ports() {
        for (text, wanted) in [
            ("a.b", Some(("a.b", 636))),
            ("a:1", Some(("a", 1))),
            ("[::1]", Some(("::1", 636))),
            ("[::1]:2", Some(("::1", 2))),
            ("", None),
            ("ldap://a", None),
            ("a:b", None),
            ("[::1", None),
            ("a b", None),
        ] {
            let got = read_address(text, 636).ok();
            let wanted = wanted.map(|(host, port)| Address {
                host: host.to_owned(),
                port,
            });
            assert_eq!(got, wanted, "{text}");
        }
    }
}
