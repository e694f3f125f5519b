//! The default read and write concern of a replica set, set by `setDefaultRWConcern`. They are kept
//! in a setting of the store, so that a restart does not change them.
//!
//! Promises: the lookup on every command costs one atomic load while nothing was set. Must not
//! know: which commands the defaults apply to.

use arc_swap::ArcSwapOption;
use model::{Doc, DocBuf, Result, Timestamp, Value};
use parking_lot::Mutex;
use request::concern::{ReadLevel, WriteConcern, read_level, write_concern};
use std::sync::Arc;
use store::Store;

const SETTING: &str = "defaultConcerns";

/// The defaults that were set; each is optional.
pub struct Concerns {
    /// The read concern level.
    pub read: Option<ReadLevel>,
    /// The write concern.
    pub write: Option<WriteConcern>,
    /// The row of the setting: `read`, `write`, `updated` and `updatedWall`.
    row: DocBuf,
}

impl Concerns {
    fn of(row: DocBuf) -> Result<Concerns> {
        let field = |name: &str| row.doc().field(name).as_doc();
        let read = field("read")
            .map(|d| read_level(d.field("level").as_str()))
            .transpose()?;
        let write = field("write")
            .map(|d| write_concern(d, false))
            .transpose()?;
        Ok(Concerns { read, write, row })
    }
    /// The read concern as the client gave it.
    pub fn read_concern(&self) -> Option<Doc<'_>> {
        self.row.doc().field("read").as_doc()
    }
    /// The write concern as the client gave it.
    pub fn write_concern(&self) -> Option<Doc<'_>> {
        self.row.doc().field("write").as_doc()
    }
    /// Cluster time and wall clock of the last change.
    pub fn update_times(&self) -> (Value<'_>, Value<'_>) {
        let row = self.row.doc();
        (row.field("updated"), row.field("updatedWall"))
    }
}

/// The defaults, for all connections.
#[derive(Default)]
pub struct DefaultConcerns {
    current: ArcSwapOption<Concerns>,
    change: Mutex<()>,
}

impl DefaultConcerns {
    /// Reads the defaults that an earlier run has stored.
    ///
    /// # Errors
    /// Engine failures; those of a row that cannot be understood.
    pub fn load(&self, store: &Store) -> Result<()> {
        if let Some(row) = store.setting(SETTING)? {
            self.current.store(Some(Arc::new(Concerns::of(row)?)));
        }
        Ok(())
    }
    /// The current defaults, if any were set.
    pub fn current(&self) -> Option<Arc<Concerns>> {
        self.current.load_full()
    }
    /// Changes the defaults that are given; an empty read concern restores the server's own
    /// default.
    ///
    /// # Errors
    /// Those of the concerns; engine failures, after which nothing has changed.
    pub fn set(
        &self,
        store: &Store,
        read: Option<Doc<'_>>,
        write: Option<Doc<'_>>,
        updated: Timestamp,
        wall_ms: i64,
    ) -> Result<()> {
        let _one = self.change.lock();
        let before = self.current();
        let before = before.as_deref();
        let row = DocBuf::build(|w| {
            if let Some(d) = read
                .or_else(|| before?.read_concern())
                .filter(|d| !d.is_empty())
            {
                w.put("read", d);
            }
            if let Some(d) = write.or_else(|| before?.write_concern()) {
                w.put("write", d);
            }
            w.put("updated", Value::Timestamp(updated))
                .put("updatedWall", Value::Date(wall_ms));
        });
        let next = Concerns::of(row)?;
        store.set_setting(SETTING, &next.row)?;
        self.current.store(Some(Arc::new(next)));
        Ok(())
    }
}
