//! Answers by reading rows: whether they are in order, and how much space a range takes.

use crate::engine::{CursorOpts, Reader, VerifyReport};
use crate::error::Result;
use crate::keys::{KeyRange, Table};

/// Number of rows after which the size of a range is estimated.
const SIZE_ROWS: usize = 10_000;
const ROWS_AT_ONCE: usize = 1024;

/// Reads everything and checks the order of keys, for engines without checksums.
///
/// # Errors
/// Those of the engine.
pub fn check_order(reader: &dyn Reader) -> Result<VerifyReport> {
    let mut verified = VerifyReport::default();
    for table in Table::ALL {
        let mut before: Vec<u8> = Vec::new();
        let opts = CursorOpts {
            fill_cache: false,
            ..CursorOpts::default()
        };
        let mut cursor = reader.cursor(table, KeyRange::ALL, opts)?;
        while cursor.visit(ROWS_AT_ONCE, &mut |key, value| {
            verified.bytes += (key.len() + value.len()) as u64;
            if key <= before.as_slice() {
                let name = table.name();
                let finding = format!("{name}: key {key:02x?} stands behind a larger one");
                verified.findings.push(finding);
            }
            before.clear();
            before.extend_from_slice(key);
            true
        })? {}
    }
    Ok(verified)
}

/// Bytes of a range: counted while it is short, otherwise estimated from its first rows and its
/// last key. `row_overhead_bytes` is what the engine stores in addition to key and value.
///
/// # Errors
/// Those of the engine.
pub fn sampled_size(
    reader: &dyn Reader,
    table: Table,
    range: KeyRange<'_>,
    row_overhead_bytes: u64,
) -> Result<u64> {
    let (mut rows, mut bytes, mut last) = (0, 0u64, Vec::new());
    let mut cursor = reader.cursor(table, range, CursorOpts::default())?;
    let more = cursor.visit(SIZE_ROWS, &mut |key, value| {
        rows += 1;
        bytes += (key.len() + value.len()) as u64 + row_overhead_bytes;
        if rows == SIZE_ROWS {
            last = key.to_vec();
        }
        true
    })?;
    if !more {
        return Ok(bytes);
    }
    let opts = CursorOpts {
        reverse: true,
        keys_only: true,
        limit_hint: 1,
        ..CursorOpts::default()
    };
    let mut end = Vec::new();
    reader.cursor(table, range, opts)?.visit(1, &mut |key, _| {
        end = key.to_vec();
        false
    })?;
    Ok(extrapolate_bytes(bytes, range.lower, &last, &end).max(bytes))
}

/// The bytes of a whole range, estimated from those up to `last`: keys are assumed to be spread
/// evenly between the first and `end`.
fn extrapolate_bytes(bytes: u64, lower: &[u8], last: &[u8], end: &[u8]) -> u64 {
    let same = last.iter().zip(end).take_while(|(a, b)| a == b).count();
    let word = |key: &[u8]| {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(key.iter().skip(same)) {
            *to = *from;
        }
        u64::from_be_bytes(word) as f64
    };
    let first = if lower.len() > same && lower[..same] == last[..same] {
        word(lower)
    } else {
        0.0
    };
    let part = (word(last) - first) / (word(end) - first).max(1.0);
    (bytes as f64 / part.clamp(1e-6, 1.0)) as u64
}
