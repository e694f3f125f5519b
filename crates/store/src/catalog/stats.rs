//! The sizes of a collection, for collStats. Promises: sizes on the device are estimates of the
//! engine. Must not know: who asks.

use crate::catalog::Collection;
use crate::error;
use model::Result;
use storage::{CursorOpts, KeyRange, Table};

/// Number of documents that are read to estimate the share of their keys.
const SHARE_ROWS: usize = 32;

/// Sizes for collStats.
#[derive(Clone, Debug, Default)]
pub struct CollStats {
    /// Number of documents.
    pub count: i64,
    /// Bytes of the documents' BSON.
    pub size_bytes: i64,
    /// Estimated bytes of the documents on the device, without their keys.
    pub storage_bytes: u64,
    /// Estimated bytes on the device that hold no live data.
    pub unused_bytes: u64,
    /// Estimated bytes of the documents' keys, which are the index `_id_`.
    pub id_bytes: u64,
    /// Estimated bytes of each other index on the device.
    pub index_bytes: Vec<(String, u64)>,
}

impl CollStats {
    /// Bytes of all indexes.
    pub fn all_index_bytes(&self) -> u64 {
        let others = self.index_bytes.iter();
        others.fold(self.id_bytes, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

impl Collection {
    /// Sizes.
    ///
    /// # Errors
    /// Engine failures.
    pub fn stats(&self) -> Result<CollStats> {
        let engine = &self.shared.engine;
        let size = |table, ident: u32| {
            let (lower, upper) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
            engine
                .approx_size(
                    table,
                    KeyRange {
                        lower: &lower,
                        upper: &upper,
                    },
                )
                .map_err(error::storage)
        };
        let mut stats = CollStats {
            count: self.count() as i64,
            size_bytes: self.size_bytes() as i64,
            ..CollStats::default()
        };
        if self.is_log() {
            stats.storage_bytes = size(Table::Log, self.ident)?;
        } else if !self.is_view() {
            let all = size(Table::Doc, self.ident)?;
            // Buckets are not found by ids, and a clustered collection has no index of its own.
            if !self.is_series() && !self.options().doc().contains("clusteredIndex") {
                stats.id_bytes = self.id_share(all)?;
            }
            stats.storage_bytes = all - stats.id_bytes;
            let (lower, upper) = self.key_bounds();
            let range = KeyRange {
                lower: &lower,
                upper: &upper,
            };
            stats.unused_bytes = engine
                .unused_size(Table::Doc, range, Some(self.count()))
                .map_err(error::storage)?;
        }
        for i in self.indexes().iter() {
            stats
                .index_bytes
                .push((i.name().to_owned(), size(Table::Idx, i.ident())?));
        }
        Ok(stats)
    }

    /// The part of the documents' bytes that are keys, estimated from the first documents.
    fn id_share(&self, all_bytes: u64) -> Result<u64> {
        let (lower, upper) = self.key_bounds();
        let range = KeyRange {
            lower: &lower,
            upper: &upper,
        };
        let opts = CursorOpts {
            limit_hint: SHARE_ROWS,
            fill_cache: false,
            ..CursorOpts::default()
        };
        let engine = &self.shared.engine;
        let mut cursor = engine
            .cursor(Table::Doc, range, opts)
            .map_err(error::storage)?;
        let (mut keys, mut rows) = (0u64, 0u64);
        let mut add = |key: &[u8], value: &[u8]| {
            keys += key.len() as u64;
            rows += (key.len() + value.len()) as u64;
            true
        };
        cursor.visit(SHARE_ROWS, &mut add).map_err(error::storage)?;
        let share = u128::from(all_bytes) * u128::from(keys) / u128::from(rows.max(1));
        Ok(u64::try_from(share).unwrap_or(all_bytes).min(all_bytes))
    }
}
