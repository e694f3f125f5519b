//! What can be read of a data directory with damaged files, as a directory of its own. Promises:
//! the damaged files are not changed. Must not know: what the rows mean.

use super::aside::SalvageFolder;
use crate::failure::Failure;
use std::path::Path;
use storage::{Durability, Engine, Gap, KeyRange, Salvage, Table, WriteBatch};

/// The tables that are copied; scratch data mean nothing to another process.
const TABLES: [Table; 5] = [Table::Doc, Table::Idx, Table::Log, Table::Cap, Table::Meta];
/// Most bytes of rows applied in one batch.
const BATCH_BYTES: usize = 4 << 20;
/// Bytes of a key that a line shows.
const SHOWN_BYTES: usize = 24;

/// A range of a table that could not be read.
struct LostRange {
    table: Table,
    lower: Vec<u8>,
    upper: Vec<u8>,
}

/// Copies rows, and notes the ranges between them that cannot be read.
struct Copier<'c, 'a, 't> {
    target: &'c dyn Engine,
    apart: &'c mut SalvageFolder<'a>,
    table: Table,
    batch: WriteBatch,
    rows: u64,
    lost: &'t mut Vec<LostRange>,
    /// Ranges that cannot be read are reported.
    tells: bool,
}

impl Copier<'_, '_, '_> {
    fn write(&mut self) -> storage::Result<()> {
        self.target.apply(&self.batch, Durability::Buffered)?;
        self.batch.clear();
        Ok(())
    }
}

impl Salvage for Copier<'_, '_, '_> {
    fn row(&mut self, key: &[u8], value: &[u8]) -> storage::Result<()> {
        self.rows += 1;
        self.batch.put(self.table, key, value);
        match self.batch.byte_len() >= BATCH_BYTES {
            true => self.write(),
            false => Ok(()),
        }
    }

    fn gap(&mut self, gap: &Gap<'_>) -> storage::Result<()> {
        if self.tells {
            let (table, error) = (self.table.name(), crate::failure::with_cause(gap.error));
            let [from, to] = [gap.lower, gap.upper].map(format_key);
            self.apart.report(&format!(
                "table {table}: the rows from key {from} up to {to} cannot be read: {error}"
            ));
        }
        self.lost.push(LostRange {
            table: self.table,
            lower: gap.lower.to_vec(),
            upper: gap.upper.to_vec(),
        });
        Ok(())
    }
}

fn format_key(key: &[u8]) -> String {
    let digits = key.iter().take(SHOWN_BYTES);
    let text: String = digits.map(|byte| format!("{byte:02x}")).collect();
    match key.len() > SHOWN_BYTES {
        true => format!("{text}.."),
        false => text,
    }
}

/// Copies everything that can be read of `source` into `target`, which is empty. `scratch` is
/// created if single files of the source have to be read without its catalog of files.
pub(super) fn copy(
    source: &dyn Engine,
    target: &dyn Engine,
    scratch: &Path,
    apart: &mut SalvageFolder<'_>,
) -> Result<(), Failure> {
    let mut lost = Vec::new();
    for table in TABLES {
        let mut copier = Copier {
            target,
            apart,
            table,
            batch: WriteBatch::new(),
            rows: 0,
            lost: &mut lost,
            tells: true,
        };
        storage::salvage(source, table, KeyRange::ALL, &mut copier)?;
        copier.write()?;
        let (name, rows) = (table.name(), copier.rows);
        apart.report(&format!("table {name}: {rows} rows are read"));
    }
    if lost.is_empty() {
        return Ok(());
    }
    // Of an engine that is open to be read nothing more comes than this.
    let rest = match source.undamaged(scratch) {
        Ok(Some(rest)) => rest,
        Ok(None) => return Ok(()),
        Err(e) => {
            let cause = crate::failure::with_cause(&e);
            apart.report(&format!(
                "the undamaged files cannot be opened on their own: {cause}"
            ));
            return Ok(());
        }
    };
    for part in &lost {
        let mut again = Vec::new();
        let mut copier = Copier {
            target,
            apart,
            table: part.table,
            batch: WriteBatch::new(),
            rows: 0,
            lost: &mut again,
            tells: false,
        };
        let range = KeyRange::new(&part.lower, &part.upper);
        storage::salvage(rest.as_ref(), part.table, range, &mut copier)?;
        copier.write()?;
        let rows = copier.rows;
        if rows > 0 {
            let (name, from) = (part.table.name(), format_key(&part.lower));
            apart.report(&format!(
                "table {name}: {rows} rows from key {from} on come from other files and may be \
                 older than the lost rows"
            ));
        }
    }
    rest.close()?;
    Ok(())
}
