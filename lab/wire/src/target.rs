//! The server under test as the lab sees it: connecting, preparing collections, counting.

use std::time::Duration;

use lab_kit::result::Sizes;
use lab_kit::workload::Index;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::{
    Acknowledgment, ClientOptions, CollectionOptions, ServerAddress, WriteConcern,
};
use mongodb::{Client, Collection, Database, IndexModel};

use crate::cli::{DEFAULT_DB, RunArguments};
use crate::errors::LabError;

/// An open connection and what belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Connection string without its password.
    pub(crate) uri: String,
    /// Where it listens.
    pub(crate) address: ServerAddress,
    /// Write concern of every write.
    pub(crate) write_concern: Option<WriteConcern>,
    database: Database,
    may_drop: bool,
}

impl Target {
    /// Connects and asks for a sign of life.
    pub(crate) async fn open(arguments: &RunArguments, clients: u32) -> Result<Self, LabError> {
        let uri = without_password(&arguments.target);
        let wrong = |error: Error| LabError::Uri {
            uri: uri.clone(),
            reason: one_line(&error),
        };
        let mut options = ClientOptions::parse(&arguments.target)
            .await
            .map_err(wrong)?;
        options
            .app_name
            .get_or_insert_with(|| "quarry-lab".to_owned());
        options
            .server_selection_timeout
            .get_or_insert(Duration::from_secs(5));
        options
            .connect_timeout
            .get_or_insert(Duration::from_secs(5));
        // A retry inside the driver would hide an error and count its time as latency.
        options.retry_writes.get_or_insert(false);
        options.retry_reads.get_or_insert(false);
        options.max_pool_size = Some(clients + 4);
        let address = options.hosts.first().cloned().unwrap_or_default();
        let client = Client::with_options(options).map_err(wrong)?;
        let database = client.database(&arguments.db);
        let refused = |error: Error| LabError::Unreachable {
            uri: uri.clone(),
            reason: one_line(&error),
        };
        database
            .run_command(doc! { "ping": 1 })
            .await
            .map_err(refused)?;
        let write_concern = write_concern(arguments)?;
        let may_drop = arguments.drop || arguments.db == DEFAULT_DB;
        Ok(Self {
            uri,
            address,
            write_concern,
            database,
            may_drop,
        })
    }

    /// A collection whose writes use the run's write concern.
    pub(crate) fn collection(&self, name: &str) -> Collection<RawDocumentBuf> {
        let mut options = CollectionOptions::default();
        options.write_concern = self.write_concern.clone();
        self.database.collection_with_options(name, options)
    }

    /// Runs a command against the admin database.
    pub(crate) async fn ask_admin(&self, command: Document) -> Result<Document, Error> {
        self.database
            .client()
            .database("admin")
            .run_command(command)
            .await
    }

    /// Makes `names` empty collections with `indexes`.
    pub(crate) async fn prepare(
        &self,
        names: &[String],
        indexes: &[Index],
    ) -> Result<(), LabError> {
        for name in names {
            let collection = self.collection(name);
            let documents = collection.estimated_document_count().await.unwrap_or(0);
            if documents > 0 && !self.may_drop {
                return Err(LabError::InTheWay {
                    namespace: collection.namespace().to_string(),
                    documents,
                });
            }
            collection
                .drop()
                .await
                .map_err(|error| self.refused(format!("to drop {name}"), &error))?;
            self.database
                .create_collection(name)
                .await
                .map_err(|error| self.refused(format!("to create {name}"), &error))?;
            for index in indexes {
                let keys: Document = index
                    .keys
                    .iter()
                    .map(|key| (key.clone(), Bson::Int32(1)))
                    .collect();
                let mut options = mongodb::options::IndexOptions::default();
                options.name = Some(index.name.clone());
                let model = IndexModel::builder().keys(keys).options(options).build();
                collection
                    .create_index(model)
                    .await
                    .map_err(|error| self.refused(format!("index {}", index.name), &error))?;
            }
        }
        Ok(())
    }

    /// Drops collections; used by `--clean`.
    pub(crate) async fn drop(&self, names: &[String]) -> Result<(), LabError> {
        for name in names {
            self.collection(name)
                .drop()
                .await
                .map_err(|error| self.refused(format!("to drop {name}"), &error))?;
        }
        Ok(())
    }

