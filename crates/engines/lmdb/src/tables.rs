//! The environment and its six databases, and access to single keys.

use heed::types::Bytes;
use heed::{Database, Env, RoTxn, RwTxn, WithoutTls};
use storage::{Result, Table};

use crate::error::classify;
use storage::emulate::long_keys::{find, place, replace_entry};

pub(crate) type ReadTxn<'e> = RoTxn<'e, WithoutTls>;

/// An open environment.
#[derive(Clone)]
pub(crate) struct Tables {
    pub(crate) env: Env<WithoutTls>,
    databases: [Database<Bytes, Bytes>; Table::ALL.len()],
}

impl Tables {
    /// Opens the databases, creating them if necessary.
    pub(crate) fn open(env: Env<WithoutTls>) -> Result<Tables> {
        let fail = |e| classify("opening", e);
        let mut txn = env.write_txn().map_err(fail)?;
        let mut databases = Vec::with_capacity(Table::ALL.len());
        for table in Table::ALL {
            let made = env.create_database::<Bytes, Bytes>(&mut txn, Some(table.name()));
            databases.push(made.map_err(fail)?);
        }
        let databases = <[Database<Bytes, Bytes>; Table::ALL.len()]>::try_from(databases)
            .map_err(|_| crate::error::corrupt("the number of tables"))?;
        // A new process does not need the scratch data of an earlier one.
        databases[Table::Tmp.index()]
            .clear(&mut txn)
            .map_err(fail)?;
        txn.commit().map_err(fail)?;
        Ok(Tables { env, databases })
    }

    /// Opens existing databases without writing.
    pub(crate) fn open_existing(env: Env<WithoutTls>) -> Result<Tables> {
        let fail = |e| classify("opening", e);
        let txn = env.read_txn().map_err(fail)?;
        let mut databases = Vec::with_capacity(Table::ALL.len());
        for table in Table::ALL {
            let found = env.open_database::<Bytes, Bytes>(&txn, Some(table.name()));
            let found = found.map_err(fail)?;
            databases.push(found.ok_or_else(|| crate::error::corrupt("a table is missing"))?);
        }
        let databases = <[Database<Bytes, Bytes>; Table::ALL.len()]>::try_from(databases)
            .map_err(|_| crate::error::corrupt("the number of tables"))?;
        // The commit keeps the handles open for later transactions.
        txn.commit().map_err(fail)?;
        Ok(Tables { env, databases })
    }

    /// The database of a table.
    pub(crate) fn database(&self, table: Table) -> Database<Bytes, Bytes> {
        self.databases[table.index()]
    }

    /// A read transaction on the latest state.
    pub(crate) fn read(&self) -> Result<ReadTxn<'_>> {
        self.env.read_txn().map_err(|e| classify("a read", e))
    }

    /// The value of a key in the state that `txn` sees.
    pub(crate) fn get<'t>(
        &self,
        txn: &'t RoTxn<'_, heed::AnyTls>,
        table: Table,
        key: &[u8],
    ) -> Result<Option<&'t [u8]>> {
        let (stored, rest) = place(key);
        if stored.is_empty() {
            return Ok(None);
        }
        let found = self.database(table).get(txn, stored);
        let found = found.map_err(|e| classify("a read", e))?;
        Ok(match rest {
            None => found,
            Some(rest) => found.and_then(|bucket| find(bucket, rest)),
        })
    }

    /// Sets a key, or removes it.
    pub(crate) fn set(
        &self,
        txn: &mut RwTxn<'_>,
        table: Table,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        let database = self.database(table);
        let fail = |e| classify("a write", e);
        let (stored, rest) = place(key);
        let Some(rest) = rest else {
            return match value {
                Some(value) => database.put(txn, stored, value),
                None => database.delete(txn, stored).map(|_| ()),
            }
            .map_err(fail);
        };
        let bucket = database.get(txn, stored).map_err(fail)?;
        let bucket = replace_entry(bucket.unwrap_or_default(), rest, value);
        self.set_bucket(txn, table, stored, &bucket)
    }

    /// Writes a bucket; an empty bucket is deleted.
    pub(crate) fn set_bucket(
        &self,
        txn: &mut RwTxn<'_>,
        table: Table,
        stored: &[u8],
        bucket: &[u8],
    ) -> Result<()> {
        let database = self.database(table);
        if bucket.is_empty() {
            database.delete(txn, stored).map(|_| ())
        } else {
            database.put(txn, stored, bucket)
        }
        .map_err(|e| classify("a write", e))
    }

    /// Number of the newest commit that a read begun now sees.
    pub(crate) fn last_commit(&self) -> u64 {
        self.env.info().last_txn_id as u64
    }
}
