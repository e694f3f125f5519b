//! A target without a server: it runs the calls of a workload on an engine in this process.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use super::directory::{ENGINE_DATA, OwnDirectory};
use super::encode;
use super::session::KvSession;
use super::tables::{KvIndex, KvTables, STRIPES, space_of};
use crate::engine::{Counters, EngineError, EngineSession, KeyChange, LabEngine};
use crate::result::{Sizes, TargetFacts};
use crate::row::contents::Contents;
use crate::row::{Key, Value};
use crate::target::{SettleResult, Table, Target, TargetError, TargetInfo};
use crate::workload::{Capability, Index};

/// Changes in one batch outside measured calls.
const CHUNK: usize = 1_000;

/// A target over an engine in this process.
#[derive(Clone)]
pub struct KvTarget(Arc<KvTables>);

impl KvTarget {
    /// A target on `engine`, whose files are below `directory`.
    pub fn new(
        engine: Box<dyn LabEngine>,
        tables: Vec<Table>,
        directory: OwnDirectory,
        address: String,
        durability: String,
    ) -> Self {
        Self(Arc::new(KvTables {
            engine,
            contents: tables.iter().map(Contents::of).collect(),
            tables,
            indexes: RwLock::default(),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            next_id: AtomicI64::new(1),
            directory,
            address,
            durability,
            counted: Mutex::default(),
        }))
    }

    fn engine_session(&self) -> Result<Box<dyn EngineSession>, TargetError> {
        let refused = |error: EngineError| TargetError::Refused {
            what: "a session".to_owned(),
            reason: error.to_string(),
        };
        self.0.engine.session().map_err(refused)
    }