    /// An answer that is an error is a refusal; no answer is something else.
    fn refused(&self, what: String, error: &Error) -> LabError {
        let reason = one_line(error);
        match error.kind.as_ref() {
            ErrorKind::Command(_) | ErrorKind::Write(_) => LabError::Refused { what, reason },
            _ => LabError::Unreachable {
                uri: self.uri.clone(),
                reason,
            },
        }
    }

    /// Counts documents by looking at them, not from statistics.
    pub(crate) async fn count(&self, names: &[String]) -> Result<u64, Error> {
        let mut total = 0;
        for name in names {
            total += self.collection(name).count_documents(doc! {}).await?;
        }
        Ok(total)
    }

    /// The sum of a field over a collection.
    pub(crate) async fn sum(&self, name: &str, field: &str) -> Result<i64, Error> {
        let stages = [doc! { "$group": { "_id": null, "total": { "$sum": format!("${field}") } } }];
        let mut cursor = self.collection(name).aggregate(stages).await?;
        if cursor.advance().await? {
            Ok(integer(&cursor.deserialize_current()?, "total").unwrap_or(0))
        } else {
            Ok(0)
        }
    }

    /// What the collections take, as the server says.
    pub(crate) async fn sizes(&self, names: &[String]) -> Sizes {
        let mut out = Sizes::default();
        let mut add = |field: fn(&mut Sizes) -> &mut Option<u64>, value: Option<i64>| {
            if let Some(value) = value.and_then(|value| u64::try_from(value).ok()) {
                *field(&mut out).get_or_insert(0) += value;
            }
        };
        for name in names {
            let Ok(stats) = self.database.run_command(doc! { "collStats": name }).await else {
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
}

/// A number of a reply, whichever numeric type the server chose.
pub(crate) fn integer(document: &Document, key: &str) -> Option<i64> {
    match document.get(key)? {
        Bson::Int32(value) => Some(i64::from(*value)),
        Bson::Int64(value) => Some(*value),
        Bson::Double(value) if value.is_finite() => Some(*value as i64),
        _ => None,
    }
}

/// The write concern asked for, in the driver's form.
fn write_concern(arguments: &RunArguments) -> Result<Option<WriteConcern>, LabError> {
    if arguments.write_concern.is_none() && arguments.journal.is_none() {
        return Ok(None);
    }
    let mut out = WriteConcern::default();
    out.journal = arguments.journal;
    out.w = arguments
        .write_concern
        .as_deref()
        .map(|text| match text.parse::<u32>() {
            Ok(nodes) => Acknowledgment::Nodes(nodes),
            Err(_) if text == "majority" => Acknowledgment::Majority,
            Err(_) => Acknowledgment::Custom(text.to_owned()),
        });
    if out.w == Some(Acknowledgment::Nodes(0)) {
        let reason = "write concern 0 is not acknowledged, so nothing could be counted".to_owned();
        return Err(LabError::Refused {
            what: "--write-concern 0".to_owned(),
            reason,
        });
    }
    Ok(Some(out))
}

/// `scheme://user:password@host` without the password; everything else is kept.
pub(crate) fn without_password(uri: &str) -> String {
    let Some((scheme, rest)) = uri.split_once("://") else {
        return uri.to_owned();
    };
    // The last @ before the path ends the user part: a password may hold one by mistake.
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    match authority.rsplit_once('@') {
        Some((user, host)) => {
            let name = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{name}:***@{host}{tail}")
        }
        None => uri.to_owned(),
    }
}

/// The driver's message without its inner structure, on one line.
pub(crate) fn one_line(error: &Error) -> String {
    let text = match error.kind.as_ref() {
        ErrorKind::ServerSelection { .. } => {
            "no server answered within the time for server selection".to_owned()
        }
        ErrorKind::Io(inner) => inner.to_string(),
        ErrorKind::InvalidArgument { message, .. } => message.clone(),
        ErrorKind::Command(inner) => {
            format!("{} ({} {})", inner.message, inner.code, inner.code_name)
        }
        other => other.to_string(),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_never_reach_a_report() {
        for (given, kept) in [
            ("mongodb://127.0.0.1:27017", "mongodb://127.0.0.1:27017"),
            (
                "mongodb://me:se:cret@h:1/db?x=1",
                "mongodb://me:***@h:1/db?x=1",
            ),
            ("mongodb://me:p@ss@h:1", "mongodb://me:***@h:1"),
            (
                "mongodb+srv://me:x@h/?a=b@c",
                "mongodb+srv://me:***@h/?a=b@c",
            ),
        ] {
            assert_eq!(without_password(given), kept);
        }
    }
}
