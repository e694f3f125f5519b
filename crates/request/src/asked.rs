//! A request whose authorization is checked. It holds the arguments that the command will run with,
//! checked by the command's own table, instead of the request document: the authorization check and
//! the command read the same values.
//!
//! Must not know: what commands do.

use crate::args::{Args, collection_name};
use access::{Rights, User, unauthorized_error};
use auth::{Action, Target};
use model::{Doc, Namespace, Result, Value};

/// Checks the authorization of a command inside another one.
pub(crate) type NestedCheck<'s> = dyn Fn(Doc<'_>) -> Result<()> + 's;

/// A request whose authorization is checked before its command runs.
pub struct RightsRequest<'s, 'a> {
    /// The database.
    pub db: &'s str,
    /// The command document; the message of a refusal shows it.
    pub body: Doc<'a>,
    /// The value of the command's first field.
    pub value: Value<'a>,
    /// The arguments of the command.
    pub args: &'s Args<'a>,
    /// The rights of the user.
    pub rights: Rights<'s>,
    /// The user.
    pub user: Option<&'s User>,
    /// Checks a command inside this one on the same database.
    pub inner: &'s NestedCheck<'s>,
}

impl<'a> RightsRequest<'_, 'a> {
    /// Fails unless the user may perform all these actions on the target.
    ///
    /// # Errors
    /// 13 Unauthorized.
    pub fn needs(&self, target: Target<'_>, actions: &[Action]) -> Result<()> {
        self.require(self.rights.allows(target, actions))
    }

    /// The same check for a collection of the request's database.
    ///
    /// # Errors
    /// 13 Unauthorized.
    pub fn needs_on(&self, coll: &str, actions: &[Action]) -> Result<()> {
        self.needs(Target::Collection(self.db, coll), actions)
    }

    /// The same check for a namespace.
    ///
    /// # Errors
    /// 13 Unauthorized.
    pub fn needs_at(&self, ns: &Namespace, actions: &[Action]) -> Result<()> {
        self.needs(Target::Collection(ns.db(), ns.coll()), actions)
    }

    /// Checks the actions that write documents, and the right to bypass validation when the request
    /// asks for that.
    ///
    /// # Errors
    /// 13 Unauthorized.
    pub fn needs_to_write(&self, target: Target<'_>, actions: &[Action]) -> Result<()> {
        self.needs(target, actions)?;
        if self.args.bool("bypassDocumentValidation", false) {
            self.needs(target, &[Action::BypassDocumentValidation])?;
        }
        Ok(())
    }

    /// Whether the user may perform all these actions on the target.
    pub fn may(&self, target: Target<'_>, actions: &[Action]) -> bool {
        self.rights.allows(target, actions)
    }

    /// Fails when not `allowed`.
    ///
    /// # Errors
    /// 13 Unauthorized.
    pub fn require(&self, allowed: bool) -> Result<()> {
        if allowed {
            Ok(())
        } else {
            Err(unauthorized_error(self.db, self.body))
        }
    }

    /// The collection that the command's first field names.
    ///
    /// # Errors
    /// 73 InvalidNamespace when the value is no collection name.
    pub fn collection(&self) -> Result<&'a str> {
        collection_name(&self.value)
    }
}
