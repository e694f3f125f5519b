//! The reads that decide a write of documents: through the unit that commits it, or through the
//! view of the transaction. Promises: no read that decides a write bypasses the unit. Must not
//! know: what is decided.

use crate::error;
use crate::index::Index;
use crate::write::transaction::Transaction;
use model::Result;
use operation::Operation;
use storage::{Reader, Table, Unit};

/// Begun after the keys that are read were locked.
pub(crate) enum WriteReader<'r> {
    Unit(Unit<'r>),
    Transaction(&'r Transaction, &'r Operation),
}

impl<'r> WriteReader<'r> {
    /// The unit to commit; `None` for a transaction, which commits later.
    pub(crate) fn into_unit(self) -> Option<Unit<'r>> {
        match self {
            WriteReader::Unit(unit) => Some(unit),
            WriteReader::Transaction(..) => None,
        }
    }

    pub(crate) fn is_transaction(&self) -> bool {
        matches!(self, WriteReader::Transaction(..))
    }

    /// Whether another process, which does not know our locks, may write the locked keys.
    pub(crate) fn is_checked(&self) -> bool {
        matches!(self, WriteReader::Unit(unit) if unit.is_checked())
    }

    /// Appends the value of a locked key; false when there is none.
    ///
    /// # Errors
    /// 112 WriteConflict when this is a transaction and the key has changed since it began; engine
    /// failures.
    pub(crate) fn get(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        match self {
            WriteReader::Transaction(transaction, operation) => {
                transaction.read_claimed(operation, table, key, out)
            }
            WriteReader::Unit(unit) => unit
                .get_with(table, key, &mut |value| out.extend_from_slice(value))
                .map_err(error::storage),
        }
    }

    /// Whether a locked key has a value.
    ///
    /// # Errors
    /// As [`WriteReader::get`].
    pub(crate) fn exists(&self, table: Table, key: &[u8]) -> Result<bool> {
        match self {
            WriteReader::Transaction(transaction, operation) => {
                transaction.read_claimed(operation, table, key, &mut Vec::new())
            }
            WriteReader::Unit(unit) => unit
                .get_with(table, key, &mut |_| {})
                .map_err(error::storage),
        }
    }

    /// Passes the values of locked keys to `each`, once for each key, in their order. One call to
    /// the engine.
    ///
    /// # Errors
    /// As [`WriteReader::get`].
    pub(crate) fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        match (self, keys) {
            (WriteReader::Transaction(transaction, operation), _) => {
                let mut value = Vec::new();
                for (n, key) in keys.iter().enumerate() {
                    value.clear();
                    let found = transaction.read_claimed(operation, table, key, &mut value)?;
                    each(n, found.then_some(value.as_slice()));
                }
                Ok(())
            }
            (WriteReader::Unit(unit), [key]) => {
                let found = unit.get_with(table, key, &mut |value| each(0, Some(value)));
                if !found.map_err(error::storage)? {
                    each(0, None);
                }
                Ok(())
            }
            (WriteReader::Unit(unit), _) => {
                unit.multi_get(table, keys, each).map_err(error::storage)
            }
        }
    }

    /// Whether the entry of a unique index belongs to the document with this id.
    ///
    /// # Errors
    /// As [`WriteReader::get`].
    pub(crate) fn owns_entry(&self, index: &Index, entry: &[u8], id: &[u8]) -> Result<bool> {
        let mut value = Vec::new();
        Ok(self.get(Table::Idx, entry, &mut value)? && index.is_owned_by(&value, id))
    }
}
