//! Scans of documents that are spread over parts. Promises: rows in the order of their keys; the
//! parts are read at the same time. Must not know: which part a key belongs to.

use std::cmp::Ordering;
use std::ops::Range;

use storage::emulate::RowRequest;
use storage::{Result, RowBatch};

use super::{View, next, scan_order};
use crate::cluster::Row;
use crate::layout::{PARTS, SCAN_ROWS};

impl View {
    /// Adds the rows of all parts. False when they are exhausted.
    pub(super) fn merge_parts(
        &self,
        wanted: &RowRequest<'_>,
        mut left: Vec<Range<Vec<u8>>>,
        rows: &mut RowBatch,
    ) -> Result<bool> {
        if left.is_empty() {
            return Ok(false);
        }
        loop {
            let limit = rows_of_each(wanted.rows_max.saturating_sub(rows.len()));
            let how = scan_order(wanted);
            let found = self.cluster.scan_each(self.ts()?, &left, limit, how)?;
            let end = self.common_end(wanted, &found, limit);
            for (key, row) in self.merge(wanted, found, end.as_deref())? {
                if !self.take(wanted, &key, row, rows)? {
                    return Ok(true);
                }
            }
            let Some(end) = end else {
                return Ok(false);
            };
            for (part, left) in (0..).zip(&mut left) {
                let row = self.layout.row_in_part(part, &end);
                if wanted.reverse {
                    left.end = row;
                } else {
                    left.start = next(row);
                }
            }
        }
    }

    /// The stored key up to which every part was read; `None` when all were read to their ends.
    fn common_end(
        &self,
        wanted: &RowRequest<'_>,
        found: &[Vec<Row>],
        limit: usize,
    ) -> Option<Vec<u8>> {
        let is_cut = |rows: &&Vec<Row>| rows.len() == limit;
        let last = found.iter().filter(is_cut).filter_map(|rows| rows.last());
        let last = last.map(|(key, _)| self.layout.stored_key(key));
        let end = if wanted.reverse {
            last.max()
        } else {
            last.min()
        };
        end.map(<[u8]>::to_vec)
    }

    /// The rows up to the common end, in order.
    fn merge(
        &self,
        wanted: &RowRequest<'_>,
        found: Vec<Vec<Row>>,
        end: Option<&[u8]>,
    ) -> Result<Vec<Row>> {
        let is_read = |row: &Row| {
            let order = end.map(|end| self.layout.stored_key(&row.0).cmp(end));
            let behind = if wanted.reverse {
                Ordering::Less
            } else {
                Ordering::Greater
            };
            order != Some(behind)
        };
        let mut merged: Vec<Row> = found.into_iter().flatten().filter(is_read).collect();
        merged.sort_unstable_by(|a, b| {
            let [a, b] = [a, b].map(|row| self.layout.stored_key(&row.0));
            a.cmp(b)
        });
        if wanted.reverse {
            merged.reverse();
        }
        if wanted.keys_only {
            self.read_buckets(&mut merged)?;
        }
        Ok(merged)
    }
}

/// How many rows of each part to ask for, when so many are wanted of all: some more than an even
/// share, because one part with less than its share would end the merge early.
fn rows_of_each(wanted: usize) -> usize {
    let even = wanted.div_ceil(usize::from(PARTS));
    let more = even + 2 * even.isqrt() + 1;
    more.min(wanted).clamp(1, SCAN_ROWS)
}
