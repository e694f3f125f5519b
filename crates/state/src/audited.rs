//! The events of the audit in MongoDB's schema, and changes of its configuration.
//!
//! Promises: an event is written before the reply to the request that caused it. Must not know:
//! where events are written, and how.

use super::audit::{ActiveAudit, AuditSettings, EventFilter, Matches};
use super::connections::ConnectionInfo;
use super::service::Service;
use access::user::User;
use arc_swap::ArcSwap;
use logs::redact_document;
use model::{Binary, Doc, DocBuf, DocWriter, MongoError, Result, Timestamp, Value, doc};
use operation::ConnectionId;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::Store;

/// The setting of the store that keeps the configuration set by a client.
const SETTING: &str = "auditConfig";
/// Largest document, in bytes, that the details of an event show whole.
const DETAIL_BYTES_MAX: usize = 16 * 1024;
/// The time of the last change when no client has changed anything.
const NEVER: Timestamp = Timestamp {
    time: 0,
    increment: 0,
};

/// The cause of an event.
enum Actor<'a> {
    /// The server.
    Itself,
    Client(&'a ConnectionInfo),
}

impl Service {
    /// Starts the audit. A configuration that clients have set replaces the one of the start, if
    /// clients may set it.
    ///
    /// # Errors
    /// Those of the filter; of the store.
    pub fn start_audit(&self, settings: AuditSettings) -> Result<()> {
        let success = self.state.parameters.bool("auditAuthorizationSuccess");
        let mut wanted = self.event_filter(settings.filter, success, NEVER)?;
        if settings.runtime
            && let Some(row) = self.store.setting(SETTING)?
        {
            wanted = self.event_filter_of(row.doc())?;
        }
        let running = ActiveAudit {
            to: settings.to,
            runtime: settings.runtime,
            wanted: ArcSwap::from_pointee(wanted),
            change: Mutex::new(()),
        };
        // The audit is started once, so the cell is empty.
        let _ = self.state.audit.running.set(running);
        let options = self.config.parsed.clone();
        self.audit_own("startup", |w| {
            w.put("options", &options);
        });
        Ok(())
    }

    fn event_filter(
        &self,
        filter: DocBuf,
        success: bool,
        changed: Timestamp,
    ) -> Result<EventFilter> {
        let matcher = match filter.doc().is_empty() {
            true => None,
            false => {
                let matcher = self.matcher(filter.doc())?;
                let matches: Matches =
                    Box::new(move |d, now_ms| matcher.matches(d, now_ms).unwrap_or(true));
                Some(matches)
            }
        };
        Ok(EventFilter {
            filter,
            matcher,
            success,
            changed,
        })
    }

    fn event_filter_of(&self, row: Doc<'_>) -> Result<EventFilter> {
        let filter = row.field("filter").as_doc().unwrap_or(Doc::EMPTY).to_buf();
        let success = row.field("auditAuthorizationSuccess").truthy();
        let changed = match row.field("changed") {
            Value::Timestamp(t) => t,
            _ => NEVER,
        };
        self.event_filter(filter, success, changed)
    }

    /// Changes the configuration durably.
    ///
    /// # Errors
    /// Those of the filter; of the store, after which nothing has changed.
    pub fn set_audit_config(&self, by: ConnectionId, filter: Doc<'_>, success: bool) -> Result<()> {
        let Some(running) = self.state.audit.running() else {
            return Err(MongoError::internal("there is no audit"));
        };
        let _one = running.change.lock();
        let row = doc! { "filter": filter, "auditAuthorizationSuccess": success,
        "changed": Value::Timestamp(self.next_operation_time()) };
        let new = self.event_filter_of(row.doc())?;
        let shown = |wanted: &EventFilter| {
            doc! { "filter": &wanted.filter, "auditAuthorizationSuccess": wanted.success }
        };
        let previous = shown(&running.wanted.load());
        let config = shown(&new);
        Store::set_setting(&self.store, SETTING, &row)?;
        // The event is written under the old and under the new configuration, so that a filter
        // cannot hide its own introduction.
        self.audit(by, "auditConfigure", 0, |w| {
            w.put("previous", &previous).put("config", &config);
        });
        running.wanted.store(Arc::new(new));
        Ok(())
    }

    /// Applies the parameter `auditAuthorizationSuccess`.
    pub fn follow_audit_parameters(&self) {
        let success = self.state.parameters.bool("auditAuthorizationSuccess");
        let Some(running) = self.state.audit.running().filter(|r| !r.runtime) else {
            return;
        };
        let _one = running.change.lock();
        let now = running.wanted.load_full();
        // The filter was parsed successfully before.
        if now.success != success
            && let Ok(new) = self.event_filter(now.filter.clone(), success, now.changed)
        {
            running.wanted.store(Arc::new(new));
        }
    }

