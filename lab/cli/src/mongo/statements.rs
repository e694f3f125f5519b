//! Statements of workload files on a MongoDB server.
//!
//! Promises: every result of a statement is read. A transaction that the server aborts with a
//! transient error is repeated, as drivers do, until it is done; the time of all attempts counts.

use lab_kit::target::CallOutcome;
use lab_kit::template::{Command, DatabaseAction, StatementCall, Tree};
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::error::{Error, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT};
use mongodb::options::{
    ClientOptions, CollectionOptions, FindOptions, Hint, UpdateModifications, WriteConcern,
};
use mongodb::{Client, ClientSession, Collection, Database};

use super::tree::tree_document;

/// State that statements need in addition to the workload's collections.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(super) database: Database,
    pub(super) write_concern: Option<WriteConcern>,
    /// The options of additional connections.
    pub(super) fresh: ClientOptions,
}

/// A statement with its documents built.
#[derive(Debug)]
pub(crate) struct EncodedStatement {
    table: usize,
    command: EncodedCommand,
}

#[derive(Debug)]
enum EncodedCommand {
    One(Part),
    Transaction(Vec<Part>),
    Connect,
}

#[derive(Clone, Debug)]
struct Part {
    collection: Option<String>,
    must_match: bool,
    action: Action,
}

#[derive(Clone, Debug)]
enum Action {
    Find(Document, Box<FindOptions>),
    Update(Document, UpdateModifications, bool, bool),
    Insert(Vec<RawDocumentBuf>),
    Delete(Document, bool),
    Aggregate(Vec<Document>),
    Run(Document),
}

impl EncodedStatement {
    pub(super) fn of(call: &StatementCall) -> Self {
        let part = |collection: &Option<String>, one: &DatabaseAction, must_match: bool| Part {
            collection: collection.clone(),
            must_match,
            action: action(one),
        };
        let command = match &call.command {
            Command::One(collection, one) => EncodedCommand::One(part(collection, one, false)),
            Command::Transaction(all) => EncodedCommand::Transaction(
                all.iter()
                    .map(|(collection, one, must)| part(collection, one, *must))
                    .collect(),
            ),
            Command::Connect => EncodedCommand::Connect,
        };
        Self {
            table: call.table,
            command,
        }
    }
}

fn action(one: &DatabaseAction) -> Action {
    let documents = |all: &[Tree]| all.iter().map(tree_document).collect::<Vec<_>>();
    match one {
        DatabaseAction::Find {
            filter,
            sort,
            projection,
            limit,
            skip,
            hint,
        } => {
            let mut options = FindOptions::default();
            options.sort = sort.as_ref().map(tree_document);
            options.projection = projection.as_ref().map(tree_document);
            options.limit = (*limit > 0).then(|| i64::from(*limit));
            options.skip = (*skip > 0).then(|| u64::from(*skip));
            options.hint = hint.clone().map(Hint::Name);
            Action::Find(tree_document(filter), Box::new(options))
        }
        DatabaseAction::Update {
            filter,
            change,
            many,
            upsert,
        } => {
            let change = match change {
                Tree::Array(stages) => UpdateModifications::Pipeline(documents(stages)),
                other => UpdateModifications::Document(tree_document(other)),
            };
            Action::Update(tree_document(filter), change, *many, *upsert)
        }
        DatabaseAction::Insert(all) => Action::Insert(
            all.iter()
                .filter_map(|one| RawDocumentBuf::try_from(&tree_document(one)).ok())
                .collect(),
        ),
        DatabaseAction::Delete { filter, many } => Action::Delete(tree_document(filter), *many),
        DatabaseAction::Aggregate(stages) => Action::Aggregate(documents(stages)),
        DatabaseAction::Run(command) => Action::Run(tree_document(command)),
    }
}

impl Statements {
    pub(super) async fn run(
        &self,
        statement: EncodedStatement,
        tables: &[Collection<RawDocumentBuf>],
    ) -> Result<CallOutcome, (Error, u64)> {
        let one = |error| (error, 1);
        let Some(own) = tables.get(statement.table) else {
            return Ok(CallOutcome::success(0, 0));
        };
        match statement.command {
            EncodedCommand::One(part) => {
                let rows = self.part(part, own, None).await.map_err(one)?;
                Ok(CallOutcome::success(1, rows))
            }
            EncodedCommand::Transaction(parts) => self.transaction(&parts, own).await.map_err(one),
            EncodedCommand::Connect => {
                self.connect().await.map_err(one)?;
                Ok(CallOutcome::success(1, 0))
            }
        }
    }

