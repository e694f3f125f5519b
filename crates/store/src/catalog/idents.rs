//! Identifiers of collections and indexes. Promises: none is given twice, not even after a crash: a
//! block of them is reserved on disk before the first is used. A process that shares its engine
//! with others reserves its own blocks (ADR 0017). Must not know: what an identifier is for.

use crate::commit::{WriteUnit, commit};
use crate::error;
use crate::format::meta;
use model::{MongoError, Result};
use parking_lot::Mutex;
use storage::{Engine, Reader, SPREAD, Table, WriteBatch};

/// Identifiers reserved on disk at a time.
const BLOCK: u32 = 1024;

/// The identifiers that this process may give.
pub(crate) struct Idents {
    /// This process has given the identifiers from here on.
    pub(crate) first: u32,
    reserved: Mutex<ReservedIdents>,
}

struct ReservedIdents {
    next: u32,
    /// Identifiers below this are reserved on disk.
    mark: u32,
}

impl Idents {
    /// Begins after the identifiers that were reserved before.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn open(engine: &dyn Engine) -> Result<Idents> {
        let mut buf = Vec::new();
        let found = engine
            .get(Table::Meta, meta::IDENT_MARK, &mut buf)
            .map_err(error::storage)?;
        let mark = buf
            .first_chunk::<4>()
            .filter(|_| found)
            .map_or(1, |b| u32::from_be_bytes(*b));
        Ok(Idents {
            first: mark,
            reserved: Mutex::new(ReservedIdents { next: mark, mark }),
        })
    }

    /// A number that was never used before.
    ///
    /// # Errors
    /// Engine failures; 1 InternalError when all are used up.
    pub(crate) fn next(&self, engine: &dyn Engine) -> Result<u32> {
        let mut reserved = self.reserved.lock();
        while reserved.next >= reserved.mark {
            match reserve(engine, reserved.next) {
                // Another process has reserved a block.
                Err(e) if error::is_conflict(&e) => {}
                block => *reserved = block?,
            }
        }
        let ident = reserved.next;
        reserved.next += 1;
        Ok(ident)
    }
}

/// Reserves a block of identifiers from `least` on that no process has reserved.
fn reserve(engine: &dyn Engine, least: u32) -> Result<ReservedIdents> {
    let unit = engine.begin().map_err(error::storage)?;
    let mut next = least;
    let others = &mut |mark: &[u8]| {
        let mark = mark.first_chunk::<4>().map(|b| u32::from_be_bytes(*b));
        next = next.max(mark.unwrap_or(0));
    };
    unit.get_with(Table::Meta, meta::IDENT_MARK, others)
        .map_err(error::storage)?;
    let mark = next.checked_add(BLOCK).filter(|m| *m < SPREAD);
    let mark =
        mark.ok_or_else(|| MongoError::internal("all collection identifiers are used up"))?;
    let mut batch = WriteBatch::new();
    batch.put(Table::Meta, meta::IDENT_MARK, &mark.to_be_bytes());
    // Not synced: a user of the identifier writes to the same journal later.
    commit(engine, WriteUnit::new(&batch).commit_through(Some(unit)))?;
    Ok(ReservedIdents { next, mark })
}