    /// Writes an event that the client of a connection has caused.
    pub fn audit(
        &self,
        by: ConnectionId,
        atype: &str,
        result: i32,
        param: impl FnOnce(&mut DocWriter<'_>),
    ) {
        if !self.state.audit.is_on() {
            return;
        }
        match self.connections.get(by.0) {
            Some(info) => self.write_event(&Actor::Client(&info), atype, result, param),
            None => self.write_event(&Actor::Itself, atype, result, param),
        }
    }

    /// Writes an event of this client.
    pub fn audit_client(
        &self,
        info: &ConnectionInfo,
        atype: &str,
        result: i32,
        param: impl FnOnce(&mut DocWriter<'_>),
    ) {
        if self.state.audit.is_on() {
            self.write_event(&Actor::Client(info), atype, result, param);
        }
    }

    /// Writes an event of the server itself.
    pub fn audit_own(&self, atype: &str, param: impl FnOnce(&mut DocWriter<'_>)) {
        if self.state.audit.is_on() {
            self.write_event(&Actor::Itself, atype, 0, param);
        }
    }

    /// Writes the event for the end of the server, once; with the client if one has requested the
    /// end.
    pub fn audit_ending(&self, by: ConnectionId) {
        if !self.state.audit.ending.swap(true, Ordering::Relaxed) {
            self.audit(by, "shutdown", 0, |_| {});
        }
    }

    #[cold]
    fn write_event(
        &self,
        who: &Actor<'_>,
        atype: &str,
        result: i32,
        param: impl FnOnce(&mut DocWriter<'_>),
    ) {
        let Some(running) = self.state.audit.running() else {
            return;
        };
        let event = self.event(who, atype, result, param);
        let wanted = running.wanted.load();
        let now_ms = self.clock.now_ms();
        let matcher = wanted.matcher.as_ref();
        let matches = matcher.is_none_or(|matches| matches(event.doc(), now_ms));
        if matches {
            running.to.write(event.doc(), is_lasting(atype));
        }
    }

    fn event(
        &self,
        who: &Actor<'_>,
        atype: &str,
        result: i32,
        param: impl FnOnce(&mut DocWriter<'_>),
    ) -> DocBuf {
        DocBuf::build(|w| {
            w.put("atype", atype)
                .put("ts", Value::Date(self.clock.now_ms()));
            let (uuid, user) = match who {
                Actor::Itself => ([0; 16], None),
                Actor::Client(info) => (info.uuid(), info.user.lock().clone()),
            };
            let uuid = Binary {
                subtype: 4,
                bytes: &uuid,
            };
            w.put("uuid", uuid);
            match who {
                Actor::Itself => {
                    w.doc("local").put("isSystemUser", true);
                    w.doc("remote").put("isSystemUser", true);
                }
                Actor::Client(info) => {
                    self.write_local(info, &mut w.doc("local"));
                    write_remote(&info.peer, &mut w.doc("remote"));
                }
            }
            write_user(user.as_deref(), w);
            param(&mut w.doc("param"));
            w.put("result", result);
        })
    }

    /// Writes the server's address of a connection.
    pub(crate) fn write_local(&self, info: &ConnectionInfo, w: &mut DocWriter<'_>) {
        let (_, port) = self.config.host.rsplit_once(':').unwrap_or_default();
        match (info.local.get(), is_path(&info.peer)) {
            (_, true) => w.put("unix", info.peer.as_str()),
            (ip, _) => {
                let ip = ip.map_or_else(|| "127.0.0.1".to_owned(), ToString::to_string);
                w.put("ip", ip.as_str())
                    .put("port", port.parse::<i32>().unwrap_or(0))
            }
        };
    }

    /// A document of a client in the form in which an event shows it.
    pub fn detail(&self, doc: Doc<'_>) -> DocBuf {
        if doc.len_bytes() > DETAIL_BYTES_MAX {
            return doc! { "$truncated": true };
        }
        match self.config.log.redacts() {
            true => redact_document(doc),
            false => doc.to_buf(),
        }
    }
}

/// Whether an event reports a durable change, so that the event has to be durable as well.
fn is_lasting(atype: &str) -> bool {
    !matches!(
        atype,
        "authCheck" | "authenticate" | "clientMetadata" | "logout"
    )
}

fn is_path(peer: &str) -> bool {
    Path::new(peer).is_absolute() || peer.parse::<SocketAddr>().is_err()
}

/// Writes the address of a client.
fn write_remote(peer: &str, w: &mut DocWriter<'_>) {
    match peer.parse::<SocketAddr>() {
        Ok(at) => w
            .put("ip", at.ip().to_string().as_str())
            .put("port", i32::from(at.port())),
        Err(_) => w.put("unix", peer),
    };
}

/// Writes the user who is logged in, with all direct and inherited roles.
fn write_user(user: Option<&User>, w: &mut DocWriter<'_>) {
    let mut users = w.array("users");
    if let Some(user) = user {
        user.name.write(&mut users.doc());
    }
    drop(users);
    let mut roles = w.array("roles");
    for role in user.iter().flat_map(|u| &u.resolved.roles) {
        role.write(&mut roles.doc());
    }
}
