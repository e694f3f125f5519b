//! Where the master key of a directory is kept, and how it is read there. Must not know: options.

use crate::vault::VaultSettings;
use cipher::MasterKey;
use std::path::{Path, PathBuf};

/// Where the master key is kept.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// In a file.
    File(PathBuf),
    /// In Vault.
    Vault(VaultSettings),
}

impl KeySource {
    /// The master key that a directory is opened or created with.
    ///
    /// # Errors
    /// One line.
    pub fn key_of(&self, directory: &Path) -> Result<MasterKey, String> {
        match self {
            KeySource::File(file) => MasterKey::read(file).map_err(|e| e.to_string()),
            KeySource::Vault(vault) => vault.key_of(directory),
        }
    }

    /// The next master key: the key that the file holds now, or a new one in Vault.
    ///
    /// # Errors
    /// One line.
    pub fn next_key(&self) -> Result<MasterKey, String> {
        match self {
            KeySource::File(file) => MasterKey::read(file).map_err(|e| e.to_string()),
            KeySource::Vault(vault) => vault.next_key(),
        }
    }
}
