//! Copies every key of one engine into another, and computes what an engine holds. Promises: an
//! interrupted copy continues behind the last key that is durable. Must not know: where the engines
//! lie, which engines they are.

use storage::{
    CursorOpts, Durability, Engine, IDENT_BYTES, KeyRange, MAX_KEY, Reader, Result, Table,
    WriteBatch,
};

/// The tables to copy, in this order. Scratch data means nothing to another process. `Meta` comes
/// last because it gives the other tables their meaning.
pub(super) const TABLES: [Table; 5] = [Table::Doc, Table::Idx, Table::Log, Table::Cap, Table::Meta];

/// Most bytes applied in one batch.
const BATCH_BYTES: usize = 4 << 20;
/// Bytes after which the copy is made durable, so that they need not be copied again.
const DURABLE_BYTES: usize = 16 << 20;
/// Most rows visited between two reports of progress.
const ROWS_MAX: usize = 1024;

/// The progress of a copy: every key up to this one is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Position {
    /// Index in [`TABLES`].
    pub(super) table: usize,
    /// The last key; empty before the first.
    pub(super) key: Vec<u8>,
}

impl Position {
    /// Before everything.
    pub(super) const START: Position = Position {
        table: 0,
        key: Vec::new(),
    };
}

/// Receives the progress of a copy, and can stop it.
pub(super) trait Progress {
    /// The reason to stop.
    type Stop: From<storage::StorageError>;
    /// Rows and bytes that were read or written since the last call.
    fn add_progress(&mut self, table: Table, rows: u64, bytes: u64);
    /// Everything up to here need not be copied again.
    fn durable(&mut self, at: &Position) -> std::result::Result<(), Self::Stop>;
}

/// Copies what lies behind `from`.
///
/// # Errors
/// Those of both engines, and of `progress`.
pub(super) fn copy<P: Progress>(
    source: &dyn Reader,
    target: &dyn Engine,
    from: &Position,
    progress: &mut P,
) -> std::result::Result<(), P::Stop> {
    let mut at = from.clone();
    while let Some(&table) = TABLES.get(at.table) {
        copy_table(source, target, table, &mut at, progress)?;
        at = Position {
            table: at.table + 1,
            key: Vec::new(),
        };
        progress.durable(&at)?;
    }
    Ok(())
}

fn copy_table<P: Progress>(
    source: &dyn Reader,
    target: &dyn Engine,
    table: Table,
    at: &mut Position,
    progress: &mut P,
) -> std::result::Result<(), P::Stop> {
    let mut lower = at.key.clone();
    if !lower.is_empty() {
        lower.push(0);
    }
    let mut cursor = source.cursor(table, KeyRange::new(&lower, MAX_KEY), scan())?;
    let (mut batch, mut pending) = (WriteBatch::new(), 0);
    loop {
        let mut rows = 0u64;
        let more = cursor.visit(ROWS_MAX, &mut |key, value| {
            batch.put(table, key, value);
            rows += 1;
            at.key.clear();
            at.key.extend_from_slice(key);
            batch.byte_len() < BATCH_BYTES
        })?;
        if batch.byte_len() >= BATCH_BYTES || !more {
            let bytes = batch.byte_len();
            progress.add_progress(table, batch.len() as u64, bytes as u64);
            pending += bytes;
            if !batch.is_empty() {
                let pos = target.apply(&batch, Durability::Buffered)?;
                if pending >= DURABLE_BYTES || !more {
                    target.wait_durable(pos)?;
                    pending = 0;
                    progress.durable(at)?;
                }
            }
            batch.clear();
        }
        if !more {
            return Ok(());
        }
        debug_assert!(rows > 0, "a cursor that has more shows a row");
    }
}

fn scan() -> CursorOpts {
    CursorOpts {
        fill_cache: false,
        ..CursorOpts::default()
    }
}

/// What one key space holds: the keys of a collection or an index, or all of `Meta`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digest {
    pub(super) table: Table,
    /// The collection or index; 0 for `Meta`.
    pub(super) ident: u32,
    pub(super) rows: u64,
    /// Total length of keys and values.
    pub(super) bytes: u64,
    /// CRC-32C over every key and value with their lengths, in order.
    pub(super) checksum: u32,
}

impl Digest {
    fn new(table: Table, ident: u32) -> Digest {
        Digest {
            table,
            ident,
            rows: 0,
            bytes: 0,
            checksum: 0,
        }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.rows += 1;
        self.bytes += (key.len() + value.len()) as u64;
        for part in [key, value] {
            let length = (part.len() as u64).to_le_bytes();
            self.checksum = crc32c::crc32c_append(self.checksum, &length);
            self.checksum = crc32c::crc32c_append(self.checksum, part);
        }
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rows, bytes, checksum) = (self.rows, self.bytes, self.checksum);
        write!(f, "{rows} rows, {bytes} bytes, checksum {checksum:08x}")
    }
}

/// The digest of every key space of an engine, in order.
///
/// # Errors
/// Those of the engine.
pub(super) fn digests(
    reader: &dyn Reader,
    moved: &mut dyn FnMut(Table, u64, u64),
) -> Result<Vec<Digest>> {
    let mut all: Vec<Digest> = Vec::new();
    for table in TABLES {
        let mut cursor = reader.cursor(table, KeyRange::ALL, scan())?;
        loop {
            let (mut rows, mut bytes) = (0, 0);
            let more = cursor.visit(ROWS_MAX, &mut |key, value| {
                let ident = ident_of(table, key);
                match all.last_mut() {
                    Some(d) if d.table == table && d.ident == ident => d.add(key, value),
                    _ => {
                        let mut d = Digest::new(table, ident);
                        d.add(key, value);
                        all.push(d);
                    }
                }
                rows += 1;
                bytes += (key.len() + value.len()) as u64;
                true
            })?;
            moved(table, rows, bytes);
            if !more {
                break;
            }
        }
    }
    Ok(all)
}

fn ident_of(table: Table, key: &[u8]) -> u32 {
    match key.first_chunk::<IDENT_BYTES>() {
        Some(ident) if table != Table::Meta => u32::from_be_bytes(*ident),
        _ => 0,
    }
}

/// The first key space in which two engines differ, in words.
pub(super) fn difference(source: &[Digest], target: &[Digest]) -> Option<String> {
    let place = |d: &Digest| match d.table {
        Table::Meta => d.table.name().to_owned(),
        _ => format!("{} {}", d.table.name(), d.ident),
    };
    let find = |of: &[Digest], d: &Digest| {
        let same = |o: &&Digest| (o.table, o.ident) == (d.table, d.ident);
        of.iter().find(same).copied()
    };
    for wanted in source {
        let found = find(target, wanted).unwrap_or(Digest::new(wanted.table, wanted.ident));
        if found != *wanted {
            let place = place(wanted);
            return Some(format!("{place}: source {wanted}; target {found}"));
        }
    }
    let more = target.iter().find(|d| find(source, d).is_none())?;
    Some(format!("{}: source nothing; target {more}", place(more)))
}
