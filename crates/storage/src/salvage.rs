//! Reading what can be read of a damaged table. Promises: every row that the engine can show is
//! shown once, in order; what lies between is told as a gap. Must not know: what rows mean, which
//! engine is read.

use crate::engine::{CursorOpts, Engine};
use crate::error::{Result, StorageError};
use crate::keys::{KeyRange, Table};

/// Rows asked for at once.
const ROWS_MAX: usize = 1024;

/// A part of a table that cannot be read.
#[derive(Debug)]
pub struct Gap<'g> {
    /// The first key that may be in it.
    pub lower: &'g [u8],
    /// Every key in it is below this one.
    pub upper: &'g [u8],
    /// What the engine said.
    pub error: &'g StorageError,
}

/// Who is shown what was found.
pub trait Salvage {
    /// A row that can be read.
    ///
    /// # Errors
    /// Why not to go on.
    fn row(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// What cannot be read.
    ///
    /// # Errors
    /// Why not to go on.
    fn gap(&mut self, gap: &Gap<'_>) -> Result<()>;
}

/// Whether other parts may be readable when one fails so.
pub fn is_damage(error: &StorageError) -> bool {
    matches!(
        error,
        StorageError::Corrupt { .. } | StorageError::Io { .. }
    )
}

/// Shows what can be read of a range.
///
/// # Errors
/// Those of `to`; failures of the engine that are no damage.
pub fn salvage(
    engine: &dyn Engine,
    table: Table,
    range: KeyRange<'_>,
    to: &mut dyn Salvage,
) -> Result<()> {
    let mut reading = Reading {
        engine,
        table,
        at: range.lower.to_vec(),
        upper: range.upper,
    };
    while let Some(error) = reading.go_on(to)? {
        let left = KeyRange::new(&reading.at, reading.upper);
        let next = match first_key(engine, table, left) {
            // The key can be read and its value cannot.
            Ok(Some(mut key)) => {
                key.push(0);
                Some(key)
            }
            Ok(None) => return Ok(()),
            Err(e) if is_damage(&e) => engine.next_part(table, left)?,
            Err(e) => return Err(e),
        };
        let Some(next) = next.filter(|next| *next > reading.at) else {
            return read_back(engine, table, left, &error, to);
        };
        to.gap(&Gap {
            lower: &reading.at,
            upper: &next,
            error: &error,
        })?;
        reading.at = next;
    }
    Ok(())
}

/// A reader of a range.
struct Reading<'r> {
    engine: &'r dyn Engine,
    table: Table,
    /// The first key that is not read.
    at: Vec<u8>,
    upper: &'r [u8],
}

impl Reading<'_> {
    /// Shows rows; the damage that ends it.
    fn go_on(&mut self, to: &mut dyn Salvage) -> Result<Option<StorageError>> {
        let range = KeyRange::new(&self.at, self.upper);
        let opened = self.engine.cursor(self.table, range, scan(false, false));
        let mut cursor = match opened {
            Ok(cursor) => cursor,
            Err(e) if is_damage(&e) => return Ok(Some(e)),
            Err(e) => return Err(e),
        };
        loop {
            let mut told = Ok(());
            let at = &mut self.at;
            let more = cursor.visit(ROWS_MAX, &mut |key, value| {
                told = to.row(key, value);
                at.clear();
                at.extend_from_slice(key);
                at.push(0);
                told.is_ok()
            });
            told?;
            match more {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(e) if is_damage(&e) => return Ok(Some(e)),
                Err(e) => return Err(e),
            }
        }
    }
}

/// The first key of a range, whose value is not read.
fn first_key(engine: &dyn Engine, table: Table, range: KeyRange<'_>) -> Result<Option<Vec<u8>>> {
    let mut found = None;
    let mut cursor = engine.cursor(table, range, scan(true, false))?;
    cursor.visit(1, &mut |key, _| {
        found = Some(key.to_vec());
        false
    })?;
    Ok(found)
}

/// Of an engine that cannot say where its files can be read again: what is at the other end.
fn read_back(
    engine: &dyn Engine,
    table: Table,
    range: KeyRange<'_>,
    error: &StorageError,
    to: &mut dyn Salvage,
) -> Result<()> {
    let mut upper = range.upper.to_vec();
    let mut told = Ok(());
    let read = engine
        .cursor(table, range, scan(false, true))
        .and_then(|mut cursor| {
            let each = &mut |key: &[u8], value: &[u8]| {
                told = to.row(key, value);
                upper.clear();
                upper.extend_from_slice(key);
                told.is_ok()
            };
            while cursor.visit(ROWS_MAX, each)? {}
            Ok(())
        });
    told?;
    match read {
        Err(e) if !is_damage(&e) => Err(e),
        _ => to.gap(&Gap {
            lower: range.lower,
            upper: &upper,
            error,
        }),
    }
}

fn scan(keys_only: bool, reverse: bool) -> CursorOpts {
    CursorOpts {
        keys_only,
        reverse,
        fill_cache: false,
        ..CursorOpts::default()
    }
}
