//! Scans of documents that are spread over parts. Promises: rows in the order of their keys; the
//! parts are read at the same time. Must not know: which part a key belongs to.

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
        while !left.is_empty() {
            let limit = rows_of_each(wanted.rows_max.saturating_sub(rows.len()));
            let ts = self.ts()?;
            let mut found = self
                .cluster
                .scan_each(ts, &left, limit, scan_order(wanted))?;
            let end = self.common_end(wanted, &found, limit);
            for row in self.merge(wanted, &mut found, end.as_deref())? {
                if !self.take(wanted, &row.0, row.1, rows)? {
                    return Ok(true);
                }
            }
            let Some(end) = end else {
                break;
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
        Ok(false)
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
        found: &mut Vec<Vec<Row>>,
        end: Option<&[u8]>,
    ) -> Result<Vec<Row>> {
        let is_read = |row: &Row| {
            let stored = self.layout.stored_key(&row.0);
            end.is_none_or(|end| {
                if wanted.reverse {
                    stored >= end
                } else {
                    stored <= end
                }
            })
        };
        let mut merged: Vec<Row> = found.drain(..).flatten().filter(is_read).collect();
        merged.sort_unstable_by(|a, b| {
            let order = self
                .layout
                .stored_key(&a.0)
                .cmp(self.layout.stored_key(&b.0));
            if wanted.reverse {
                order.reverse()
            } else {
                order
            }
        });
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
