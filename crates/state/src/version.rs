//! The feature compatibility version, kept in `admin.system.version` where tools look for it.

use super::service::Service;
use crate::release::Release;
use access::VERSION;
use model::{Result, doc};

const ID: &str = "featureCompatibilityVersion";

impl Service {
    /// Reads the version that an earlier run has stored; a new directory gets the latest one. To be
    /// called once at the start.
    ///
    /// # Errors
    /// Engine failures.
    pub fn keep_version(&self) -> Result<()> {
        let operation = self.own_operation();
        let own = Release::of(self.config.profile).own_fcv();
        own.clone_into(&mut self.state.fcv.lock());
        if !self.read_version()? {
            let new = doc! { "_id": ID, "version": own };
            VERSION.add(&self.store.writer(&operation), new.doc())?;
        }
        Ok(())
    }

    /// Reads the stored version; false if none is stored.
    ///
    /// # Errors
    /// Engine failures.
    pub(super) fn read_version(&self) -> Result<bool> {
        let Some(kept) = VERSION.get(&self.store, ID)? else {
            return Ok(false);
        };
        // A client may have written the document directly; an unknown version is ignored.
        let release = Release::of(self.config.profile);
        if let Some(version) = kept.doc().field("version").as_str()
            && release.fcv.contains(&version)
        {
            version.clone_into(&mut self.state.fcv.lock());
        }
        Ok(true)
    }

    /// Changes the version; the change is durable if the version is stored.
    ///
    /// # Errors
    /// Engine failures, after which nothing has changed.
    pub fn set_version(&self, version: &str) -> Result<()> {
        let operation = self.own_operation();
        let new = doc! { "_id": ID, "version": version };
        VERSION.change(&self.store.writer(&operation), ID, &mut |_| {
            Ok(Some(new.clone()))
        })?;
        version.clone_into(&mut self.state.fcv.lock());
        // Servers beside this one read it again.
        self.access.note_change()
    }
}
