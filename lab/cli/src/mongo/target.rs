//! A MongoDB server as a target: connecting, preparing collections, counting, sizes, statistics.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lab_kit::idle::wait_idle;
use lab_kit::nearest::{Recall, Similarity};
use lab_kit::result::Sizes;
use lab_kit::row::contents::Contents;
use lab_kit::target::{
    ChangeReader, EXTRA_TABLE, SettleResult, Table, Target, TargetError, TargetInfo,
};
use lab_kit::template::Tree;
use lab_kit::workload::{Capability, DocumentKind, Index};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::error::{Error, ErrorKind};
use mongodb::event::EventHandler;
use mongodb::event::cmap::CmapEvent;
use mongodb::options::{ClientOptions, CollectionOptions, ServerAddress, WriteConcern};
use mongodb::{Client, Collection, Database, IndexModel};

use super::changes;
use super::facts::{Connection, gather};
use super::reply::{integer, one_line};
use super::search;
use super::session::MongoSession;
use super::settings::MongoSettings;
use super::statements::Statements;
use super::transaction::Transaction;
use super::tree::tree_document;
use crate::credentials::hide_password;

/// The driver also uses servers whose latency is this much above that of the nearest one.
const LOCAL_THRESHOLD: Duration = Duration::from_secs(60);

/// An open connection and its settings.
#[derive(Debug)]
pub(crate) struct MongoTarget {
    /// Connection string without its password.
    uri: String,
    /// The address of the server.
    address: ServerAddress,
    /// Servers to which the driver has opened a connection for calls.
    reached: Arc<Mutex<HashSet<ServerAddress>>>,
    /// The options of a new connection after a restart.
    fresh: ClientOptions,
    /// Write concern of every write.
    write_concern: Option<WriteConcern>,
    database: Database,
    may_drop: bool,
    tables: Vec<Table>,
    /// Number of databases; the tables are assigned to them in turn.
    databases: u32,
    indexes: Mutex<Vec<Index>>,
    /// The database that the user's program copies to.
    copy: Option<Database>,
    data_dir: Option<PathBuf>,
}

impl MongoTarget {
    /// Connects for a run.
    pub(crate) async fn open(settings: MongoSettings<'_>) -> Result<Self, TargetError> {
        let database = settings.database;
        let connected = Self::connect(settings.target, database, settings.clients).await?;
        let copy = match settings.copy {
            // The copy may become writable only when it is complete, but it can already be read.
            Some(address) => {
                let to = Box::pin(Self::connect(address, database, 1)).await?;
                Some(to.database)
            }
            None => None,
        };
        Ok(Self {
            write_concern: settings.write_concern()?,
            may_drop: settings.may_drop,
            tables: settings.tables,
            databases: settings.databases,
            copy,
            data_dir: settings.data_dir,
            ..connected
        })
    }

    /// Connects and checks that the server answers.
    pub(crate) async fn connect(
        target: &str,
        database: &str,
        clients: u32,
    ) -> Result<Self, TargetError> {
        let uri = hide_password(target);
        let wrong = |error: Error| TargetError::Address {
            given: uri.clone(),
            reason: one_line(&error),
        };
        let mut options = ClientOptions::parse(target).await.map_err(wrong)?;
        options
            .app_name
            .get_or_insert_with(|| "quarry-lab".to_owned());
        options
            .server_selection_timeout
            .get_or_insert(Duration::from_secs(5));
        options
            .connect_timeout
            .get_or_insert(Duration::from_secs(5));
        // A retry inside the driver would hide an error and add its time to the latency.
        options.retry_writes.get_or_insert(false);
        options.retry_reads.get_or_insert(false);
        // All servers in the address get calls, however slow one answers; a read preference, if
        // given, decides about the members of a replica set.
        if options.selection_criteria.is_none() {
            options.local_threshold.get_or_insert(LOCAL_THRESHOLD);
        }
        options.max_pool_size = Some(clients.saturating_add(4));
        let reached = Arc::<Mutex<HashSet<ServerAddress>>>::default();
        let seen = reached.clone();
        options.cmap_event_handler = Some(EventHandler::callback(move |event| {
            if let CmapEvent::ConnectionReady(ready) = event {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.insert(ready.address);
            }
        }));
        let address = options.hosts.first().cloned().unwrap_or_default();
        let mut fresh = options.clone();
        fresh.server_selection_timeout = Some(Duration::from_millis(100));
        fresh.direct_connection = Some(true);
        fresh.hosts.truncate(1);
        let client = Client::with_options(options).map_err(wrong)?;
        let database = client.database(database);
        let refused = |error: Error| TargetError::Unreachable {
            address: uri.clone(),
            reason: one_line(&error),
        };
        database
            .run_command(doc! { "ping": 1 })
            .await
            .map_err(refused)?;
        Ok(Self {
            uri,
            address,
            reached,
            fresh,
            write_concern: None,
            database,
            may_drop: false,
            tables: Vec::new(),
            databases: 1,
            indexes: Mutex::default(),
            copy: None,
            data_dir: None,
        })
    }

