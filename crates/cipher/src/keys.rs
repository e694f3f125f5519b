//! The keys of a data directory: a random data key, stored sealed by the master key.
//!
//! Promises: the file is replaced completely or not at all. A wrong master key cannot be
//! distinguished from a damaged file; the operator has to know which it is.

use crate::secret::{DataKey, KEY, TAG, fill_random};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The file in a data directory that has its key.
pub const KEYS_FILE: &str = "ENCRYPTION-KEYS";
const MAGIC: [u8; 8] = *b"QRYKEYS1";
/// Magic, nonce, sealed key.
const LENGTH: usize = MAGIC.len() + NONCE_LEN + KEY + TAG;

/// The reason why a key is not available, in one line.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyError(pub String);

impl std::fmt::Display for KeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

fn fail<T>(text: String) -> Result<T, KeyError> {
    Err(KeyError(text))
}

/// The key that seals data keys; it is stored outside of the data directory.
pub struct MasterKey([u8; KEY]);

impl MasterKey {
    /// Reads a file that has 32 bytes in base64 and that only its owner may read.
    ///
    /// # Errors
    /// One line.
    pub fn read(path: &Path) -> Result<MasterKey, KeyError> {
        let shown = path.display();
        let read = || Ok((fs::read_to_string(path)?, fs::metadata(path)?.permissions()));
        let (text, permissions) = read().map_err(|e: std::io::Error| {
            KeyError(format!("cannot read the encryption key file {shown}: {e}"))
        })?;
        if permissions.mode() & 0o077 != 0 {
            return fail(format!(
                "the encryption key file {shown} may be read by others than its owner; chmod 600 it"
            ));
        }
        MasterKey::parse(&text).ok_or_else(|| {
            KeyError(format!(
                "the encryption key file {shown} must hold 32 bytes in base64, as \
                 'openssl rand -base64 32' makes them"
            ))
        })
    }

    /// Parses 32 bytes in base64.
    pub fn parse(text: &str) -> Option<MasterKey> {
        let bytes = STANDARD.decode(text.trim()).unwrap_or_default();
        bytes.try_into().ok().map(MasterKey)
    }

    /// Makes a new key; the second output is its base64 form.
    pub fn make() -> (MasterKey, String) {
        let mut key = [0; KEY];
        fill_random(&mut key);
        (MasterKey(key), STANDARD.encode(key))
    }

    /// Whether the two keys are equal.
    pub fn is(&self, other: &MasterKey) -> bool {
        self.0 == other.0
    }

    #[cfg(test)]
    pub(crate) fn of(byte: u8) -> MasterKey {
        MasterKey([byte; KEY])
    }

    fn key(&self) -> LessSafeKey {
        let key = UnboundKey::new(&AES_256_GCM, &self.0);
        LessSafeKey::new(key.unwrap_or_else(|_| unreachable!("the key has its length")))
    }
}

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MasterKey")
    }
}

/// Whether a directory has encrypted data.
pub fn is_encrypted(directory: &Path) -> bool {
    directory.join(KEYS_FILE).exists()
}

/// Makes a new data key for a directory.
///
/// # Errors
/// One line.
pub fn create(directory: &Path, master: &MasterKey) -> Result<DataKey, KeyError> {
    let data = DataKey::random();
    reseal(directory, &data, master)?;
    Ok(data)
}

/// The data key of a directory.
///
/// # Errors
/// One line: the master key does not fit, or the file cannot be read.
pub fn open(directory: &Path, master: &MasterKey) -> Result<DataKey, KeyError> {
    let path = directory.join(KEYS_FILE);
    let shown = path.display();
    let bytes = fs::read(&path).map_err(|e| KeyError(format!("cannot read {shown}: {e}")))?;
    let parts = bytes.strip_prefix(&MAGIC).filter(|_| bytes.len() == LENGTH);
    let Some((nonce, sealed)) = parts.and_then(|p| p.split_at_checked(NONCE_LEN)) else {
        return fail(format!(
            "{shown} is damaged: it is no file of encryption keys"
        ));
    };
    let mut sealed = sealed.to_vec();
    let opened = Nonce::try_assume_unique_for_key(nonce)
        .and_then(|nonce| {
            master
                .key()
                .open_in_place(nonce, Aad::from(MAGIC), &mut sealed)
        })
        .map_err(|_| {
            KeyError(format!(
                "the encryption key does not fit {}: it is another one than the data was \
                 encrypted with, or {KEYS_FILE} was changed",
                directory.display()
            ))
        })?;
    let key = <[u8; KEY]>::try_from(&*opened);
    key.map(DataKey::of)
        .map_err(|_| KeyError(format!("{shown} is damaged: its key has another length")))
}

/// Seals the data key of a directory with another master key, or again with the same one.
///
/// # Errors
/// One line; the directory's key file is unchanged then.
pub fn reseal(directory: &Path, data: &DataKey, master: &MasterKey) -> Result<(), KeyError> {
    let mut nonce = [0; NONCE_LEN];
    fill_random(&mut nonce);
    let mut sealed = data.bytes().to_vec();
    let done = master.key().seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::from(MAGIC),
        &mut sealed,
    );
    if done.is_err() {
        return fail("the data key cannot be sealed".to_owned());
    }
    let bytes = [&MAGIC[..], &nonce[..], &sealed[..]].concat();
    let write = || -> std::io::Result<()> {
        let part = directory.join(format!("{KEYS_FILE}.part"));
        let mut file = File::create(&part)?;
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&part, directory.join(KEYS_FILE))?;
        File::open(directory)?.sync_all()
    };
    write().map_err(|e| {
        let shown = directory.join(KEYS_FILE);
        KeyError(format!("cannot write {}: {e}", shown.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_key_opens_by_the_master_key_that_sealed_it_last() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (MasterKey::of(1), MasterKey::of(2));
        assert!(!is_encrypted(dir.path()));
        let made = create(dir.path(), &one).unwrap();
        assert!(is_encrypted(dir.path()));
        assert_eq!(open(dir.path(), &one).unwrap().bytes(), made.bytes());
        let wrong = open(dir.path(), &other).unwrap_err().0;
        assert!(wrong.contains("does not fit"), "{wrong}");
        reseal(dir.path(), &made, &other).unwrap();
        assert!(open(dir.path(), &one).is_err());
        assert_eq!(open(dir.path(), &other).unwrap().bytes(), made.bytes());
        let path = dir.path().join(KEYS_FILE);
        let sound = fs::read(&path).unwrap();
        assert!(
            !sound.windows(KEY).any(|w| w == made.bytes()),
            "it lies sealed"
        );
        for at in 0..sound.len() {
            let mut changed = sound.clone();
            changed[at] ^= 1;
            fs::write(&path, changed).unwrap();
            assert!(open(dir.path(), &other).is_err(), "byte {at}");
        }
        fs::write(&path, &sound[..20]).unwrap();
        assert!(open(dir.path(), &other).unwrap_err().0.contains("damaged"));
    }

    #[test]
    fn key_files_hold_a_whole_key_for_their_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let with = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            MasterKey::read(&path).map(|_| ()).map_err(|e| e.0)
        };
        let key = format!("{}\n", STANDARD.encode([3; KEY]));
        assert_eq!(with(&key, 0o600), Ok(()));
        assert!(with(&key, 0o640).unwrap_err().contains("chmod 600"));
        assert!(with("short", 0o600).unwrap_err().contains("32 bytes"));
        fs::remove_file(&path).unwrap();
        let none = MasterKey::read(&path).unwrap_err().0;
        assert!(
            none.contains("cannot read the encryption key file"),
            "{none}"
        );
    }
}
