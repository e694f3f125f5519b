//! Settings of query shapes: which indexes may be used, and whether queries of the shape are
//! rejected. All settings are kept in one setting of the store, so that a restart does not lose
//! them.

use model::{DocBuf, MongoError, Result, code};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use store::Store;

const SETTING: &str = "querySettings";
/// Most bytes of all settings, which are stored in one document; leaves room for the rest of the
/// document.
const BYTES_MAX: usize = model::bson::MAX_DOCUMENT_BYTES - 16 * 1024;

/// The settings of one shape.
#[derive(Clone, Debug)]
pub struct ShapeSettings {
    /// The settings document.
    pub settings: DocBuf,
    /// A representative query of the shape.
    pub representative: DocBuf,
}

type Rows = BTreeMap<String, ShapeSettings>;

/// Settings by the hash of their shape.
#[derive(Default)]
pub struct QuerySettings {
    any: AtomicBool,
    rows: Mutex<Rows>,
}

impl QuerySettings {
    /// True when there are settings. Without any, a query costs one load.
    pub fn has_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// The settings of a shape.
    pub fn get(&self, hash: &str) -> Option<ShapeSettings> {
        self.rows.lock().get(hash).cloned()
    }

    /// Reads the settings that an earlier run has stored.
    ///
    /// # Errors
    /// Engine failures.
    pub fn load(&self, store: &Store) -> Result<()> {
        let Some(row) = store.setting(SETTING)? else {
            return Ok(());
        };
        let part = |v: model::Value<'_>| v.as_doc().map(|d| d.to_buf()).unwrap_or_default();
        let read = |(hash, v): (&str, model::Value<'_>)| {
            let d = v.as_doc()?;
            let row = ShapeSettings {
                settings: part(d.field("settings")),
                representative: part(d.field("representative")),
            };
            Some((hash.to_owned(), row))
        };
        let mut rows = self.rows.lock();
        *rows = row.doc().iter().filter_map(read).collect();
        self.any.store(!rows.is_empty(), Ordering::Release);
        Ok(())
    }

    /// Sets the settings of a shape.
    ///
    /// # Errors
    /// 10334 BSONObjectTooLarge when the document has no room for them; engine failures. Nothing
    /// has changed then.
    pub fn set(&self, store: &Store, hash: &str, row: ShapeSettings) -> Result<()> {
        self.change(store, |rows| _ = rows.insert(hash.to_owned(), row))
    }

    /// Removes the settings of a shape.
    ///
    /// # Errors
    /// Engine failures. Nothing has changed then.
    pub fn remove(&self, store: &Store, hash: &str) -> Result<()> {
        if self.get(hash).is_none() {
            return Ok(());
        }
        self.change(store, |rows| _ = rows.remove(hash))
    }

    fn change(&self, store: &Store, change: impl FnOnce(&mut Rows)) -> Result<()> {
        let mut rows = self.rows.lock();
        let mut next = rows.clone();
        change(&mut next);
        let setting = DocBuf::build(|w| {
            for (hash, row) in &next {
                let mut one = w.doc(hash);
                one.put("settings", &row.settings)
                    .put("representative", &row.representative);
            }
        });
        if setting.as_bytes().len() > BYTES_MAX {
            return Err(MongoError::new(
                code::BSON_OBJECT_TOO_LARGE,
                format!("the settings of all query shapes would be larger than {BYTES_MAX} bytes"),
            ));
        }
        store.set_setting(SETTING, &setting)?;
        *rows = next;
        self.any.store(!rows.is_empty(), Ordering::Release);
        Ok(())
    }

    /// The settings of all shapes, with their hashes.
    pub fn list(&self) -> Vec<(String, ShapeSettings)> {
        let rows = self.rows.lock();
        rows.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }
}
