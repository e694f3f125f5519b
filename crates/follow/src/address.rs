//! Connection strings. Promises: an error about an invalid string never contains its password,
//! whatever is wrong with it. Must not know: what the server is for.

use crate::error::{FollowError, Result};
use mongodb::options::ClientOptions;
use std::time::Duration;

/// How long the driver looks for a server before the server counts as unreachable.
const SELECTION: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(10);
/// Shown in place of a password.
const HIDDEN: &str = "hidden";

/// A connection string, and a password that may be given separately.
#[derive(Clone)]
pub struct Address {
    uri: String,
    /// Connect to this server only, not to the set it may belong to.
    is_direct: bool,
}

impl Address {
    /// `password` is used if the string has a user and no password.
    pub fn new(uri: &str, password: Option<&str>) -> Address {
        let uri = match (password, AddressParts::of(uri)) {
            (Some(password), Some(parts)) if parts.has_user_alone() => format!(
                "{}{}:{}@{}",
                parts.scheme,
                parts.user,
                percent(password),
                parts.rest
            ),
            _ => uri.to_owned(),
        };
        Address {
            uri,
            is_direct: false,
        }
    }

    /// The address of the single server it names, even if that is a member of a set.
    #[must_use]
    pub(crate) fn directly(&self) -> Address {
        Address {
            uri: self.uri.clone(),
            is_direct: true,
        }
    }

    /// The driver's options for this address.
    ///
    /// # Errors
    /// One line without a password.
    pub(crate) async fn options(&self) -> Result<ClientOptions> {
        let mut options = match ClientOptions::parse(self.uri.as_str()).await {
            Ok(options) => options,
            Err(_) => return Err(self.explain().await),
        };
        let set = |duration: &mut Option<Duration>, default| {
            *duration = Some(duration.unwrap_or(default));
        };
        set(&mut options.server_selection_timeout, SELECTION);
        set(&mut options.connect_timeout, CONNECT);
        let is_one = options.hosts.len() == 1 && options.repl_set_name.is_none();
        if self.is_direct && is_one && options.direct_connection.is_none() {
            options.direct_connection = Some(true);
        }
        options.app_name = Some(options.app_name.unwrap_or("quarry follow".to_owned()));
        options.retry_writes = Some(false);
        Ok(options)
    }

    /// Its hosts, for people.
    pub(crate) async fn hosts(&self) -> Result<String> {
        Ok(describe_hosts(&self.options().await?))
    }

    /// The error of a string that the driver rejects. The string is parsed again without its
    /// password, so the error cannot contain it.
    async fn explain(&self) -> FollowError {
        let shown = self.hide_secrets();
        let why = match ClientOptions::parse(shown.as_str()).await {
            Ok(_) => "the password between : and @ must be percent-encoded".to_owned(),
            Err(e) => e.kind.to_string().replace('\n', " "),
        };
        FollowError::of_options(format!("{shown} is not a connection string: {why}"))
    }

    /// The string for people.
    fn hide_secrets(&self) -> String {
        let Some(parts) = AddressParts::of(&self.uri) else {
            return hide_options(&self.uri);
        };
        let user = match parts.user.is_empty() && parts.password.is_none() {
            true => String::new(),
            false if parts.password.is_none() => format!("{}@", parts.user),
            false => format!("{}:{HIDDEN}@", parts.user),
        };
        format!("{}{user}{}", parts.scheme, hide_options(parts.rest))
    }
}

/// The hosts of an address, for people.
pub(crate) fn describe_hosts(options: &ClientOptions) -> String {
    let hosts = options.hosts.iter().map(ToString::to_string);
    hosts.collect::<Vec<_>>().join(",")
}

struct AddressParts<'u> {
    /// With `://`.
    scheme: &'u str,
    user: &'u str,
    password: Option<&'u str>,
    rest: &'u str,
}

impl<'u> AddressParts<'u> {
    /// Everything before the last @ counts as user and password: a password that was not encoded
    /// may have any character.
    fn of(uri: &'u str) -> Option<AddressParts<'u>> {
        let at = uri.find("://").map_or(0, |at| at + 3);
        let (scheme, rest) = uri.split_at(at);
        let (login, rest) = rest.rsplit_once('@')?;
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (login, None),
        };
        Some(AddressParts {
            scheme,
            user,
            password,
            rest,
        })
    }

    fn has_user_alone(&self) -> bool {
        !self.user.is_empty() && self.password.is_none()
    }
}

/// Removes the values of options that may hold secrets.
fn hide_options(rest: &str) -> String {
    let Some((before, options)) = rest.split_once('?') else {
        return rest.to_owned();
    };
    let hidden = options.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}={HIDDEN}"),
        _ => pair.to_owned(),
    });
    format!("{before}?{}", hidden.collect::<Vec<_>>().join("&"))
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["password", "properties", "token", "secret"]
        .iter()
        .any(|word| name.contains(word))
}

fn percent(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    let show = |b: u8| match plain(b) {
        true => char::from(b).to_string(),
        false => format!("%{b:02X}"),
    };
    text.bytes().map(show).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error for a string that cannot be parsed.
    fn refusal(uri: &str) -> Option<String> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let understood = runtime.block_on(Address::new(uri, None).options());
        understood.err().map(|e| e.message)
    }

    #[test]
    fn no_line_tells_a_password() {
        for uri in [
            "mongodb://u:s3cret@",
            "mongodb://u:s3cret@h:port",
            "mongodb://u:s3cret%@h",
            "mongodb://u:s3cret@x@h",
            "mongodb://u:s3cret/x@h",
            "mongodb://u:x:s3cret@h",
            "mongodb://u:x?s3cret@h",
            "mongo://u:s3cret@h",
            "u:s3cret@h",
            "mongodb://u:s3cret@h/?ssl=maybe",
            "mongodb://h/?authMechanism=no&authMechanismProperties=AWS_SESSION_TOKEN:s3cret,x",
            "mongodb://h:1:2/?tlsCertificateKeyFilePassword=s3cret",
        ] {
            let said = refusal(uri).unwrap_or_default();
            assert!(!said.contains("s3cret"), "{uri}: {said}");
        }
        let said = refusal("mongodb://u:s3cret@h:port/?w=1").unwrap();
        assert!(said.contains("mongodb://u:hidden@h:port/?w=1"), "{said}");
    }

    #[test]
    fn a_password_apart_is_put_in() {
        let of = |uri| Address::new(uri, Some("a:b@c%")).uri;
        assert_eq!(of("mongodb://u@h/?x=1"), "mongodb://u:a%3Ab%40c%25@h/?x=1");
        assert_eq!(of("mongodb://u:own@h"), "mongodb://u:own@h");
        assert_eq!(of("mongodb://h"), "mongodb://h");
    }
}
