//! `local.startup_log`: one document for each start of the server.

use super::service::Service;
use crate::release::describe_build;
use access::uuid::new_uuid;
use model::{DocBuf, Namespace, Result, Value, doc};

/// Size of the collection in bytes, the same as MongoDB's.
const BYTES: i32 = 10 * 1024 * 1024;

impl Service {
    /// Adds a document for this start; not where several servers write, as mongos adds none.
    ///
    /// # Errors
    /// Engine failures.
    pub fn note_start(&self) -> Result<()> {
        if self.store.peer().is_some() {
            return Ok(());
        }
        let operation = self.own_operation();
        let ns = Namespace::new("local", "startup_log")?;
        let log = match self.store.collection(&ns)? {
            Some(there) => there,
            None => {
                let options = doc! { "capped": true, "size": BYTES };
                self.store
                    .writer(&operation)
                    .create_collection(&ns, options, new_uuid())?
            }
        };
        let host = self.config.host.as_str();
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let started = self.started_ms;
        let note = DocBuf::build(|w| {
            w.put("_id", format!("{name}-{started}").as_str())
                .put("hostname", host)
                .put("startTime", Value::Date(started));
            w.put("cmdLine", &self.config.parsed)
                .put("pid", i64::from(std::process::id()));
            describe_build(&self.config, &mut w.doc("buildinfo"));
        });
        let writer = log.writer(&operation);
        writer.insert(&[note.doc()], true)?;
        crate::capped::end_insert(self, writer)
    }
}
