//! The appearance of users that do not exist: a login attempt sees the mechanisms and iteration
//! counts of an existing user, chosen by a secret. So neither reveals that a user does not exist,
//! even when old users were created with other settings than new ones.

use super::catalog::USERS;
use auth::UserName;
use auth::scram::{Credentials, Mechanism};
use model::{Doc, DocBuf, Result};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use store::Store;

/// The iteration counts of a user's credentials, by mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IterationCounts {
    sha1: Option<u32>,
    sha256: Option<u32>,
}

impl IterationCounts {
    /// Reads them from the document of a user.
    pub(super) fn of(user: Doc<'_>) -> IterationCounts {
        let all = user.field("credentials").as_doc().unwrap_or(Doc::EMPTY);
        let rounds = |m: Mechanism| {
            let kept = all.field(m.name()).as_doc()?;
            Credentials::of_doc(m, kept).map(|c| c.iterations)
        };
        IterationCounts {
            sha1: rounds(Mechanism::Sha1),
            sha256: rounds(Mechanism::Sha256),
        }
    }

    /// The iteration count of a mechanism, if the user has credentials of it.
    pub(super) fn rounds(&self, mechanism: Mechanism) -> Option<u32> {
        match mechanism {
            Mechanism::Sha1 => self.sha1,
            Mechanism::Sha256 => self.sha256,
        }
    }

    fn is_empty(&self) -> bool {
        self.sha1.is_none() && self.sha256.is_none()
    }
}

/// An existing user whose appearance others may take.
struct Model {
    /// The hash of its name.
    seed: u64,
    likeness: IterationCounts,
}

/// The users whose appearance others may take, as of a generation of users.
#[derive(Default)]
struct ModelCache {
    generation: u64,
    all: Vec<Model>,
}

/// The users whose appearance others may take.
#[derive(Default)]
pub(super) struct Models(Mutex<Option<Arc<ModelCache>>>);

fn seed(parts: &[&[u8]]) -> u64 {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    let bytes: [u8; 32] = hash.finalize().into();
    bytes.iter().take(8).fold(0, |n, b| n << 8 | u64::from(*b))
}

/// Mixes two numbers so that each bit affects the result (the last step of splitmix64).
fn mix(a: u64, b: u64) -> u64 {
    let mut z = a ^ b;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Models {
    /// The appearance of a user with this name that does not exist, computed from the users of a
    /// generation; `None` when there are no users. It only changes when the chosen user is dropped,
    /// or a new user is nearer to the name.
    ///
    /// # Errors
    /// Engine failures.
    pub(super) fn likeness(
        &self,
        store: &Store,
        generation: u64,
        secret: &[u8],
        name: &UserName,
    ) -> Result<Option<IterationCounts>> {
        let own = seed(&[secret, name.to_string().as_bytes()]);
        let read = self.read(store, generation)?;
        let nearest = read.all.iter().max_by_key(|m| mix(own, m.seed));
        Ok(nearest.map(|m| m.likeness))
    }

    fn read(&self, store: &Store, generation: u64) -> Result<Arc<ModelCache>> {
        let known = self.0.lock().clone();
        if let Some(read) = known.filter(|m| m.generation == generation) {
            return Ok(read);
        }
        let users = USERS.read_all(store)?;
        let model = |user: &DocBuf| {
            let likeness = IterationCounts::of(user.doc());
            let id = user.doc().field("_id").as_str().unwrap_or("").to_owned();
            (!likeness.is_empty()).then(|| Model {
                seed: seed(&[id.as_bytes()]),
                likeness,
            })
        };
        let read = Arc::new(ModelCache {
            generation,
            all: users.iter().filter_map(model).collect(),
        });
        *self.0.lock() = Some(Arc::clone(&read));
        Ok(read)
    }
}
