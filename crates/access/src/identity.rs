//! The authentication state of a connection.

use super::rights::Rights;
use super::service::Access;
use super::user::{NO_USER, User};
use auth::scram::Conversation;
use auth::{Grants, UserName};
use model::{MongoError, Result, bail};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// An authentication that has begun on a connection.
#[derive(Debug)]
pub(super) enum PendingLogin {
    /// The client's proof is expected.
    Scram(Box<Scram>),
    /// A token is expected.
    Token,
}

/// The state of SCRAM between its two messages.
#[derive(Debug)]
pub(super) struct Scram {
    pub(super) conversation: Conversation,
    pub(super) name: UserName,
    /// The client skips the empty last exchange.
    pub(super) skips_empty: bool,
}

/// A login attempt, for the log.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The user that was named.
    pub name: UserName,
    /// The mechanism of the login.
    pub mechanism: &'static str,
    /// The attempt was part of `hello`.
    pub speculative: bool,
    /// The reason of the failure; only the log shows it.
    pub reason: Option<String>,
    /// An error of the server during the attempt.
    pub trouble: Option<String>,
}

/// The user of a connection, and the client's address.
#[derive(Debug, Default)]
pub struct Identity {
    user: Option<Arc<User>>,
    /// The generation of users and roles in which `user` was resolved.
    generation: u64,
    /// When the login expires, milliseconds since the epoch.
    ends_ms: Option<i64>,
    pub(super) pending: Option<PendingLogin>,
    /// The running attempt: the claimed user, the mechanism, and whether it is part of the
    /// greeting.
    attempt: Option<Attempt>,
    /// The last reply of an authentication was sent, and the client has to acknowledge it.
    pub(super) acknowledges: bool,
    pub(super) client: Option<IpAddr>,
    pub(super) server: Option<IpAddr>,
    /// The client runs on this machine.
    local: bool,
    /// The connection is encrypted.
    secured: bool,
    /// When its login has begun to wait for the directory, monotonic microseconds.
    pub(super) waits_since_us: Option<u64>,
    /// An attempt has failed, and its answer is delayed.
    answer_waits: bool,
    /// The subject of the client's certificate, verified by TLS.
    pub(super) subject: Option<String>,
}

impl Identity {
    /// The identity of a client at `peer`: `host:port`, or the path of a unix socket.
    pub fn of(peer: &str) -> Identity {
        let client = peer.parse::<SocketAddr>().ok().map(|a| a.ip());
        Identity {
            local: client.is_none_or(|ip| match ip {
                IpAddr::V6(v6) => v6
                    .to_ipv4_mapped()
                    .map_or(v6.is_loopback(), |v| v.is_loopback()),
                IpAddr::V4(v4) => v4.is_loopback(),
            }),
            client,
            ..Identity::default()
        }
    }

    /// True for a client on this machine.
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// Notes the address of this server that the client connected to.
    pub fn set_server_address(&mut self, server: Option<IpAddr>) {
        self.server = server;
    }

    /// Whether no third party can read the connection: it uses TLS or a unix socket.
    pub(super) fn is_private(&self) -> bool {
        self.secured || self.client.is_none()
    }

    /// Notes that the connection is encrypted by TLS, and the verified subject of the client's
    /// certificate.
    pub fn set_verified(&mut self, subject: Option<String>) {
        self.secured = true;
        self.subject = subject;
    }

    /// The user, if one is logged in.
    pub fn user(&self) -> Option<&Arc<User>> {
        self.user.as_ref()
    }

    /// The user digest in the ids of this connection's sessions. Without access control, sessions
    /// belong to no user.
    pub fn digest(&self, access: &Access) -> [u8; 32] {
        let user = self.user.as_ref().filter(|_| access.is_enabled());
        user.map_or(*NO_USER, |u| u.digest)
    }