    /// The driver's client.
    pub(crate) fn client(&self) -> &Client {
        self.database.client()
    }

    /// The database of a table: the first has the given name, the others have a number appended.
    fn database_of(&self, table: &str) -> Database {
        let number = self.tables.iter().position(|one| one.name == table);
        let number = number.unwrap_or(0) % self.databases.max(1) as usize;
        if number == 0 {
            return self.database.clone();
        }
        let name = format!("{}_{}", self.database.name(), number + 1);
        self.database.client().database(&name)
    }

    /// A collection whose writes use the run's write concern; with `sync` each write also waits for
    /// the journal.
    fn collection(&self, name: &str, sync: bool) -> Collection<RawDocumentBuf> {
        let mut options = CollectionOptions::default();
        options.write_concern = self.write_concern.clone();
        if sync {
            options.write_concern.get_or_insert_default().journal = Some(true);
        }
        self.database_of(name)
            .collection_with_options(name, options)
    }

    /// The connection, with the known facts about the server.
    fn connection<'a>(&'a self, data_dir: Option<&'a std::path::Path>) -> Connection<'a> {
        Connection {
            admin: self.database.client().database("admin"),
            uri: &self.uri,
            address: &self.address,
            write_concern: self.write_concern.as_ref(),
            data_dir,
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().map(|table| table.name.as_str())
    }

    /// Runs a command against the admin database.
    async fn ask_admin(&self, command: Document) -> Result<Document, Error> {
        self.database
            .client()
            .database("admin")
            .run_command(command)
            .await
    }

    /// Turns an error reply into a refusal, and a missing reply into an unreachable target.
    fn target_error(&self, what: String, error: &Error) -> TargetError {
        let reason = one_line(error);
        match error.kind.as_ref() {
            ErrorKind::Command(_) | ErrorKind::Write(_) => TargetError::Refused { what, reason },
            _ => TargetError::Unreachable {
                address: self.uri.clone(),
                reason,
            },
        }
    }
}

fn index_model(index: &Index) -> IndexModel {
    let keys: Document = index
        .keys
        .iter()
        .map(|key| (key.clone(), Bson::Int32(1)))
        .collect();
    let mut options = mongodb::options::IndexOptions::default();
    options.name = Some(index.name.clone());
    options.unique = index.unique.then_some(true);
    IndexModel::builder().keys(keys).options(options).build()
}

impl Target for MongoTarget {
    type Session = MongoSession;

    async fn inspect(&self) -> TargetInfo {
        gather(&self.connection(self.data_dir.as_deref())).await
    }

    fn unsupported(&self) -> &'static [Capability] {
        &[]
    }

    fn can_restart(&self) -> bool {
        true
    }

    async fn answers(&self) -> bool {
        // The shared client checks a lost server only twice a second, so this uses a new client.
        let Ok(client) = Client::with_options(self.fresh.clone()) else {
            return false;
        };
        let asked = client
            .database("admin")
            .run_command(doc! { "ping": 1 })
            .await;
        client.shutdown().immediate(true).await;
        asked.is_ok()
    }

    async fn reconnect(&self) -> Result<(), TargetError> {
        let asked = self.database.run_command(doc! { "ping": 1 }).await;
        asked
            .map(|_| ())
            .map_err(|error| self.target_error("ping".to_owned(), &error))
    }

    fn attach(&self, indexes: &[Index]) {
        *self.indexes.lock().unwrap_or_else(PoisonError::into_inner) = indexes.to_vec();
    }

