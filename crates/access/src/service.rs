//! The access state that all connections share: whether access control is on, the resolved users,
//! the delays after failed attempts.

use super::catalog::{ROLES, USERS, VERSION};
use super::likeness::{IterationCounts, Models};
use super::user::{User, digest};
use auth::{
    Restrictions, RoleName, StoredRole, Throttle, UserName, parse_restrictions, resolve, role_list,
};
use identity_ldap::Directory;
use identity_oidc::Providers;
use model::{Array, Binary, Doc, DocBuf, Result, Value, doc};
use operation::Operation;
use parking_lot::{Mutex, MutexGuard};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use store::{CatalogWriter, Store};

/// The setting that stores the secret for invented credentials. Without it, a restart would change
/// invented salts and so tell them from real ones.
const SECRET: &str = "accessSecret";
/// Most resolved users in the cache; when it is full, the cache is cleared.
const USERS_MAX: usize = 10_000;

/// The access state that all connections share.
pub struct Access {
    enabled: bool,
    pub(super) store: Arc<Store>,
    secret: OnceLock<[u8; 32]>,
    /// Increases with every change of users and roles.
    generation: AtomicU64,
    users: Mutex<FxHashMap<UserName, Arc<User>>>,
    /// A user or a role exists, so the localhost exception has ended for good.
    populated: AtomicBool,
    pub(super) throttle: Mutex<Throttle>,
    /// Locked while the first user or role is created.
    first: Mutex<()>,
    /// The appearance of invented users.
    models: Models,
    /// The identity providers whose tokens are accepted for logging in.
    pub(super) oidc: Option<Arc<Providers>>,
    /// The directory that checks passwords.
    pub(super) ldap: Option<Arc<Directory>>,
    /// Passwords for the directory may be sent over connections that are not encrypted.
    pub(super) plain_without_tls: bool,
}

/// How clients log in.
pub struct LoginConfig {
    /// Clients must log in, and have the rights of their user.
    pub is_required: bool,
    /// The identity providers whose tokens are accepted.
    pub oidc: Option<Arc<Providers>>,
    /// The directory that checks passwords.
    pub ldap: Option<Arc<Directory>>,
    /// Passwords for the directory may be sent over connections that are not encrypted.
    pub plain_without_tls: bool,
}

/// `None` when the setting is damaged.
fn read_secret(setting: &DocBuf) -> Option<[u8; 32]> {
    match setting.doc().field("secret") {
        Value::Binary(b) => b.bytes.try_into().ok(),
        _ => None,
    }
}

impl Access {
    /// The access state over the store that contains the users.
    pub fn new(store: Arc<Store>, ways: LoginConfig) -> Access {
        Access {
            enabled: ways.is_required,
            store,
            secret: OnceLock::new(),
            generation: AtomicU64::new(0),
            users: Mutex::default(),
            populated: AtomicBool::new(false),
            throttle: Mutex::default(),
            first: Mutex::default(),
            models: Models::default(),
            oidc: ways.oidc,
            ldap: ways.ldap,
            plain_without_tls: ways.plain_without_tls,
        }
    }

    /// Whether access control is on.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The store that contains users and roles.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// A number that increases with every change of users and roles.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Notes that users or roles have changed: everything is resolved again, also by servers that
    /// read or write the same data.
    ///
    /// # Errors
    /// Engine failures: another server may use the old rights for half a minute.
    pub fn note_change(&self) -> Result<()> {
        self.forget_resolved();
        self.store
            .engine()
            .announce_now()
            .map_err(store::error::storage)
    }

    /// Makes the next use resolve users and roles again.
    pub fn forget_resolved(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.users.lock().clear();
    }

    /// Ends the localhost exception at the start, for `enableLocalhostAuthBypass: false`.
    pub fn end_localhost_exception(&self) {
        self.populated.store(true, Ordering::Relaxed);
    }

    /// Whether a client on this machine may create the first user.
    pub(crate) fn localhost_exception(&self) -> bool {
        if self.populated.load(Ordering::Relaxed) {
            return false;
        }
        let empty =
            |kept: super::catalog::AccessCollection| kept.is_empty(&self.store).unwrap_or(false);
        let none = empty(USERS) && empty(ROLES);
        if !none {
            self.populated.store(true, Ordering::Relaxed);
        }
        none
    }

    /// The store of users and roles, for writes of an operation.
    pub fn writer<'w>(&'w self, operation: &'w Operation) -> CatalogWriter<'w> {
        self.store.writer(operation)
    }

