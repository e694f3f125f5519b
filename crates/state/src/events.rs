//! The service's messages to the log: one function per kind of event, so that every cause of an
//! event reports it with the same number and attributes. Must not know: where lines are written.

use super::connections::ConnectionInfo;
use super::service::Service;
use access::Attempt;
use logs::{Entry, REDACTED, Severity, component, id, redact_document};
use model::{Binary, Doc, DocWriter, MongoError, Namespace, Result, code, doc};
use operation::{ConnectionId, Progress};
use store::Collection;

/// The log context of a connection's work: `conn12`; `main` without a connection.
fn context(of: ConnectionId) -> String {
    match of {
        ConnectionId::NONE => "main".to_owned(),
        ConnectionId(id) => format!("conn{id}"),
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
    pub fn write_log(&self, entry: &Entry) {
        self.config.log.write(entry);
    }

    /// Applies the parameters `logLevel`, `quiet` and `redactClientLogData` to the log, and the
    /// memory limit to operations.
    pub fn follow_parameters(&self) {
        self.bound_memory();
        let (log, parameters) = (&self.config.log, &self.state.parameters);
        log.set_verbosity(u8::try_from(parameters.int("logLevel")).unwrap_or(0));
        log.set_quiet(parameters.bool("quiet"));
        log.set_redacts(parameters.bool("redactClientLogData"));
    }

    /// Logs a message of a background thread.
    pub fn log(&self, severity: char, component: &'static str, message: &str) {
        self.log_of(ConnectionId::NONE, severity, component, message);
    }

    /// Logs a message about the work of a connection.
    pub fn log_of(&self, by: ConnectionId, severity: char, component: &'static str, message: &str) {
        let entry = Entry::info(id::MESSAGE, component, &context(by), message);
        self.write_log(&entry.severity(Severity::of(severity)));
    }

    /// A text or value of a client as the log may show it; a placeholder when the log redacts
    /// client data.
    pub fn redact<'t>(&self, text: &'t str) -> &'t str {
        if self.config.log.redacts() {
            REDACTED
        } else {
            text
        }
    }

    /// A client has connected.
    pub fn log_connected(&self, info: &ConnectionInfo) {
        self.tell_connection(
            id::CONNECTION_ACCEPTED,
            "listener",
            "Connection accepted",
            info,
        );
    }

    /// A client has disconnected.
    pub fn log_disconnected(&self, info: &ConnectionInfo) {
        let context = info.name();
        self.log_logout(info, "the connection was closed");
        self.tell_connection(id::CONNECTION_ENDED, &context, "Connection ended", info);
    }

    fn tell_connection(&self, id: u32, context: &str, message: &str, info: &ConnectionInfo) {
        if self.config.log.is_quiet() {
            return;
        }
        let count = i64::try_from(self.connections.count()).unwrap_or(i64::MAX);
        let entry = Entry::info(id, component::NETWORK, context, message).attr(|w| {
            w.put("remote", &info.peer)
                .put("connectionId", info.id)
                .put("connectionCount", count);
        });
        self.write_log(&entry);
    }

    /// Reports that a user is no longer logged in on a connection, if one was.
    pub fn log_logout(&self, info: &ConnectionInfo, reason: &str) {
        if !self.state.audit.is_on() {
            return;
        }
        let Some(user) = info.user.lock().clone() else {
            return;
        };
        self.audit_client(info, "logout", 0, |w| {
            w.put("reason", reason);
            user.name.write(&mut w.array("initialUsers").doc());
            w.array("updatedUsers");
        });
    }

    /// A client was refused because there are too many connections. Clients determine how often
    /// this happens, so only some of the refusals get a line.
    pub fn log_refused(&self, remote: &str) {
        let Some(left_out) = self.state.refusals.may(self.clock.monotonic_us()) else {
            return;
        };
        let message = "Connection refused because there are too many open connections";
        let count = i64::try_from(self.connections.count()).unwrap_or(i64::MAX);
        let entry = Entry::info(
            id::CONNECTION_REFUSED,
            component::NETWORK,
            "listener",
            message,
        );
        self.write_log(&entry.severity(Severity::Warning).attr(|w| {
            w.put("remote", remote).put("connectionCount", count);
            if left_out > 0 {
                w.put("leftOut", i64::try_from(left_out).unwrap_or(i64::MAX));
            }
        }));
    }

    /// A connection ends because its TLS handshake failed, or because it did not use TLS although
    /// it should. Clients determine how often this happens, so only some of these connections get a
    /// line.
    pub fn connection_broken(&self, info: &ConnectionInfo, why: &str) {
        let Some(left_out) = self.state.refusals.may(self.clock.monotonic_us()) else {
            return;
        };
        let message = "Error receiving request from client. Ending connection from remote";
        let entry = Entry::info(
            id::CONNECTION_BROKEN,
            component::NETWORK,
            &info.name(),
            message,
        );
        let error = MongoError::new(code::SSL_HANDSHAKE_FAILED, why);
        self.write_log(&entry.attr(|w| {
            w.doc("error")
                .put("code", error.code())
                .put("codeName", error.code_name().as_str())
                .put("errmsg", error.message());
            w.put("remote", &info.peer).put("connectionId", info.id);
            if left_out > 0 {
                w.put("leftOut", i64::try_from(left_out).unwrap_or(i64::MAX));
            }
        }));
    }

    /// Logs how many such connections got no line, at certain intervals.
    pub fn tell_left_out(&self) {
        let Some(left_out) = self
            .state
            .refusals
            .count_unlogged(self.clock.monotonic_us())
        else {
            return;
        };
        let message = "Connections were ended of which no line tells, because there were too many";
        let entry = Entry::info(id::LEFT_OUT, component::NETWORK, "housekeeping", message);
        self.write_log(&entry.attr(|w| {
            w.put("leftOut", i64::try_from(left_out).unwrap_or(i64::MAX));
        }));
    }

    /// A client has sent its metadata.
    pub fn client_metadata(&self, info: &ConnectionInfo, client: Doc<'_>) {
        self.audit_client(info, "clientMetadata", 0, |w| {
            self.write_local(info, &mut w.doc("localEndpoint"));
            w.put("clientMetadata", client);
        });
        if self.config.log.is_quiet() {
            return;
        }
        let context = info.name();
        let message = "client metadata";
        let entry = Entry::info(id::CLIENT_METADATA, component::NETWORK, &context, message);
        self.write_log(&entry.attr(|w| {
            w.put("remote", &info.peer)
                .put("client", &context)
                .put("doc", client);
        }));
    }

    /// Reports the end of a login attempt, once.
    pub fn log_login(
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
                let error = match &attempt.reason {
                    Some(reason) => format!("{}: {reason}", e.code_name()),
                    None => format_error(e),
                };
                w.put("error", error.as_str());
            }
            w.put("result", result.err().map_or(0, MongoError::code));
            w.doc("extraInfo");
        });
        self.write_log(&entry);
        if let Some(trouble) = &attempt.trouble {
            self.log_of(ConnectionId(info.id), 'W', component::ACCESS, trouble);
        }
        let code = result.err().map_or(0, MongoError::code);
        self.audit_client(info, "authenticate", code, |w| {
            attempt.name.write(w);
            w.put("mechanism", attempt.mechanism);
        });
    }

    /// A collection was created.
    pub fn log_created(&self, by: ConnectionId, c: &Collection) {
        let options = c.options();
        let entry = Entry::info(
            id::CREATE_COLLECTION,
            component::STORAGE,
            &context(by),
            "createCollection",
        );
        let options = if self.config.log.redacts() {
            redact_document(options.doc())
        } else {
            options.doc().to_buf()
        };
        self.write_log(&entry.attr(|w| {
            w.put("namespace", c.ns().to_string().as_str())
                .put("uuidDisposition", "generated");
            uuid(w, &c.uuid());
            w.put("options", &options);
        }));
        self.audit_created(by, c);
    }

    /// A collection was dropped.
    pub fn log_dropped(&self, by: ConnectionId, ns: &Namespace) {
        self.audit_dropped(by, ns);
        if !self.config.log.is_quiet() {
            let entry = Entry::info(id::DROP, component::COMMAND, &context(by), "CMD: drop");
            self.write_log(&entry.attr(|w| {
                w.put("namespace", ns.to_string().as_str());
            }));
        }
    }

    /// Reports to the audit that a collection was created, and its database too when it is the
    /// first collection.
    pub fn audit_created(&self, by: ConnectionId, c: &Collection) {
        if !self.state.audit.is_on() {
            return;
        }
        let others = self.store.list_collections(c.ns().db());
        if others.is_ok_and(|all| all.len() == 1) {
            self.audit(by, "createDatabase", 0, |w| {
                w.put("ns", c.ns().db());
            });
        }
        let options = c.options();
        self.audit(by, "createCollection", 0, |w| {
            w.put("ns", c.ns().to_string().as_str());
            if let Some(on) = options.doc().field("viewOn").as_str() {
                w.put("viewOn", on);
                let pipeline = doc! { "pipeline": options.doc().field("pipeline") };
                w.put_all(self.detail(pipeline.doc()).doc());
            }
        });
    }

    /// Reports to the audit that a collection was dropped.
    pub fn audit_dropped(&self, by: ConnectionId, ns: &Namespace) {
        self.audit(by, "dropCollection", 0, |w| {
            w.put("ns", ns.to_string().as_str());
        });
    }

    /// Reports to the audit that a collection was renamed.
    pub(crate) fn audit_renamed(&self, by: ConnectionId, from: &Namespace, to: &Namespace) {
        self.audit(by, "renameCollection", 0, |w| {
            w.put("old", from.to_string().as_str())
                .put("new", to.to_string().as_str());
        });
    }

    /// A database drop begins, or has ended when `dropped` has the number of its collections.
    pub fn drops_database(&self, by: ConnectionId, db: &str, dropped: Option<usize>) {
        if dropped.is_some() {
            self.audit(by, "dropDatabase", 0, |w| {
                w.put("ns", db);
            });
        }
        let (id, message) = match dropped {
            None => (id::DROP_DATABASE_STARTS, "dropDatabase - starting"),
            Some(_) => (id::DROP_DATABASE, "dropDatabase"),
        };
        let entry = Entry::info(id, component::COMMAND, &context(by), message).attr(|w| {
            w.put("db", db);
            if let Some(n) = dropped {
                w.put(
                    "numCollectionsDropped",
                    i32::try_from(n).unwrap_or(i32::MAX),
                );
            }
        });
        self.write_log(&entry);
    }

    /// A collection was renamed.
    pub fn log_renamed(&self, by: ConnectionId, from: &Namespace, to: &Namespace, drops: bool) {
        self.audit_renamed(by, from, to);
        let message = "renameCollectionForCommand";
        let entry = Entry::info(id::RENAME, component::COMMAND, &context(by), message).attr(|w| {
            w.put("sourceNamespace", from.to_string().as_str())
                .put("targetNamespace", to.to_string().as_str())
                .put("dropTarget", if drops { "yes" } else { "no" });
        });
        self.write_log(&entry);
    }

    /// Options of a collection were changed.
    pub fn log_modified(&self, by: ConnectionId, ns: &str, command: Doc<'_>) {
        let change = match self.config.log.redacts() {
            true => redact_document(command),
            false => command.to_buf(),
        };
        let entry = Entry::info(
            id::COLL_MOD,
            component::COMMAND,
            &context(by),
            "CMD: collMod",
        );
        self.write_log(&entry.attr(|w| {
            w.put("namespace", ns).put("cmdObj", &change);
        }));
    }

    /// Indexes were dropped.
    pub fn log_dropped_indexes(&self, by: ConnectionId, ns: &Namespace, names: &[&str]) {
        for name in names {
            self.audit(by, "dropIndex", 0, |w| {
                w.put("ns", ns.to_string().as_str()).put("indexName", *name);
            });
        }
        if names.is_empty() || self.config.log.is_quiet() {
            return;
        }
        let message = "CMD: dropIndexes";
        let entry =
            Entry::info(id::DROP_INDEXES, component::COMMAND, &context(by), message).attr(|w| {
                w.put("namespace", ns.to_string().as_str());
                let mut list = w.array("indexes");
                for name in names {
                    list.push(*name);
                }
            });
        self.write_log(&entry);
    }

    /// The build of an index begins.
    pub fn index_starts(&self, by: ConnectionId, ns: &Namespace, spec: Doc<'_>) {
        self.audit_index(by, ns, spec, "IndexBuildStarted", 0);
        let message = "Index build: starting";
        // A partial filter contains client data.
        let spec = match self.config.log.redacts() {
            true => redact_document(spec),
            false => spec.to_buf(),
        };
        let entry = Entry::info(id::INDEX_STARTS, component::INDEX, &context(by), message);
        self.write_log(&entry.attr(|w| {
            w.put("namespace", ns.to_string().as_str())
                .put("properties", &spec);
        }));
    }

    fn audit_index(
        &self,
        by: ConnectionId,
        ns: &Namespace,
        spec: Doc<'_>,
        state: &str,
        result: i32,
    ) {
        self.audit(by, "createIndex", result, |w| {
            w.put("ns", ns.to_string().as_str())
                .put("indexName", spec.field("name"))
                .put("indexSpec", &self.detail(spec))
                .put("indexBuildState", state);
        });
    }

    /// The build of an index continues.
    pub fn index_goes_on(
        &self,
        by: ConnectionId,
        ns: &Namespace,
        spec: Doc<'_>,
        progress: &Progress,
    ) {
        let Progress {
            message,
            done,
            total,
        } = *progress;
        let entry = Entry::info(id::INDEX_GOES_ON, component::INDEX, &context(by), message);
        self.write_log(&entry.attr(|w| {
            w.put("namespace", ns.to_string().as_str())
                .put("index", spec.field("name"))
                .put("done", i64::try_from(done).unwrap_or(i64::MAX))
                .put("total", i64::try_from(total).unwrap_or(i64::MAX));
        }));
    }

    /// The build of an index has ended.
    pub fn log_index_end(
        &self,
        by: ConnectionId,
        ns: &Namespace,
        spec: Doc<'_>,
        time_ms: i64,
        result: std::result::Result<(), &MongoError>,
    ) {
        let state = match result {
            Ok(()) => "IndexBuildSucceeded",
            Err(_) => "IndexBuildAborted",
        };
        self.audit_index(
            by,
            ns,
            spec,
            state,
            result.err().map_or(0, MongoError::code),
        );
        let (id, message, severity) = match result {
            Ok(()) => (id::INDEX_DONE, "Index build: done building", Severity::Info),
            Err(_) => (id::INDEX_FAILED, "Index build: failed", Severity::Error),
        };
        let entry = Entry::info(id, component::INDEX, &context(by), message).severity(severity);
        self.write_log(&entry.attr(|w| {
            w.put("namespace", ns.to_string().as_str())
                .put("index", spec.field("name"))
                .put("durationMillis", time_ms);
            if let Err(e) = result {
                w.put("error", self.redact(&format_error(e)));
            }
        }));
    }

    /// Rotates the files of the log and of the audit, if they are files.
    ///
    /// # Errors
    /// 96 OperationFailed when an old file cannot be renamed or a new one cannot be opened; writing
    /// continues to the old file.
    pub fn rotate_log(&self, by: ConnectionId) -> Result<()> {
        let audit = self.rotate_audit(by);
        self.rotate_server_log(by).and(audit)
    }

    /// Rotates the file of the log only.
    ///
    /// # Errors
    /// As [`Service::rotate_log`].
    pub fn rotate_server_log(&self, by: ConnectionId) -> Result<()> {
        let message = "Log rotation initiated";
        self.write_log(&Entry::info(
            id::ROTATES,
            component::CONTROL,
            &context(by),
            message,
        ));
        match self.config.log.rotate() {
            Ok(_) => Ok(()),
            Err(e) => Err(self.log_rotation_failure(by, &e)),
        }
    }

    /// Rotates the file of the audit only.
    ///
    /// # Errors
    /// As [`Service::rotate_log`].
    pub fn rotate_audit(&self, by: ConnectionId) -> Result<()> {
        let result = self.state.audit.rotate();
        self.audit(by, "rotateLog", 0, |w| {
            let mut status = w.doc("logRotationStatus");
            match &result {
                Ok(moved) => {
                    status.put("status", "OK");
                    if let Some(path) = moved {
                        status.put("rotatedLogPath", path.display().to_string().as_str());
                    }
                }
                Err(e) => {
                    status.put("status", "failed");
                    status.array("errors").push(e.as_str());
                }
            }
        });
        result
            .map(|_| ())
            .map_err(|e| self.log_rotation_failure(by, &e))
    }

    fn log_rotation_failure(&self, by: ConnectionId, why: &str) -> MongoError {
        let message = "Log rotation failed";
        let entry = Entry::info(
            id::ROTATION_FAILED,
            component::CONTROL,
            &context(by),
            message,
        );
        self.write_log(&entry.severity(Severity::Warning).attr(|w| {
            w.put("reason", why);
        }));
        MongoError::new(
            code::OPERATION_FAILED,
            format!("Log rotation failed: {why}"),
        )
    }
}

/// The error as `Name: message`.
fn format_error(e: &MongoError) -> String {
    format!("{}: {}", e.code_name(), e.message())
}
