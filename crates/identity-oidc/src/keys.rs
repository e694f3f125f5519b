//! The public keys of a provider, from a file (JWKS, RFC 7517). Promises: the file is read again
//! when a key is unknown, at most every few seconds; an unusable file leaves the keys unchanged.
//! Must not know: tokens.

use crate::verifier::RSA;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use parking_lot::Mutex;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest key file.
const FILE_BYTES_MAX: u64 = 256 * 1024;
/// Most keys of a provider.
const KEYS_MAX: usize = 256;
/// Unknown keys make the file be read at most once in this time.
const QUIET_US: u64 = 5_000_000;

/// A key for verifying signatures.
#[derive(Clone)]
struct Key {
    id: String,
    /// The algorithms for which it may be used.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl Key {
    /// `None` for a key that is not for signatures, or not for an allowed algorithm.
    fn of(jwk: &Jwk) -> Option<Key> {
        let common = &jwk.common;
        if common
            .public_key_use
            .as_ref()
            .is_some_and(|u| *u != PublicKeyUse::Signature)
        {
            return None;
        }
        let verifies = |all: &Vec<KeyOperations>| all.contains(&KeyOperations::Verify);
        if common
            .key_operations
            .as_ref()
            .is_some_and(|all| !verifies(all))
        {
            return None;
        }
        let possible = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => RSA,
            AlgorithmParameters::EllipticCurve(p) => match p.curve {
                EllipticCurve::P256 => &[Algorithm::ES256][..],
                EllipticCurve::P384 => &[Algorithm::ES384],
                _ => return None,
            },
            _ => return None,
        };
        let named = common.key_algorithm.map(Algorithm::try_from);
        let algorithms: Vec<Algorithm> = match named {
            None => possible.to_vec(),
            Some(Ok(one)) if possible.contains(&one) => vec![one],
            Some(_) => return None,
        };
        Some(Key {
            id: common.key_id.clone().filter(|id| !id.is_empty())?,
            algorithms,
            key: DecodingKey::from_jwk(jwk).ok()?,
        })
    }
}

/// The keys of the last read.
struct State {
    keys: Vec<Key>,
    /// When the file was last read, in monotonic microseconds; `None` since the start.
    read_us: Option<u64>,
}

/// The keys of one provider.
pub(crate) struct Keys {
    file: PathBuf,
    /// The file is read again when the keys are older than this.
    poll_us: Option<u64>,
    state: Mutex<State>,
}

impl Keys {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// One line that names the file.
    pub(crate) fn open(file: PathBuf, poll_s: u64) -> Result<Keys, String> {
        let keys = read(&file)?;
        Ok(Keys {
            file,
            poll_us: (poll_s > 0).then(|| poll_s.saturating_mul(1_000_000)),
            state: Mutex::new(State {
                keys,
                read_us: None,
            }),
        })
    }

    /// The key with this id, if it may be used with this algorithm. The second part is the error if
    /// the file was read and could not be used.
    pub(crate) fn find(
        &self,
        id: &str,
        algorithm: Algorithm,
        now_us: u64,
    ) -> (Option<DecodingKey>, Option<String>) {
        let mut state = self.state.lock();
        let age = state.read_us.map(|at| now_us.saturating_sub(at));
        let known = state.keys.iter().any(|k| k.id == id);
        let stale = match (self.poll_us, age) {
            (Some(poll), Some(age)) => age >= poll,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let again = stale || !known && age.is_none_or(|age| age >= QUIET_US);
        let mut trouble = None;
        if again {
            state.read_us = Some(now_us);
            match read(&self.file) {
                Ok(keys) => state.keys = keys,
                Err(e) => trouble = Some(e),
            }
        }
        let mut of_name = state.keys.iter().filter(|k| k.id == id);
        let found = of_name.find(|k| k.algorithms.contains(&algorithm));
        (found.map(|k| k.key.clone()), trouble)
    }
}

fn read(path: &Path) -> Result<Vec<Key>, String> {
    let shown = path.display();
    let failed = |e: &dyn std::fmt::Display| format!("cannot read the keys in {shown}: {e}");
    let file = File::open(path).map_err(|e| failed(&e))?;
    if !file.metadata().map_err(|e| failed(&e))?.is_file() {
        return Err(format!("the file of keys {shown} is no file"));
    }
    let mut bytes = Vec::new();
    let mut bounded = file.take(FILE_BYTES_MAX + 1);
    bounded.read_to_end(&mut bytes).map_err(|e| failed(&e))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!(
            "the file of keys {shown} is longer than {FILE_BYTES_MAX} bytes"
        ));
    }
    let set: serde_json::Value = serde_json::from_slice(&bytes).map_err(|e| failed(&e))?;
    let Some(all) = set.get("keys").and_then(|keys| keys.as_array()) else {
        return Err(format!(
            "the file of keys {shown} is no JWKS: it needs an array 'keys'"
        ));
    };
    // A set may hold keys for other uses.
    let keys: Vec<Key> = all
        .iter()
        .take(KEYS_MAX)
        .filter_map(|k| Key::of(&serde_json::from_value(k.clone()).ok()?))
        .collect();
    if keys.is_empty() {
        return Err(format!(
            "the file of keys {shown} holds no key with a kid for RS256, RS384, RS512, PS256, \
             PS384, PS512, ES256 or ES384"
        ));
    }
    Ok(keys)
}