    fn for_each_row(&self, mut see: impl FnMut(usize, &[u8], &[u8])) -> Result<(), String> {
        let mut session = self.0.engine.session().map_err(|error| error.to_string())?;
        for table in 0..self.0.tables.len() {
            let (from, end) = (encode::prefix(table, 0), encode::prefix_end(table, 0));
            session
                .scan(&from, &end, false, &mut |key, row| {
                    see(table, key, row);
                    true
                })
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Deletes every key in `from..end`.
    fn clear(&self, from: &[u8], end: &[u8]) -> Result<(), TargetError> {
        let refused = |error: EngineError| TargetError::Refused {
            what: "to delete".to_owned(),
            reason: error.to_string(),
        };
        let mut session = self.engine_session()?;
        // Each scan begins after the deleted keys, because a scan in a merge tree passes over all
        // tombstones.
        let mut from = from.to_vec();
        loop {
            let mut batch = Vec::with_capacity(CHUNK);
            session
                .scan(&from, end, false, &mut |key, _| {
                    batch.push(KeyChange::Delete(key.to_vec()));
                    batch.len() < CHUNK
                })
                .map_err(refused)?;
            if batch.is_empty() {
                return Ok(());
            }
            if let Some(KeyChange::Delete(last)) = batch.last() {
                from.clone_from(last);
                from.push(0);
            }
            session.write(&batch, false).map_err(refused)?;
        }
    }
}

/// The engine's settings for the result.
fn describe_settings(settings: &std::collections::BTreeMap<String, String>) -> serde_json::Value {
    if settings.is_empty() {
        serde_json::Value::Null
    } else {
        serde_json::json!({ "configuration": settings })
    }
}

impl Target for KvTarget {
    type Session = KvSession;

    async fn inspect(&self) -> TargetInfo {
        let pid = std::process::id();
        let path = self.0.directory.path().join(ENGINE_DATA);
        let path = path.canonicalize().ok();
        TargetInfo {
            facts: TargetFacts {
                uri: self.0.address.clone(),
                product: self.0.engine.name(),
                version: "in the process of the lab".to_owned(),
                storage_engine: None,
                pid: Some(pid),
                not_watched_because: None,
                watched: None,
                data_directory: path.as_ref().map(|path| path.display().to_string()),
                device: None,
                write_concern: self.0.durability.clone(),
                is_flushed: Some(self.0.durability == "sync"),
                build: None,
                options: std::collections::BTreeMap::new(),
                build_info: describe_settings(&self.0.engine.configuration()),
            },
            pid: Some(pid),
            data: path,
        }
    }

    fn unsupported(&self) -> &'static [Capability] {
        self.0.engine.unsupported()
    }

    async fn prepare(&self) -> Result<(), TargetError> {
        // The directory was emptied before the engine was opened.
        Ok(())
    }

    fn attach(&self, indexes: &[Index]) {
        let fields = self.0.tables.first().map(|table| table.kind.fields());
        let positions = |index: &Index| KvIndex {
            fields: index
                .keys
                .iter()
                .filter_map(|key| {
                    let fields = fields.as_ref()?;
                    fields.iter().position(|(name, _)| name == key)
                })
                .collect(),
            unique: index.unique,
        };
        let mut known = self
            .0
            .indexes
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *known = indexes.iter().map(positions).collect();
    }

    async fn create_indexes(&self, indexes: &[Index]) -> Result<(), TargetError> {
        self.attach(indexes);
        let refused = |error: EngineError| TargetError::Refused {
            what: "to build an index".to_owned(),
            reason: error.to_string(),
        };
        let mut session = self.engine_session()?;
        let mut batch: Vec<KeyChange> = Vec::new();
        let mut failed = None;
        let walked = self.for_each_row(|table, key, row| {
            let Some(values) = encode::decode(row) else {
                return;
            };
            let id = key
                .get(encode::prefix(table, 0).len()..)
                .unwrap_or_default();
            let entries = self.0.entries(table, id, &values);
            batch.extend(
                entries
                    .into_iter()
                    .map(|key| KeyChange::Put(key, Vec::new())),
            );
            if batch.len() >= CHUNK && failed.is_none() {
                failed = session.write(&batch, false).err();
                batch.clear();
            }
        });
        walked.map_err(|reason| refused(EngineError(reason)))?;
        if let Some(error) = failed {
            return Err(refused(error));
        }
        session.write(&batch, false).map_err(refused)
    }

    async fn create_extra_table(&self, number: u32) -> Result<(), TargetError> {
        // In an ordered engine a table is only a prefix, so that only its row and its index entry
        // are stored.
        let table = self.0.tables.len() + number as usize;
        let id = Key::Number(1);
        let mut entry = encode::prefix(table, 1);
        encode::push_id(&mut entry, &id);
        let row = encode::encode(&[("k", Value::Int(0))]);
        let batch = [
            KeyChange::Put(encode::row_key(table, &id), row),
            KeyChange::Put(entry, Vec::new()),
        ];
        let written = self.engine_session()?.write(&batch, false);
        written.map_err(|error| TargetError::Refused {
            what: format!("table {number}"),
            reason: error.to_string(),
        })
    }

    async fn session(&self, sync: bool) -> Result<KvSession, TargetError> {
        Ok(KvSession::new(self.0.clone(), self.engine_session()?, sync))
    }

    async fn count(&self) -> Result<u64, String> {
        let mut rows = 0;
        self.for_each_row(|_, _, _| rows += 1)?;
        Ok(rows)
    }

    async fn sum_of_k(&self) -> Result<i64, String> {
        let mut sum: i64 = 0;
        self.for_each_row(|_, _, row| {
            sum = sum.wrapping_add(encode::counter(row).unwrap_or(0));
        })?;
        Ok(sum)
    }

    async fn delete_above(&self, table: usize, number: i64) -> Result<(), TargetError> {
        let from = encode::row_key(table, &Key::Number(number.saturating_add(1)));
        self.clear(&from, &encode::prefix_end(table, 0))?;
        // The index entries of the deleted rows are still there, so the indexes of the table are
        // rebuilt.
        let indexes = self.0.indexes.read().map_or(0, |indexes| indexes.len());
        if indexes == 0 {
            return Ok(());
        }
        for index in 0..indexes {
            let space = space_of(index);
            let (from, end) = (
                encode::prefix(table, space),
                encode::prefix_end(table, space),
            );
            self.clear(&from, &end)?;
        }
        let kind = self.0.tables.first().map(|table| table.kind);
        let fields = kind
            .map(crate::row::DocumentKind::fields)
            .unwrap_or_default();
        let known: Vec<Index> = {
            let known = self
                .0
                .indexes
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            let name = |at: &usize| fields.get(*at).map(|(name, _)| (*name).to_owned());
            known
                .iter()
                .map(|index| Index {
                    keys: index.fields.iter().filter_map(name).collect(),
                    unique: index.unique,
                    ..Index::default()
                })
                .collect()
        };
        self.create_indexes(&known).await
    }

    async fn sizes(&self) -> Sizes {
        Sizes::default()
    }

    async fn settle(&self, timeout: Duration) -> SettleResult {
        self.0.engine.settle(timeout)
    }

    async fn statistics(&self) -> serde_json::Value {
        let mut out = self.0.engine.statistics();
        let Some(map) = out.as_object_mut() else {
            return out;
        };
        let now = self.0.engine.counters();
        if let Some(debt) = now.debt_bytes {
            map.insert("debt_bytes".to_owned(), debt.into());
        }
        if now == Counters::default() {
            return out;
        }
        let mut counted = self
            .0
            .counted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let since = now.delta_since(&std::mem::replace(&mut counted, now));
        map.insert("counters".to_owned(), now.json());
        map.insert("counters_since_last".to_owned(), since.json());
        out
    }

    async fn drop_tables(&self) -> Result<(), TargetError> {
        let end = encode::prefix(usize::MAX, u8::MAX);
        self.clear(&[], &end)
    }
}
