//! One server of a migration, reached by the wire protocol. Must not know: whether it is source or
//! target.

use crate::error::{FollowError, Result};
use crate::names::Ns;
use mongodb::bson::{Bson, Document, RawDocumentBuf, Timestamp, doc};
use mongodb::{Client, Cursor};

/// A connected server, set or cluster.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) client: Client,
    /// Its hosts, for people.
    pub(crate) shown: String,
    /// Major and minor version.
    version: [i32; 2],
    /// It is a set or a cluster and so has a log of changes.
    pub(crate) has_log: bool,
    is_mongos: bool,
}

impl Server {
    /// Logs in to the hosts of `shown`, and reads what kind of server they are.
    ///
    /// # Errors
    /// One line.
    pub(crate) async fn greet(client: Client, shown: &str) -> Result<Server> {
        let mut server = Server {
            client,
            shown: shown.to_owned(),
            version: [0, 0],
            has_log: false,
            is_mongos: false,
        };
        let hello = server.run("admin", doc! { "hello": 1 }).await;
        let hello = match hello {
            // Releases before 4.4.2 know `hello` by its older name only.
            Err(e) if e.is(59) => server.run("admin", doc! { "isMaster": 1 }).await,
            hello => hello,
        };
        let hello = hello.map_err(|e| prefix_hosts(shown, e))?;
        server.is_mongos = hello.get_str("msg").ok() == Some("isdbgrid");
        server.has_log = server.is_mongos || hello.contains_key("setName");
        let info = server.run("admin", doc! { "buildInfo": 1 }).await?;
        let numbers = info
            .get_array("versionArray")
            .map_err(|_| FollowError::of_data(format!("{shown}: buildInfo has no versionArray")))?;
        let number = |at: usize| numbers.get(at).and_then(Bson::as_i32).unwrap_or(0);
        server.version = [number(0), number(1)];
        Ok(server)
    }

    pub(crate) fn is_at_least(&self, major: i32, minor: i32) -> bool {
        self.version >= [major, minor]
    }

    /// Whether a read can name its collection by UUID, which a rename does not change.
    pub(crate) fn reads_by_uuid(&self) -> bool {
        self.is_at_least(6, 0)
    }

    pub(crate) fn shown_version(&self) -> String {
        let [major, minor] = self.version;
        format!("{major}.{minor}")
    }

    /// Runs a command.
    ///
    /// # Errors
    /// One line, with the server's number.
    pub(crate) async fn run(&self, db: &str, command: Document) -> Result<Document> {
        Ok(self.client.database(db).run_command(command).await?)
    }

    /// The same for a command that contains raw documents.
    pub(crate) async fn run_raw(&self, db: &str, command: RawDocumentBuf) -> Result<Document> {
        Ok(self.client.database(db).run_raw_command(command).await?)
    }

    /// Runs a command that returns documents.
    pub(crate) async fn read(&self, db: &str, command: RawDocumentBuf) -> Result<Cursor<Document>> {
        let db = self.client.database(db);
        Ok(db.run_raw_cursor_command(command).await?)
    }

    /// All documents of a command that returns few.
    pub(crate) async fn list(&self, db: &str, command: Document) -> Result<Vec<Document>> {
        let command = RawDocumentBuf::try_from(&command)?;
        let mut cursor = self.read(db, command).await?;
        let mut all = Vec::new();
        while cursor.advance().await? {
            all.push(Document::try_from(cursor.current())?);
        }
        Ok(all)
    }

    /// The identity of the collection that has a name now.
    pub(crate) async fn identity(&self, ns: &Ns) -> Result<Option<Bson>> {
        let filter = doc! { "name": &ns.coll };
        let list = doc! { "listCollections": 1, "filter": filter };
        let found = self.list(&ns.db, list).await?;
        let uuid = |d: &Document| d.get_document("info").ok()?.get("uuid").cloned();
        let unnamed = || Bson::String(ns.to_string());
        Ok(found.first().map(|d| uuid(d).unwrap_or_else(unnamed)))
    }

    /// A time of its log: everything that it has acknowledged has this time or an earlier one.
    pub(crate) async fn time(&self) -> Result<Timestamp> {
        let reply = self.run("admin", doc! { "ping": 1 }).await?;
        reply.get_timestamp("operationTime").map_err(|_| {
            let shown = &self.shown;
            FollowError::of_options(format!(
                "{shown} reports no operationTime: a source must be a replica set or a sharded \
                 cluster with a log of changes"
            ))
        })
    }

    /// Waits until majority reads see everything up to a time.
    pub(crate) async fn settle(&self, time: Timestamp) -> Result<()> {
        let concern = doc! { "level": "majority", "afterClusterTime": time };
        let find = doc! { "find": "system.version", "limit": 1, "readConcern": concern };
        self.run("admin", find).await.map(|_| ())
    }
}

/// The error with the hosts in front of it.
pub(crate) fn prefix_hosts(shown: &str, mut error: FollowError) -> FollowError {
    let between = if error.message.starts_with("does not") {
        " "
    } else {
        ": "
    };
    error.message = format!("{shown}{between}{}", error.message);
    error
}
