//! Reads the manifest before RocksDB does. RocksDB treats a record whose length reaches beyond the
//! end of the file as truncated by a crash, and opens without it and all later records, so a single
//! flipped bit would lose tables. Promises: such a directory is refused; one with a truncated
//! record is not. Must not know: the content of a record.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use cipher::{DataKey, PieceReader};
use storage::{Result, StorageError};

use crate::frame::{self, BLOCK, HEADER, Source};

/// RocksDB's file that names the manifest.
const CURRENT: &str = "CURRENT";

/// Fails when a record of the manifest was changed in a way that RocksDB takes for the end of the
/// file.
///
/// # Errors
/// [`StorageError::Corrupt`], [`StorageError::Io`]
pub(crate) fn examine(directory: &Path, data: Option<&DataKey>) -> Result<()> {
    let path = directory.join(CURRENT);
    let fail = |error| StorageError::io(format!("cannot read {}", path.display()), error);
    // RocksDB reports other defects of these files itself.
    let Some(name) = read_name(&path, data).map_err(fail)? else {
        return Ok(());
    };
    let path = directory.join(&name);
    let fail = |error| StorageError::io(format!("cannot read {}", path.display()), error);
    let changed = match Source::open(&path, data) {
        Ok(Source::Plain(file)) => find_in_plain(file).map_err(fail)?,
        Ok(Source::Sealed(pieces)) => find_in_sealed(*pieces).map_err(fail)?,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => None,
        Err(e) => return Err(fail(e)),
    };
    match changed {
        None => Ok(()),
        Some(at) => Err(StorageError::Corrupt {
            context: format!("file {name} at byte {at}, a record was changed"),
            source: None,
        }),
    }
}

/// The manifest's name.
fn read_name(path: &Path, data: Option<&DataKey>) -> std::io::Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut name = Vec::new();
    let read = match data {
        // The file is renamed to this name when it is complete, so its name is not authenticated.
        Some(data) => PieceReader::new(file, data, b"").and_then(|mut p| p.read_to_end(&mut name)),
        None => file.take(BLOCK as u64).read_to_end(&mut name),
    };
    match read {
        Err(e) if e.kind() == ErrorKind::InvalidData => return Ok(None),
        read => read?,
    };
    let name = String::from_utf8(name).unwrap_or_default();
    let is_name = name.starts_with("MANIFEST-") && !name.contains('/');
    Ok(is_name.then(|| name.trim_end().to_owned()))
}

/// Where a record with a changed header begins.
fn find_in_plain(mut file: File) -> std::io::Result<Option<u64>> {
    let (mut block, mut at) = (Vec::with_capacity(BLOCK), 0);
    loop {
        block.clear();
        Read::by_ref(&mut file)
            .take(BLOCK as u64)
            .read_to_end(&mut block)?;
        let mut next = 0;
        // The writer fills the end of a block that is too short for a header.
        while block.len() - next >= HEADER {
            let Some(fragment) = frame::fragment(&block, next) else {
                let is_changed = frame::has_changed_header(&block[next..]);
                return Ok(is_changed.then_some(at + next as u64));
            };
            next = fragment.to;
        }
        if block.len() < BLOCK {
            return Ok(None);
        }
        at += BLOCK as u64;
    }
}

/// Where a changed piece begins. RocksDB would take the bytes before it for the whole file, because
/// they are fewer than a block.
fn find_in_sealed(mut pieces: PieceReader) -> std::io::Result<Option<u64>> {
    std::io::copy(&mut pieces, &mut std::io::sink())?;
    Ok(pieces.is_changed()?.then(|| pieces.end()))
}
