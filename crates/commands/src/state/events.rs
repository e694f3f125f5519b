//! What the service tells the log: one function for each kind of event, so that every place that
//! causes one says it with the same number and attributes. Must not know: where lines go.

use super::connections::ConnectionInfo;
use super::service::Service;
use crate::access::Attempt;
use logs::{Entry, REDACTED, Severity, component, id, redacted};
use model::{Binary, Doc, DocWriter, MongoError, Namespace, Result, code};
use std::cell::Cell;
use store::Collection;

thread_local! {
    /// The connection this thread works for; 0 for none.
    static CONNECTION: Cell<i64> = const { Cell::new(0) };
}

/// From here on this thread works for a connection, until the guard is dropped.
pub(crate) fn enter(connection: i64) -> Entered {
    Entered(CONNECTION.replace(connection))
}

/// See [`enter`].
pub(crate) struct Entered(i64);

impl Drop for Entered {
    fn drop(&mut self) {
        CONNECTION.set(self.0);
    }
}

/// What the log calls the work of this thread: `conn12`, or `main` for no connection.
fn context() -> String {
    match CONNECTION.get() {
        0 => "main".to_owned(),
        id => format!("conn{id}"),
    }
}

fn uuid(w: &mut DocWriter<'_>, uuid: &[u8; 16]) {
    let value = Binary {
        subtype: 4,
        bytes: uuid,
    };
    w.doc("uuid").put("uuid", value);
}

impl Service {
    /// Writes an entry of the log.
    pub fn tell(&self, entry: &Entry) {
        self.config.log.write(entry);
    }

    /// Has the log follow the parameters `logLevel`, `quiet` and `redactClientLogData`.
    pub fn follow_log_parameters(&self) {
        let (log, parameters) = (&self.config.log, &self.state.parameters);
        log.set_verbosity(u8::try_from(parameters.int("logLevel")).unwrap_or(0));
        log.set_quiet(parameters.bool("quiet"));
        log.set_redacts(parameters.bool("redactClientLogData"));
    }

    /// A message of a background thread.
    pub fn log(&self, severity: char, component: &'static str, message: &str) {
        let entry = Entry::info(id::MESSAGE, component, &context(), message);
        self.tell(&entry.severity(Severity::of(severity)));
    }