    async fn prepare(&self) -> Result<(), TargetError> {
        // If a server cannot list its collections, the lab assumes that none is in the way.
        let there = self
            .database
            .list_collection_names()
            .await
            .unwrap_or_default();
        for name in there.iter().filter(|name| name.starts_with(EXTRA_TABLE)) {
            let dropped = self.database.collection::<Document>(name).drop().await;
            dropped.map_err(|error| self.target_error(format!("to drop {name}"), &error))?;
        }
        for table in &self.tables {
            let name = &table.name;
            let collection = self.collection(name, false);
            let documents = collection.estimated_document_count().await.unwrap_or(0);
            if documents > 0 && !self.may_drop {
                return Err(TargetError::InTheWay {
                    what: format!("collection {}", collection.namespace()),
                    documents,
                    instead: "another --db".to_owned(),
                });
            }
            collection
                .drop()
                .await
                .map_err(|error| self.target_error(format!("to drop {name}"), &error))?;
            let database = self.database_of(name);
            let create = database.create_collection(name);
            let create = match table.capped_bytes {
                Some(bytes) => create.capped(true).size(bytes),
                None => create,
            };
            create
                .await
                .map_err(|error| self.target_error(format!("to create {name}"), &error))?;
            if let DocumentKind::Records(records) = table.kind {
                for index in super::records::indexes(records) {
                    let made = collection.create_index(index).await;
                    made.map_err(|error| self.target_error(format!("an index of {name}"), &error))?;
                }
            }
        }
        Ok(())
    }

    async fn create_indexes(&self, indexes: &[Index]) -> Result<(), TargetError> {
        self.attach(indexes);
        for name in self.names() {
            for index in indexes {
                self.collection(name, false)
                    .create_index(index_model(index))
                    .await
                    .map_err(|error| self.target_error(format!("index {}", index.name), &error))?;
            }
        }
        Ok(())
    }

    async fn create_extra_table(&self, number: u32) -> Result<(), TargetError> {
        // Only the lab uses such names, so collections of earlier runs may be dropped.
        let name = format!("{EXTRA_TABLE}{number}");
        let table = self.database.collection::<Document>(&name);
        let refused = |error: Error| self.target_error(format!("table {name}"), &error);
        table.drop().await.map_err(refused)?;
        table
            .create_index(IndexModel::builder().keys(doc! { "n": 1 }).build())
            .await
            .map_err(refused)?;
        table
            .insert_one(doc! { "_id": 1, "n": 1 })
            .await
            .map_err(refused)?;
        Ok(())
    }

    async fn session(&self, sync: bool) -> Result<MongoSession, TargetError> {
        Ok(MongoSession {
            tables: self
                .names()
                .map(|name| self.collection(name, sync))
                .collect(),
            contents: self.tables.iter().map(Contents::of).collect(),
            indexes: self
                .indexes
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            statements: Statements {
                database: self.database.clone(),
                write_concern: self.write_concern.clone(),
                fresh: self.fresh.clone(),
            },
            transaction: Transaction::default(),
        })
    }

    fn takes_programs(&self) -> bool {
        true
    }

    fn servers_reached(&self) -> usize {
        let reached = self.reached.lock();
        reached.unwrap_or_else(PoisonError::into_inner).len()
    }

    fn takes_documents(&self) -> bool {
        true
    }

    async fn run_command(&self, command: Tree) -> Result<(), TargetError> {
        let mut command = tree_document(&command);
        // `$db` selects the database, as in a message of the protocol.
        let other = command.remove("$db");
        let what = format!("the command {command}");
        let database = match other.as_ref().and_then(Bson::as_str) {
            Some(name) => self.database.client().database(name),
            None => self.database.clone(),
        };
        let done = database.run_command(command).await;
        done.map(drop)
            .map_err(|error| self.target_error(what, &error))
    }

    async fn evaluate(
        &self,
        collection: Option<String>,
        pipeline: Vec<Tree>,
    ) -> Result<String, String> {
        let stages: Vec<Document> = pipeline.iter().map(tree_document).collect();
        let own = self.names().map(str::to_owned).collect();
        let names = collection.map_or(own, |name| vec![name]);
        let mut out = Vec::new();
        for name in names {
            out.extend(search::answers(&self.collection(&name, false), &stages).await?);
        }
        Ok(out.join(" "))
    }

    async fn evaluate_copy(&self, pipeline: Vec<Tree>) -> Result<String, String> {
        let Some(copy) = &self.copy else {
            return Err("there is no --copy".to_owned());
        };
        let stages: Vec<Document> = pipeline.iter().map(tree_document).collect();
        let mut out = Vec::new();
        for name in self.names() {
            out.extend(search::answers(&copy.collection(name), &stages).await?);
        }
        Ok(out.join(" "))
    }

    async fn await_search(&self, timeout: Duration) -> Result<(), TargetError> {
        for name in self.names() {
            let ready = search::ready(&self.collection(name, false), timeout).await;
            ready.map_err(|reason| TargetError::Refused {
                what: format!("search indexes of {name}"),
                reason,
            })?;
        }
        Ok(())
    }

