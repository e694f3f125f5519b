//! The stored credentials of a password, and invented ones for a user that does not exist.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use model::{Doc, DocWriter, MongoError, Result};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// A SCRAM mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// SCRAM-SHA-1.
    Sha1,
    /// SCRAM-SHA-256.
    Sha256,
}

impl Mechanism {
    /// All mechanisms, the stronger one first.
    pub const ALL: [Mechanism; 2] = [Mechanism::Sha256, Mechanism::Sha1];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Sha1 => "SCRAM-SHA-1",
            Mechanism::Sha256 => "SCRAM-SHA-256",
        }
    }

    /// The mechanism of this name.
    pub fn parse(name: &str) -> Option<Mechanism> {
        Mechanism::ALL.into_iter().find(|m| m.name() == name)
    }

    /// Length of a salt, as in MongoDB: four bytes less than a hash, so that it fits one block.
    pub fn salt_bytes(self) -> usize {
        match self {
            Mechanism::Sha1 => 16,
            Mechanism::Sha256 => 28,
        }
    }

    /// Length of a key.
    pub(super) fn key_bytes(self) -> usize {
        match self {
            Mechanism::Sha1 => 20,
            Mechanism::Sha256 => 32,
        }
    }

    /// Smallest accepted iteration count: the least that MongoDB's parameters allow.
    pub const ITERATIONS_MIN: u32 = 5000;

    pub(super) fn hash(self, data: &[u8]) -> Vec<u8> {
        match self {
            Mechanism::Sha1 => Sha1::digest(data).to_vec(),
            Mechanism::Sha256 => Sha256::digest(data).to_vec(),
        }
    }

    pub(super) fn hmac(self, key: &[u8], data: &[u8]) -> Vec<u8> {
        // HMAC accepts a key of any length, so making one never fails.
        match self {
            Mechanism::Sha1 => Hmac::<Sha1>::new_from_slice(key)
                .map(|m| m.chain_update(data).finalize().into_bytes().to_vec()),
            Mechanism::Sha256 => Hmac::<Sha256>::new_from_slice(key)
                .map(|m| m.chain_update(data).finalize().into_bytes().to_vec()),
        }
        .unwrap_or_default()
    }

    pub(super) fn stretch(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        let mut key = vec![0; self.key_bytes()];
        match self {
            Mechanism::Sha1 => pbkdf2::pbkdf2_hmac::<Sha1>(password, salt, iterations, &mut key),
            Mechanism::Sha256 => {
                pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut key);
            }
        }
        key
    }
}

/// A password in a command.
#[derive(Clone, Copy)]
pub enum Secret<'a> {
    /// In clear.
    Clear(&'a str),
    /// The hexadecimal MD5 of `user:mongo:password`, which only SCRAM-SHA-1 can use.
    Digested(&'a str),
}

/// The stored credentials of a password for one mechanism.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Rounds of PBKDF2.
    pub iterations: u32,
    /// Salt.
    pub salt: Vec<u8>,
    /// Hash of the client's key.
    pub stored_key: Vec<u8>,
    /// The server's key.
    pub server_key: Vec<u8>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials(..)")
    }
}

/// The password in the form that SCRAM-SHA-1 hashes, which MongoDB took over from its first
/// mechanism.
pub(super) fn digest(user: &str, password: &str) -> String {
    let hash = Md5::digest(format!("{user}:mongo:{password}").as_bytes());
    hash.iter().map(|b| format!("{b:02x}")).collect()
}

impl Credentials {
    /// Computes the credentials of a password.
    ///
    /// # Cost
    /// `iterations` rounds of the hash: milliseconds.
    ///
    /// # Errors
    /// 2 BadValue for a digested password where cleartext is needed, and for one that SASLprep
    /// prohibits.
    pub fn derive(
        mechanism: Mechanism,
        user: &str,
        secret: Secret<'_>,
        iterations: u32,
        salt: &[u8],
    ) -> Result<Credentials> {
        let password = match (mechanism, secret) {
            (Mechanism::Sha1, Secret::Clear(clear)) => digest(user, clear),
            (Mechanism::Sha1, Secret::Digested(text)) => text.to_owned(),
            (Mechanism::Sha256, Secret::Clear(clear)) => stringprep::saslprep(clear)
                .map_err(|e| {
                    MongoError::bad_value(format!(
                        "the password holds characters that SASLprep prohibits: {e}"
                    ))
                })?
                .into_owned(),
            (Mechanism::Sha256, Secret::Digested(_)) => {
                return Err(MongoError::bad_value(
                    "Use of SCRAM-SHA-256 requires undigested passwords",
                ));
            }
        };
        let salted = mechanism.stretch(password.as_bytes(), salt, iterations);
        let client_key = mechanism.hmac(&salted, b"Client Key");
        Ok(Credentials {
            iterations,
            salt: salt.to_vec(),
            stored_key: mechanism.hash(&client_key),
            server_key: mechanism.hmac(&salted, b"Server Key"),
        })
    }

