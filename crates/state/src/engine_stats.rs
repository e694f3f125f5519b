//! Statistics of engine and catalog for reports.

use crate::service::Service;
use model::{MongoError, Namespace, Result};
use store::catalog::{CatalogRow, Kind};

/// The engine's metrics that monitoring tools know from WiredTiger. A value that the engine does
/// not report is zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineNumbers {
    /// Bytes used by the block cache.
    pub cache_bytes: i64,
    /// Capacity of the block cache in bytes.
    pub cache_bytes_max: i64,
    /// Bytes written that are only in memory and in the journal.
    pub dirty_bytes: i64,
    /// Bytes read from files.
    pub read_bytes: i64,
    /// Bytes written to files.
    pub written_bytes: i64,
}

/// Counts of namespaces by type.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct CatalogCounts {
    pub collections: i32,
    pub capped: i32,
    pub clustered: i32,
    pub timeseries: i32,
    pub views: i32,
    pub internal: i32,
    pub profile: i32,
}

impl Service {
    /// Name of the storage engine.
    pub fn engine_name(&self) -> &'static str {
        self.store.engine().caps().name
    }

    /// True when data outlives the process.
    pub fn engine_persistent(&self) -> bool {
        self.store.engine().caps().persistent
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// Engine failures.
    pub fn flush(&self) -> Result<()> {
        self.store.engine().flush().map_err(store::error::storage)
    }

    /// Bytes used and total bytes of the file system that holds the data; `None` for data in
    /// memory.
    pub fn disk_bytes(&self) -> Option<(u64, u64)> {
        self.state.disk_bytes.get().and_then(|ask| ask())
    }

    /// Metrics of the engine.
    pub fn engine_numbers(&self) -> EngineNumbers {
        let mut n = EngineNumbers::default();
        self.store.engine().stats(&mut |name, value| match name {
            "block_cache_usage_bytes" => n.cache_bytes = value,
            "block_cache_capacity_bytes" => n.cache_bytes_max = value,
            "memtables_total_bytes" => n.dirty_bytes = value,
            "compact_bytes_read" => n.read_bytes += value,
            "flush_bytes_written" | "compact_bytes_written" => n.written_bytes += value,
            _ => {}
        });
        n
    }

    /// Databases that exist. `admin`, `config` and `local` always do.
    ///
    /// # Errors
    /// Engine failures.
    pub fn database_names(&self) -> Result<Vec<String>> {
        let mut names = self.store.list_databases()?;
        names.extend(["admin", "config", "local"].map(str::to_owned));
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Estimated bytes of a database on the device, and whether it has no collection.
    ///
    /// # Errors
    /// Engine failures.
    pub fn database_bytes(&self, db: &str) -> Result<(i64, bool)> {
        let entries = self.store.list_collections(db)?;
        let mut bytes = 0u64;
        for e in &entries {
            if let Some(c) = self.store.collection(&Namespace::new(db, &e.name)?)? {
                let stats = c.stats()?;
                bytes = bytes
                    .saturating_add(stats.storage_bytes)
                    .saturating_add(stats.all_index_bytes());
            }
        }
        Ok((i64::try_from(bytes).unwrap_or(i64::MAX), entries.is_empty()))
    }

    /// Removes the cursors, statistics and plan filters of a collection that was dropped or
    /// renamed.
    pub fn forget(&self, ns: &Namespace, why: &MongoError) {
        self.cursors.invalidate(ns.db(), Some(ns.coll()), why);
        self.counters.forget(&ns.to_string());
        self.state.plan_filters.clear(ns, None);
    }

    /// Counts the namespaces of the catalog by type.
    pub fn catalog_counts(&self) -> CatalogCounts {
        let mut counts = CatalogCounts::default();
        for db in self.store.list_databases().unwrap_or_default() {
            for e in self.store.list_collections(&db).unwrap_or_default() {
                counts.add(&db, &e.name, &e.row);
            }
        }
        counts
    }
}

impl CatalogCounts {
    fn add(&mut self, db: &str, name: &str, row: &CatalogRow) {
        let options = row.options.doc();
        if options.contains("timeseries") {
            self.timeseries += 1;
        } else if row.kind == Kind::View {
            self.views += 1;
        } else if matches!(db, "admin" | "local" | "config") || name.starts_with("system.") {
            self.internal += 1;
        } else {
            self.collections += 1;
        }
        self.capped += i32::from(options.field("capped").truthy());
        self.clustered += i32::from(options.contains("clusteredIndex"));
        self.profile += i32::from(name == "system.profile");
    }
}