    async fn recall(
        &self,
        similarity: Similarity,
        searches: Vec<Vec<Tree>>,
    ) -> Result<Recall, String> {
        let Some(name) = self.names().next() else {
            return Ok(Recall::default());
        };
        let searches = searches.iter();
        let searches = searches.map(|stages| stages.iter().map(tree_document).collect());
        search::recall(
            &self.collection(name, false),
            similarity,
            searches.collect(),
        )
        .await
    }

    async fn readers(&self, count: u32) -> Result<Vec<Box<dyn ChangeReader>>, TargetError> {
        let Some(name) = self.names().next() else {
            return Ok(Vec::new());
        };
        let opened = changes::open(&self.fresh, self.database.name(), name, count).await;
        opened.map_err(|error| self.target_error("a change stream".to_owned(), &error))
    }

    async fn oldest(&self, field: String) -> Result<(Option<i64>, u64), String> {
        let Some(name) = self.names().next() else {
            return Ok((None, 0));
        };
        let asked = changes::oldest(&self.collection(name, false), &field).await;
        asked.map_err(|error| one_line(&error))
    }

    async fn count(&self) -> Result<u64, String> {
        let mut total = 0;
        for name in self.names() {
            let counted = self.collection(name, false).count_documents(doc! {}).await;
            total += counted.map_err(|error| one_line(&error))?;
        }
        Ok(total)
    }

    async fn sum_of_k(&self) -> Result<i64, String> {
        let mut total = 0;
        for name in self.names() {
            let stages = [doc! { "$group": { "_id": null, "total": { "$sum": "$k" } } }];
            let asked = self.collection(name, false).aggregate(stages).await;
            let mut cursor = asked.map_err(|error| one_line(&error))?;
            if cursor.advance().await.map_err(|error| one_line(&error))? {
                let reply = cursor
                    .deserialize_current()
                    .map_err(|error| one_line(&error))?;
                total += integer(&reply, "total").unwrap_or(0);
            }
        }
        Ok(total)
    }

    async fn delete_above(&self, table: usize, number: i64) -> Result<(), TargetError> {
        let Some(table) = self.tables.get(table) else {
            return Ok(());
        };
        let deleted = self
            .collection(&table.name, false)
            .delete_many(doc! { "_id": { "$gt": number } })
            .await;
        deleted
            .map(|_| ())
            .map_err(|error| self.target_error(format!("to delete from {}", table.name), &error))
    }

    async fn sizes(&self) -> Sizes {
        let mut out = Sizes::default();
        let mut add = |field: fn(&mut Sizes) -> &mut Option<u64>, value: Option<i64>| {
            if let Some(value) = value.and_then(|value| u64::try_from(value).ok()) {
                *field(&mut out).get_or_insert(0) += value;
            }
        };
        for name in self.names() {
            let database = self.database_of(name);
            let asked = database.run_command(doc! { "collStats": name });
            let Ok(stats) = asked.await else {
                continue;
            };
            add(|sizes| &mut sizes.documents, integer(&stats, "count"));
            add(|sizes| &mut sizes.data_bytes, integer(&stats, "size"));
            add(
                |sizes| &mut sizes.storage_bytes,
                integer(&stats, "storageSize"),
            );
            add(
                |sizes| &mut sizes.index_bytes,
                integer(&stats, "totalIndexSize"),
            );
        }
        if let (Some(storage), Some(documents @ 1..)) = (out.storage_bytes, out.documents) {
            out.bytes_per_document =
                Some((storage + out.index_bytes.unwrap_or(0)) as f64 / documents as f64);
        }
        out
    }

    async fn settle(&self, timeout: Duration) -> SettleResult {
        let asked = self.ask_admin(doc! { "fsync": 1 }).await;
        let flushed = asked.map_or_else(
            |error| format!("fsync refused: {}", one_line(&error)),
            |_| "fsync done".to_owned(),
        );
        let watched = gather(&self.connection(None)).await.pid;
        let waiting = tokio::task::spawn_blocking(move || wait_idle(watched, timeout));
        let (is_idle, waited) = waiting.await.unwrap_or_default();
        SettleResult {
            is_idle,
            remark: format!("{flushed}; {waited}"),
        }
    }

    async fn statistics(&self) -> serde_json::Value {
        let status = self
            .ask_admin(doc! { "serverStatus": 1 })
            .await
            .unwrap_or_default();
        serde_json::to_value(&status).unwrap_or_default()
    }

    async fn drop_tables(&self) -> Result<(), TargetError> {
        for name in self.names() {
            self.collection(name, false)
                .drop()
                .await
                .map_err(|error| self.target_error(format!("to drop {name}"), &error))?;
        }
        Ok(())
    }
}