    /// Runs one action; returns the rows found, matched or changed.
    async fn part(
        &self,
        part: Part,
        own: &Collection<RawDocumentBuf>,
        session: Option<&mut ClientSession>,
    ) -> Result<u64, Error> {
        let other;
        let table = match &part.collection {
            Some(name) => {
                let mut options = CollectionOptions::default();
                options.write_concern = self.write_concern.clone();
                other = self.database.collection_with_options(name, options);
                &other
            }
            None => own,
        };
        match part.action {
            Action::Find(filter, options) => {
                let find = table.find(filter).with_options(*options);
                read(find, session).await
            }
            Action::Aggregate(stages) => aggregate(table, stages, session).await,
            Action::Update(filter, change, many, upsert) => {
                let update = if many {
                    table.update_many(filter, change)
                } else {
                    table.update_one(filter, change)
                };
                let update = update.upsert(upsert);
                let reply = match session {
                    Some(session) => update.session(session).await?,
                    None => update.await?,
                };
                Ok(reply.matched_count + u64::from(reply.upserted_id.is_some()))
            }
            Action::Insert(documents) => {
                let count = documents.len() as u64;
                let insert = table.insert_many(documents);
                match session {
                    Some(session) => insert.session(session).await?,
                    None => insert.await?,
                };
                Ok(count)
            }
            Action::Delete(filter, many) => {
                let delete = if many {
                    table.delete_many(filter)
                } else {
                    table.delete_one(filter)
                };
                let reply = match session {
                    Some(session) => delete.session(session).await?,
                    None => delete.await?,
                };
                Ok(reply.deleted_count)
            }
            Action::Run(command) => {
                let run = self.database.run_command(command);
                match session {
                    Some(session) => run.session(session).await?,
                    None => run.await?,
                };
                Ok(1)
            }
        }
    }

    async fn transaction(
        &self,
        parts: &[Part],
        own: &Collection<RawDocumentBuf>,
    ) -> Result<CallOutcome, Error> {
        let mut session = self.database.client().start_session().await?;
        loop {
            session.start_transaction().await?;
            match self.attempt(parts, own, &mut session).await {
                Ok(None) => {
                    session.abort_transaction().await?;
                    return Ok(CallOutcome::success(0, 0));
                }
                Ok(Some(rows)) => match commit(&mut session).await {
                    Ok(()) => return Ok(CallOutcome::success(1, rows)),
                    Err(error) if error.contains_label(TRANSIENT_TRANSACTION_ERROR) => {}
                    Err(error) => return Err(error),
                },
                Err(error) => {
                    // The server may already have ended the transaction; only its first error
                    // matters.
                    let _ = session.abort_transaction().await;
                    if !error.contains_label(TRANSIENT_TRANSACTION_ERROR) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Runs all parts once; returns their rows, or `None` if a part that must match found nothing.
    async fn attempt(
        &self,
        parts: &[Part],
        own: &Collection<RawDocumentBuf>,
        session: &mut ClientSession,
    ) -> Result<Option<u64>, Error> {
        let mut rows = 0;
        for part in parts {
            let found = self.part(part.clone(), own, Some(&mut *session)).await?;
            if part.must_match && found == 0 {
                return Ok(None);
            }
            rows += found;
        }
        Ok(Some(rows))
    }

    /// Opens a new connection, with handshake and ping, and closes it.
    async fn connect(&self) -> Result<(), Error> {
        let mut options = self.fresh.clone();
        options.server_selection_timeout = Some(std::time::Duration::from_secs(30));
        options.max_pool_size = Some(1);
        let client = Client::with_options(options)?;
        let asked = client
            .database("admin")
            .run_command(doc! { "ping": 1 })
            .await;
        client.shutdown().immediate(true).await;
        asked.map(drop)
    }
}

async fn commit(session: &mut ClientSession) -> Result<(), Error> {
    loop {
        match session.commit_transaction().await {
            Err(error) if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) => {}
            done => return done,
        }
    }
}

async fn read(
    find: mongodb::action::Find<'_, RawDocumentBuf>,
    session: Option<&mut ClientSession>,
) -> Result<u64, Error> {
    let mut rows = 0;
    match session {
        Some(session) => {
            let mut cursor = find.session(&mut *session).await?;
            while cursor.advance(session).await? {
                rows += 1;
            }
        }
        None => {
            let mut cursor = find.await?;
            while cursor.advance().await? {
                rows += 1;
            }
        }
    }
    Ok(rows)
}

async fn aggregate(
    table: &Collection<RawDocumentBuf>,
    stages: Vec<Document>,
    session: Option<&mut ClientSession>,
) -> Result<u64, Error> {
    let mut rows = 0;
    match session {
        Some(session) => {
            let mut cursor = table.aggregate(stages).session(&mut *session).await?;
            while cursor.advance(session).await? {
                rows += 1;
            }
        }
        None => {
            let mut cursor = table.aggregate(stages).await?;
            while cursor.advance().await? {
                rows += 1;
            }
        }
    }
    Ok(rows)
}
