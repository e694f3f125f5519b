//! Reads the readable rows of a damaged table. Promises: every row that the engine can show is
//! shown once, in order; each unreadable part between them is reported as a gap. Must not know:
//! what rows mean, which engine is read.

use crate::engine::{CursorOpts, Engine};
use crate::error::{Result, StorageError};
use crate::keys::{KeyRange, Table};

/// Rows read in one call.
const ROWS_MAX: usize = 1024;

/// A part of a table that cannot be read.
#[derive(Debug)]
pub struct Gap<'g> {
    /// The first key that may be in it.
    pub lower: &'g [u8],
    /// Every key in it is below this one.
    pub upper: &'g [u8],
    /// The error of the engine.
    pub error: &'g StorageError,
}

/// Receives the readable rows and the gaps.
pub trait Salvage {
    /// A row that can be read.
    ///
    /// # Errors
    /// A reason to stop.
    fn row(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// A part that cannot be read.
    ///
    /// # Errors
    /// A reason to stop.
    fn gap(&mut self, gap: &Gap<'_>) -> Result<()>;
}

/// Whether other parts of the table may be readable after this error.
pub fn is_damage(error: &StorageError) -> bool {
    matches!(
        error,
        StorageError::Corrupt { .. } | StorageError::Io { .. }
    )
}

/// Shows the readable rows of a range and its gaps.
///
/// # Errors
/// Those of `to`; engine failures other than damage.
pub fn salvage(
    engine: &dyn Engine,
    table: Table,
    range: KeyRange<'_>,
    to: &mut dyn Salvage,
) -> Result<()> {
    let mut reading = SalvageScan {
        engine,
        table,
        at: range.lower.to_vec(),
        upper: range.upper,
    };
    while let Some(error) = reading.go_on(to)? {
        let left = KeyRange::new(&reading.at, reading.upper);
        let next = match first_key(engine, table, left) {
            // The key can be read, but its value cannot.
            Ok(Some(mut key)) => {
                key.push(0);
                Some(key)
            }
            Ok(None) => return Ok(()),
            Err(e) if is_damage(&e) => engine.next_part(table, left)?,
            Err(e) => return Err(e),
        };
        let Some(next) = next.filter(|next| *next > reading.at) else {
            return read_backwards(engine, table, left, &error, to);
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

/// Reads a range and continues after damage.
struct SalvageScan<'r> {
    engine: &'r dyn Engine,
    table: Table,
    /// The first key that was not read yet.
    at: Vec<u8>,
    upper: &'r [u8],
}

impl SalvageScan<'_> {
    /// Shows rows up to the end of the range or to damage, which it returns.
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

/// The first key of a range; its value is not read.
fn first_key(engine: &dyn Engine, table: Table, range: KeyRange<'_>) -> Result<Option<Vec<u8>>> {
    let mut found = None;
    let mut cursor = engine.cursor(table, range, scan(true, false))?;
    cursor.visit(1, &mut |key, _| {
        found = Some(key.to_vec());
        false
    })?;
    Ok(found)
}

/// For an engine that cannot say where its files can be read again: reads the range backwards, from
/// its end to the damage.
fn read_backwards(
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