    /// The rights of the connection.
    pub fn rights(&self, access: &Access) -> Rights<'_> {
        match &self.user {
            _ if !access.is_enabled() => Rights::All,
            Some(user) => Rights::Of(&user.resolved.grants),
            None => Rights::Nobody {
                bootstrapping: false,
            },
        }
    }

    /// The rights of the user, as of the last change of users and roles; `None` when no user is
    /// logged in.
    ///
    /// # Cost
    /// A load and a comparison, unless users or roles have changed.
    pub fn grants(&mut self, access: &Access) -> Result<Option<&Grants>> {
        if self.generation != access.generation() && self.user.is_some() {
            self.renew(access)?;
        }
        Ok(self.user.as_ref().map(|u| &u.resolved.grants))
    }

    #[cold]
    fn renew(&mut self, access: &Access) -> Result<()> {
        let generation = access.generation();
        let Some(old) = &self.user else { return Ok(()) };
        let now = match &old.granted {
            Some(roles) => Some(access.grant_roles(&old.name, roles.clone())?),
            None => access.user(&old.name)?,
        };
        // A user of the same name that was created after this one was dropped is a different user.
        self.user = now.filter(|now| now.id == old.id);
        self.generation = generation;
        Ok(())
    }

    /// Logs a user in; with `ends_ms` the login expires at that time.
    ///
    /// # Errors
    /// 5626701 when another user is logged in.
    pub(super) fn log_in(
        &mut self,
        user: Arc<User>,
        generation: u64,
        ends_ms: Option<i64>,
    ) -> Result<()> {
        if let Some(old) = self.user.as_ref().filter(|old| old.name != user.name) {
            bail!(
                5_626_701,
                "Each client connection may only be authenticated once. Previously authenticated \
                    as: {}",
                old.name
            );
        }
        self.user = Some(user);
        self.generation = generation;
        self.ends_ms = ends_ms;
        Ok(())
    }

    /// Whether the user has to log in again, because its token has expired.
    ///
    /// # Cost
    /// One comparison for users without a token.
    pub fn has_ended(&self, now_ms: impl FnOnce() -> i64) -> bool {
        self.ends_ms.is_some_and(|ends| now_ms() >= ends)
    }

    /// Notes that the answer to a failed attempt is delayed.
    pub fn keep_waiting(&mut self) {
        self.answer_waits = true;
    }

    /// Whether the answer to a failed attempt was delayed; only the first call returns true.
    pub fn take_delayed_answer(&mut self) -> bool {
        std::mem::take(&mut self.answer_waits)
    }

    /// Notes the user of a login attempt.
    pub(super) fn tries(&mut self, name: &UserName, mechanism: &'static str) {
        self.attempt = Some(Attempt {
            name: name.clone(),
            mechanism,
            speculative: false,
            reason: None,
            trouble: None,
        });
    }

    /// Notes, for the log, why the attempt fails and which error occurred on the server.
    pub(super) fn notes(&mut self, reason: Option<String>, trouble: Option<String>) {
        if let Some(attempt) = &mut self.attempt {
            attempt.reason = reason;
            attempt.trouble = trouble;
        }
    }

    /// Notes that the current attempt is part of the greeting.
    pub fn speculates(&mut self) {
        if let Some(attempt) = &mut self.attempt {
            attempt.speculative = true;
        }
    }

    /// The attempt that has just ended; only the first call returns it.
    pub fn take_attempt(&mut self) -> Option<Attempt> {
        self.attempt.take()
    }

    /// Logs the user out.
    pub fn log_out(&mut self) {
        self.user = None;
        self.ends_ms = None;
        self.pending = None;
        self.acknowledges = false;
    }

    /// Whether the messages of this connection are limited to the size that logging in needs.
    pub fn is_unknown(&self) -> bool {
        self.user.is_none()
    }

    /// Whether the connection may do what is needed to create the first user.
    pub fn is_bootstrapping(&self, access: &Access) -> bool {
        self.user.is_none() && self.local && access.localhost_exception()
    }
}

/// The error of every failed authentication.
pub fn authentication_error() -> MongoError {
    MongoError::new(model::code::AUTHENTICATION_FAILED, "Authentication failed.")
}
