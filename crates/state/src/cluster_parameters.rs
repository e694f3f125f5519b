//! Cluster parameters that `setClusterParameter` has set. They are kept in a setting of the store,
//! so that a restart does not change them. Must not know: which parameters exist, what they mean.

use model::{DocBuf, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use store::Store;

const SETTING: &str = "clusterParameters";

/// The parameters that were set, by name.
#[derive(Default)]
pub struct ClusterParameters(Mutex<BTreeMap<String, DocBuf>>);

impl ClusterParameters {
    /// Reads the parameters that an earlier run has stored.
    ///
    /// # Errors
    /// Engine failures.
    pub fn load(&self, store: &Store) -> Result<()> {
        if let Some(row) = store.setting(SETTING)? {
            let kept = row.doc();
            let all = kept.iter().filter_map(|(name, value)| {
                let value = value.as_doc()?;
                Some((name.to_owned(), value.to_buf()))
            });
            *self.0.lock() = all.collect();
        }
        Ok(())
    }

    /// The value of a parameter, if it was set.
    pub fn get(&self, name: &str) -> Option<DocBuf> {
        self.0.lock().get(name).cloned()
    }

    /// Sets a value.
    ///
    /// # Output
    /// The previous value, if there was one.
    ///
    /// # Errors
    /// Engine failures, after which nothing has changed.
    pub fn set(&self, store: &Store, name: &str, value: DocBuf) -> Result<Option<DocBuf>> {
        let mut all = self.0.lock();
        let row = DocBuf::build(|w| {
            for (kept, old) in all.iter().filter(|(kept, _)| *kept != name) {
                w.put(kept, old);
            }
            w.put(name, &value);
        });
        store.set_setting(SETTING, &row)?;
        Ok(all.insert(name.to_owned(), value))
    }
}