    /// The credentials of a user that does not exist: always the same ones for a name, and nobody
    /// knows a password for them.
    pub fn invent(mechanism: Mechanism, user: &str, iterations: u32, secret: &[u8]) -> Credentials {
        let part = |what: &str| {
            let name = mechanism.name();
            let mut data = format!("{what}\0{name}\0{user}").into_bytes();
            data.push(0);
            mechanism.hmac(secret, &data)
        };
        let mut salt = part("salt");
        salt.truncate(mechanism.salt_bytes());
        Credentials {
            iterations,
            salt,
            stored_key: part("stored"),
            server_key: part("server"),
        }
    }

    /// Reads a user's document; `None` if it is damaged.
    pub fn of_doc(mechanism: Mechanism, doc: Doc<'_>) -> Option<Credentials> {
        let bytes = |name: &str| BASE64.decode(doc.field(name).as_str()?).ok();
        let iterations = u32::try_from(doc.field("iterationCount").as_i64_exact()?).ok()?;
        let found = Credentials {
            iterations,
            salt: bytes("salt")?,
            stored_key: bytes("storedKey")?,
            server_key: bytes("serverKey")?,
        };
        let fits = found.stored_key.len() == mechanism.key_bytes()
            && found.server_key.len() == mechanism.key_bytes();
        (fits && iterations > 0 && !found.salt.is_empty()).then_some(found)
    }

    /// Writes the fields of a user's document.
    pub fn write(&self, w: &mut DocWriter<'_>) {
        let count = i32::try_from(self.iterations).unwrap_or(i32::MAX);
        w.put("iterationCount", count);
        for (name, bytes) in [
            ("salt", &self.salt),
            ("storedKey", &self.stored_key),
            ("serverKey", &self.server_key),
        ] {
            w.put(name, BASE64.encode(bytes).as_str());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::DocBuf;

    #[test]
    fn credentials_are_read_as_they_are_written() {
        for m in Mechanism::ALL {
            let c = Credentials::derive(m, "u", Secret::Clear("p"), 10, b"0123456789").unwrap();
            let d = DocBuf::build(|w| c.write(w));
            assert_eq!(Credentials::of_doc(m, d.doc()), Some(c));
            assert_eq!(Credentials::of_doc(m, DocBuf::new().doc()), None);
        }
        let digested = Secret::Digested("0123");
        assert!(Credentials::derive(Mechanism::Sha256, "u", digested, 10, b"s").is_err());
        assert!(Credentials::derive(Mechanism::Sha1, "u", digested, 10, b"s").is_ok());
        let clear = Credentials::derive(Mechanism::Sha1, "u", Secret::Clear("p"), 10, b"s");
        let same = Secret::Digested("c9c1b0b7b5b4a3b6d1e7d4ec0b4b3a1c");
        assert_ne!(clear.unwrap(), {
            Credentials::derive(Mechanism::Sha1, "u", same, 10, b"s").unwrap()
        });
        assert!(format!("{:?}", Credentials::invent(Mechanism::Sha1, "u", 1, b"k")).len() < 20);
    }

    #[test]
    fn credentials_of_unknown_users_look_like_stored_ones() {
        for m in Mechanism::ALL {
            let a = Credentials::invent(m, "u", 15000, b"secret");
            assert_eq!(a, Credentials::invent(m, "u", 15000, b"secret"));
            assert_ne!(a.salt, Credentials::invent(m, "v", 15000, b"secret").salt);
            assert_ne!(a.salt, Credentials::invent(m, "u", 15000, b"other").salt);
            assert_eq!(a.salt.len(), m.salt_bytes());
            assert_eq!(a.stored_key.len(), m.key_bytes());
        }
    }
}