    /// A text or a value of a client, or what stands for it where the log may not hold any.
    pub(crate) fn shown<'t>(&self, text: &'t str) -> &'t str {
        if self.config.log.redacts() {
            REDACTED
        } else {
            text
        }
    }

    /// A client has connected.
    pub fn connected(&self, info: &ConnectionInfo) {
        self.connection_event(
            (id::CONNECTION_ACCEPTED, "listener", "Connection accepted"),
            info,
        );
    }

    /// A client has gone.
    pub fn disconnected(&self, info: &ConnectionInfo) {
        let context = info.name();
        self.connection_event((id::CONNECTION_ENDED, &context, "Connection ended"), info);
    }

    fn connection_event(&self, (id, context, message): (u32, &str, &str), info: &ConnectionInfo) {
        if self.config.log.is_quiet() {
            return;
        }
        let count = i64::try_from(self.connections.count()).unwrap_or(i64::MAX);
        let entry = Entry::info(id, component::NETWORK, context, message).attr(|w| {
            w.put("remote", &info.peer)
                .put("connectionId", info.id)
                .put("connectionCount", count);
        });
        self.tell(&entry);
    }

    /// A client was not let in, because there are too many.
    pub fn turned_away(&self, remote: &str) {
        let message = "Connection refused because there are too many open connections";
        let count = i64::try_from(self.connections.count()).unwrap_or(i64::MAX);
        let entry = Entry::info(
            id::CONNECTION_REFUSED,
            component::NETWORK,
            "listener",
            message,
        );
        self.tell(&entry.severity(Severity::Warning).attr(|w| {
            w.put("remote", remote).put("connectionCount", count);
        }));
    }

    /// A client has said what it is.
    pub(crate) fn client_metadata(&self, info: &ConnectionInfo, client: Doc<'_>) {
        if self.config.log.is_quiet() {
            return;
        }
        let context = info.name();
        let message = "client metadata";
        let entry = Entry::info(id::CLIENT_METADATA, component::NETWORK, &context, message);
        self.tell(&entry.attr(|w| {
            w.put("remote", &info.peer)
                .put("client", &context)
                .put("doc", client);
        }));
    }

    /// An attempt to log in has ended; it is told of once.
    pub(crate) fn authenticated(
        &self,
        info: &ConnectionInfo,
        attempt: Option<Attempt>,
        result: std::result::Result<(), &MongoError>,
    ) {
        let Some(attempt) = attempt else {
            return;
        };
        let context = info.name();
        let (id, message) = match &result {
            Ok(()) => (id::AUTHENTICATED, "Successfully authenticated"),
            Err(_) => (id::NOT_AUTHENTICATED, "Failed to authenticate"),
        };
        let entry = Entry::info(id, component::ACCESS, &context, message).attr(|w| {
            w.put("client", &info.peer)
                .put("isSpeculative", attempt.speculative)
                .put("isClusterMember", false)
                .put("mechanism", attempt.mechanism)
                .put("user", attempt.name.name.as_str())
                .put("db", attempt.name.db.as_str());
            if let Err(e) = result {
                w.put("error", named(e).as_str());
            }
            w.put("result", result.err().map_or(0, MongoError::code));
            w.doc("extraInfo");
        });
        self.tell(&entry);
    }

    /// A collection was made.
    pub(crate) fn created(&self, c: &Collection) {
        let options = c.options();
        let entry = Entry::info(
            id::CREATE_COLLECTION,
            component::STORAGE,
            &context(),
            "createCollection",
        );
        let options = if self.config.log.redacts() {
            redacted(options.doc())
        } else {
            options.doc().to_buf()
        };
        self.tell(&entry.attr(|w| {
            w.put("namespace", c.ns().to_string().as_str())
                .put("uuidDisposition", "generated");
            uuid(w, &c.uuid());
            w.put("options", &options);
        }));
    }

    /// A collection was dropped.
    pub(crate) fn dropped(&self, ns: &Namespace) {
        if !self.config.log.is_quiet() {
            let entry = Entry::info(id::DROP, component::COMMAND, &context(), "CMD: drop");
            self.tell(&entry.attr(|w| {
                w.put("namespace", ns.to_string().as_str());
            }));
        }
    }

    /// A database is being dropped, or was: then with the number of its collections.
    pub(crate) fn drops_database(&self, db: &str, dropped: Option<usize>) {
        let (id, message) = match dropped {
            None => (id::DROP_DATABASE_STARTS, "dropDatabase - starting"),
            Some(_) => (id::DROP_DATABASE, "dropDatabase"),
        };
        let entry = Entry::info(id, component::COMMAND, &context(), message).attr(|w| {
            w.put("db", db);
            if let Some(n) = dropped {
                w.put(
                    "numCollectionsDropped",
                    i32::try_from(n).unwrap_or(i32::MAX),
                );
            }
        });
        self.tell(&entry);
    }

    /// A collection has another name.
    pub(crate) fn renamed(&self, from: &Namespace, to: &Namespace, drops: bool) {
        let message = "renameCollectionForCommand";
        let entry = Entry::info(id::RENAME, component::COMMAND, &context(), message).attr(|w| {
            w.put("sourceNamespace", from.to_string().as_str())
                .put("targetNamespace", to.to_string().as_str())
                .put("dropTarget", if drops { "yes" } else { "no" });
        });
        self.tell(&entry);
    }

    /// Options of a collection were changed.
    pub(crate) fn modified(&self, ns: &str, command: Doc<'_>) {
        let change = match self.config.log.redacts() {
            true => redacted(command),
            false => command.to_buf(),
        };
        let entry = Entry::info(id::COLL_MOD, component::COMMAND, &context(), "CMD: collMod");
        self.tell(&entry.attr(|w| {
            w.put("namespace", ns).put("cmdObj", &change);
        }));
    }

    /// Indexes were dropped.
    pub(crate) fn dropped_indexes(&self, ns: &Namespace, names: &[&str]) {
        if names.is_empty() || self.config.log.is_quiet() {
            return;
        }
        let message = "CMD: dropIndexes";
        let entry =
            Entry::info(id::DROP_INDEXES, component::COMMAND, &context(), message).attr(|w| {
                w.put("namespace", ns.to_string().as_str());
                let mut list = w.array("indexes");
                for name in names {
                    list.push(*name);
                }
            });
        self.tell(&entry);
    }

    /// An index is about to be built.
    pub(crate) fn index_starts(&self, ns: &Namespace, spec: Doc<'_>) {
        let message = "Index build: starting";
        // A partial filter holds values.
        let spec = match self.config.log.redacts() {
            true => redacted(spec),
            false => spec.to_buf(),
        };
        let entry = Entry::info(id::INDEX_STARTS, component::INDEX, &context(), message);
        self.tell(&entry.attr(|w| {
            w.put("namespace", ns.to_string().as_str())
                .put("properties", &spec);
        }));
    }

    /// The build of an index has ended.
    pub(crate) fn index_ended(
        &self,
        (ns, name): (&Namespace, &str),
        time_ms: i64,
        result: std::result::Result<(), &MongoError>,
    ) {
        let (id, message, severity) = match result {
            Ok(()) => (id::INDEX_DONE, "Index build: done building", Severity::Info),
            Err(_) => (id::INDEX_FAILED, "Index build: failed", Severity::Error),
        };
        let entry = Entry::info(id, component::INDEX, &context(), message).severity(severity);
        self.tell(&entry.attr(|w| {
            w.put("namespace", ns.to_string().as_str())
                .put("index", name)
                .put("durationMillis", time_ms);
            if let Err(e) = result {
                w.put("error", self.shown(&named(e)));
            }
        }));
    }

    /// Begins a new file of the log, where there is one.
    ///
    /// # Errors
    /// 96 when the old one cannot be renamed or the new one not be opened; the log goes on in the
    /// old one.
    pub fn rotate_log(&self) -> Result<()> {
        let message = "Log rotation initiated";
        self.tell(&Entry::info(
            id::ROTATES,
            component::CONTROL,
            &context(),
            message,
        ));
        match self.config.log.rotate() {
            Ok(_) => Ok(()),
            Err(e) => {
                let message = "Log rotation failed";
                let entry =
                    Entry::info(id::ROTATION_FAILED, component::CONTROL, &context(), message);
                self.tell(&entry.severity(Severity::Warning).attr(|w| {
                    w.put("reason", e.as_str());
                }));
                Err(MongoError::new(
                    code::OPERATION_FAILED,
                    format!("Log rotation failed: {e}"),
                ))
            }
        }
    }
}

/// `Name: message`.
fn named(e: &MongoError) -> String {
    format!("{}: {}", e.code_name(), e.message())
}