    /// Lets one client at a time create the first user or role. `None` when one exists already.
    pub fn hold_first(&self) -> Option<MutexGuard<'_, ()>> {
        let held = self.first.lock();
        self.localhost_exception().then_some(held)
    }

    /// Creates the document that tells tools the format of users and roles.
    pub fn note_format(&self, operation: &Operation) -> Result<()> {
        let version = doc! { "_id": "authSchema", "currentVersion": 5i32 };
        VERSION.add(&self.writer(operation), version.doc())?;
        // The operation may run again: it finds the document.
        operation.writes().checkpoint();
        Ok(())
    }

    /// The secret from which the credentials of nonexistent users are derived.
    pub(super) fn secret(&self) -> Result<[u8; 32]> {
        if let Some(known) = self.secret.get() {
            return Ok(*known);
        }
        let secret = match self.store.setting(SECRET)?.as_ref().and_then(read_secret) {
            Some(kept) => kept,
            None => self.make_secret()?,
        };
        Ok(*self.secret.get_or_init(|| secret))
    }

    /// Stores a secret, unless another server that starts at the same time was first.
    fn make_secret(&self) -> Result<[u8; 32]> {
        let new: [u8; 32] = rand::random();
        let bytes = Binary {
            subtype: 0,
            bytes: &new,
        };
        let setting = doc! { "secret": bytes };
        let kept = self.store.keep_setting(SECRET, &setting)?;
        if let Some(kept) = read_secret(&kept) {
            return Ok(kept);
        }
        self.store.set_setting(SECRET, &setting)?;
        Ok(new)
    }

    /// The appearance of a user with this name that does not exist; `None` when there are no users.
    pub(super) fn likeness(&self, name: &UserName) -> Result<Option<IterationCounts>> {
        let generation = self.generation();
        let secret = self.secret()?;
        self.models.likeness(&self.store, generation, &secret, name)
    }

    /// The document of a user.
    pub fn user_doc(&self, name: &UserName) -> Result<Option<DocBuf>> {
        USERS.get(&self.store, &name.id())
    }

    /// A user-defined role.
    pub fn role(&self, name: &RoleName) -> Result<Option<StoredRole>> {
        ROLES
            .get(&self.store, &name.id())?
            .map(|d| StoredRole::of_doc(d.doc()))
            .transpose()
    }

    /// The privileges of roles.
    pub fn resolve(&self, roles: &[RoleName]) -> Result<auth::ResolvedRoles> {
        resolve(roles, &mut |name: &RoleName| self.role(name))
    }

    /// The user with its resolved rights.
    pub(crate) fn user(&self, name: &UserName) -> Result<Option<Arc<User>>> {
        if let Some(known) = self.users.lock().get(name) {
            return Ok(Some(Arc::clone(known)));
        }
        let before = self.generation();
        let Some(doc) = self.user_doc(name)? else {
            return Ok(None);
        };
        let user = Arc::new(self.user_of(name, doc.doc())?);
        let mut users = self.users.lock();
        if users.len() >= USERS_MAX {
            users.clear();
        }
        // A user that was read before a change must not be cached after it.
        if self.generation() == before {
            users.insert(name.clone(), Arc::clone(&user));
        }
        Ok(Some(user))
    }

    /// A user with the roles that a directory or identity provider has granted; it needs no
    /// document.
    pub(super) fn grant_roles(&self, name: &UserName, roles: Vec<RoleName>) -> Result<Arc<User>> {
        Ok(Arc::new(User {
            name: name.clone(),
            id: None,
            digest: digest(name),
            resolved: self.resolve(&roles)?,
            restrictions: Restrictions::default(),
            granted: Some(roles),
        }))
    }

    fn user_of(&self, name: &UserName, doc: Doc<'_>) -> Result<User> {
        let array = |field: &str| doc.field(field).as_array().unwrap_or(Array::EMPTY);
        let roles = role_list(array("roles"), &name.db)?;
        Ok(User {
            name: name.clone(),
            id: id_of(doc),
            granted: None,
            digest: digest(name),
            resolved: self.resolve(&roles)?,
            restrictions: parse_restrictions(array("authenticationRestrictions"))?,
        })
    }
}

/// The `userId` of a user's document.
fn id_of(doc: Doc<'_>) -> Option<[u8; 16]> {
    match doc.field("userId") {
        Value::Binary(b) => <[u8; 16]>::try_from(b.bytes).ok(),
        _ => None,
    }
}
